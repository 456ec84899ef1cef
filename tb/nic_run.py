"""A scenario through the RTL NIC, beside the golden model: what `./rnic simulate` does."""

import dataclasses
import hashlib
import shutil
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rtl.config import NicConfig
from sim.golden.answer import INVALID_REQUEST, PSN_ERROR, REMOTE_ACCESS, REMOTE_OPERATIONAL
from sim.golden.layout import Completion, WcOpcode, WcStatus
from sim.golden.outcome import Outcome
from sim.wire.codec import parse
from sim.wire.opcodes import OPCODES
from sim.workload.replay import check_answers, check_memory
from sim.workload.scenario import Scenario
from tb import build
from tb.nic_job import Job, Observed, load, save, wire_cycles
from tb.nic_scoreboard import Mismatch, compare, fate, predict
from tools import cache

SHOWN = 20  # mismatches in the result
Progress = Callable[[int, int], None]
RDMA = ("roce2", "roce1", "cnp")


def simulate_scenario(scenario: Scenario, config: NicConfig, simulator: str = "verilator", *,
                      seed: int = 1, latency: int = 200, waves: Path | None = None,
                      progress: Progress | None = None, stalls: float = 0.0,
                      mac_errors: frozenset[int] = frozenset(),
                      variant: str = "") -> dict[str, Any]:
    """Run it and judge it; the keys of the result are those of docs/nic.md.

    `latency` is that of the host's memory, cycles. `stalls` is the share of idle and not-ready
    cycles at every port. `variant` names an RTL that is not the plain one, with a fault on purpose.
    """
    job = Job(scenario=scenario, config=config, latency=latency, stalls=stalls,
              mac_errors=mac_errors)
    started = time.monotonic()
    source = _verilog(config, variant)
    folder = build.build("nic", source, simulator,
                         waves=waves.suffix.removeprefix(".") if waves else None)
    built = time.monotonic()
    seen = _run(job, folder, simulator, seed, waves, progress)
    outcomes, memory = predict(job)
    mismatches = compare(job, seen, outcomes, memory)
    allowed: Counter[str] = Counter()
    known = bool(scenario.answers) or any(region.final for region in scenario.regions)
    if known:  # what the capture's own host answered, if anything
        unlike, allowed = check_answers(scenario, outcomes)
        mismatches += unlike
    regions = check_memory(scenario, seen.memory, outcomes if known else ())
    mismatches += _region_mismatches(scenario, regions)
    result = _summary(job, seen, outcomes)
    return {
        "verdict": "fail" if mismatches else "pass", "config": config.name,
        "simulator": simulator, "seed": seed, "scenario": scenario.name,
        "source": scenario.source, "notes": scenario.notes,
        "mismatch_count": len(mismatches), "mismatches": mismatches[:SHOWN],
        "oddities_allowed": dict(allowed), "memory_regions": regions, **result,
        "wall_s": {"build": round(built - started, 3),
                   "run": round(time.monotonic() - built, 3)},
        "cycles_per_s": round(seen.cycles_run / seen.run_seconds) if seen.run_seconds else None,
    }


def _verilog(config: NicConfig, variant: str) -> Path:
    def generate() -> str:
        from rtl.nic import Nic
        from rtl.verilog import to_verilog
        return to_verilog(Nic(config), "nic")

    return cache.verilog("nic", (dataclasses.asdict(config) | {"name": ""}, variant), generate)


def _run(job: Job, folder: Path, simulator: str, seed: int, waves: Path | None,
         progress: Progress | None) -> Observed:
    work = Path(tempfile.mkdtemp(prefix="rnic-nic-"))
    try:
        files = {name: str(work / name) for name in ("job", "observed", "progress")}
        save(work / "job", job)
        with _watch(work / "progress", len(job.scenario.frames), progress):
            build.run("nic", folder, "tb.nic_tb", simulator, job=files, seed=seed, waves=waves)
        return load(work / "observed")
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _watch(path: Path, total: int, progress: Progress | None) -> Iterator[None]:
    """Calls `progress` while the bench writes how many frames went in."""
    if progress is None:
        yield
        return
    over = threading.Event()

    def poll() -> None:
        while not over.wait(0.2):
            text = path.read_text() if path.exists() else ""
            if text.isdigit():
                progress(int(text), total)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
        progress(total, total)
    finally:
        over.set()
        thread.join()


