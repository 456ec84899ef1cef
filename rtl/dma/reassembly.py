"""The memory in which completion data waits until its read is whole."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from rtl.stream.rotate import rotated


class Reassembly(wiring.Component):
    """`tags` slots of `mrrs` bytes; a slot's DW 0 is the first DW of its read.

    Write: `data` (DW 0 in bits 31:0) goes to slot `tag` from DW `offset` on, as far as `enable`
    (one bit a DW) says, at the clock edge. One memory a DW lane, so that a beat at any offset is
    written in one cycle. Read: row `read_row` of slot `read_tag`, data in the next cycle.
    A DW that is written in the cycle it is read is read as it was before.
    """

    def __init__(self, data_width: int, tags: int, mrrs: int):
        self.rows = max(1, mrrs * 8 // data_width)
        self.row_bits = exact_log2(self.rows)
        self.tag_bits = ceil_log2(tags)
        self.lanes = data_width // 32
        self.data_width = data_width
        self.tags = tags
        super().__init__({
            "write": In(1), "tag": In(max(1, self.tag_bits)), "offset": In(11),
            "data": In(data_width), "enable": In(self.lanes),
            "read_tag": In(max(1, self.tag_bits)), "read_row": In(max(1, self.row_bits)),
            "read_data": Out(data_width),
        })

    def elaborate(self, platform):
        m = Module()
        lane_bits = exact_log2(self.lanes)
        turn = Signal(lane_bits)
        row = Signal(11)
        following = Signal(11)
        m.d.comb += [turn.eq(self.offset), row.eq(self.offset >> lane_bits),
                     following.eq(row + 1)]
        turned = rotated(m, self.data, turn, left=True, unit=32)
        enables = rotated(m, self.enable, turn, left=True, unit=1)
        write_tag = self.tag[:self.tag_bits]
        read_address = Cat(self.read_row[:self.row_bits], self.read_tag[:self.tag_bits])
        here = Signal(self.row_bits + self.tag_bits)
        after = Signal(self.row_bits + self.tag_bits)
        m.d.comb += [here.eq(Cat(row[:self.row_bits], write_tag)),
                     after.eq(Cat(following[:self.row_bits], write_tag))]
        for lane in range(self.lanes):
            bank = Memory(shape=unsigned(32), depth=self.tags * self.rows, init=[])
            m.submodules[f"bank_{lane}"] = bank
            write = bank.write_port()
            read = bank.read_port()
            with m.If(lane < turn):  # lanes below the first one belong to the row after
                m.d.comb += write.addr.eq(after)
            with m.Else():
                m.d.comb += write.addr.eq(here)
            m.d.comb += [
                write.data.eq(turned[32 * lane:32 * lane + 32]),
                write.en.eq(self.write & enables[lane]),
                read.addr.eq(read_address), read.en.eq(1),
                self.read_data[32 * lane:32 * lane + 32].eq(read.data),
            ]
        return m
