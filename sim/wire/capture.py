"""Capture files: pcap and pcapng, plain or gzip'd, Ethernet only, whole frames only.

A file that is damaged anywhere is refused, never read up to the damage: a replay of half a capture
would look like a pass.
"""

import gzip
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

GZIP_MAGIC = b"\x1f\x8b"
PCAP_MAGIC = {  # magic as it stands in the file: byte order, nanoseconds in a tick
    b"\xa1\xb2\xc3\xd4": (">", 1000), b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1), b"\x4d\x3c\xb2\xa1": ("<", 1),
}
SECTION_HEADER, INTERFACE, OLD_PACKET, SIMPLE_PACKET, ENHANCED_PACKET = 0x0A0D0D0A, 1, 2, 3, 6
SECTION_MAGIC = 0x1A2B3C4D
IF_TSRESOL = 9

ETHERNET = 1
LINK_TYPES = {
    0: "BSD loopback", 6: "Token Ring", 8: "SLIP", 9: "PPP", 10: "FDDI", 12: "raw IP",
    50: "PPP over serial", 101: "raw IP", 104: "Cisco HDLC", 105: "802.11", 107: "Frame Relay",
    108: "OpenBSD loopback", 113: "Linux cooked v1 (any interface)", 119: "802.11 Prism",
    127: "802.11 radiotap", 187: "Bluetooth", 189: "Linux USB", 195: "802.15.4", 197: "ERF",
    201: "Bluetooth", 220: "Linux USB", 228: "raw IPv4", 229: "raw IPv6", 247: "InfiniBand",
    249: "USBPcap", 253: "Linux netlink", 274: "Ethernet with preamble and delimiter",
    276: "Linux cooked v2 (any interface)",
}


class CaptureError(ValueError):
    """A file that is no usable capture; the text is one line with the remedy."""


class CapturedFrame(NamedTuple):
    data: bytes
    time_ns: int


class _Damage(ValueError):
    """What is wrong, not yet with the name of the file."""


def read_capture(path: str | Path) -> list[CapturedFrame]:
    """Every frame of the capture, in file order."""
    try:
        data = _content(path)
        frames = list(_frames(data))
        if not frames:
            raise _Damage("the capture holds no frames; capture while there is traffic")
    except _Damage as damage:
        raise CaptureError(f"{path}: {damage}") from None
    return frames


