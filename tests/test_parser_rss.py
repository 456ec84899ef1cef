"""The parser's hash and receive queue against the published vectors and the model.

tests/test_parser_fuzz.py does the same over frames of all kinds; tests/test_rss_model.py holds the
model itself against the vectors.
"""

import itertools

import pytest

from rtl.config import NicConfig
from rtl.parser import HashType
from sim.wire.rss import HASH_TYPES, RssSettings, spread, steer
from tb.parser_run import run_frames
from tests.test_rss_model import ICMP, KEY, PUBLISHED, TCP, UDP, frame, network

WIDTHS = (64, 512)


def steered(frames, settings, width):
    """(type, hash, queue) of each frame; all of them are for the host."""
    fields = {name: int(name in settings.types) for name in HASH_TYPES}
    observed = run_frames(frames, NicConfig(data_width=width), rss=fields | {
        "key": int.from_bytes(settings.key, "little"), "table": list(settings.table)})
    assert observed.host == frames
    return [(HashType(info["rss"]["hash_type"]).name.lower(), info["rss"]["hash"], info["queue"])
            for info in observed.host_info]


@pytest.mark.parametrize("width", WIDTHS)
def test_published_vectors(width):
    frames = [frame(*vector[:4]) for vector in PUBLISHED]
    table = spread(16)
    for types, place in ((HASH_TYPES, 5), (frozenset({"ipv4", "ipv6"}), 4)):
        settings = RssSettings(key=KEY, types=types, table=table, queues=16)
        for vector, got in zip(PUBLISHED, steered(frames, settings, width), strict=True):
            kind = network(vector) if place == 4 else f"tcp_{network(vector)}"
            assert got == (kind, vector[place], table[vector[place] & 0x7F])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("types", [
    frozenset(), frozenset({"tcp_ipv4", "udp_ipv6"}), frozenset({"ipv4", "udp_ipv4", "tcp_ipv6"}),
    frozenset({"ipv6"}), HASH_TYPES])
def test_every_choice_of_types(types, width):
    """Protocols, tags, options and fragments over IPv4 and IPv6."""
    settings = RssSettings(key=KEY, types=types, table=spread(5), queues=5)
    frames = []
    for vector, protocol, tags in itertools.product(
            PUBLISHED[::3], (TCP, UDP, ICMP), ((), (b"\x81\x00",), (b"\x88\xa8", b"\x81\x00"))):
        ends = vector[:4]
        frames.append(frame(*ends, protocol=protocol, tags=tags))
        if network(vector) == "ipv4":
            frames += [frame(*ends, protocol=protocol, tags=tags, options=bytes(4 * words))
                       for words in (1, 4, 10)]
            frames += [frame(*ends, protocol=protocol, tags=tags, flags=flags)
                       for flags in (0x2000, 0x0001)]
    frames += [whole[:size] for whole in (frames[0], frames[-1]) for size in range(14, 70)]
    frames = list(dict.fromkeys(frames))
    assert steered(frames, settings, width) == [tuple(steer(data, settings)) for data in frames]
