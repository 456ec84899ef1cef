"""What a frame did."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(kw_only=True)
class Outcome:
    """`qpn` and `context` are given when the packet was answered or accepted."""

    action: Literal["answered", "accepted", "dropped", "host_queue"]
    reason: str | None = None  # why it was dropped
    frames: list[bytes] = field(default_factory=list)  # what leaves at MAC TX
    qpn: int | None = None
    context: bytes | None = None  # the whole slot afterwards
    completions: list[bytes] = field(default_factory=list)  # CQEs written, in order


def dropped(reason: str) -> Outcome:
    return Outcome(action="dropped", reason=reason)
