"""Capture files: every form that is read, every damage that is refused in one line."""

import gzip
import random
import shutil
import struct
import subprocess

import pytest

from sim.wire.capture import (
    LINK_TYPES,
    CapturedFrame,
    CaptureError,
    read_capture,
    write_capture,
)
from tests.golden_replay import CAPTURES, SHARED

FRAMES = [CapturedFrame(bytes([n]) * size, 10**9 * n + 1000 * n)
          for n, size in enumerate((60, 61, 62, 63, 1514), 1)]
ERF = SHARED / "public" / "wswiki_infiniband_erf.pcap"


def pcap(frames=FRAMES, order="<", link=1, nanoseconds=False):
    magic, tick = (0xA1B23C4D, 1) if nanoseconds else (0xA1B2C3D4, 1000)
    data = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    for frame in frames:
        seconds, nanos = divmod(frame.time_ns, 10**9)
        data += struct.pack(order + "4I", seconds, nanos // tick, len(frame.data),
                            len(frame.data)) + frame.data
    return data


def block(kind, body, order="<"):
    body += bytes(-len(body) % 4)
    length = len(body) + 12
    return struct.pack(order + "2I", kind, length) + body + struct.pack(order + "I", length)


def section(order="<"):
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link=1, snap=0, resolution=None, order="<"):
    options = b"" if resolution is None else struct.pack(
        order + "2HB3x2H", 9, 1, resolution, 0, 0)
    return block(1, struct.pack(order + "HHI", link, 0, snap) + options, order)