def write_capture(path: str | Path, frames: Iterable[CapturedFrame]) -> None:
    """A pcap with nanosecond times."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, ETHERNET))
        for data, time_ns in frames:
            seconds, nanos = divmod(time_ns, 10**9)
            file.write(struct.pack("<4I", seconds, nanos, len(data), len(data)) + data)


def _content(path: str | Path) -> bytes:
    try:
        data = Path(path).read_bytes()
        if data.startswith(GZIP_MAGIC):
            data = gzip.decompress(data)
    except FileNotFoundError:
        raise _Damage("no such file; give the path of a pcap or pcapng capture") from None
    except EOFError:
        raise _Damage("the gzip file ends too early; fetch it again") from None
    except (gzip.BadGzipFile, zlib.error):
        raise _Damage("the gzip file is damaged; fetch it again") from None
    except OSError as error:
        raise _Damage(f"cannot be read ({error.strerror}); "
                      "give the path of a pcap or pcapng capture") from None
    if not data:
        raise _Damage("the file is empty; give a pcap or pcapng capture")
    return data


def _frames(data: bytes) -> Iterator[CapturedFrame]:
    if data[:4] in PCAP_MAGIC:
        return _pcap(data)
    if data[:4] == SECTION_HEADER.to_bytes(4, "big"):
        return _pcapng(data)
    raise _Damage("no capture (neither pcap nor pcapng); save it with tcpdump -w or Wireshark")


def _pcap(data: bytes) -> Iterator[CapturedFrame]:
    order, tick = PCAP_MAGIC[data[:4]]
    if len(data) < 24:
        raise _Damage("truncated in the file header; fetch the file again")
    _check_link(struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF)  # above: FCS length
    offset, number = 24, 1
    while offset < len(data):
        if offset + 16 > len(data):
            raise _truncated(number)
        seconds, ticks, held, wire = struct.unpack_from(order + "4I", data, offset)
        offset += 16
        if offset + held > len(data):
            raise _truncated(number)
        _check_whole(number, held, wire)
        yield CapturedFrame(data[offset:offset + held], seconds * 10**9 + ticks * tick)
        offset += held
        number += 1


class _Interface(NamedTuple):
    link: int
    snap: int
    ticks_per_second: int


def _pcapng(data: bytes) -> Iterator[CapturedFrame]:
    interfaces: list[_Interface] = []
    number = 1
    for order, kind, body in _blocks(data):
        try:
            if kind == SECTION_HEADER:
                interfaces = []  # interfaces are numbered within their section
            elif kind == INTERFACE:
                interfaces.append(_interface(order, body))
            elif kind in (ENHANCED_PACKET, SIMPLE_PACKET, OLD_PACKET):
                yield _packet(order, kind, body, interfaces, number)
                number += 1
        except (struct.error, IndexError):
            raise _Damage(f"damaged at frame {number}; fetch the file again") from None


def _blocks(data: bytes) -> Iterator[tuple[str, int, bytes]]:
    """(byte order, type, body) of each block; its length stands at both ends."""
    order, offset = "<", 0
    while offset < len(data):
        if offset + 12 > len(data):
            raise _Damage("truncated between blocks; fetch the file again")
        if data[offset:offset + 4] == SECTION_HEADER.to_bytes(4, "big"):
            magic = data[offset + 8:offset + 12]
            if magic not in (SECTION_MAGIC.to_bytes(4, "big"), SECTION_MAGIC.to_bytes(4, "little")):
                raise _Damage("damaged section header; fetch the file again")
            order = ">" if magic == SECTION_MAGIC.to_bytes(4, "big") else "<"
        kind, length = struct.unpack_from(order + "2I", data, offset)
        if length < 12 or length % 4:
            raise _Damage(f"damaged block at byte {offset}; fetch the file again")
        if offset + length > len(data):
            raise _Damage(f"truncated in the block at byte {offset}; fetch the file again")
        if struct.unpack_from(order + "I", data, offset + length - 4)[0] != length:
            raise _Damage(f"damaged block at byte {offset}; fetch the file again")
        yield order, kind, data[offset + 8:offset + length - 4]
        offset += length


def _interface(order: str, body: bytes) -> _Interface:
    link, snap = struct.unpack_from(order + "HxxI", body)
    ticks, offset = 10**6, 8
    while offset + 4 <= len(body):
        code, length = struct.unpack_from(order + "2H", body, offset)
        if code == 0:
            break
        if code == IF_TSRESOL:
            exponent = body[offset + 4]
            ticks = 2 ** (exponent & 0x7F) if exponent & 0x80 else 10 ** exponent
        offset += 4 + length + -length % 4
    return _Interface(link, snap, ticks)


def _packet(order: str, kind: int, body: bytes, interfaces: list[_Interface],
            number: int) -> CapturedFrame:
    if kind == SIMPLE_PACKET:
        wire, = struct.unpack_from(order + "I", body)
        interface, start, ticks = interfaces[0], 4, 0
        held = min(wire, interface.snap or wire)  # a snap length of 0 means no limit
    else:
        form = "5I" if kind == ENHANCED_PACKET else "Hxx4I"
        index, high, low, held, wire = struct.unpack_from(order + form, body)
        interface, start, ticks = interfaces[index], 20, high << 32 | low
    _check_link(interface.link)
    if start + held > len(body):
        raise _truncated(number)
    _check_whole(number, held, wire)
    return CapturedFrame(body[start:start + held], ticks * 10**9 // interface.ticks_per_second)


def _truncated(number: int) -> _Damage:
    return _Damage(f"truncated in frame {number}; fetch the file again")


def _check_link(link: int) -> None:
    if link != ETHERNET:
        name = LINK_TYPES.get(link, "unknown")
        raise _Damage(f"link type {link} ({name}) is not Ethernet; "
                      "capture on an Ethernet interface")


def _check_whole(number: int, held: int, wire: int) -> None:
    if held < wire:
        raise _Damage(f"frame {number} was cut to {held} of {wire} bytes; "
                      "capture again with a longer snap length (tcpdump -s 0)")
