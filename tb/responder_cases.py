"""Directed cases of the responder: for each row of docs/responder.md one that applies and its edge.

A case is (changes of the context, steps, what the last step does). A step is a packet (`P`) or a
function that changes host memory. The result is a drop reason, a syndrome, or None for silence.
"""

from dataclasses import dataclass, field
from typing import Any

from sim.golden.layout import Kind, MemoryRegion, MrAccess, QpContext, ReceiveWqe, Settings
from sim.golden.memory import HostMemory
from sim.wire import opcodes as op
from sim.wire.build import Packet, build
from sim.workload.host_setup import HostSetup, Receive

QPN, EPSN, MTU, QKEY = 5, 0x100, 256, 0x11223344
KEY, LOCAL, POOR, ALIEN = 0x1AB, 0x2CD, 0x3EF, 0x401
FAST, WINDOW, NOT_OURS = 0x502, 0x603, 0x704
VA, SIZE, BASE = 0x7000_0000_0100, 0x1000, 0x5000_0000
BUFFER = 0x6000_0000
PEER, SELF = bytes(10) + b"\xff\xff\x0a\0\0\x02", bytes(10) + b"\xff\xff\x0a\0\0\x01"
ACK, GAP, INVALID, ACCESS, REMOTE = 0x1F, 0x60, 0x61, 0x62, 0x63


@dataclass
class P:
    """A request; `psn` counts from the expected one at the start."""

    opcode: int
    size: int = 0
    psn: int = 0
    va: int = VA
    rkey: int = KEY
    length: int | None = None
    ackreq: int = 1
    swap: int = 3  # or what is added
    compare: int = 0
    invalidated: int = 0
    qkey: int = QKEY
    bth: dict[str, int] = field(default_factory=dict)
    other: dict[str, Any] = field(default_factory=dict)

    def frame(self, epsn: int) -> bytes:
        length = self.size if self.length is None else self.length
        payload = bytes((7 * self.psn + 3 * i + self.opcode) & 255 for i in range(self.size))
        return build(Packet(**{
            "dst": b"\2\0\0\0\0\1", "src": b"\2\0\0\0\0\2", "sgid": PEER, "dgid": SELF,
            "bth": {"opcode": self.opcode, "dqpn": QPN, "psn": (epsn + self.psn) % (1 << 24),
                    "ackreq": self.ackreq, **self.bth},
            "extensions": {"reth": {"va": self.va, "rkey": self.rkey, "length": length},
                           "atomiceth": {"va": self.va, "rkey": self.rkey, "swap": self.swap,
                                         "compare": self.compare},
                           "ieth": {"rkey": self.invalidated},
                           "deth": {"qkey": self.qkey, "sqpn": 0x55},
                           "immdt": {"imm": 0x01020304}},
            "payload": payload, **self.other}))


def world(changes: dict[str, Any], receives: int = 4, entry_bytes: int = 256
          ) -> tuple[HostMemory, Settings]:
    """The host before a case: one queue pair, four regions, posted receives of 1000 bytes."""
    setup = HostSetup(entry_bytes)
    full = MrAccess(15)
    setup.add_region(KEY, VA, SIZE, full, BASE)
    setup.add_region(LOCAL, BUFFER, 0x4000, MrAccess.LOCAL_WRITE, pd=1)
    setup.add_region(POOR, VA, SIZE, MrAccess(15 & ~2 & ~1), 0x5800_0000)
    setup.add_region(ALIEN, VA, SIZE, full, 0x5900_0000, pd=2)
    setup.add_region(FAST, VA, SIZE, full, BASE, kind=Kind.FAST_REGION)
    for key, qpn in ((WINDOW, QPN), (NOT_OURS, QPN + 1)):
        setup.add_region(key, VA, SIZE, full, BASE, kind=Kind.WINDOW, qpn=qpn)
    context = QpContext(**{
        "state": 3, "mtu": 1, "pkey": 0xFFFF, "access": 7, "max_dest_rd_atomic": 2,
        "min_rnr_timer": 9, "dest_qpn": 77, "pd": 1, "udp_sport": 0xC123,
        "dmac": b"\2\0\0\0\0\2", "smac": b"\2\0\0\0\0\1",
        "tclass": 0x6A, "hop_limit": 61, "dip": PEER, "sip": SELF, "epsn": EPSN, "msn": 0x55,
        **changes})
    posted = [Receive(900 + i, BUFFER + 1001 * i, 1000, LOCAL) for i in range(receives)]
    setup.add_qp(QPN, context, posted, completions=16)
    settings = setup.finish()
    return setup.memory, settings


