"""The cache's timing model predicts every transfer and event of the hardware, cycle by cycle."""

import pytest
from amaranth.hdl import Signal

from rtl.config import CacheConfig
from rtl.context.write_buffer import WriteBuffer
from sim.timing.interface import ACQUIRE, LOOKUP, Stall
from sim.timing.traffic import Traffic
from tb.context_timing_run import Script, Setting, compare, hardware


def cache(**fields):
    return CacheConfig(**{"entry_bytes": 64, "write_buffer": 2, "timeout_cycles": 1024} | fields)


STALLS = {"idle": 0.2, "stall": 0.3}
LOOKUPS = {LOOKUP: 1.0}
GEOMETRIES = {
    "one entry": (cache(sets=1, ways=1, misses=1, targets=1, write_buffer=1), {"keys": 3}),
    "plru": (cache(sets=2, ways=2, misses=4, targets=2), {}),
    "lru, 2 beats": (cache(sets=2, ways=4, entry_bytes=128, misses=4, targets=8, policy="lru"),
                     {"keys": 24}),
    "srrip": (cache(sets=4, ways=4, misses=16, targets=4, policy="srrip"), {"keys": 24}),
    "random policy, hash": (cache(sets=4, ways=4, misses=2, index="hash", policy="random"),
                            {"keys": 32}),
    "16 ways": (cache(sets=1, ways=16, misses=8), {"keys": 32}),
    "tenants": (cache(sets=4, ways=4, misses=4, tenants=2), {"keys": 24, "tenants": 2}),
    "3 ways": (cache(sets=2, ways=3, misses=4, policy="lru"), {"keys": 16}),
    "direct-mapped": (cache(sets=16, ways=1, misses=64, targets=1), {"keys": 48}),
}
TENANT_WAYS = {"tenants": (0b0011, 0b1110)}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_equal(name):
    """Every operation, with failed fetches, idle cycles and back-pressure; then without."""
    config, fields = GEOMETRIES[name]
    for seed, stalls in enumerate((STALLS, {})):
        traffic = Traffic(**{"requests": 400, "fail": 0.05, "seed": seed} | fields | stalls)
        script = compare(Setting(config, tenant_ways=TENANT_WAYS.get(name, ())), traffic)
        assert script.answers >= traffic.requests
        assert all(script.events[event] for event in (
            "hit", "miss", "merged", "fill", "fetch_error", "writeback"))


def test_equal_in_every_stall():
    config = cache(sets=4, ways=2, misses=1, targets=1, write_buffer=1)
    script = compare(Setting(config, width=512), Traffic(requests=2000, fail=0.5, seed=2))
    assert all(script.events[f"stall_{reason.value}"] for reason in Stall if reason)


def test_equal_where_fetches_are_overdue():
    traffic = Traffic(requests=800, overdue=0.05, timeout=1024, weights={LOOKUP: 3, ACQUIRE: 1})
    script = compare(Setting(GEOMETRIES["plru"][0]), traffic)
    assert script.events["timeout"] > 3


def test_equal_with_many_misses():
    """Lookups alone, with as many open as a port has tags."""
    traffic = Traffic(requests=1000, weights=LOOKUPS, keys=300, window=200, latency=(90, 110))
    script = compare(Setting(GEOMETRIES["direct-mapped"][0], log_entries=12), traffic)
    assert script.events["miss"] > 500


@pytest.mark.parametrize("cycles", [100, 333, 999])
def test_equal_after_a_reset_in_the_middle(cycles):
    """Whatever was under way leaves nothing behind."""
    setting = Setting(GEOMETRIES["tenants"][0], tenant_ways=TENANT_WAYS["tenants"])
    player = hardware(setting)
    cut = Script(setting, Traffic(requests=1000, keys=24, tenants=2, fail=0.05))
    Script(setting, Traffic(requests=400, keys=24, tenants=2, seed=2)).compare(
        player, before=cut.rows(player.inputs)[:cycles])


def test_a_change_of_one_cycle_is_seen(monkeypatch):
    """A write buffer that learns of the end of a write-back one cycle late."""
    right = WriteBuffer.elaborate

    def late(self, platform):
        m = right(self, platform)
        done = Signal()
        m.d.sync += done.eq(self.writeback.done.valid)
        m.d.comb += self.ended.eq(done)
        return m

    monkeypatch.setattr(WriteBuffer, "elaborate", late)
    with pytest.raises(AssertionError, match=r"cycle \d+: model"):
        compare(Setting(GEOMETRIES["plru"][0]), Traffic(requests=600), variant="late done")


def _every_geometry():
    """A mixture of every parameter; each has every operation, stalls and failed fetches."""
    shapes = [(1, 1), (1, 4), (1, 16), (2, 2), (4, 1), (4, 2), (4, 4), (8, 8), (16, 2), (64, 4)]
    limits = [(1, 1, 1), (2, 8, 1), (4, 2, 2), (16, 4, 4), (64, 1, 8)]
    policies = ["plru", "lru", "srrip", "random"]
    for number in range(20):
        sets, ways = shapes[number % 10]
        misses, targets, write_buffer = limits[number % 5 if number < 10 else (number + 2) % 5]
        config = cache(sets=sets, ways=ways, misses=misses, targets=targets,
                       write_buffer=write_buffer, policy=policies[(number // 3) % 4],
                       index="hash" if number % 3 == 1 else "modulo",
                       entry_bytes=(64, 128, 256, 512)[number % 4])
        yield pytest.param(config, number, id=f"{number}")


@pytest.mark.slow
@pytest.mark.parametrize("config, number", list(_every_geometry()))
def test_equal_everywhere(config, number):
    """50,000 requests to each of 20 geometries, on 1, 2 or 3 ports."""
    keys = min(3 * config.sets * config.ways // 2 + 6, 128)
    stalls = STALLS if number % 2 else {}
    traffic = Traffic(**{"requests": 50_000, "keys": keys, "fail": 0.02, "seed": number} | stalls)
    setting = Setting(config, ports=1 + number % 3, width=512, log_entries=8)
    assert compare(setting, traffic, simulator="verilator").answers >= 50_000
