"""The cache and its timing model with the same inputs, and each cycle's outputs compared."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rtl.config import CacheConfig
from rtl.context import ContextCache as Hardware
from rtl.context.observe import CacheCounters
from rtl.verilog import to_verilog
from sim.timing.context_cache import ContextCache
from sim.timing.interface import Inputs, Outputs
from sim.timing.traffic import Traffic, World
from tb.bits import unpack
from tb.context_pins import Pins, predicted
from tb.player import Fields, Player, Row
from tools import cache

RESET = 3  # cycles
COUNTED = {  # counter → the event that it counts
    "lookups": "lookup", "hits": "hit", "misses": "miss", "merged": "merged", "fills": "fill",
    "evictions": "evict", "writebacks": "writeback", "fetch_errors": "fetch_error",
    "bad_keys": "bad_key", "forwards": "forward", "prefetches": "prefetch",
    "prefetches_useful": "useful", "prefetches_late": "late", "timeouts": "timeout"}
QUIET = 50  # cycles without anything under way, after which a run ends


@dataclass(frozen=True)
class Setting:
    """A cache and its surroundings. The table has 2 ** `log_entries` entries from `base` on."""

    config: CacheConfig
    ports: int = 2
    width: int = 64  # bits
    log_entries: int = 6
    tenant_ways: Sequence[int] = ()
    base: int = 0x12_3456_0000

    def component(self) -> Hardware:
        return Hardware(self.config, self.width, self.ports)

    def verilog(self) -> str:
        return to_verilog(self.component(), "context_cache")


@dataclass
class Script:
    """What the model makes of `traffic`: the cache's inputs in each cycle and what it must do."""

    setting: Setting
    traffic: Traffic
    cycles: list[tuple[Inputs, dict[str, Any]]] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)  # as they are at the end
    answers: int = 0

    def __post_init__(self) -> None:
        """`AssertionError` if the model does not end."""
        it = self.setting
        beats = max(8 * it.config.entry_bytes // it.width, 1)
        model = ContextCache(it.config, it.ports, beats=beats, log_entries=it.log_entries,
                             tenant_ways=it.tenant_ways)
        world = World(self.traffic, it.ports, beats, it.log_entries)
        idle = 0
        while idle < QUIET:
            now = model.now
            i = world.drive(now)
            out = model.step(i)
            self.cycles.append((i, predicted(out)))
            self._count(i, out, model.misses.in_flight)
            world.settle(now, i, out)
            self.answers += sum(answer is not None for answer in out.answers)
            self.events.update(f"stall_{event[1]}" if event[0] == "stall" else str(event[0])
                               for event in out.events)
            idle = idle + 1 if world.quiet else 0
            assert now < 400 * self.traffic.requests, f"not done after {now} cycles"
        counted = {name: self.events[event] for name, event in COUNTED.items()}
        self.counters.update(counted)
        self.counters["stray_answers"] -= (counted["fills"] - counted["forwards"]
                                           + counted["fetch_errors"] - counted["timeouts"])

    def _count(self, i: Inputs, out: Outputs, in_flight: int) -> None:
        """What is no event of its own. Answers to nothing are those that end no fetch."""
        now = self.counters
        now["outstanding_sum"] += in_flight
        now["outstanding_max"] = max(now["outstanding_max"], in_flight)
        now["stray_answers"] += bool(i.beat and i.beat.last and out.beat_taken)
        now["prefetches_useless"] += sum(int(e[1]) for e in out.events if e[0] == "useless")

    def rows(self, inputs: Fields) -> list[int]:
        """For a `Player`, the reset first."""
        row = Row(inputs)
        it = self.setting
        pins = Pins(row.set, row.get, it.config, it.ports, it.width, it.base)
        pins.rest(it.log_entries, it.tenant_ways)
        row.set("rst", 1)
        rows = [row.word] * RESET
        row.set("rst", 0)
        for i, _ in self.cycles:
            pins.drive(i)
            rows.append(row.word)
        return rows

    def compare(self, player: Player, plusargs: tuple[str, ...] = (),
                before: Sequence[int] = ()) -> None:
        """`AssertionError` in the first cycle in which hardware and model differ.

        The rows `before` are played first and not looked at; the reset must undo all they did.
        """
        row = Row(player.outputs)
        it = self.setting
        pins = Pins(lambda name, value: None, row.get, it.config, it.ports, it.width, it.base)
        rows = [*before, *self.rows(player.inputs)]
        for cycle, row.word in enumerate(player.play(rows, plusargs), -RESET - len(before)):
            if cycle >= 0:
                i, want = self.cycles[cycle]
                have = pins.sample(i)
                assert want == have, f"cycle {cycle}: model {want}\nhardware {have}"
        seen = unpack(CacheCounters, row.get("counters"))
        assert seen == {name: self.counters[name] for name in seen}


def hardware(setting: Setting, simulator: str = "icarus", variant: str = "") -> Player:
    """`variant` names what was changed in it."""
    source = cache.verilog("context_cache", (setting, variant), setting.verilog)
    return Player("context_cache", source, simulator)


def compare(setting: Setting, traffic: Traffic, *, simulator: str = "icarus",
            variant: str = "") -> Script:
    """Builds the hardware and compares."""
    script = Script(setting, traffic)
    script.compare(hardware(setting, simulator, variant))
    return script
