"""The DMA engine: byte-exact requests in, TLPs out."""

from rtl.dma.interface import DmaStatus, ReadClient, ReadRequest, WriteClient, WriteRequest

__all__ = ["DmaStatus", "ReadClient", "ReadRequest", "WriteClient", "WriteRequest"]
