"""Mutated, truncated and random frames with random stalls: the parser at every width says what the
codec says, and the same at all widths.

5,000 frames in the default suite, 100,000 with `-m slow`; each goes through every width. The bench
gives up after a number of cycles in proportion to the beats: a parser that hangs fails.
"""

import random
from dataclasses import asdict

import pytest

from rtl.headers import Kind, Reason
from rtl.parser import HashType
from sim.wire.build import build
from sim.wire.codec import parse
from sim.wire.opcodes import OPCODES
from sim.wire.rss import HASH_TYPES, RssSettings, steer
from tb.wire_cases import NETWORKS, TAGS, faulty, mutant, not_rdma, packet, put, with_options
from tests.test_parser import check

WIDTHS = (64, 128, 512, 1024, 2048)
CHUNK = 1000  # frames a run
EDGES = (1, 7, 8, 9, 13, 14, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257)


def valid(rng):
    """A good RoCE frame of any stack and opcode, IPv4 options included."""
    network, tpids = rng.choice(NETWORKS), rng.choice(TAGS)
    size = rng.choice((0, 1, 2, 3, 4, 30, 64, 300, rng.randrange(1500)))
    frame = build(packet(rng, rng.choice(list(OPCODES)), size, network, tpids))
    if network == "ipv4" and rng.random() < 0.3:
        frame = with_options(frame, 14 + 4 * len(tpids), rng.randbytes(4 * rng.randrange(1, 11)))
    return frame


def truncated(rng):
    frame = valid(rng)
    return frame[:rng.randrange(1, min(len(frame), 150) + 1)]


def beside(rng):
    """What is no RDMA, cut, lengthened or with a bit turned over."""
    frame = rng.choice(not_rdma(rng))
    kind = rng.randrange(4)
    if kind == 0:
        return frame[:rng.randrange(1, len(frame) + 1)]
    if kind == 1:
        return frame + rng.randbytes(rng.choice(EDGES))
    if kind == 2:
        at = rng.randrange(len(frame))
        return put(frame, at, bytes([frame[at] ^ 1 << rng.randrange(8)]))
    return frame


def noise(rng):
    """Random bytes, some of them behind a known EtherType."""
    frame = rng.randbytes(rng.choice((rng.choice(EDGES), rng.randrange(1, 400))))
    if len(frame) > 16 and rng.random() < 0.7:
        kinds = (b"\x08\x00\x45", b"\x08\x00", b"\x86\xdd\x60", b"\x89\x15\x60", b"\x81\x00",
                 b"\x88\xa8", b"\x88\x08\x00\x01", b"\x88\x08\x01\x01", b"\x08\x06")
        return put(frame, 12, rng.choice(kinds))[:len(frame)]
    return frame


def several_bytes(rng):
    """A good frame with a run of bytes overwritten."""
    frame = valid(rng)
    at = rng.randrange(12, min(len(frame), 100))
    return put(frame, at, rng.randbytes(min(rng.randrange(1, 9), len(frame) - at)))


def fuzzed(rng, count):
    """Frames of all kinds, each with whether the MAC flags it."""
    faults = [frame for _, frame in faulty(rng)]
    makers = (valid, mutant, mutant, truncated, beside, noise, several_bytes,
              lambda rng: rng.choice(faults))
    frames = [rng.choice(makers)(rng) for _ in range(count)]
    return frames, [rng.random() < 0.03 for _ in frames]


def settings(rng):
    """RSS settings for the model, and the same for the hardware."""
    chosen = RssSettings(
        key=rng.randbytes(40), queues=16, table=tuple(rng.randrange(16) for _ in range(128)),
        types=frozenset(kind for kind in HASH_TYPES if rng.random() < 0.8))
    fields = {name: int(name in chosen.types) for name in HASH_TYPES}
    return chosen, fields | {"key": int.from_bytes(chosen.key, "little"),
                             "table": list(chosen.table)}


def outcome(observed):
    """All that a run shows but its cycles, and what the parser knows earlier or later by width."""
    shown = asdict(observed)
    for name in ("raw", "icrc", "icrc_counters", "seen"):
        del shown[name]
    shown["headers"] = [settled(item) for item in observed.headers]
    return shown


def settled(item):
    """A header item without the length so far and what it does not hold yet."""
    absent = {name for name, present in item["present"].items() if not present}
    return {name: value for name, value in item.items() if name not in absent | {"frame_length"}}


def run(seed, widths=WIDTHS):
    rng = random.Random(seed)
    frames, errors = fuzzed(rng, CHUNK)
    rss, fields = settings(rng)
    first = None
    for width in widths:
        idle, stall = rng.choice((0, 0.1, 0.3)), rng.choice((0, 0.1, 0.3))
        observed = check(frames, width, errors, idle=idle, stall=stall, garbage=True, seed=seed,
                         rss=fields)
        for info in observed.host_info:
            hashed = HashType(info["rss"]["hash_type"]).name.lower()
            got = (hashed, info["rss"]["hash"], info["queue"])
            assert got == steer(frames[info["sequence"]], rss), frames[info["sequence"]].hex()
        first = first or outcome(observed)
        assert outcome(observed) == first, f"{width} bits are not as {widths[0]}"


@pytest.mark.parametrize("seed", range(5))
def test_fuzz(seed):
    run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_more_fuzz(seed):
    run(seed)


def test_every_kind_of_frame_is_there():
    """The mix reaches every kind and every reason."""
    frames, errors = fuzzed(random.Random(0), CHUNK)
    reports = [parse(frame, mac_error=error) for frame, error in zip(frames, errors, strict=True)]
    assert {report["kind"] for report in reports} == {kind.name.lower() for kind in Kind}
    reasons = {reason.name.lower() for reason in Reason} - {"none", "mac_control"}
    assert {report["error"] for report in reports} == reasons | {None}
    assert 0.2 < sum(report["error"] is None for report in reports) / CHUNK < 0.8
