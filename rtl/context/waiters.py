"""Requests that wait for a fill or a lock, in one list an entry."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.context.interface import KEY_BITS, TAG_BITS
from rtl.stream.free_list import FreeList

SLOTS_MAX = 1024  # a port


class WaiterLayout(data.StructLayout):
    """What is left of a waiting LOOKUP or ACQUIRE."""

    def __init__(self):
        super().__init__({
            "key": unsigned(KEY_BITS), "tag": unsigned(TAG_BITS),
            "acquire": unsigned(1), "hit": unsigned(1),
        })


class Waiters(wiring.Component):
    """Lists of waiting requests. The entry's line holds the ends of its list.

    Each port has `slots` places of its own, so that no port can take another's. `append` stores
    `waiter` in `slot[port]`, behind `tail` if `link`. `wake[n]` queues the list that starts at
    `woken[n]`, 0 for requests and 1 for fills; `token` is the slot at the head of those queues
    and `waiter_out` its request, until `next`. `after` follows `current` in its list, if it is
    `linked`; `free` returns `current`, `requeue` puts it into the queue again. All answers are in
    the same cycle.

    Two need not go through a queue: `token` is their slot in the very cycle of their `wake[0]`,
    which is dropped when `next` takes it. One is the heir: `note` says that `heir` is the first to
    wait for `waiter.key`, whose entry is locked and here, and the last one noted is woken by its
    entry's `commit`, unless there was a `forget`. The other is what follows a LOOKUP that `next`
    took the cycle before, if it was in the list by then; so a list of LOOKUPs is answered one a
    cycle.
    """

    def __init__(self, ports: int, slots: int, misses: int):
        self.index_bits = max(ceil_log2(slots), 1)
        bits = self.index_bits + ceil_log2(ports)
        super().__init__({
            "available": Out(ports), "slot": Out(bits).array(ports),
            "append": In(1), "port": In(range(ports)), "waiter": In(WaiterLayout()),
            "link": In(1), "tail": In(bits),
            "wake": In(1).array(2), "woken": In(bits).array(2),
            "token_valid": Out(1), "token": Out(bits), "waiter_out": Out(WaiterLayout()),
            "next": In(1),
            "current": In(bits), "after": Out(bits), "linked": Out(1), "free": In(1),
            "requeue": In(1),
            "note": In(1), "heir": In(bits), "commit": In(1), "forget": In(1),
        })
        self.ports = ports
        self.slots = slots
        self.misses = misses
        self.slot_bits = bits

    def elaborate(self, platform):
        m = Module()
        depth = 1 << self.slot_bits
        m.submodules.store = store = memory.Memory(shape=WaiterLayout(), depth=depth, init=[])
        m.submodules.links = links = memory.Memory(
            shape=unsigned(self.slot_bits), depth=depth, init=[])
        tokens = [SyncFIFO(width=self.slot_bits, depth=max(size, 2))
                  for size in (self.ports * self.slots, self.misses)]
        m.submodules.request_tokens, m.submodules.fill_tokens = tokens
        mine = Signal(self.slot_bits)
        for port in range(self.ports):
            m.submodules[f"free_{port}"] = free = FreeList(self.slots)
            m.d.comb += [
                self.available[port].eq(free.available),
                self.slot[port].eq(free.index | (port << self.index_bits)),
                free.take.eq(self.append & (self.port == port)),
                free.give.eq(self.free & ((self.current >> self.index_bits) == port)),
                free.given.eq(self.current[:self.index_bits]),
            ]
            with m.If(self.port == port):
                m.d.comb += mine.eq(self.slot[port])
        write, read = store.write_port(), store.read_port(domain="comb")
        link, follow = links.write_port(), links.read_port(domain="comb")
        direct, slot = self._directly(m, links.read_port(domain="comb"), link, mine)
        queued = self.next & ~direct
        m.d.comb += [
            write.addr.eq(mine), write.data.eq(self.waiter), write.en.eq(self.append),
            link.addr.eq(self.tail), link.data.eq(mine), link.en.eq(self.append & self.link),
            tokens[0].w_data.eq(Mux(self.requeue, self.current, self.woken[0])),
            tokens[1].w_data.eq(self.woken[1]),
            tokens[0].w_en.eq((self.wake[0] & ~(direct & self.next)) | self.requeue),
            tokens[1].w_en.eq(self.wake[1]),
            self.token_valid.eq(direct | tokens[0].r_rdy | tokens[1].r_rdy),
            self.token.eq(Mux(direct, slot, Mux(
                tokens[0].r_rdy, tokens[0].r_data, tokens[1].r_data))),
            tokens[0].r_en.eq(queued),
            tokens[1].r_en.eq(queued & ~tokens[0].r_rdy),
            read.addr.eq(self.token), self.waiter_out.eq(read.data),
            follow.addr.eq(self.current), self.after.eq(follow.data),
        ]
        return m

    def _directly(self, m, ahead, link, mine):
        """Whether a slot that is woken in this cycle is known already, and which."""
        noted = Signal(data.StructLayout({"valid": 1, "key": KEY_BITS, "slot": self.slot_bits}))
        chained = Signal(data.StructLayout({"valid": 1, "slot": self.slot_bits}))
        linked = Signal(1 << self.slot_bits)  # slots with another one behind them
        inherits = Signal()
        m.d.comb += [
            inherits.eq(self.commit & noted.valid & (noted.key == self.waiter.key)),
            ahead.addr.eq(self.token),
            self.linked.eq(linked.bit_select(self.current, 1)),
        ]
        with m.If(self.note):
            m.d.sync += [noted.valid.eq(1), noted.key.eq(self.waiter.key),
                         noted.slot.eq(self.heir)]
        with m.Elif(inherits | self.forget):
            m.d.sync += noted.valid.eq(0)
        m.d.sync += [
            chained.valid.eq(self.next & ~self.waiter_out.acquire
                             & linked.bit_select(self.token, 1)),
            chained.slot.eq(ahead.data),
        ]
        with m.If(self.append):
            m.d.sync += linked.bit_select(mine, 1).eq(0)
        with m.If(link.en):
            m.d.sync += linked.bit_select(link.addr, 1).eq(1)
        direct = (inherits | chained.valid) & ~self.requeue
        return direct, Mux(inherits, noted.slot, chained.slot)
