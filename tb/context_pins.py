"""The context cache's ports, as the timing model speaks of them."""

from collections.abc import Callable, Sequence
from typing import Any

from rtl.config import CacheConfig
from rtl.context.interface import CacheRequest, CacheResponse
from rtl.context.observe import CacheEvents
from rtl.dma.interface import DmaStatus, ReadBeat, ReadRequest, WriteRequest
from sim.timing.interface import Event, Inputs, Outputs
from tb.bits import pack, unpack

PULSES = ("lookup", "useful", "late", "forward", "bad_key")
AT_WAY = ("hit", "miss", "merged", "prefetch", "replay")
ANY_PULSE = (1 << CacheEvents.as_shape()["reason"].offset) - 1  # the pulses come first


class Pins:
    """Drives what the model is given, and reads what it predicts.

    `write` sets the port of a name, `read` gives its value. The table begins at `base`.
    """

    def __init__(self, write: Callable[[str, int], None], read: Callable[[str], int],
                 config: CacheConfig, ports: int, width: int, base: int = 0):
        self.write, self.get = write, read
        self.ports = ports
        self.base = base
        self.size = config.entry_bytes
        self.request = CacheRequest(self.size, config.tenants)
        self.mask_bits = self.request["mask"].width
        self.response = CacheResponse(self.size)
        self.beat = ReadBeat(width)
        self.empty = max(width // 8 - self.size, 0)
        self.driven: dict[str, int] = {}
        for port in range(self.ports):
            self.set(f"port__{port}__request__payload", 0)
        self.set("fetch__response__payload", 0)

    def set(self, name: str, value: int) -> None:
        """Only what changes: each access costs."""
        if self.driven.get(name) != value:
            self.driven[name] = value
            self.write(name, value)

    def bit(self, name: str) -> bool:
        return self.get(name) == 1

    def rest(self, log_entries: int, tenant_ways: Sequence[int] = ()) -> None:
        """As during the reset; the first cycle after it is the model's cycle 0."""
        self.set("host_table", self.base | log_entries << 64)
        for tenant, ways in enumerate(tenant_ways):
            self.set(f"tenant_ways__{tenant}", ways)
        self.drive(Inputs([None] * self.ports, [False] * self.ports, None, False, False, False))

    def drive(self, i: Inputs) -> None:
        for port, request in enumerate(i.offered):
            name = f"port__{port}"
            self.set(f"{name}__request__valid", int(request is not None))
            self.set(f"{name}__response__ready", int(i.ready[port]))
            if request:
                mask = int(request.writes) << request.tag % self.mask_bits
                self.set(f"{name}__request__payload", pack(self.request, {
                    "op": request.op, "key": request.key, "tag": request.tag, "mask": mask,
                    "tenant": request.tenant}))
        for name, ready in (("fetch__request", i.fetch_ready),
                            ("writeback__request", i.write_ready),
                            ("writeback__data", i.data_ready)):
            self.set(f"{name}__ready", int(ready))
        self.set("fetch__response__valid", int(i.beat is not None))
        if i.beat:
            status = DmaStatus.REFUSED if i.beat.failed and i.beat.last else DmaStatus.OK
            self.set("fetch__response__payload", pack(self.beat, {
                "last": i.beat.last, "tag": i.beat.tag, "status": status,
                "none": status != DmaStatus.OK, "empty": self.empty if i.beat.last else 0}))
        self.set("writeback__done__valid", int(i.done))
        self.set("writeback__done__payload", 0)

    def _key(self, word: dict[str, int]) -> int:
        key, rest = divmod(word["address"] - self.base, self.size)
        assert word["length"] == self.size and not rest and not word.get("attributes", 0), word
        return key

    def sample(self, i: Inputs) -> dict[str, Any]:
        seen: dict[str, Any] = {"taken": [], "answers": [], "fetch": None, "write": None}
        for port in range(self.ports):
            name = f"port__{port}"
            if i.offered[port] and self.bit(f"{name}__request__ready"):
                seen["taken"].append(port)
            if i.ready[port] and self.bit(f"{name}__response__valid"):
                word = unpack(self.response, self.get(f"{name}__response__payload"))
                seen["answers"].append((port, word["op"], word["key"], word["tag"],
                                        word["status"], word["hit"]))
        if i.fetch_ready and self.bit("fetch__request__valid"):
            word = unpack(ReadRequest, self.get("fetch__request__payload"))
            seen["fetch"] = (self._key(word), word["tag"])
        if i.write_ready and self.bit("writeback__request__valid"):
            word = unpack(WriteRequest, self.get("writeback__request__payload"))
            seen["write"] = self._key(word)
        seen["beat"] = bool(i.beat and self.bit("fetch__response__ready"))
        seen["data"] = bool(i.data_ready and self.bit("writeback__data__valid"))
        word = self.get("events")
        seen["events"] = events(word) if word & ANY_PULSE else []
        return seen


def events(word: int) -> list[Event]:
    """As the model names them."""
    e = unpack(CacheEvents, word)
    found: list[Event] = [(name,) for name in PULSES if e[name]]
    found += [(name, e["key"], e["way"]) for name in AT_WAY if e[name]]
    found += [(name, e["fill_key"]) for name in ("fill", "fetch_error") if e[name]]
    found += [(name, e["victim"]) for name in ("evict", "writeback") if e[name]]
    found += [("stall", e["reason"])] if e["stall"] else []
    found += [("useless", e["useless"])] if e["useless"] else []
    return sorted(found)


def predicted(out: Outputs) -> dict[str, Any]:
    useless = sum(int(e[1]) for e in out.events if e[0] == "useless")
    shown = [e for e in out.events if e[0] not in ("useless", "timeout")]
    shown += [("useless", useless)] if useless else []
    return {
        "taken": [port for port, taken in enumerate(out.taken) if taken],
        "answers": [(port, a.request.op, a.request.key, a.request.tag, int(a.status), int(a.hit))
                    for port, a in enumerate(out.answers) if a],
        "fetch": out.fetch, "write": out.write, "beat": out.beat_taken, "data": out.data_taken,
        "events": sorted(shown),
    }
