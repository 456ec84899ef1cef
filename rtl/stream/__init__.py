"""Packet streams: the one beat layout that every block's data ports use, and its plumbing."""

from rtl.stream.free_list import FreeList
from rtl.stream.packet import PacketLayout
from rtl.stream.rotate import rotated
from rtl.stream.skid import CatchBuffer, SkidBuffer
from rtl.stream.words import WordSender

__all__ = ["CatchBuffer", "FreeList", "PacketLayout", "SkidBuffer", "WordSender", "rotated"]
