"""The deparser with the ICRC's insertion behind it."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import NicConfig
from rtl.deparser import Deparser
from rtl.headers import Headers
from rtl.icrc import IcrcInsert
from rtl.stream import PacketLayout


class DeparserTop(wiring.Component):
    def __init__(self, config: NicConfig):
        self.config = config
        packet = stream.Signature(PacketLayout(config.data_width))
        super().__init__({
            "headers": In(stream.Signature(Headers)), "payload": In(packet), "o": Out(packet)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.deparser = deparser = Deparser(self.config)
        m.submodules.insert = insert = IcrcInsert(self.config)
        connect(m, flipped(self.headers), deparser.headers)
        connect(m, flipped(self.payload), deparser.payload)
        connect(m, deparser.o, insert.i)
        connect(m, deparser.info, insert.info)
        connect(m, insert.o, flipped(self.o))
        return m
