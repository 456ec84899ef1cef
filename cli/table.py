"""The result of `simulate` for people."""

import os
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

Row = tuple[str, str]


def print_result(result: dict[str, Any]) -> None:
    console = Console()
    passed = result["verdict"] == "pass"
    title = "[green]pass[/]: hardware and model agree" if passed else \
        "[red]fail[/]: hardware, model and capture do not agree"
    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in rows(result):
        table.add_row(name, escape(value))
    console.print(table)
    for note in result.get("notes", []):
        console.print(f"note: {escape(note)}", highlight=False)
    if result["mismatches"]:
        console.print(_mismatches(result["mismatches"]))
        more = result.get("mismatch_count", 0) - len(result["mismatches"])
        if more > 0:
            console.print(f"and {more} more")


def rows(result: dict[str, Any]) -> Iterator[Row]:
    yield "configuration", (f"{result['config']}, {result['simulator']}, seed {result['seed']}")
    yield from _frames(result)
    yield from _rates(result)
    yield from _caches(result)
    yield from _host(result)
    wall = result["wall_s"]
    speed = result.get("cycles_per_s")
    yield "wall time", (f"build {wall['build']:.1f} s, run {wall['run']:.1f} s"
                        + (f", {speed:,.0f} cycles/s" if speed else ""))


def _frames(result: dict[str, Any]) -> Iterator[Row]:
    queued = result.get("frames_host_queue")
    yield "frames in", (f"{result['frames_in']} RDMA"
                        + (f", {queued} to the host queue" if queued is not None else ""))
    yield "frames out", str(result["frames_out"])
    yield "dropped", _counts(result["dropped"]) or "none"
    if result.get("naks"):
        yield "NAKs", _counts(result["naks"])
    yield "packets", _counts(result["packets_by_opcode"]) or "none"


def _rates(result: dict[str, Any]) -> Iterator[Row]:
    clock = result["clock_mhz"]
    yield "time", (f"{result['cycles']:,} cycles, {result['cycles'] / clock:.2f} µs "
                   f"at {clock:g} MHz")
    yield "payload", (f"{result['payload_bytes']:,} bytes, {result['payload_gbps']:.1f} Gb/s; "
                      f"{100 * result['line_rate_fraction']:.1f} % of the line rate")
    latency = result["latency_cycles"]
    if latency["p50"] is not None:
        yield "latency", (f"p50 {latency['p50']}, p99 {latency['p99']}, "
                          f"max {latency['max']} cycles")


def _caches(result: dict[str, Any]) -> Iterator[Row]:
    cache = result["context_cache"]
    if cache["hit_rate"] is None:
        return
    yield "context cache", (
        f"{cache['lookups']} lookups, {100 * cache['hit_rate']:.1f} % hits, "
        f"{cache['fills']} fills, {cache['evictions']} evictions, "
        f"{cache['writebacks']} write-backs")


def _host(result: dict[str, Any]) -> Iterator[Row]:
    dma = result["dma"]
    yield "host bus", (f"{dma['read_tlps']} reads ({dma['read_bytes']:,} bytes), "
                       f"{dma['write_tlps']} writes ({dma['write_bytes']:,} bytes), "
                       f"{dma['tags_max']} reads in flight at most")
    regions = result["memory_regions"]
    right = sum(region["ok"] for region in regions)
    yield "memory regions", f"{right} of {len(regions)} as they must be" if regions \
        else "final contents not known"
    if result.get("oddities_allowed"):
        yield "oddities allowed", _counts(result["oddities_allowed"])
    yield "completions", _counts_of(f"{item['opcode']} {item['status']}"
                                    for item in result["completions"]) or "none"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(
        counts.items(), key=lambda item: -item[1]))


def _counts_of(names: Iterator[str]) -> str:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return _counts(counts)


def _mismatches(found: list[dict[str, Any]]) -> Table:
    table = Table(title="mismatches", title_justify="left")
    columns = ("frame", "field", "expected", "got", "cycle")
    for name in columns:
        table.add_column(name)
    for item in found:
        expected, got = where_they_part(_text(item["expected"]), _text(item["got"]))
        table.add_row(_text(item["frame"]), escape(item["field"]), escape(expected), escape(got),
                      _text(item.get("cycle")))
    return table


def _text(value: Any) -> str:
    return "-" if value is None else str(value)


def where_they_part(expected: str, got: str, shown: int = 16) -> tuple[str, str]:
    """Long texts from the first difference on; of bytes in hex, with the number of that byte."""
    if max(len(expected), len(got)) <= 40:
        return expected, got
    same = len(os.path.commonprefix([expected, got]))
    if all(set(text) <= set("0123456789abcdef") for text in (expected, got)):
        byte = same // 2
        parts = [f"byte {byte} of {len(text) // 2}: {_cut(text[2 * byte:], shown)}"
                 for text in (expected, got)]
        return parts[0], parts[1]
    start = max(0, same - shown // 2)
    lead = "…" if start else ""
    return lead + _cut(expected[start:], 2 * shown), lead + _cut(got[start:], 2 * shown)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"
