"""The PCIe boundary: TLPs with their headers beside the data."""

from rtl.pcie.tlp import CompletionStatus, TlpHeader, TlpLayout, TlpType

__all__ = ["CompletionStatus", "TlpHeader", "TlpLayout", "TlpType"]
