"""A capture with its truth file as a scenario: host A is the NIC."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sim.golden.layout import Kind, MrAccess, QpAccess, QpContext, QpFlags, Service, State
from sim.wire.codec import gid_bytes, mac_bytes
from sim.workload.host_setup import PD, HostSetup, Receive
from sim.workload.scenario import Frame, Range, Region, Scenario
from sim.workload.traffic import (
    Manner,
    Seen,
    WqeUse,
    addressed_to,
    read_traffic,
    wqe_uses,
)
from sim.workload.truth import Truth, TruthError, misfit, read_truth

MTU_CODE = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
QP_ACCESS = {"rw": QpAccess.WRITE, "rr": QpAccess.READ, "ra": QpAccess.ATOMIC}
MR_ACCESS = {"lw": MrAccess.LOCAL_WRITE, "rw": MrAccess.REMOTE_WRITE,
             "rr": MrAccess.REMOTE_READ, "ra": MrAccess.REMOTE_ATOMIC}
DEFAULT_PKEY = 0xFFFF
DEFAULT_SPORT = 0xC000
DEFAULT_HOP_LIMIT = 64


def from_truth(capture_path: str | Path, truth_path: str | Path | None = None,
               entry_bytes: int = 256) -> Scenario:
    """Host A's side of the capture, its contexts, keys, queues and memory as the truth has them.

    Raises CaptureError or TruthError.
    """
    capture_path = Path(capture_path)
    truth = read_truth(truth_path or capture_path.with_suffix(".json"))
    traffic = read_traffic(capture_path)
    try:
        return _scenario(capture_path.stem, truth, traffic, entry_bytes)
    except TruthError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError,
            struct.error) as error:
        raise misfit(truth.path, error) from None


def _scenario(name: str, truth: Truth, traffic: list[Seen], entry_bytes: int) -> Scenario:
    _check_fit(truth, traffic)
    setup = HostSetup(entry_bytes)
    _add_regions(setup, truth)
    notes: list[str] = []
    for connection in truth.fields["connections"]:
        _add_connection(setup, truth, connection, traffic, notes)
    received = addressed_to(traffic, truth.mac("A"))
    settings = setup.finish()
    return Scenario(
        name=name, source="truth", notes=notes,
        frames=[Frame(seen.number, seen.data) for seen in received],
        answers=[Frame(seen.number, seen.data) for seen in _sent(truth, traffic, "A")
                 if seen.is_answer],
        memory=setup.memory, settings=settings,
        regions=[Region(region.id, region.va, region.length, region.final)
                 for region in truth.regions],
        not_ours=list(_landings(truth)), posts=setup.posts,
        qpns=sorted(connection["A"]["qpn"] for connection in truth.fields["connections"]),
        entry_bytes=entry_bytes)


def _check_fit(truth: Truth, traffic: list[Seen]) -> None:
    told = truth.fields["capture"]["frames"]
    if told != len(traffic):
        raise TruthError(f"{truth.path}: tells of {told} frames, the capture has {len(traffic)}; "
                         "give the truth file that was made with this capture")
    own = mac_bytes(truth.mac("A"))
    if not any(seen.data.startswith(own) for seen in traffic):
        raise TruthError(f"{truth.path}: no frame of the capture is addressed to host A "
                         f"({truth.mac('A')}); give the truth file that was made with this capture")


def _add_regions(setup: HostSetup, truth: Truth) -> None:
    """Regions lie at bus addresses equal to their virtual ones, so aliases stay aliases."""
    for region in truth.regions:
        setup.memory.write(region.va, region.initial)
        for key in {region.lkey, region.rkey}:
            _add_key(setup, truth, key, region.va, region.length,
                     _access(region.access, MR_ACCESS, MrAccess(0)))
    qpns = {connection["id"]: connection["A"]["qpn"]
            for connection in truth.fields["connections"]}
    for window in truth.fields["memory_windows"]:
        if window["host"] == "A":
            access = _access(window["access"], MR_ACCESS, MrAccess(0))
            _add_key(setup, truth, window["rkey"], window["va"], window["length"], access,
                     Kind.WINDOW, qpns[window["conn"]])


def _add_key(setup: HostSetup, truth: Truth, key: int, va: int, length: int,
             access: MrAccess, kind: Kind = Kind.REGION, qpn: int = 0) -> None:
    if not setup.add_region(key, va, length, access, kind=kind, qpn=qpn):
        raise TruthError(f"{truth.path}: key {key} shares index {key >> 8} of the MPT with "
                         "another key of host A; capture again with keys that differ above bit 7")


def _landings(truth: Truth) -> Iterator[Range]:
    """Where host A's own READs and atomics put their results."""
    for connection in truth.fields["connections"]:
        for request in connection["work_requests"]:
            if request["host"] == "A" and request["op"] in ("READ", "CAS", "FAA"):
                yield Range(request["va"], request["va"] + request["length"])


