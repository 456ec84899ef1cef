"""The responder: RNIC as the target of RDMA requests (docs/responder.md)."""

from rtl.responder.names import Drop
from rtl.responder.responder import Responder

__all__ = ["Drop", "Responder"]
