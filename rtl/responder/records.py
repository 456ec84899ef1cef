"""What is decided of a packet, and what an observer sees of it."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.host.layout import CqeStatus, Qpc
from rtl.responder.answer import Reply
from rtl.responder.names import Drop


class Update(enum.Enum, shape=3):
    """What becomes of the context."""

    NONE = 0
    NAKED = 1  # r_nak is set
    ERROR = 2  # the QP goes to the error state
    ADVANCE = 3  # the packet was executed
    BREAK = 4  # UC: the message is forgotten


class Outcome(data.Struct):
    """What was decided of the packet at hand."""

    drop: Drop
    update: Update
    answer: unsigned(1)
    reply: Reply
    complete: unsigned(1)
    status: CqeStatus


class ResponderEvents(data.Struct):
    """`valid` pulses once a packet, when it is finished with."""

    valid: unsigned(1)
    sequence: unsigned(32)  # of the frame
    qpn: unsigned(24)
    drop: Drop
    answered: unsigned(1)  # at least once
    updated: unsigned(1)  # `context` was written
    context: Qpc  # afterwards


class ResponderCounters(data.Struct):
    packets: unsigned(32)
    answers: unsigned(32)
    naks: unsigned(32)  # of the answers
    placed_bytes: unsigned(64)  # payload written to host memory
    drops: data.ArrayLayout(unsigned(32), len(Drop))  # by `Drop`
