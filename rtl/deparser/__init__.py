"""The transmit side of the wire: headers and payload to frames (docs/deparser.md)."""

from rtl.deparser.deparser import Deparser

__all__ = ["Deparser"]
