"""The frame codec against scapy, tshark, zlib, published frames and itself."""

import json
import random
import shutil
import subprocess
import warnings
import zlib

import pytest

from sim.wire import headers, opcodes
from sim.wire.build import Packet, build, reseal
from sim.wire.capture import read_capture
from sim.wire.codec import RDMA_KINDS, gid_bytes, parse
from sim.wire.icrc import icrc
from sim.workload.random_rc import generate
from tests.golden_replay import CAPTURES, SHARED

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from scapy.contrib.mac_control import MACControlClassBasedFlowControl, MACControlPause
    from scapy.contrib.roce import AETH, BTH
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Dot1Q, Ether

FIRST = CAPTURES / "first.pcap"
VECTORS = SHARED / "public" / "vectors.json"
TSHARK_FIELDS = {
    "opcode": "infiniband.bth.opcode", "se": "infiniband.bth.se", "m": "infiniband.bth.m",
    "pad": "infiniband.bth.padcnt", "tver": "infiniband.bth.tver",
    "pkey": "infiniband.bth.p_key", "dqpn": "infiniband.bth.destqp",
    "ackreq": "infiniband.bth.a", "psn": "infiniband.bth.psn"}
TSHARK_EXTENSIONS = {
    ("reth", "va"): "infiniband.reth.va", ("reth", "rkey"): "infiniband.reth.r_key",
    ("reth", "length"): "infiniband.reth.dmalen", ("aeth", "msn"): "infiniband.aeth.msn"}


def roce_frames(path=FIRST):
    return [(number, frame.data) for number, frame in enumerate(read_capture(path), 1)
            if parse(frame.data)["kind"] in RDMA_KINDS]


def random_packets(count, seed=1):
    """Valid packets of every opcode of the table."""
    rng = random.Random(seed)
    for index in range(count):
        opcode, entry = list(opcodes.OPCODES.items())[index % len(opcodes.OPCODES)]
        length = 0 if entry.payload is opcodes.Payload.NONE else rng.randint(1, 300)
        extensions = {name: {field: rng.getrandbits(bits) for field, bits in
                             headers.EXTENSIONS[name] if field} for name in entry.headers}
        ipv4 = rng.random() < 0.5
        gids = [gid_bytes("10.0.0.1")[:15] + rng.randbytes(1) if ipv4 else rng.randbytes(16)
                for _ in range(2)]
        bth = {name: rng.getrandbits(bits) for name, bits in headers.BTH if name}
        yield Packet(
            dst=rng.randbytes(6), src=rng.randbytes(6),
            vlan=tuple(rng.getrandbits(16) for _ in range(rng.randint(0, 2))),
            network="ipv4" if ipv4 else rng.choice(("ipv6", "roce1")), sgid=gids[0],
            dgid=gids[1], tclass=rng.getrandbits(8), flow_label=rng.getrandbits(20),
            hop_limit=rng.getrandbits(8), identification=rng.getrandbits(16),
            sport=rng.getrandbits(16), extensions=extensions, payload=rng.randbytes(length),
            bth={**bth, "opcode": opcode, "tver": 0, "pad": -length % 4})


def test_what_is_built_is_parsed_again():
    for packet in random_packets(400):
        report = parse(build(packet))
        assert report["error"] is None and report["icrc_ok"]
        kind = "roce1" if packet.network == "roce1" else "roce2"
        assert report["kind"] in (kind, "cnp" if packet.bth["opcode"] == opcodes.CNP else kind)
        assert report["bth"] == packet.bth
        assert report["payload"] == packet.payload
        assert report["eth"]["vlan"] == [tci & 0xFFF for tci in packet.vlan]
        for name, values in packet.extensions.items():
            if name != "cnp":
                assert report[name] == values


def test_every_flipped_bit_that_the_icrc_covers_is_found():
    frame = build(Packet(bth={"opcode": opcodes.WRITE_ONLY, "dqpn": 5, "psn": 9}, payload=b"abc",
                         extensions={"reth": {"va": 1 << 40, "rkey": 7, "length": 3}}))
    free = {*range(0, 14), 15, 22, 24, 25, 40, 41, 46}  # Ethernet; changed on the way
    for position in range(15, len(frame)):  # byte 14 has the header's length: another packet
        for bit in range(8):
            spoilt = bytearray(frame)
            spoilt[position] ^= 1 << bit
            good = icrc(bytes(spoilt[14:-4])) == spoilt[-4:]
            assert good == (position in free), (position, bit)


def test_resealing_makes_the_icrc_right():
    frame = bytearray(build(Packet(bth={"opcode": opcodes.SEND_ONLY}, payload=b"abcd")))
    frame[-6] ^= 1
    assert parse(bytes(frame))["error"] == "icrc"
    assert parse(reseal(bytes(frame)))["error"] is None


