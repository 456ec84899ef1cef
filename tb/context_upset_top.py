"""A context cache whose memories may be struck: bits of what is written to them flip."""

from enum import IntEnum
from unittest.mock import patch

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.config import CacheConfig
from rtl.context import ContextCache
from rtl.context.arrays import EntryArray, SetArray
from rtl.verilog import to_verilog


class Place(IntEnum):
    NONE = 0
    ENTRY = 1
    LINES = 2
    ARRIVED = 3
    AGE = 4


# In the cycle in which `word` of the memory at `place` is written, `bits` of it flip.
UPSET = data.StructLayout({"place": 3, "word": 8, "bits": 72})


class UpsetCache(wiring.Component):
    """The ports of `ContextCache`, an `upset`, and whether it `struck` something."""

    def __init__(self, cache: CacheConfig, data_width: int, ports: int):
        self.inner = ContextCache(cache, data_width, ports)
        super().__init__({**self.inner.signature.members, "upset": In(UPSET), "struck": Out(1)})
        for name in self.inner.signature.members:
            setattr(self, name, getattr(self.inner, name))
        self.hits: list[Signal] = []

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = self.inner
        self.hits = [Signal(name=f"hit_{place.name.lower()}") for place in Place]
        m.d.comb += self.struck.eq(Cat(self.hits).any())
        return m

    def strike(self, m, place, port, stored):
        """Inside the array's module, where the last assignment counts."""
        upset = self.upset
        struck = Signal(len(port.en))
        m.d.comb += self.hits[place.value].eq(struck.any())
        for number in range(len(port.en)):
            m.d.comb += struck[number].eq(
                (upset.place == int(place)) & (upset.word == number) & port.en[number])
            with m.If(struck[number]):
                m.d.comb += port.data[number].eq(stored[number] ^ upset.bits)


def upset_verilog(cache: CacheConfig, data_width: int, ports: int) -> str:
    top = UpsetCache(cache, data_width, ports)

    class StruckEntries(EntryArray):
        def elaborate(self, platform):
            m = super().elaborate(platform)
            top.strike(m, Place.ENTRY, self.port, self.stored)
            return m

    class StruckSets(SetArray):
        def elaborate(self, platform):
            m = super().elaborate(platform)
            for name, (port, stored) in self.stored.items():
                top.strike(m, Place[name.upper()], port, stored)
            return m

    with (patch("rtl.context.cache.EntryArray", StruckEntries),
          patch("rtl.context.cache.SetArray", StruckSets)):
        return to_verilog(top, "context_cache")
