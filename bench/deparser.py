"""The deparser at every width: beats a cycle, and cycles from a header item to the frame."""

import random

from bench.rate import ONE_BEAT, every_width, parts, rate
from bench.row import AGREED, Row, Settings, make_row
from rtl.headers import Headers
from sim.wire.build import Packet, build
from tb.bits import pack
from tb.deparser_run import deparse, fields
from tb.wire_cases import NETWORKS, TAGS, packet

SEND_ONLY = 0x04
SMALL_PAYLOAD = 4  # makes a frame of 62 bytes, which Ethernet pads to 64
ICRC_BYTES = 4


def deparser(settings: Settings) -> list[Row]:
    return [row for each in every_width(settings) for row in _at(each)]


def _at(settings: Settings) -> list[Row]:
    """One simulation: small frames, then all sizes over all stacks, back to back."""
    width = settings.config.data_width
    rng = random.Random(settings.seed)
    small = [packet(rng, SEND_ONLY, SMALL_PAYLOAD) for _ in range(300)]
    mixed = _mixed(rng, width, 2000 if settings.quick else 10000)
    sent = small + mixed
    items = [pack(Headers, fields(each, number)) for number, each in enumerate(sent)]
    seen = deparse(items, [each.payload for each in sent], width, icrc=False,
                   simulator=settings.simulator)
    wanted = [build(each)[:-ICRC_BYTES] + bytes(ICRC_BYTES) for each in sent]
    lengths = [len(frame) for frame in wanted]
    of_small, of_mixed = parts(seen["cycles"], (lengths[:len(small)], lengths[len(small):]), width)
    return [
        _row(settings, AGREED, "", int(seen["frames"] == wanted), at_least=1),
        _row(settings, "frames of all sizes", "beats/cycle", rate(of_mixed), at_least=1),
        _row(settings, f"frames of {lengths[0]} bytes", "frames/cycle",
             rate(of_small, len(small)), at_least=1 if width >= ONE_BEAT else None),
        _row(settings, "header item to first beat", "cycles", seen["latency"]),
    ]


def _mixed(rng: random.Random, width: int, total: int) -> list[Packet]:
    """About `total` beats of payloads of every magnitude up to 4096 bytes."""
    packets: list[Packet] = []
    while total > 0:
        size = rng.choice((0, 4096, round(2 ** rng.uniform(0, 12))))
        packets.append(packet(rng, SEND_ONLY, size, rng.choice(NETWORKS), rng.choice(TAGS)))
        total -= -(-8 * (size + 62) // width)
    return packets


def _row(settings: Settings, metric: str, unit: str, value: float, **target: float | None) -> Row:
    return make_row("deparser", settings, metric, unit, value, **target)