# MAC control

MAC_CONTROL_DST = "01:80:c2:00:00:01"


def mac_control_frames(count, seed=1):
    """(what they hold, frame) of random PAUSE and PFC frames as scapy builds them."""
    rng = random.Random(seed)
    for number in range(count):
        below = Ether(dst=MAC_CONTROL_DST, src="02:00:00:00:00:01")
        if number % 5 == 4:
            below /= Dot1Q(vlan=rng.randrange(4096))
        if number % 2:
            time = rng.choice((0, 0xFFFF, rng.getrandbits(16)))
            yield {"pause": {"time": time}}, bytes(below / MACControlPause(pause_time=time))
        else:
            enable = rng.choice((0, 0xFF, rng.getrandbits(8)))
            times = [rng.choice((0, 0xFFFF, rng.getrandbits(16))) for _ in range(8)]
            fields = {f"c{n}_enabled": enable >> n & 1 for n in range(8)}
            fields |= {f"c{n}_pause_time": time for n, time in enumerate(times)}
            yield {"pfc": {"enable": enable, "times": times}}, bytes(
                below / MACControlClassBasedFlowControl(_reserved=rng.getrandbits(8), **fields))


def test_mac_control_frames_of_scapy():
    for held, frame in mac_control_frames(300):
        assert len(frame) == 60  # without FCS
        report = parse(frame)
        (kind, fields), = held.items()
        assert (report["kind"], report["error"], report[kind]) == (kind, None, fields)
        assert ("pause" in report, "pfc" in report) == (kind == "pause", kind == "pfc")


def test_mac_control_cut_at_every_byte():
    needed = {"pause": 4, "pfc": 20}
    for held, frame in mac_control_frames(10):
        (kind, fields), = held.items()
        start = 18 if frame[12:14] == b"\x81\x00" else 14
        for size in range(14, len(frame)):
            report = parse(frame[:size])
            if size < start + 2:
                assert (report["kind"], report["error"]) == ("other", None)
            elif size < start + needed[kind]:
                assert (report["kind"], report["error"]) == (kind, "truncated")
                assert kind not in report
            else:
                assert (report["error"], report[kind]) == (None, fields)


def test_other_faults_of_mac_control_come_first():
    _, frame = next(mac_control_frames(1))
    assert parse(frame, mac_error=True)["error"] == "mac_error"
    assert parse(frame[:20], mac_error=True)["error"] == "mac_error"
    assert parse(frame + bytes(9157))["error"] == "oversize"
    assert parse(frame[:13])["error"] == "runt"
    assert parse(frame[:20], max_frame=19)["error"] == "oversize"


def test_other_mac_control_opcodes_are_other():
    for opcode in (0x0000, 0x0002, 0x0006, 0x0100, 0x0102, 0xFFFE):
        report = parse(bytes(12) + b"\x88\x08" + opcode.to_bytes(2, "big") + bytes(44))
        assert (report["kind"], report["error"]) == ("other", None)


@pytest.mark.skipif(not VECTORS.exists(), reason="the published frames are not here")
def test_published_mac_control_frames():
    compared = 0
    for vector in json.loads(VECTORS.read_text()):
        expected = vector["expected_fields"]
        report = parse(bytes.fromhex(vector["hex"]))
        if "quanta" in expected:
            assert report["pause"] == {"time": expected["quanta"]}, vector["name"]
            assert (report["kind"], report["error"]) == ("pause", None)
        elif "cev" in expected:
            enable = int(expected["cev"], 16)
            assert report["pfc"] == {"enable": enable, "times": expected["times"]}
            assert (report["kind"], report["error"]) == ("pfc", None)
        else:
            continue
        compared += 1
    assert compared == 5


# Third opinions


def crc_by_hand(frame):
    """ICRC of an untagged RoCEv2 frame over IPv4, written out (IBTA A17.3.3)."""
    ip, udp, bth = bytearray(frame[14:34]), bytearray(frame[34:42]), bytearray(frame[42:-4])
    ip[1] = ip[8] = ip[10] = ip[11] = 0xFF
    udp[6] = udp[7] = bth[4] = 0xFF
    return zlib.crc32(b"\xff" * 8 + ip + udp + bth)


@pytest.mark.parametrize("suite", ["first", "rnr"])
def test_icrcs_of_linux_are_right(suite):
    frames = roce_frames(CAPTURES / f"{suite}.pcap")
    assert len(frames) > 300
    for _, data in frames:
        report = parse(data)
        assert report["error"] is None and report["icrc_ok"] is True
        assert crc_by_hand(data) == int.from_bytes(data[-4:], "little")


