"""The parser at every width: beats a cycle, and cycles from a frame's first beat to its headers."""

import random

from bench.rate import ONE_BEAT, SMALL_FRAME, beats, every_width, parts, rate
from bench.row import AGREED, Row, Settings, make_row
from sim.wire.build import build
from tb.parser_run import Observed, run_frames
from tb.wire_cases import packet

ACK, SEND_ONLY, WRITE_ONLY = 0x11, 0x04, 0x0A
EMPTY_SEND = 58  # bytes of a SEND ONLY over IPv4 without payload
GREATEST_SEND = EMPTY_SEND + 4096
SIZES = (64, 9216)
TWO_TAGS = (0x88A8, 0x8100)
Stack = tuple[int, int, str, tuple[int, ...]]  # opcode, payload, network, tags
STACKS: dict[str, tuple[int, Stack]] = {  # what leads to the payload, in bytes, and the packet
    "RoCEv2 IPv4 ACK": (58, (ACK, 0, "ipv4", ())),
    "RoCEv2 IPv4 WRITE": (70, (WRITE_ONLY, 256, "ipv4", ())),
    "RoCEv2 IPv6 WRITE, two tags": (98, (WRITE_ONLY, 256, "ipv6", TWO_TAGS)),
    "RoCEv1 WRITE": (82, (WRITE_ONLY, 256, "roce1", ())),
}
STAGES = 3  # cycles that the headers may take beside the beats that hold them
HOST_TYPE = b"\x88\xcc"  # LLDP: for the host, of any length
Frame = tuple[bytes, bytes]  # and its payload, b"" for the host


def parser(settings: Settings) -> list[Row]:
    return [row for each in every_width(settings) for row in _at(each)]


def _at(settings: Settings) -> list[Row]:
    """One simulation: each stack once, then small frames, then all sizes, back to back."""
    width = settings.config.data_width
    rng = random.Random(settings.seed)
    stacks = [build(packet(rng, *stack)) for _, stack in STACKS.values()]
    small = [_send(rng, SMALL_FRAME) for _ in range(300)]
    mixed = _mixed(rng, width, 2500 if settings.quick else 12000)
    frames = [*stacks, *(frame for frame, _ in small + mixed)]
    seen = run_frames(frames, settings.config, settings.simulator, seed=settings.seed)
    lengths = [[len(frame) for frame in stacks], [SMALL_FRAME] * len(small),
               [len(frame) for frame, _ in mixed]]
    _, of_small, of_mixed = parts(seen.raw["taken"], lengths, width)
    rows = [
        _row(settings, AGREED, "", int(_right(seen, len(stacks), small + mixed)), at_least=1),
        _row(settings, "frames of 64 to 9216 bytes", "beats/cycle", rate(of_mixed), at_least=1),
        _row(settings, "frames of 64 bytes", "frames/cycle", rate(of_small, len(small)),
             at_least=1 if width >= ONE_BEAT else None),
    ]
    return rows + _latencies(settings, seen, lengths[0])


def _latencies(settings: Settings, seen: Observed, lengths: list[int]) -> list[Row]:
    """From a frame's first beat to the cycle in which its headers are offered."""
    width = settings.config.data_width
    firsts = [seen.raw["taken"][sum(beats(length, width) for length in lengths[:number])]
              for number in range(len(lengths))]
    shown = seen.raw["header_cycles"][:len(STACKS)]
    return [_row(settings, f"first beat to headers, {name}", "cycles", at - first,
                 at_most=beats(size, width) + STAGES)
            for (name, (size, _)), first, at in zip(STACKS.items(), firsts, shown, strict=True)]


def _mixed(rng: random.Random, width: int, total: int) -> list[Frame]:
    """About `total` beats of frames of every magnitude."""
    frames = [_send(rng, size) for size in (65, 500, 1500)]  # however few there are
    while total > 0:
        size = rng.choice((*SIZES, round(2 ** rng.uniform(6, 13.17))))
        frames.append(_send(rng, size) if size <= GREATEST_SEND
                      else (rng.randbytes(12) + HOST_TYPE + rng.randbytes(size - 14), b""))
        total -= beats(size, width)
    return frames


def _send(rng: random.Random, size: int) -> Frame:
    """A SEND ONLY of `size` bytes; what does not make a word is Ethernet padding."""
    made = packet(rng, SEND_ONLY, (size - EMPTY_SEND - 4) // 4 * 4 if size > 65 else 0)
    frame = build(made)
    return frame + bytes(size - len(frame)), made.payload


def _right(seen: Observed, stacks: int, sent: list[Frame]) -> bool:
    """Each frame was reported, none with a fault, and came out where it belongs."""
    payloads = [payload for _, payload in sent if payload]
    return (len(seen.reports) == stacks + len(sent)
            and not any(report["error"] for report in seen.reports)
            and seen.payload[len(seen.payload) - len(payloads):] == payloads != []
            and seen.host == [frame for frame, _ in sent if frame[12:14] == HOST_TYPE])


def _row(settings: Settings, metric: str, unit: str, value: float, **target: float | None) -> Row:
    return make_row("parser", settings, metric, unit, value, **target)
