"""Benchmarks: what the RTL reaches, measured in co-simulation, against its targets.

A benchmark is a function in a module of this folder, entered in `BENCHES`. It takes `Settings`
and gives rows {bench, config, metric, unit, value, target, ok}; `target` and `ok` are None
where there is no target. Times are of the machine that ran it; figures in cycles hold anywhere.
"""

from bench.area import area
from bench.context import context
from bench.context_qps import context_qps
from bench.deparser import deparser
from bench.dma import dma
from bench.icrc import icrc
from bench.parser import parser
from bench.row import AGREED, Row, Settings
from bench.simulate import simulate

BENCHES = {"simulate": simulate, "parser": parser, "icrc": icrc, "deparser": deparser,
           "context": context, "context_qps": context_qps, "dma": dma, "area": area}

__all__ = ["AGREED", "BENCHES", "Row", "Settings"]
