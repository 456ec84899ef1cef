"""Receive side scaling of the model: the published verification vectors, and every way round."""

import ipaddress
import random
import struct

import pytest

from sim.wire.rss import HASH_TYPES, RssSettings, hash_input, spread, steer, toeplitz
from tb.wire_cases import put

# "Verifying the RSS hash calculation", Windows driver documentation: the key, then destination and
# source with their ports, the hash of the addresses alone and that of addresses and TCP ports.
KEY = bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcb"
                    "ae7b30b477cb2da38030f20c6a42b73bbeac01fa")
PUBLISHED = [
    ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x323E8FC2, 0x51CCC178),
    ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xD718262A, 0xC626B0EA),
    ("12.22.207.184", 38024, "24.19.198.95", 12898, 0xD2D0A5DE, 0x5C2B394A),
    ("209.142.163.6", 2217, "38.27.205.30", 48228, 0x82989176, 0xAFC7327F),
    ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5D1809C5, 0x10E828A2),
    ("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2CC18CD5, 0x40207D3D),
    ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0F0C461C, 0xDDE51BBF),
    ("fe80::200:f8ff:fe21:67cf", 38024, "3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251,
     0x4B61E985, 0x02D1FEEF),
]
TCP, UDP, ICMP = 6, 17, 1
SETTINGS = RssSettings(key=KEY, table=spread(4), queues=4)


def frame(dst, dport, src, sport, protocol=TCP, tags=(), options=b"", flags=0):
    """An Ethernet frame that holds the two addresses and ports; no checksums."""
    ends = [ipaddress.ip_address(end) for end in (src, dst)]
    addresses = b"".join(end.packed for end in ends)
    body = struct.pack(">2H", sport, dport) + bytes(16)
    if ends[0].version == 4:
        header = struct.pack(">BBHHHBBH", 0x45 + len(options) // 4, 0, 20 + len(options + body),
                             7, flags, 64, protocol, 0) + addresses + options
    else:
        header = struct.pack(">IHBB", 0x60000000, len(body), protocol, 64) + addresses
    ethertype = b"\x08\x00" if ends[0].version == 4 else b"\x86\xdd"
    tagged = b"".join(tpid + b"\x60\x05" for tpid in tags)
    return bytes(12) + tagged + ethertype + header + body


def network(vector):
    return "ipv6" if ":" in vector[0] else "ipv4"


def of_version(name):
    return next(vector for vector in PUBLISHED if network(vector) == name)


@pytest.mark.parametrize("vector", PUBLISHED)
def test_published_vectors(vector):
    *ends, addresses, ports = vector
    tcp = frame(*ends)
    assert steer(tcp, SETTINGS).hash == ports
    assert steer(tcp, RssSettings(key=KEY, types=frozenset({network(vector)}))).hash == addresses
    assert steer(tcp, RssSettings(key=KEY, types=frozenset())) == ("none", 0, 0)


@pytest.mark.parametrize("vector", PUBLISHED)
def test_the_frame_around_it_does_not_matter(vector):
    """Tags, UDP in place of TCP, and IPv4 options: the hash is the same."""
    *ends, addresses, ports = vector
    for tags in ((b"\x81\x00",), (b"\x88\xa8", b"\x81\x00"), (b"\x81\x00", b"\x81\x00")):
        assert steer(frame(*ends, tags=tags), SETTINGS).hash == ports
    assert steer(frame(*ends, protocol=UDP), SETTINGS).hash == ports
    assert steer(frame(*ends, protocol=ICMP), SETTINGS).hash == addresses
    if network(vector) == "ipv4":
        for words in range(1, 11):
            options = random.Random(words).randbytes(4 * words)
            assert steer(frame(*ends, options=options), SETTINGS).hash == ports


def test_the_definition_bit_by_bit():
    """One bit of the input alone gives the 32 bits of the key that begin at its place."""
    bits = "".join(f"{byte:08b}" for byte in KEY)
    for position in range(8 * 36):
        data = (1 << 8 * 36 - 1 - position).to_bytes(36, "big")
        assert toeplitz(KEY, data) == int(bits[position:position + 32], 2)
    rng = random.Random(1)
    for _ in range(100):  # and it is linear
        a, b = rng.randbytes(36), rng.randbytes(36)
        both = bytes(x ^ y for x, y in zip(a, b, strict=True))
        assert toeplitz(KEY, both) == toeplitz(KEY, a) ^ toeplitz(KEY, b)


