"""The receive side of the wire: what a frame is, its headers, its payload (docs/parser.md)."""

from rtl.parser.parser import Parser, ParserCounters, ParserReport

__all__ = ["Parser", "ParserCounters", "ParserReport"]
