"""What the host sets before traffic, and the way back to a state that it can read."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.config import NicConfig
from rtl.context import CachePort, CacheTable, Operation
from rtl.parser import RssSettings


class Settings(data.Struct):
    """Inputs that hold still while the NIC works; to be registers once MMIO is there."""

    qpc: CacheTable
    mpt: CacheTable
    cqc: CacheTable
    requester_id: unsigned(16)  # bus, device, function of the NIC
    rss: RssSettings


class Control(wiring.Component):
    """Empties the context caches into host memory when asked.

    A pulse on `flush` sends FLUSH_ALL to each cache; `flushed` goes up when all have answered, that
    is when every write-back has left for the host, and falls with the next `flush`. Low after
    reset.
    """

    def __init__(self, config: NicConfig):
        super().__init__({
            "flush": In(1),
            "flushed": Out(1),
            "qpc": Out(CachePort(config.context.entry_bytes)),
            "mpt": Out(CachePort(config.mpt.entry_bytes)),
            "cqc": Out(CachePort(config.cqc.entry_bytes)),
        })

    def elaborate(self, platform):
        m = Module()
        ports = (self.qpc, self.mpt, self.cqc)
        wanted = Signal(len(ports))  # requests still to be sent
        owed = Signal(len(ports))  # answers still to come
        running = Signal()
        for index, port in enumerate(ports):
            m.d.comb += [
                port.request.valid.eq(wanted[index]),
                port.request.p.op.eq(Operation.FLUSH_ALL),
                port.response.ready.eq(1),
            ]
            with m.If(port.request.valid & port.request.ready):
                m.d.sync += wanted[index].eq(0)
            with m.If(port.response.valid):
                m.d.sync += owed[index].eq(0)
        with m.If(self.flush):
            m.d.sync += [wanted.eq(-1), owed.eq(-1), running.eq(1), self.flushed.eq(0)]
        with m.Elif(running & (owed == 0)):
            m.d.sync += [running.eq(0), self.flushed.eq(1)]
        return m
