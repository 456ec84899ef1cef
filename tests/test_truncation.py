"""Frames cut at every byte of every header of every stack, by the wire and by their own lengths."""

import random

import pytest

from sim.wire import headers
from sim.wire.build import build, reseal
from sim.wire.codec import parse
from sim.wire.opcodes import OPCODES
from tb.wire_cases import NETWORKS, TAGS, not_rdma, packet, put, resum, with_options
from tests.test_parser import MAC_CONTROL, check

WIDTHS = (64, 512)
LONGEST = 0x53  # RD compare and swap: 40 bytes of extension headers
OTHERS = (0x81, 0x1C, 0x64, 0xAB, 0x0B)  # CNP, FLUSH, UD SEND, XRC WRITE IMM, RC WRITE IMM
OPTION_WORDS = (0, 10)
USUAL = (TAGS[0], TAGS[1], TAGS[3])  # none, one, two; the others are slow
TAGGED = [tpids if tpids in USUAL else pytest.param(tpids, marks=pytest.mark.slow)
          for tpids in TAGS]


def stacks(rng, tpids):
    """A frame of each network, IPv4 with options of some lengths, with long headers."""
    for network in NETWORKS:
        for words in OPTION_WORDS if network == "ipv4" else (0,):
            for opcode in (LONGEST, rng.choice(OTHERS)):
                frame = build(packet(rng, opcode, 0, network, tpids))
                if words:
                    frame = with_options(frame, 14 + 4 * len(tpids), rng.randbytes(4 * words))
                yield network, frame


def cut_by_length(frame, network, start, size):
    """The frame whole, but its lengths say that its packet ends after `size` bytes of frame."""
    inside = max(size - start, 0)
    if network == "ipv4":
        header = 4 * (frame[start] & 15)
        frame = resum(put(frame, start + 2, inside.to_bytes(2, "big")), start)
        udp = start + header
    else:
        frame = put(frame, start + 4, max(inside - 40, 0).to_bytes(2, "big"))
        udp = start + 40
    if network == "roce1":
        return frame
    return put(frame, udp + 4, max(size - udp, 0).to_bytes(2, "big"))


@pytest.mark.parametrize("tpids", TAGGED)
@pytest.mark.parametrize("width", WIDTHS)
def test_cut_by_the_wire(width, tpids):
    rng = random.Random(1)
    frames = [frame[:size] for _, frame in stacks(rng, tpids) for size in range(1, len(frame) + 1)]
    check(frames, width, garbage=True)


@pytest.mark.parametrize("tpids", TAGGED)
@pytest.mark.parametrize("width", WIDTHS)
def test_cut_by_its_own_length(width, tpids):
    rng = random.Random(2)
    start = 14 + 4 * len(tpids)
    frames = [cut_by_length(frame, network, start, size) for network, frame in stacks(rng, tpids)
              for size in range(start, len(frame) + 1)]
    errors = {parse(frame)["error"] for frame in frames}
    assert {None, "truncated", "ip_length"} <= errors
    check(frames, width, garbage=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_not_rdma_cut_at_every_byte(width):
    """MAC control with and without tags, ARP, fragments, extension headers, TCP."""
    rng = random.Random(3)
    whole = not_rdma(rng)
    kinds = {parse(frame)["kind"] for frame in whole}
    assert {*MAC_CONTROL, "arp", "ip", "other"} <= kinds
    frames = [frame[:size] for frame in whole for size in range(1, min(len(frame), 80) + 1)]
    check(frames, width, garbage=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_reserved_bits_of_every_opcode_are_accepted(width):
    """Each reserved bit of the BTH and of the extension headers, with the ICRC made right."""
    rng = random.Random(4)
    frames = []
    for opcode in sorted(OPCODES):
        network = rng.choice(NETWORKS)
        frame = build(packet(rng, opcode, 20, network))
        frames += [with_reserved(frame, network, at, bits) for at, bits in reserved(opcode)]
    assert {parse(frame)["error"] for frame in frames} == {None}
    check(frames, width)


def reserved(opcode):
    """(offset from the BTH, bits) of the reserved bits of each header that has some."""
    yield from ((4, 0x3F), (8, 0x7F))
    at = headers.size(headers.BTH)
    for name in OPCODES[opcode].headers:
        bit = 0
        for field, bits in headers.EXTENSIONS[name]:
            if not field:
                for byte in range(bit // 8, (bit + bits - 1) // 8 + 1):
                    yield at + byte, 0xFF if 8 * byte + 8 <= bit + bits else 0xC0
            bit += bits
        at += headers.size(headers.EXTENSIONS[name])


def with_reserved(frame, network, at, bits):
    place = {"ipv4": 42, "ipv6": 62, "roce1": 54}[network] + at
    return reseal(put(frame, place, bytes([frame[place] | bits])), 14)
