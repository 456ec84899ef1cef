"""A scenario: all that a run starts from and is judged by (docs/golden.md)."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sim.golden.layout import Settings
from sim.golden.memory import HostMemory


class Frame(NamedTuple):
    number: int  # 1-based position in the capture or workload
    data: bytes


class Region(NamedTuple):
    """A memory region of the NIC's host; `final` is what it must hold at the end, if known."""

    id: int
    va: int
    length: int
    final: bytes | None = None


class Range(NamedTuple):
    """Addresses from `start` to before `end`."""

    start: int
    end: int


class Post(NamedTuple):
    """What the host writes while traffic runs: `data` to `address`, before frame `frame_number`
    goes in and after all that the frames before it did."""

    frame_number: int
    qpn: int
    address: int
    data: bytes


@dataclass(kw_only=True)
class Scenario:
    name: str
    source: Literal["truth", "inferred", "random"]
    notes: list[str] = field(default_factory=list)  # what was assumed, in words
    frames: list[Frame]  # in at MAC RX, in order
    answers: list[Frame] = field(default_factory=list)  # the capture's own, empty if unknown
    memory: HostMemory  # the initial one: copy() before use
    settings: Settings
    regions: list[Region]
    not_ours: list[Range] = field(default_factory=list)  # written by the host's own requests
    posts: list[Post] = field(default_factory=list)  # in order of frame_number
    qpns: list[int]
    entry_bytes: int = 256  # of a QPC slot
