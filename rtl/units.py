"""The blocks that can be had as Verilog by name, each from a configuration."""

import importlib
from collections.abc import Callable
from typing import Any

from amaranth.lib import wiring

from rtl.config import NicConfig


def _of(module: str, name: str) -> Callable[[NicConfig], wiring.Component]:
    """A component that takes the whole configuration; its module is loaded when wanted."""
    def make(config: NicConfig) -> wiring.Component:
        component: Any = getattr(importlib.import_module(module), name)
        return component(config)
    return make


def _context_cache(config: NicConfig) -> wiring.Component:
    from rtl.context import ContextCache
    return ContextCache(config.context, config.data_width)


UNITS: dict[str, Callable[[NicConfig], wiring.Component]] = {
    "nic": _of("rtl.nic", "Nic"),
    "parser": _of("rtl.parser", "Parser"),
    "deparser": _of("rtl.deparser", "Deparser"),
    "icrc_check": _of("rtl.icrc", "IcrcCheck"),
    "icrc_insert": _of("rtl.icrc", "IcrcInsert"),
    "context_cache": _context_cache,
    "dma": _of("rtl.nic", "dma_engine"),
    "responder": _of("rtl.responder", "Responder"),
}
