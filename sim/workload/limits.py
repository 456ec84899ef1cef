"""What the responder does not carry out yet, told before the comparison with a capture shows it."""

from sim.wire import opcodes
from sim.workload.traffic import Seen

SERVICES = {opcodes.UD: "UD"}  # row 3 of docs/responder.md


def limit_notes(received: list[Seen]) -> list[str]:
    """A line for each queue pair that gets such a request, with the first one."""
    first: dict[int, Seen] = {}
    for seen in received:
        if seen.is_roce2 and seen.opcode & 0xE0 in SERVICES:
            first.setdefault(seen.dqpn, seen)
    return [f"QP {qpn}: frame {seen.number} ({opcodes.OPCODES[seen.opcode].name}) asks for "
            f"{SERVICES[seen.opcode & 0xE0]}, which the responder does not serve yet"
            for qpn, seen in sorted(first.items())]
