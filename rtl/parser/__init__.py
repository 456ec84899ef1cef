"""The receive side of the wire: what a frame is, its headers, its payload (docs/parser.md)."""

from rtl.parser.host_store import HostInfo
from rtl.parser.parser import Parser, ParserCounters, ParserReport
from rtl.parser.rss import HashType, RssSettings

__all__ = ["HashType", "HostInfo", "Parser", "ParserCounters", "ParserReport", "RssSettings"]
