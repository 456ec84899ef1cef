"""What a client of a context cache sees (docs/context-cache.md)."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

KEY_BITS = 24
TAG_BITS = 8


class Operation(enum.Enum, shape=3):
    LOOKUP = 0  # read the entry
    ACQUIRE = 1  # read the entry and lock it for a read-modify-write
    COMMIT = 2  # write the masked words (perhaps none) of an acquired entry and unlock it
    PREFETCH = 3  # bring the entry in; answered at once, status OK
    FLUSH = 4  # write the entry back if it is dirty; it stays, clean
    INVALIDATE = 5  # write the entry back if it is dirty and forget it
    FLUSH_ALL = 6  # every entry written back and forgotten; `key` is ignored


class CacheStatus(enum.Enum, shape=2):
    OK = 0
    BAD_KEY = 1  # the key is outside the table; nothing was fetched
    FETCH_FAILED = 2  # the host's memory did not answer rightly; nothing was installed
    CORRUPT = 3  # the entry's last value is lost to flipped bits


class CacheRequest(data.StructLayout):
    """`data` and `mask` (one bit a word of 8 bytes) belong to COMMIT. `tag` comes back.

    `tenant` says whose ways a miss may take; it has no bits where there is one tenant.
    """

    def __init__(self, entry_bytes: int, tenants: int = 1):
        super().__init__({
            "op": Operation, "key": unsigned(KEY_BITS), "tag": unsigned(TAG_BITS),
            "data": unsigned(8 * entry_bytes), "mask": unsigned(entry_bytes // 8),
            "tenant": unsigned(ceil_log2(tenants)),
        })
        self.entry_bytes = entry_bytes


class CacheResponse(data.StructLayout):
    """One response a request, COMMIT included. `data` belongs to LOOKUP and ACQUIRE."""

    def __init__(self, entry_bytes: int):
        super().__init__({
            "op": Operation, "key": unsigned(KEY_BITS), "tag": unsigned(TAG_BITS),
            "status": CacheStatus, "hit": unsigned(1), "data": unsigned(8 * entry_bytes),
        })
        self.entry_bytes = entry_bytes


class CachePort(wiring.Signature):
    """A request port, seen from the client. Answers come in order per key, not across keys.

    An acquired entry that failed (status not OK) is not locked and wants no commit.
    """

    def __init__(self, entry_bytes: int, tenants: int = 1):
        super().__init__({
            "request": Out(stream.Signature(CacheRequest(entry_bytes, tenants))),
            "response": In(stream.Signature(CacheResponse(entry_bytes))),
        })
        self.entry_bytes = entry_bytes


class CacheTable(data.Struct):
    """Where the host's table is: entry `key` is at `base` + key × entry size."""

    base: unsigned(64)  # bytes
    log_entries: unsigned(5)  # keys 0 … 2^log_entries − 1 are inside
