"""What goes in and out of the context cache in one cycle (docs/context-cache.md)."""

from dataclasses import dataclass, field
from enum import IntEnum

LOOKUP, ACQUIRE, COMMIT, PREFETCH, FLUSH, INVALIDATE, FLUSH_ALL = range(7)
PASSES = (COMMIT, PREFETCH)  # never wait


class Status(IntEnum):
    OK = 0
    BAD_KEY = 1
    FETCH_FAILED = 2


class Stall(IntEnum):
    NONE = 0
    ORDER = 1
    FLUSH_ALL = 2
    WRITING = 3
    MISSES = 4
    WAYS = 5
    WRITE_BUFFER = 6
    SLOTS = 7
    BUSY = 8
    FAILED = 9


@dataclass(slots=True, eq=False)
class Request:
    port: int
    op: int
    key: int
    tag: int = 0
    tenant: int = 0
    writes: bool = False  # COMMIT: its mask is not empty


@dataclass(slots=True)
class Answer:
    request: Request
    status: int
    hit: bool


@dataclass(slots=True)
class Beat:
    """Of a fetch's answer; `tag` and `failed` count with the last."""

    tag: int
    last: bool
    failed: bool = False


@dataclass(slots=True)
class Inputs:
    """What the clients and the host offer in a cycle, and what they could take."""

    offered: list[Request | None]
    ready: list[bool]
    beat: Beat | None = None
    fetch_ready: bool = True
    write_ready: bool = True
    data_ready: bool = True
    done: bool = False  # a write-back has ended


Event = tuple[str | int, ...]


@dataclass(slots=True)
class Outputs:
    """The transfers of a cycle, and the events."""

    taken: list[bool]
    answers: list[Answer | None]
    beat_taken: bool = False
    fetch: tuple[int, int] | None = None  # key, tag
    write: int | None = None  # key
    data_taken: bool = False
    events: list[Event] = field(default_factory=list)