def context_of(memory: HostMemory, settings: Settings) -> QpContext:
    return QpContext(memory.read(settings.qpc.base + QPN * 256, 256))


def region(key: int, **fields: int):
    """A step: change the region of `key`."""
    def change(memory: HostMemory, settings: Settings) -> None:
        address = settings.mpt.base + 64 * (key >> 8)
        entry = MemoryRegion(memory.read(address, 64))
        for name, value in fields.items():
            setattr(entry, name, value)
        memory.write(address, bytes(entry))
    return change


def wqe(ahead: int = 0, **fields: int):
    """A step: change the receive WQE that comes `ahead` of the next; `posted` sets its owner."""
    posted = fields.pop("posted", None)

    def change(memory: HostMemory, settings: Settings) -> None:
        context = context_of(memory, settings)
        index = (context.rq_consume + ahead) & 0xFFFFFFFF
        address = context.rq_base + 64 * (index % (1 << context.rq_log_size))
        entry = ReceiveWqe(memory.read(address, 64))
        if posted is not None:
            mine = ~index >> context.rq_log_size & 1
            entry.owner = mine if posted else mine ^ 1
        for name, value in fields.items():
            setattr(entry, name, value)
        memory.write(address, bytes(entry))
    return change


S1, SM, SL, SLI, SO, SOI = range(6)
W1, WM, WL, WLI, WO, WOI = range(6, 12)
SLV, SOV = op.SEND_LAST_INV, op.SEND_ONLY_INV
U, UC = op.UC, {"service": 1}
DO, DOI, UD = op.UD | SO, op.UD | SOI, {"service": 2, "qkey": QKEY}
V6 = {"network": "ipv6", "sgid": bytes(range(16)), "dgid": bytes(range(16, 32))}
RD, CS, FA = op.READ_REQUEST, op.CMP_SWAP, op.FETCH_ADD
FULL = MTU
OTHER = dict.fromkeys(("sgid",), bytes(15) + b"\1")
ABSENT = wqe(posted=False)


def _first(total: int, psn: int = 0) -> P:
    return P(W1, FULL, psn, length=total)


