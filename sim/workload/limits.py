"""What the responder does not carry out yet, told before the comparison with a capture shows it."""

from sim.wire import opcodes
from sim.workload.traffic import Seen

NOT_CARRIED_OUT = (opcodes.SEND_LAST_INV, opcodes.SEND_ONLY_INV)


def limit_notes(received: list[Seen]) -> list[str]:
    """A line for each queue pair that gets such a request, with the first one."""
    first: dict[int, Seen] = {}
    for seen in received:
        if seen.is_roce2 and seen.opcode in NOT_CARRIED_OUT:
            first.setdefault(seen.dqpn, seen)
    return [f"QP {qpn}: frame {seen.number} ({opcodes.OPCODES[seen.opcode].name}) asks for what "
            "the responder does not carry out yet; answers differ from there on"
            for qpn, seen in sorted(first.items())]