def pcapng(frames=FRAMES, order="<", link=1, kind=6):
    data = section(order) + interface(link, order=order)
    for frame in frames:
        size = len(frame.data)
        ticks = divmod(frame.time_ns // 1000, 1 << 32)
        fixed = {6: struct.pack(order + "5I", 0, *ticks, size, size),
                 3: struct.pack(order + "I", size),
                 2: struct.pack(order + "2H4I", 0, 0, *ticks, size, size)}[kind]
        data += block(kind, fixed + frame.data, order)
    return data


FORMS = {
    "pcap": pcap(), "big-endian pcap": pcap(order=">"), "nanoseconds": pcap(nanoseconds=True),
    "pcapng": pcapng(), "big-endian pcapng": pcapng(order=">"), "simple packets": pcapng(kind=3),
    "old packets": pcapng(kind=2), "FCS length in the link type": pcap(link=0x14000001),
    "unknown blocks": pcapng() + block(0x0BAD, b"abc") + block(4, bytes(4)),
}


def load(tmp_path, data, name="some.capture"):
    path = tmp_path / name
    path.write_bytes(data)
    return read_capture(path)


def refusal(tmp_path, data):
    with pytest.raises(CaptureError) as caught:
        load(tmp_path, data)
    text = str(caught.value)
    assert "\n" not in text and text.startswith(str(tmp_path / "some.capture") + ": ")
    return text.partition(": ")[2]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_plain_and_compressed(tmp_path, form):
    data = FORMS[form]
    frames = [frame.data for frame in FRAMES]
    assert [frame.data for frame in load(tmp_path, data)] == frames
    read = load(tmp_path, gzip.compress(data))
    assert [frame.data for frame in read] == frames
    if form != "simple packets":  # they carry no time
        assert read == FRAMES


@pytest.mark.parametrize("name", ["plain.gz", "compressed.pcap", "no suffix", "x.pcapng"])
def test_content_counts_and_not_the_name(tmp_path, name):
    assert load(tmp_path, pcap(), name) == FRAMES
    assert load(tmp_path, gzip.compress(pcap()), name) == FRAMES
    assert load(tmp_path, gzip.compress(pcapng()), name) == FRAMES


def test_gzip_in_several_members(tmp_path):
    data = pcap()
    assert load(tmp_path, gzip.compress(data[:77]) + gzip.compress(data[77:])) == FRAMES


def test_sections_number_their_interfaces_anew(tmp_path):
    two = section() + interface(105) + interface() + pcapng()
    assert load(tmp_path, two) == FRAMES
    assert load(tmp_path, pcapng(order=">") + pcapng()) == FRAMES * 2


@pytest.mark.parametrize(("resolution", "ticks"), [(6, 10**6), (9, 10**9), (0x80 | 20, 1 << 20)])
def test_time_resolution(tmp_path, resolution, ticks):
    data = section() + interface(resolution=resolution)
    data += block(6, struct.pack("<5I", 0, 0, ticks // 2, 60, 60) + bytes(60))
    assert [frame.time_ns for frame in load(tmp_path, data)] == [5 * 10**8]


@pytest.mark.parametrize("link", [*(n for n in LINK_TYPES), 300])
@pytest.mark.parametrize("form", [pcap, pcapng])
def test_other_link_types_are_refused_by_name(tmp_path, link, form):
    name = LINK_TYPES.get(link, "unknown")
    expected = f"link type {link} ({name}) is not Ethernet; capture on an Ethernet interface"
    for data in (form(link=link), gzip.compress(form(link=link))):
        assert refusal(tmp_path, data) == expected


@pytest.mark.skipif(not ERF.exists(), reason="the public captures are not here")
def test_native_infiniband_is_refused():
    with pytest.raises(CaptureError, match="link type 197 \\(ERF\\) is not Ethernet"):
        read_capture(ERF)


def borders(data, form):
    """Lengths at which the file is a shorter capture rather than a damaged one."""
    if form is pcap:
        ends, at = set(), 24
        for frame in FRAMES:
            at += 16 + len(frame.data)
            ends.add(at)
        return ends
    ends, at = set(), 0
    while at < len(data):
        at += struct.unpack_from("<I", data, at + 4)[0]
        ends.add(at)
    return ends


@pytest.mark.parametrize("form", [pcap, pcapng])
def test_cut_at_every_byte(tmp_path, form):
    data = form()
    whole = borders(data, form)
    for size in range(len(data)):
        if size in whole and size > 60:
            assert load(tmp_path, data[:size])
        else:
            assert refusal(tmp_path, data[:size])
    packed = gzip.compress(data)
    for size in range(len(packed)):
        assert refusal(tmp_path, packed[:size])


def test_frames_cut_by_the_snap_length(tmp_path):
    expected = ("frame 1 was cut to 60 of 90 bytes; "
                "capture again with a longer snap length (tcpdump -s 0)")
    cut = struct.pack("<IHHiIII4I", 0xA1B2C3D4, 2, 4, 0, 0, 60, 1, 0, 0, 60, 90) + bytes(60)
    assert refusal(tmp_path, cut) == expected
    cut = section() + interface(snap=60)
    assert refusal(tmp_path, cut + block(3, struct.pack("<I", 90) + bytes(60))) == expected
    enhanced = block(6, struct.pack("<5I", 0, 0, 0, 60, 90) + bytes(60))
    assert refusal(tmp_path, cut + enhanced) == expected


@pytest.mark.parametrize(("data", "expected"), [
    (b"", "the file is empty"), (b"#!/bin/sh\n", "no capture"), (pcap([]), "holds no frames"),
    (section() + interface(), "holds no frames"),
    (gzip.compress(b"", mtime=0), "the file is empty"),  # no time in a test's name
    (gzip.compress(b"text", mtime=0), "no capture"), (b"\x1f\x8b\x08garbage", "the gzip file"),
    (section() + block(6, bytes(20)), "damaged at frame 1"),  # of an interface that is not there
    (section()[:-1] + b"\1", "damaged block at byte 0"),
    (block(0x0A0D0D0A, b"abcdefgh"), "damaged section header"),
    (section() + interface() + block(6, struct.pack("<5I", 0, 0, 0, 100, 100)),
     "truncated in frame 1"),
])
def test_what_is_no_capture(tmp_path, data, expected):
    assert refusal(tmp_path, data).startswith(expected) or expected in refusal(tmp_path, data)


def test_damage_anywhere_never_raises_anything_else(tmp_path):
    rng = random.Random(1)
    messages = []
    for _ in range(1500):
        data = bytearray(rng.choice((pcap(), pcapng(), pcapng(order=">"),
                                     gzip.compress(pcap()), gzip.compress(pcapng()))))
        for _ in range(rng.choice((1, 1, 5))):
            data[rng.randrange(min(len(data), 400))] = rng.getrandbits(8)
        try:
            load(tmp_path, bytes(data))
        except CaptureError as error:
            messages.append(str(error))
    assert len(messages) > 500
    assert not any("\n" in message for message in messages)


def test_what_is_written_is_read(tmp_path):
    write_capture(tmp_path / "out.pcap", FRAMES)
    assert read_capture(tmp_path / "out.pcap") == FRAMES


@pytest.mark.skipif(shutil.which("editcap") is None, reason="editcap is not installed")
@pytest.mark.parametrize("form", ["pcap", "nsecpcap", "pcapng"])
def test_files_of_editcap(tmp_path, form):
    path = CAPTURES / "first.pcap"
    subprocess.run(["editcap", "-F", form, str(path), str(tmp_path / "out")], check=True)
    assert read_capture(tmp_path / "out") == read_capture(path)
