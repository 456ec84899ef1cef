"""Receive side scaling: which receive queue a frame for the host goes to.

The Toeplitz hash and its inputs as Microsoft publishes them for NDIS ("RSS hashing functions",
"RSS hashing types"). The hash's seven lowest bits choose an entry of the indirection table.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

from sim.wire.codec import TYPE_IPV4, TYPE_IPV6, UDP_PROTOCOL, ethernet

KEY_BYTES = 40
TABLE_ENTRIES = 128
HASH_TYPES = frozenset({"ipv4", "tcp_ipv4", "udp_ipv4", "ipv6", "tcp_ipv6", "udp_ipv6"})
TRANSPORTS = {6: "tcp", UDP_PROTOCOL: "udp"}  # by protocol number
PORT_BYTES = 4  # source and destination port
NOT_HASHED = ("none", b"")


@dataclass(frozen=True, kw_only=True)
class RssSettings:
    """What the host chooses."""

    key: bytes
    types: frozenset[str] = HASH_TYPES
    table: tuple[int, ...] = (0,) * TABLE_ENTRIES
    queues: int = 1

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise ValueError(f"the RSS key has {KEY_BYTES} bytes, not {len(self.key)}")
        if not self.types <= HASH_TYPES:
            unknown = ", ".join(sorted(self.types - HASH_TYPES))
            raise ValueError(f"no such RSS hash type: {unknown}")
        if len(self.table) != TABLE_ENTRIES:
            raise ValueError(f"the indirection table has {TABLE_ENTRIES} entries, "
                             f"not {len(self.table)}")
        for queue in self.table:
            if not 0 <= queue < self.queues:
                raise ValueError(f"the indirection table names queue {queue} of {self.queues}")


class Steering(NamedTuple):
    type: str  # what was hashed, as in `HASH_TYPES`, or "none"
    hash: int  # 0 if nothing was
    queue: int


def spread(queues: int) -> tuple[int, ...]:
    """The usual indirection table: the queues in turn."""
    return tuple(entry % queues for entry in range(TABLE_ENTRIES))


def toeplitz(key: bytes, data: bytes) -> int:
    """Each bit of `data` that is set, from the left, adds the key's 32 bits that begin there."""
    window = int.from_bytes(key, "big")
    last = 8 * len(key) - 32  # the leftmost window's place
    result = 0
    for position in range(8 * len(data)):
        if data[position // 8] >> (7 - position % 8) & 1:
            result ^= window >> (last - position) & 0xFFFFFFFF
    return result


def hash_input(frame: bytes, types: frozenset[str]) -> tuple[str, bytes]:
    """The type, and source and destination address, then source and destination port if they count.

    A header that is not whole, IPv4 options included, or not of its version is not hashed.
    """
    _, start, ethertype = ethernet(frame)
    packet = frame[start:]
    if ethertype == TYPE_IPV4:
        return _ipv4(packet, types)
    return _ipv6(packet, types) if ethertype == TYPE_IPV6 else NOT_HASHED


def steer(frame: bytes, settings: RssSettings) -> Steering:
    """Hash and queue of a frame that goes to the host."""
    hashed, data = hash_input(frame, settings.types)
    value = toeplitz(settings.key, data)
    return Steering(hashed, value, settings.table[value % TABLE_ENTRIES])


def _ipv4(packet: bytes, types: frozenset[str]) -> tuple[str, bytes]:
    if len(packet) < 20:
        return NOT_HASHED
    version, header = packet[0] >> 4, 4 * (packet[0] & 15)
    if version != 4 or header < 20 or len(packet) < header:
        return NOT_HASHED
    fragment = struct.unpack_from(">H", packet, 6)[0] & 0x3FFF  # more fragments, or an offset
    ports = b"" if fragment else packet[header:header + PORT_BYTES]
    return _tuple("ipv4", packet[12:20], packet[9], ports, types)


def _ipv6(packet: bytes, types: frozenset[str]) -> tuple[str, bytes]:
    """Extension headers are not skipped: such a packet counts as one without ports."""
    if len(packet) < 40 or packet[0] >> 4 != 6:
        return NOT_HASHED
    return _tuple("ipv6", packet[8:40], packet[6], packet[40:40 + PORT_BYTES], types)


def _tuple(network: str, addresses: bytes, protocol: int, ports: bytes,
           types: frozenset[str]) -> tuple[str, bytes]:
    transport = f"{TRANSPORTS.get(protocol)}_{network}"
    if transport in types and len(ports) == PORT_BYTES:
        return transport, addresses + ports
    return (network, addresses) if network in types else NOT_HASHED