@pytest.mark.parametrize("name", ["ipv4", "ipv6"])
@pytest.mark.parametrize("protocol", [TCP, UDP, ICMP])
def test_which_type_counts(name, protocol):
    """Each choice of types: ports if this transport's is chosen, else addresses, else nothing."""
    *ends, _, _ = of_version(name)
    data = frame(*ends, protocol=protocol)
    transport = {TCP: "tcp_", UDP: "udp_"}.get(protocol, "icmp_") + name
    addresses = data[26:34] if name == "ipv4" else data[22:54]
    ports = data[34:38] if name == "ipv4" else data[54:58]
    ordered = sorted(HASH_TYPES)
    for chosen in range(1 << len(ordered)):
        types = frozenset(kind for bit, kind in enumerate(ordered) if chosen >> bit & 1)
        expected = (transport, addresses + ports) if transport in types else \
            (name, addresses) if name in types else ("none", b"")
        assert hash_input(data, types) == expected


@pytest.mark.parametrize("flags", [0x2000, 0x0001, 0x1FFF, 0x3FFF])
def test_fragments_have_no_ports(flags):
    *ends, addresses, ports = of_version("ipv4")
    assert steer(frame(*ends, flags=flags), SETTINGS).hash == addresses
    assert steer(frame(*ends, flags=0x4000), SETTINGS).hash == ports  # don't fragment
    assert steer(frame(*ends, flags=0x8000), SETTINGS).hash == ports  # reserved
    assert hash_input(frame(*ends, flags=flags), frozenset({"tcp_ipv4"})) == ("none", b"")


@pytest.mark.parametrize("header", [0, 43, 44, 50, 51, 60, 135])
def test_ipv6_extension_headers_have_no_ports(header):
    *ends, addresses, _ = of_version("ipv6")
    assert steer(frame(*ends, protocol=header), SETTINGS).hash == addresses


@pytest.mark.parametrize("name", ["ipv4", "ipv6"])
def test_truncation_at_every_byte(name):
    *ends, addresses, ports = of_version(name)
    whole = frame(*ends, options=bytes(8) if name == "ipv4" else b"")
    header = 14 + (28 if name == "ipv4" else 40)
    for size in range(len(whole)):
        expected = 0 if size < header else addresses if size < header + 4 else ports
        assert steer(whole[:size], SETTINGS).hash == expected, size


@pytest.mark.parametrize("data", [
    put(frame(*PUBLISHED[0][:4]), 14, b"\x44"),  # IHL below 5
    put(frame(*PUBLISHED[0][:4]), 14, b"\x65"), put(frame(*PUBLISHED[5][:4]), 14, b"\x45"),
    put(frame(*PUBLISHED[0][:4]), 12, b"\x08\x06"),
    frame(*PUBLISHED[0][:4], tags=(b"\x81\x00",) * 3), b"", bytes(14)])
def test_what_cannot_be_hashed(data):
    assert steer(data, RssSettings(key=KEY, table=(3,) + (1,) * 127, queues=4)) == ("none", 0, 3)


def test_the_low_bits_choose_the_entry():
    rng = random.Random(3)
    settings = RssSettings(key=KEY, queues=16, table=tuple(rng.randrange(16) for _ in range(128)))
    seen = set()
    for _ in range(2000):
        data = frame(str(ipaddress.IPv4Address(rng.getrandbits(32))), rng.getrandbits(16),
                     "10.0.0.1", rng.getrandbits(16))
        hashed, value, queue = steer(data, settings)
        assert hashed == "tcp_ipv4"
        assert queue == settings.table[value & 0x7F]
        seen.add(value & 0x7F)
    assert len(seen) == 128


def test_spread():
    assert spread(1) == (0,) * 128
    assert spread(4)[:6] == (0, 1, 2, 3, 0, 1)


@pytest.mark.parametrize(("change", "message"), [
    ({"key": KEY[1:]}, "the RSS key has 40 bytes, not 39"),
    ({"types": frozenset({"ipv4", "sctp"})}, "no such RSS hash type: sctp"),
    ({"table": (0,) * 64}, "the indirection table has 128 entries, not 64"),
    ({"table": (4,) * 128, "queues": 4}, "the indirection table names queue 4 of 4"),
    ({"table": (-1,) * 128}, "the indirection table names queue -1 of 1"),
])
def test_settings_that_cannot_be(change, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        RssSettings(**{"key": KEY} | change)
