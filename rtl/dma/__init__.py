"""The DMA engine: byte-exact requests in, TLPs out."""

from rtl.dma.engine import Dma, DmaCounters, DmaEvents
from rtl.dma.interface import (
                               DmaStatus,
                               Done,
                               ReadBeat,
                               ReadClient,
                               ReadRequest,
                               WriteClient,
                               WriteRequest,
)

__all__ = ["Dma", "DmaCounters", "DmaEvents", "DmaStatus", "Done", "ReadBeat", "ReadClient",
           "ReadRequest", "WriteClient", "WriteRequest"]
