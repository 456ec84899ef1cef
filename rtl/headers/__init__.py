"""Wire formats as the hardware holds them: header fields, opcodes, kinds and error reasons."""

from rtl.headers.layout import Headers
from rtl.headers.names import Kind, Opcode, Reason

__all__ = ["Headers", "Kind", "Opcode", "Reason"]
