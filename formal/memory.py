"""A memory whose rows can be read by name, in place of Amaranth's."""

from amaranth.hdl import Array, Elaboratable, Module, Shape, Signal
from amaranth.utils import ceil_log2


class _Port:
    def __init__(self, width: int, depth: int, name: str):
        self.addr = Signal(ceil_log2(depth), name=f"{name}_addr")
        self.data, self.en = Signal(width, name=f"{name}_data"), Signal(name=f"{name}_en")


class Rows(Elaboratable):
    """One write port and one read port, both synchronous; a read gives the old word."""

    def __init__(self, *, shape, depth: int, init=()):
        width = Shape.cast(shape).width
        self.rows = [Signal(width, name=f"row{i}") for i in range(depth)]
        self.write, self.read = _Port(width, depth, "write"), _Port(width, depth, "read")

    def write_port(self):
        return self.write

    def read_port(self):
        return self.read

    def elaborate(self, platform):
        m = Module()
        for i, row in enumerate(self.rows):
            with m.If(self.write.en & (self.write.addr == i)):
                m.d.sync += row.eq(self.write.data)
        with m.If(self.read.en):
            m.d.sync += self.read.data.eq(Array(self.rows)[self.read.addr])
        return m