@pytest.mark.parametrize("network", ["ipv4", "ipv6"])
def test_scapy_agrees_with_built_frames(network):
    packets = [packet for packet in random_packets(600, seed=2)
               if packet.network == network and not packet.vlan and packet.bth["opcode"] != 0x81]
    assert len(packets) > 40
    for packet in packets:
        data = build(packet)
        layers = Ether(data)
        bth = layers[BTH]
        assert bth.icrc == int.from_bytes(data[-4:], "big")
        assert bth.compute_icrc(bytes(bth)[:-4]) == data[-4:]
        assert (bth.opcode, bth.solicited, bth.migreq, bth.padcount, bth.version, bth.pkey,
                bth.fecn, bth.becn, bth.dqpn, bth.ackreq, bth.psn) == tuple(
            packet.bth[name] for name in ("opcode", "se", "m", "pad", "tver", "pkey", "fecn",
                                          "becn", "dqpn", "ackreq", "psn"))
        outer = layers[IP] if network == "ipv4" else layers[IPv6]
        if network == "ipv4":
            assert (outer.tos, outer.ttl, outer.id) == (
                packet.tclass, packet.hop_limit, packet.identification)
        else:
            assert (outer.tc, outer.fl, outer.hlim) == (
                packet.tclass, packet.flow_label, packet.hop_limit)


def test_scapy_agrees_with_parsed_frames():
    for _, data in roce_frames():
        report, bth = parse(data), Ether(data)[BTH]
        assert (bth.opcode, bth.solicited, bth.migreq, bth.padcount, bth.pkey, bth.dqpn,
                bth.ackreq, bth.psn) == tuple(
            report["bth"][name] for name in ("opcode", "se", "m", "pad", "pkey", "dqpn",
                                             "ackreq", "psn"))
        if AETH in bth:
            assert (bth[AETH].syndrome, bth[AETH].msn) == (
                report["aeth"]["syndrome"], report["aeth"]["msn"])


def tshark(path, fields):
    """{frame number: {field: text}} of the InfiniBand frames."""
    command = ["tshark", "-r", str(path), "-Y", "infiniband", "-T", "fields", "-E", "occurrence=f",
               "-e", "frame.number"]
    for field in fields:
        command += ["-e", field]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in out.splitlines()]
    return {int(row[0]): dict(zip(fields, row[1:], strict=True)) for row in rows}


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_agrees():
    fields = [*TSHARK_FIELDS.values(), *TSHARK_EXTENSIONS.values(), "infiniband.invariant.crc"]
    rows = tshark(FIRST, fields)
    frames = dict(roce_frames())
    assert rows.keys() == frames.keys() and len(rows) == 396
    icrcs = 0
    for number, row in rows.items():
        report = parse(frames[number])
        for name, field in TSHARK_FIELDS.items():
            assert number_of(row[field]) == report["bth"][name], (number, name)
        for (header, name), field in TSHARK_EXTENSIONS.items():
            expected = report.get(header, {}).get(name)
            assert (number_of(row[field]) if row[field] else None) == expected, (number, name)
        if row["infiniband.invariant.crc"]:  # it shows none after a payload it takes for another
            crc = number_of(row["infiniband.invariant.crc"])
            assert crc.to_bytes(4, "big") == frames[number][-4:], number
            icrcs += 1
    assert icrcs > 300


def number_of(text):
    return {"True": 1, "False": 0}[text] if text in ("True", "False") else int(text, 0)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_agrees_on_random_traffic(tmp_path):
    """Our own requests over IPv4 and IPv6, tagged and padded, as tshark reads them."""
    from sim.wire.capture import CapturedFrame, write_capture
    frames = generate(seed=11, frames=300, fault_share=0).frames
    path = tmp_path / "random.pcap"
    write_capture(path, [CapturedFrame(frame.data, 1000 * frame.number) for frame in frames])
    rows = tshark(path, list(TSHARK_FIELDS.values()))
    assert len(rows) == 300
    for frame in frames:
        report = parse(frame.data)
        for name, field in TSHARK_FIELDS.items():
            assert number_of(rows[frame.number][field]) == report["bth"][name]


@pytest.mark.skipif(not VECTORS.exists(), reason="the published frames are not here")
def test_published_frames():
    compared = 0
    for vector in json.loads(VECTORS.read_text()):
        expected = vector["expected_fields"]
        report = parse(bytes.fromhex(vector["hex"]))
        if report["kind"] not in RDMA_KINDS:
            continue
        assert report["bth"]["opcode"] == int(expected["opcode"], 16), vector["name"]
        for name in ("se", "dqpn", "psn", "ackreq", "fecn", "becn"):
            if name in expected:
                assert report["bth"][name] == expected[name], (vector["name"], name)
        if vector["icrc_verifies"]:
            assert report["error"] is None and report["icrc_ok"], vector["name"]
        else:
            assert report["error"] is not None, vector["name"]
        compared += 1
    assert compared >= 12
