"""The whole NIC on its host memory: a frame in, an outcome out."""

from sim.golden.layout import Settings
from sim.golden.memory import HostMemory
from sim.golden.outcome import Outcome, dropped
from sim.golden.responder import Responder
from sim.golden.tables import Tables
from sim.wire.codec import RDMA_KINDS, parse


class GoldenNic:
    """Works on `memory` itself: give it a copy when the first state is still needed."""

    def __init__(self, memory: HostMemory, settings: Settings, entry_bytes: int = 256,
                 max_frame: int = 9216) -> None:
        self.memory = memory
        self.max_frame = max_frame
        self._responder = Responder(Tables(memory, settings, entry_bytes))

    def receive(self, frame: bytes, mac_error: bool = False) -> Outcome:
        report = parse(frame, max_frame=self.max_frame, mac_error=mac_error)
        if report["error"]:
            return dropped(report["error"])
        if report["kind"] in ("pause", "pfc"):
            return dropped("mac_control")
        if report["kind"] not in RDMA_KINDS:
            return Outcome(action="host_queue")
        return self._responder.receive(report, frame)