CASES: dict[str, tuple[dict[str, Any], list[Any], str | int | None]] = {
    "01_cnp": ({}, [P(op.CNP)], "cnp"),
    "01_roce1": ({}, [P(WO, 4, other={"network": "roce1"})], "service"),
    "02_outside": ({}, [P(WO, 4, bth={"dqpn": 8})], "no_qp"),
    "02_outside_far": ({}, [P(WO, 4, bth={"dqpn": 0xFFFFFF})], "no_qp"),
    "02_inside_unused": ({}, [P(WO, 4, bth={"dqpn": 7})], "qp_state"),
    "03_uc_opcode": ({}, [P(0x20 + SO, 4)], "service"),
    "03_uc_qp": ({"service": 1}, [P(SO, 4)], "service"),
    "03_before_04": ({"service": 1, "state": 6}, [P(SO, 4)], "service"),
    **{f"04_state_{s}": ({"state": s}, [P(WO, 4)], ACK if 2 <= s <= 5 else "qp_state")
       for s in range(8)},
    "05_differs": ({}, [P(WO, 4, bth={"pkey": 0xFFFE})], "pkey"),
    "05_both_limited": ({"pkey": 0x1234}, [P(WO, 4, bth={"pkey": 0x1234})], "pkey"),
    "05_we_full": ({"pkey": 0x9234}, [P(WO, 4, bth={"pkey": 0x1234})], ACK),
    "05_they_full": ({"pkey": 0x1234}, [P(WO, 4, bth={"pkey": 0x9234})], ACK),
    "06_source": ({}, [P(WO, 4, other={"sgid": SELF})], "address"),
    "06_destination": ({}, [P(WO, 4, other={"dgid": PEER})], "address"),
    **{f"07_opcode_{c:02x}": ({}, [P(c, 4 if c < 0x11 else 0)], "no_requester")
       for c in range(0x0D, 0x13)},
    "07_before_08": ({}, [P(op.ACK, psn=9)], "no_requester"),
    "08_one_ahead": ({}, [P(WO, 4, psn=1)], GAP),
    "08_far_ahead": ({}, [P(WO, 4, psn=(1 << 23) - 1)], GAP),
    "08_once": ({}, [P(WO, 4, psn=1), P(WO, 4, psn=2)], "psn_gap"),
    "08_again_after_progress": ({}, [P(WO, 4, psn=1), P(WO, 4), P(WO, 4, psn=2)], GAP),
    "08_wrap": ({"epsn": 0xFFFFFF}, [P(WO, 4, psn=1)], GAP),
    "09_last": ({}, [P(WO, 4, psn=-1)], ACK),
    "09_oldest": ({}, [P(SO, 4, psn=-(1 << 23))], ACK),
    "09_wrap": ({"epsn": 0}, [P(WO, 4, psn=-1)], ACK),
    "09_no_ackreq": ({}, [P(SM, FULL, psn=-3, ackreq=0)], ACK),
    "09_keeps_r_nak": ({"r_nak": 1}, [P(WO, 4, psn=-1)], ACK),
    "09_mid_message": ({}, [_first(600), P(WO, 4, psn=0), P(WM, FULL, psn=1)], ACK),
    "09_invalidate": ({}, [P(op.SEND_ONLY_INV, 4, psn=-1)], ACK),
    "10_read": ({}, [P(RD, psn=-1, length=4)], ACK),
    "10_read_again": ({}, [P(RD, length=700), P(RD, length=700), P(WO, 4, psn=3)], ACK),
    "10_read_from_the_middle": ({}, [P(RD, length=700), P(RD, psn=1, va=VA + FULL, length=444)],
                                ACK),
    "10_read_past_the_expected": ({}, [P(RD, psn=-1, length=FULL + 1)], "duplicate"),
    "10_read_up_to_the_expected": ({"epsn": 1}, [P(RD, psn=-2, length=FULL + 1)], ACK),
    "10_read_bad_key": ({}, [P(RD, psn=-1, rkey=LOCAL, length=4)], ACCESS),
    "10_read_no_access": ({"access": 5}, [P(RD, psn=-1, length=4)], INVALID),
    "10_read_zero_length": ({}, [P(RD, psn=-1, rkey=1)], ACK),
    "10_read_in_a_write": ({}, [P(RD, length=600), _first(700, 3), P(RD, length=600),
                                _first(700, 3), P(WM, FULL, psn=4)], ACK),
    "10_atomic": ({}, [P(FA), P(FA), P(FA, psn=1), P(FA, psn=0)], ACK),
    "10_atomic_not_kept": ({}, [P(CS, psn=-1)], "duplicate"),
    "10_atomic_pushed_out": ({}, [P(FA), P(FA, psn=1), P(FA, psn=2), P(FA)], "duplicate"),
    "10_atomic_last_but_one": ({}, [P(FA), P(FA, psn=1), P(FA, psn=2), P(CS, psn=1)], ACK),
    "10_atomic_none_at_a_time": ({"max_dest_rd_atomic": 0}, [P(FA, psn=-1)], "duplicate"),
    "10_flush": ({}, [P(op.FLUSH, psn=-1)], "duplicate"),
    "10_atomic_write": ({}, [P(op.ATOMIC_WRITE, 8, psn=-1)], "duplicate"),
    "11_flush": ({}, [P(op.FLUSH)], INVALID),
    "11_atomic_write": ({}, [P(op.ATOMIC_WRITE, 8, length=8)], INVALID),
    "12_read_in_a_send": ({}, [P(S1, FULL), P(RD, psn=1, length=4)], INVALID),
    "12_atomic_in_a_write": ({}, [_first(600), P(FA, psn=1)], INVALID),
    "12_middle_alone": ({}, [P(SM, FULL)], INVALID),
    "12_last_alone": ({}, [P(WL, 4)], INVALID),
    "12_only_in_write": ({}, [_first(600), P(WO, 4, psn=1)], INVALID),
    "12_first_in_send": ({}, [P(S1, FULL), P(S1, FULL, psn=1)], INVALID),
    "12_write_in_send": ({}, [P(S1, FULL), P(WM, FULL, psn=1)], INVALID),
    "12_send_in_write": ({}, [_first(600), P(SL, 4, psn=1)], INVALID),
    "13_first_short": ({}, [P(S1, FULL - 1)], INVALID),
    "13_first_long": ({}, [P(W1, FULL + 1, length=600)], INVALID),
    "13_middle_short": ({}, [P(S1, FULL), P(SM, FULL - 4, psn=1)], INVALID),
    "13_last_empty": ({}, [P(S1, FULL), P(SL, 0, psn=1)], INVALID),
    "13_last_one": ({}, [P(S1, FULL), P(SL, 1, psn=1)], ACK),
    "13_last_full": ({}, [P(S1, FULL), P(SL, FULL, psn=1)], ACK),
    "13_last_long": ({}, [P(S1, FULL), P(SL, FULL + 1, psn=1)], INVALID),
    "13_only_full": ({}, [P(WO, FULL)], ACK),
    "13_only_long": ({}, [P(WO, FULL + 1)], INVALID),
    "13_mtu_4096": ({"mtu": 5}, [P(WO, 4096)], ACK),
    "14_no_write": ({"access": 6}, [P(WO, 4)], INVALID),
    "14_zero_length": ({"access": 0}, [P(WO, 0)], INVALID),
    "14_before_15": ({"access": 6}, [P(WO, 4, rkey=POOR)], INVALID),
    "14_not_for_send": ({"access": 0}, [P(SO, 4)], ACK),
    "14_no_read": ({"access": 5}, [P(RD, length=4)], INVALID),
    "14_no_atomic": ({"access": 3}, [P(FA)], INVALID),
    "14_no_read_at_a_time": ({"max_dest_rd_atomic": 0}, [P(RD)], INVALID),
    "15_read_rights": ({}, [P(RD, va=BUFFER, rkey=LOCAL, length=4)], ACCESS),
    "15_read_past": ({}, [P(RD, length=SIZE + 1)], ACCESS),
    "15_read_all": ({}, [P(RD, length=SIZE)], ACK),
    "15_read_zero_length_bad_key": ({}, [P(RD, rkey=1, va=3)], ACK),
    "15_atomic_rights": ({}, [P(CS, va=BUFFER + 8, rkey=LOCAL)], ACCESS),
    "15_atomic_past": ({}, [P(CS, va=VA + SIZE)], ACCESS),
    "15_atomic_end": ({}, [P(CS, va=VA + SIZE - 8)], ACK),
    "15_window": ({}, [P(WO, 4, rkey=WINDOW)], ACK),
    "15_window_of_another_qp": ({}, [P(WO, 4, rkey=NOT_OURS)], ACCESS),
    "16_read_too_long": ({}, [region(KEY, length=1 << 40), P(RD, length=(1 << 31) + 1)], INVALID),
    "16_atomic_unaligned": ({}, [P(FA, va=VA + 4)], INVALID),
    "16_after_15": ({}, [P(FA, va=BUFFER + 4, rkey=LOCAL)], ACCESS),
    "15_key": ({}, [P(WO, 4, rkey=KEY ^ 1)], ACCESS),
    "15_index": ({}, [P(WO, 4, rkey=0xFFFFFFFF)], ACCESS),
    "15_rights": ({}, [P(WO, 4, rkey=POOR)], ACCESS),
    "15_domain": ({}, [P(WO, 4, rkey=ALIEN)], ACCESS),
    "15_free": ({}, [region(KEY, state=0), P(WO, 4)], ACCESS),
    "15_below": ({}, [P(WO, 4, va=VA - 1)], ACCESS),
    "15_past": ({}, [P(WO, 4, va=VA + SIZE - 3)], ACCESS),
    "15_last_byte": ({}, [P(WO, 4, va=VA + SIZE - 4)], ACK),
    "15_whole": ({}, [P(W1, FULL, length=SIZE + 1)], ACCESS),
    "15_whole_fits": ({}, [P(W1, FULL, length=SIZE)], ACK),
    "15_wrap": ({}, [region(KEY, va=(1 << 64) - 4), P(WO, 5, va=(1 << 64) - 4)], ACCESS),
    "15_top": ({}, [region(KEY, va=(1 << 64) - 4), P(WO, 4, va=(1 << 64) - 4)], ACK),
    "15_zero_length_bad_key": ({}, [P(WO, 0, rkey=0xDEAD00, va=3)], ACK),
    "15_before_16": ({}, [P(WO, 4, rkey=POOR, length=8)], ACCESS),
    "16_only_short": ({}, [P(WO, 4, length=5)], INVALID),
    "16_only_long": ({}, [P(WO, 5, length=4)], INVALID),
    "16_only_payload_of_none": ({}, [P(WO, 4, length=0)], INVALID),
    "16_first_all": ({}, [_first(FULL)], INVALID),
    "16_first_one_left": ({}, [_first(FULL + 1)], ACK),
    "16_middle_all": ({}, [_first(2 * FULL), P(WM, FULL, psn=1)], INVALID),
    "16_middle_one_left": ({}, [_first(2 * FULL + 1), P(WM, FULL, psn=1)], ACK),
    "16_last_less": ({}, [_first(FULL + 9), P(WL, 8, psn=1)], INVALID),
    "16_last_more": ({}, [_first(FULL + 9), P(WL, 10, psn=1)], INVALID),
    "16_last_right": ({}, [_first(FULL + 9), P(WL, 9, psn=1)], ACK),
    "16_before_17": ({}, [_first(FULL + 9), region(KEY, state=0), P(WL, 8, psn=1)], INVALID),
    "16_before_18": ({}, [ABSENT, P(WOI, 4, length=5)], INVALID),
    "17_gone": ({}, [_first(FULL + 9), region(KEY, state=0), P(WL, 9, psn=1)], ACCESS),
    "17_shrunk": ({}, [_first(FULL + 9), region(KEY, length=FULL + 8), P(WL, 9, psn=1)], ACCESS),
    "17_shrunk_fits": ({}, [_first(FULL + 9), region(KEY, length=FULL + 9), P(WL, 9, psn=1)], ACK),
    "17_before_18": ({}, [ABSENT, _first(FULL + 9), region(KEY, state=0), P(WLI, 9, psn=1)],
                     ACCESS),
    "18_send_only": ({}, [ABSENT, P(SO, 4)], 0x29),
    "18_send_first": ({"min_rnr_timer": 31}, [ABSENT, P(S1, FULL)], 0x3F),
    "18_write_imm": ({}, [ABSENT, P(WOI, 4)], 0x29),
    "18_last_imm": ({}, [ABSENT, _first(FULL + 4), P(WLI, 4, psn=1)], 0x29),
    "18_then_posted": ({}, [ABSENT, P(SO, 4), wqe(posted=True), P(SO, 4)], ACK),
    "18_sets_r_nak": ({}, [ABSENT, P(SO, 4), P(SO, 4, psn=1)], "psn_gap"),
    "18_write_needs_none": ({}, [ABSENT, P(WO, 4)], ACK),
    "18_second_lap": ({"rq_consume": 4}, [P(SO, 4)], ACK),
    "19_two_elements": ({}, [wqe(sge_count=2), P(SO, 4)], REMOTE),
    "19_write_imm": ({}, [wqe(sge_count=2), P(WOI, 4)], REMOTE),
    "20_too_long": ({}, [wqe(length=3), P(SO, 4)], INVALID),
    "20_exact": ({}, [wqe(length=4), P(SO, 4)], ACK),
    "20_middle": ({}, [wqe(length=2 * FULL - 1), P(S1, FULL), P(SM, FULL, psn=1)], INVALID),
    "20_no_element": ({}, [wqe(sge_count=0), P(SO, 4)], INVALID),
    "20_no_element_empty": ({}, [wqe(sge_count=0), P(SO, 0)], ACK),
    "20_before_21": ({}, [wqe(length=3, lkey=0xDEAD00), P(SO, 4)], INVALID),
    "21_key": ({}, [wqe(lkey=LOCAL ^ 1), P(SO, 4)], REMOTE),
    "21_rights": ({}, [wqe(lkey=POOR, va=VA), P(SO, 4)], REMOTE),
    "21_range": ({}, [wqe(va=BUFFER + 0x4000 - 3), P(SO, 4)], REMOTE),
    "21_empty_send": ({}, [wqe(lkey=0xDEAD00), P(SO, 0)], ACK),
    "21_last": ({}, [P(S1, FULL), region(LOCAL, state=0), P(SL, 4, psn=1)], REMOTE),
    "24_quiet": ({}, [P(WO, 4, ackreq=0)], None),
    "24_solicited": ({}, [P(SOI, 4, bth={"se": 1})], ACK),
    "24_write_imm": ({}, [P(WOI, 9, bth={"se": 1})], ACK),
    "24_write_last_imm": ({}, [_first(FULL + 4), P(WLI, 4, psn=1)], ACK),
    "24_send_last_imm": ({}, [P(S1, FULL), P(SM, FULL, psn=1), P(SLI, 3, psn=2)], ACK),
    "24_psn_wraps": ({"epsn": 0xFFFFFF}, [P(SO, 0), P(WO, 0, psn=1), P(WO, 1, psn=2)], ACK),
    "24_msn_wraps": ({"msn": 0xFFFFFE}, [P(WO, 4, psn=i) for i in range(4)], ACK),
    "24_consume_wraps": ({"rq_consume": 0xFFFFFFFE}, [P(SO, 4, psn=i) for i in range(4)], ACK),
    "24_clears_r_nak": ({"r_nak": 1}, [P(WO, 4)], ACK),
    "24_ipv6_vlan": ({"flags": 3, "vlan_tci": 0x6123, "flow_label": 0xABCDE,
                      "dip": bytes(range(16)), "sip": bytes(range(16, 32))},
                     [P(WO, 4, other={"network": "ipv6", "sgid": bytes(range(16)),
                                      "dgid": bytes(range(16, 32))})], ACK),
    **{f"24_read_of_{n}": ({}, [P(RD, va=VA + 3, length=n), P(WO, 4, psn=max(1, -(-n // FULL)))],
                           ACK)
       for n in (0, 1, FULL - 1, FULL, FULL + 1, 3 * FULL - 1, 3 * FULL, 8 * FULL, 8 * FULL + 1)},
    "24_read_wraps": ({"epsn": 0xFFFFFE}, [P(RD, length=700), P(WO, 4, psn=3)], ACK),
    "24_read_mtu_4096": ({"mtu": 5}, [region(KEY, length=1 << 20), P(RD, length=12289)], ACK),
    "24_read_clears_r_nak": ({"r_nak": 1}, [P(RD, length=4), P(WO, 4, psn=2)], GAP),
    "24_fetch_add": ({}, [P(FA, swap=(1 << 64) - 1), P(FA, psn=1, swap=1 << 63),
                          P(RD, psn=2, length=8)], ACK),
    "24_compare_swap": ({}, [P(CS, swap=0x0102030405060708), P(CS, psn=1, swap=9),
                             P(CS, psn=2, swap=9, compare=0x0102030405060708),
                             P(RD, psn=3, length=8)], ACK),
    "24_invalidate": ({}, [P(SOV, 4, invalidated=WINDOW), P(WO, 4, psn=1, rkey=WINDOW)], ACCESS),
    "24_invalidate_empty": ({}, [P(SOV, 0, invalidated=FAST)], ACK),
    "24_invalidate_last": ({}, [P(S1, FULL), P(SLV, 4, psn=1, invalidated=WINDOW)], ACK),
    "22_invalidate_twice": ({}, [P(SOV, 4, invalidated=FAST),
                                 P(SOV, 4, psn=1, invalidated=FAST)], ACCESS),
    "22_invalidate_region": ({}, [P(SOV, 4, invalidated=KEY)], ACCESS),
    "22_invalidate_of_another_qp": ({}, [P(SOV, 4, invalidated=NOT_OURS)], ACCESS),
    "22_invalidate_unknown": ({}, [P(SOV, 4, invalidated=0xFFFFFF00)], ACCESS),
    "22_invalidate_last_refused": ({}, [P(S1, FULL), P(SLV, 4, psn=1, invalidated=KEY)], ACCESS),
    "24_flow_entropy": ({"udp_sport": 0, "flow_label": 0xABCDE}, [P(WO, 4)], ACK),
    "25_uc_send": (UC, [P(U + SO, 4)], None),
    "25_uc_write_imm": (UC, [P(U + WOI, 4), P(U + WO, 0, psn=1)], None),
    "25_uc_after_a_gap": (UC, [P(U + SO, 4), P(U + WO, 4, psn=9), P(U + SO, 4, psn=10)], None),
    "25_uc_behind": (UC, [P(U + SO, 4, psn=-5)], None),
    "25_uc_wrap": ({**UC, "epsn": 0xFFFFFF}, [P(U + S1, FULL), P(U + SL, 4, psn=1)], None),
    "25_uc_middle_lost": (UC, [P(U + S1, FULL), P(U + SL, 4, psn=2)], "uc_message"),
    "25_uc_last_lost": (UC, [P(U + S1, FULL), P(U + S1, FULL, psn=2), P(U + SL, 9, psn=3),
                             P(U + SO, 4, psn=4)], None),
    "25_uc_first_lost": (UC, [P(U + WM, FULL, psn=1), P(U + WL, 9, psn=2)], "uc_message"),
    "25_uc_whole_one_after_a_broken_one": (UC, [
        P(U + S1, FULL), P(U + SM, FULL, psn=2), P(U + SL, 4, psn=3), P(U + SO, 8, psn=4)], None),
    "25_uc_write_in_a_send": (UC, [P(U + S1, FULL), P(U + WL, 4, psn=1)], "uc_message"),
    "25_uc_short_first": (UC, [P(U + S1, 4)], "uc_message"),
    "25_uc_short_first_in_a_send": (UC, [P(U + S1, FULL), P(U + S1, 4, psn=1),
                                         P(U + SO, 4, psn=2)], None),
    "25_uc_no_receive": (UC, [ABSENT, P(U + SO, 4)], "uc_message"),
    "25_uc_no_receive_at_the_end": (UC, [ABSENT, P(U + W1, FULL, length=FULL + 4),
                                         P(U + WLI, 4, psn=1)], "uc_message"),
    "25_uc_too_long": (UC, [wqe(length=FULL + 3), P(U + S1, FULL), P(U + SL, 4, psn=1)],
                       "uc_message"),
    "25_uc_bad_key": (UC, [P(U + WO, 4, rkey=POOR), P(U + WO, 4, psn=1)], None),
    "25_uc_no_access": ({**UC, "access": 0}, [P(U + WO, 4)], "uc_message"),
    "25_uc_wrong_length": (UC, [P(U + WO, 4, length=5)], "uc_message"),
    "25_uc_bad_buffer": (UC, [wqe(lkey=KEY ^ 1), P(U + SO, 4), P(U + SO, 4, psn=1)], "qp_state"),
    "25_uc_many_sges": (UC, [wqe(sge_count=2), P(U + S1, FULL)], None),
    "26_ud_send": (UD, [P(DO, 100)], None),
    "26_ud_empty": (UD, [P(DO), P(DOI)], None),
    "26_ud_imm": (UD, [P(DOI, MTU, bth={"se": 1})], None),
    "26_ud_any_sender": (UD, [P(DO, 3, psn=77, other=OTHER)], None),
    "26_ud_header": (UD, [P(DO, 9, other={"tclass": 0xB9, "hop_limit": 200,
                                          "identification": 0xABCD})], None),
    "26_ud_ipv6": ({**UD, "flags": 1, "sip": bytes(range(16, 32))},
                   [P(DO, 30, other={**V6, "tclass": 0x6D, "flow_label": 0xABCDE})], None),
    "26_ud_tagged": (UD, [P(DO, 30, other={"vlan": (0x1234,)})], None),
    "26_ud_wraps": ({**UD, "rq_consume": 0xFFFFFFFF}, [P(DO, 4), P(DO, 5)], None),
    "27_ud_destination": (UD, [P(DO, 4, other={"dgid": PEER})], "address"),
    "27_ud_before_28": (UD, [P(DO, 4, qkey=1, other={"dgid": PEER})], "address"),
    "28_ud_qkey": (UD, [P(DO, 4, qkey=QKEY ^ 1 << 31)], "qkey"),
    "28_ud_before_29": (UD, [P(DO, MTU + 1, qkey=1)], "qkey"),
    "29_ud_over_the_mtu": (UD, [P(DO, MTU + 1)], "ud_length"),
    "29_ud_one_byte_short": (UD, [wqe(length=139), P(DO, 100)], "ud_length"),
    "29_ud_just_fits": (UD, [wqe(length=139), P(DO, 100), wqe(length=140), P(DO, 100)], None),
    "29_ud_no_place_for_the_grh": (UD, [wqe(length=39), P(DO)], "ud_length"),
    "29_ud_no_sge": (UD, [wqe(sge_count=0), P(DO)], "ud_length"),
    "30_ud_no_receive": (UD, [ABSENT, P(DO, 4)], "no_receive"),
    "30_ud_then_posted": (UD, [ABSENT, P(DO, 4), wqe(posted=True), P(DO, 4)], None),
    "31_ud_many_sges": (UD, [wqe(sge_count=2), P(DO, 4), P(DO, 4)], "qp_state"),
    "31_ud_bad_buffer": (UD, [wqe(lkey=KEY ^ 1), P(DO, 4), P(DO, 4)], "qp_state"),
    "31_ud_buffer_past_its_region": (UD, [wqe(va=BUFFER + 0x4000 - 43), P(DO, 4)], None),
    "24_error_is_final": ({}, [P(WO, 4, rkey=1), P(WO, 4)], "qp_state"),
    **{f"24_write_of_{n}_mtu": ({}, [P(W1, FULL, length=n * FULL)] + [
        P(WM, FULL, psn=i) for i in range(1, n - 1)] + [P(WL, FULL, psn=n - 1)], ACK)
       for n in (2, 3, 8)},
}