def _region_mismatches(scenario: Scenario, regions: list[dict[str, Any]]) -> list[Mismatch]:
    finals = {region.id: region.final for region in scenario.regions}
    return [{"frame": 0, "field": f"memory region {region['id']}",
             "expected": hashlib.sha256(finals[region["id"]] or b"").hexdigest(),
             "got": region["sha256"], "cycle": None} for region in regions if not region["ok"]]


def _summary(job: Job, seen: Observed, outcomes: list[Outcome]) -> dict[str, Any]:
    config, counters = job.config, seen.counters
    fates = fate(seen)
    rdma = [report["kind"] in RDMA for report in seen.reports]
    dropped = Counter(item["reason"] for item in fates if item["action"] == "dropped")
    opcodes = Counter(_opcode_name(report["opcode"]) for report, is_rdma
                      in zip(seen.reports, rdma, strict=True)
                      if is_rdma and report["error"] == "none")
    payload = counters["responder"]["placed_bytes"]
    wire = sum(wire_cycles(frame.data, config) for frame in job.scenario.frames)
    nanoseconds = seen.cycles / config.clock_mhz * 1e3
    return {
        "frames_total": len(seen.reports), "frames_in": sum(rdma),
        "frames_host_queue": len(seen.host_frames), "frames_out": len(seen.transmitted),
        "naks": _naks(seen), "dropped": dict(dropped), "packets_by_opcode": dict(opcodes),
        "cycles": seen.cycles, "clock_mhz": config.clock_mhz, "payload_bytes": payload,
        "payload_gbps": round(8 * payload / nanoseconds, 3) if nanoseconds else 0.0,
        "line_rate_fraction": round(wire / seen.cycles, 4) if seen.cycles else 0.0,
        "latency_cycles": _latency(seen),
        "context_cache": _cache(counters["context"]), "mpt_cache": _cache(counters["mpt"]),
        "cqc_cache": _cache(counters["cqc"]),
        "dma": {name: counters["dma"][name] for name in
                ("read_tlps", "write_tlps", "read_bytes", "write_bytes", "tags_max")},
        "host_latency_cycles": job.latency,
        "completions": [_completion(cqe) for _, cqe in seen.completions],
    }


def _opcode_name(opcode: int) -> str:
    known = OPCODES.get(opcode)
    return known.name if known else f"0x{opcode:02x}"


NAKS = {PSN_ERROR: "psn_sequence", INVALID_REQUEST: "invalid_request",
        REMOTE_ACCESS: "remote_access", REMOTE_OPERATIONAL: "remote_operational"}


def _naks(seen: Observed) -> dict[str, int]:
    """NAKs sent, by AETH syndrome (IBTA 9.7.5.2)."""
    found: Counter[str] = Counter()
    for _, frame in seen.transmitted:
        syndrome = parse(frame).get("aeth", {}).get("syndrome", 0)
        if syndrome >> 5 == 1:
            found["rnr"] += 1
        elif syndrome in NAKS:
            found[NAKS[syndrome]] += 1
    return dict(found)


def _latency(seen: Observed) -> dict[str, int | None]:
    """From a packet's first beat at the MAC to the responder's end with it."""
    taken = sorted(packet.cycle - seen.first[packet.sequence] for packet in seen.executed)
    if not taken:
        return {"p50": None, "p99": None, "max": None}
    return {"p50": round(statistics.median(taken)),
            "p99": taken[min(len(taken) - 1, len(taken) * 99 // 100)], "max": taken[-1]}


def _cache(counters: dict[str, int]) -> dict[str, Any]:
    lookups = counters["lookups"]
    names = ("lookups", "hits", "misses", "merged", "fills", "evictions", "writebacks",
             "outstanding_max")
    return {name: counters[name] for name in names} | {
        "hit_rate": round(counters["hits"] / lookups, 4) if lookups else None}


def _completion(cqe: bytes) -> dict[str, Any]:
    item = Completion(cqe)
    return {"qpn": item.qpn, "opcode": _name(WcOpcode, item.opcode),
            "status": _name(WcStatus, item.status), "byte_len": item.byte_len}


def _name(kind: Any, value: int) -> str | int:
    return kind(value).name if value in kind._value2member_map_ else value
