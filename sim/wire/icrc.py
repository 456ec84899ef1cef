"""Invariant CRC: the IEEE 802.3 CRC-32 over what no router may change (IBTA vol. 1, 7.8.1; A17)."""

import zlib

BTH_BYTES = 12
GRH_BYTES = 40
UDP_BYTES = 8


def icrc(packet: bytes) -> bytes:
    """The four ICRC bytes, in wire order, of `packet`: IP header or GRH up to the last pad byte.

    Fields that change on the way count as all ones, and eight bytes of ones stand for the local
    route header that Ethernet has not.
    """
    masked = bytearray(packet)
    if packet[0] >> 4 == 4:
        udp = 4 * (packet[0] & 15)
        masked[1] = masked[8] = 0xFF  # type of service, time to live
        masked[10:12] = b"\xff\xff"  # header checksum
    else:
        udp = GRH_BYTES
        masked[0] |= 0x0F  # traffic class and flow label
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF  # hop limit
    if packet[0] >> 4 == 6 and packet[6] == 0x1B:  # GRH: the transport header follows at once
        bth = GRH_BYTES
    else:
        bth = udp + UDP_BYTES
        masked[udp + 6:udp + 8] = b"\xff\xff"  # UDP checksum
    masked[bth + 4] = 0xFF  # FECN, BECN and six reserved bits
    return zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")