def _access(text: str, names: dict[str, Any], none: Any) -> Any:
    for word in text.split():
        none |= names.get(word, 0)
    return none


def _add_connection(setup: HostSetup, truth: Truth, connection: dict[str, Any],
                    traffic: list[Seen], notes: list[str]) -> None:
    ours, theirs = connection["A"], connection["B"]
    sent = _sent(truth, traffic, "A", theirs["qpn"])
    manner = Manner.of(sent)
    if manner is None:
        notes.append(f"QP {ours['qpn']}: host A sent nothing on it; its UDP source port is taken "
                     f"as {DEFAULT_SPORT}, its hop limit as {DEFAULT_HOP_LIMIT}")
        manner = Manner(DEFAULT_SPORT, DEFAULT_HOP_LIMIT, 0, ours["traffic_class"], None)
    tci = _vlan_tci(connection, manner)
    flags = QpFlags(0)
    if connection["network"] == "v6":
        flags |= QpFlags.IPV6
    if tci is not None:
        flags |= QpFlags.VLAN
    context = QpContext(
        state=State.RTS, service=Service[connection["type"]],
        mtu=MTU_CODE[connection["path_mtu"]], flags=flags, pkey=DEFAULT_PKEY,
        access=_access(ours["access"], QP_ACCESS, QpAccess(0)),
        min_rnr_timer=ours.get("min_rnr_timer", 0), dest_qpn=ours.get("dest_qpn") or 0, pd=PD,
        qkey=ours.get("qkey") or 0, udp_sport=manner.udp_sport, vlan_tci=tci or 0,
        dmac=mac_bytes(truth.mac("B")), smac=mac_bytes(truth.mac("A")),
        tclass=ours["traffic_class"], hop_limit=manner.hop_limit,
        max_dest_rd_atomic=ours.get("max_dest_rd_atomic") or 0, flow_label=manner.flow_label,
        dip=gid_bytes(connection["ip"]["B"]), sip=gid_bytes(connection["ip"]["A"]),
        epsn=ours.get("rq_psn") or 0)
    requests = _sent(truth, traffic, "B", ours["qpn"])
    uses = wqe_uses(requests, sent, context.epsn)
    setup.add_qp(ours["qpn"], context, _receives(truth, connection, uses))


def _sent(truth: Truth, traffic: list[Seen], host: str, dqpn: int | None = None) -> list[Seen]:
    """RoCE packets of a host, to one QP or to all."""
    return [seen for seen in traffic
            if seen.is_roce2 and seen.report["eth"]["src"] == truth.mac(host)
            and dqpn in (None, seen.dqpn)]


def _vlan_tci(connection: dict[str, Any], manner: Manner) -> int | None:
    if manner.vlan_tci is not None:
        return manner.vlan_tci
    vlan = connection.get("vlan")
    if isinstance(vlan, dict):
        return vlan["pcp"] << 13 | vlan["vid"]
    return vlan or None


def _receives(truth: Truth, connection: dict[str, Any], uses: list[WqeUse]) -> list[Receive]:
    lkeys = {region.id: region.lkey for region in truth.regions}
    ours = [receive for receive in connection["receives"] if receive["host"] == "A"]
    return [Receive(index, receive["va"], receive["length"], lkeys[receive["mr"]],
                    _post_time(receive, uses[index] if index < len(uses) else None))
            for index, receive in enumerate(ours)]


def _post_time(receive: dict[str, Any], use: WqeUse | None) -> int:
    """The frame that a receive must be there for; 0 when it may have been there all the time.

    A barrier (posted_before_frame) comes before every request that needs the receive, so that
    such a one may lie there from the start: WQEs are used in order.
    """
    marker = receive.get("posted_just_before_frame")
    if marker is None or (use is not None and use.refusals == 0):
        return 0
    return marker if use is None or use.frame is None else use.frame
