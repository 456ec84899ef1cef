"""The UD responder (IBTA vol. 1, 9.8.2, 11.6.2; rows 26 to 31 of docs/responder.md)."""

import struct
from dataclasses import dataclass

from sim.golden.layout import (
    Completion,
    MrAccess,
    QpContext,
    ReceiveWqe,
    State,
    WcFlags,
    WcOpcode,
    WcStatus,
)
from sim.golden.outcome import Outcome, dropped
from sim.golden.tables import WORD, Tables
from sim.wire.codec import ETHERNET_BYTES, Report, gid_bytes, ipv4_checksum
from sim.wire.icrc import GRH_BYTES

IPV4_BYTES = 20


@dataclass
class Datagram:
    """One UD packet for one queue pair."""

    tables: Tables
    qpn: int
    context: QpContext
    report: Report
    frame: bytes

    def receive(self) -> Outcome:
        report, context = self.report, self.context
        if gid_bytes(report["ip"]["dst"]) != context.sip:
            return dropped("address")
        if report["deth"]["qkey"] != context.qkey:
            return dropped("qkey")
        if report["payload_length"] > context.mtu_bytes:
            return self._too_long()
        wqe = self.tables.receive_wqe(context)
        if wqe is None:
            return dropped("no_receive")
        if wqe.sge_count > 1:
            return self._end([])
        size = GRH_BYTES + report["payload_length"]
        if size > (wqe.length if wqe.sge_count else 0):
            return self._too_long()
        context.rq_consume = (context.rq_consume + 1) % WORD
        bus = self.tables.translate(wqe.lkey, self.qpn, context.pd, MrAccess.LOCAL_WRITE, wqe.va,
                                    size)
        if bus is None:
            return self._end([self._completion(wqe, WcStatus.LOC_PROT_ERR)])
        self.tables.memory.write(bus, self._grh() + report["payload"])
        return self._done([self._completion(wqe, WcStatus.SUCCESS)])

    def _too_long(self) -> Outcome:
        """The receive WQE stays, and the QP as it was."""
        return Outcome(action="dropped", reason="ud_length", qpn=self.qpn,
                       context=bytes(self.context))

    def _grh(self) -> bytes:
        """The IPv6 header, or nothing and the IPv4 header, without its options."""
        start = ETHERNET_BYTES + 4 * len(self.report["eth"]["vlan"])
        header = self.frame[start:start + GRH_BYTES]
        if self.report["ip"]["version"] == 6:
            return header
        header = header[:10] + bytes(2) + header[12:IPV4_BYTES]
        checksum = struct.pack(">H", ipv4_checksum(header))
        return bytes(GRH_BYTES - IPV4_BYTES) + header[:10] + checksum + header[12:]

    def _completion(self, wqe: ReceiveWqe, status: WcStatus) -> Completion:
        report = self.report
        item = Completion(opcode=WcOpcode.RECV, status=status, wr_id=wqe.wr_id, qpn=self.qpn,
                          src_qpn=report["deth"]["sqpn"],
                          wqe_index=(self.context.rq_consume - 1) % WORD)
        if status is WcStatus.SUCCESS:
            item.byte_len = GRH_BYTES + report["payload_length"]
            item.flags = WcFlags.SOLICITED if report["bth"]["se"] else 0
            if "immdt" in report:
                item.flags |= WcFlags.IMM
                item.imm = report["immdt"]["imm"].to_bytes(4, "big")
        return item

    def _end(self, completions: list[Completion]) -> Outcome:
        """What the host had set up was wrong: the QP's error state."""
        self.context.state = State.ERR
        return self._done(completions)

    def _done(self, completions: list[Completion]) -> Outcome:
        written = [self.tables.complete(self.context.recv_cqn, item) for item in completions]
        self.tables.store_context(self.qpn, self.context)
        return Outcome(action="accepted", qpn=self.qpn, context=bytes(self.context),
                       completions=[cqe for cqe in written if cqe is not None])
