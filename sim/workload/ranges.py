"""Memory regions read off the requests: what a peer addressed was registered."""

from collections import defaultdict
from typing import NamedTuple

from sim.golden.answer import REMOTE_ACCESS
from sim.golden.layout import Kind, MrAccess
from sim.golden.memory import ADDRESS_SPACE, PAGE
from sim.workload.host_setup import HostSetup
from sim.workload.traffic import Seen

NEAR = 1 << 30  # ranges of a key further apart than this are not one region
EVERYTHING = (MrAccess.LOCAL_WRITE | MrAccess.REMOTE_WRITE | MrAccess.REMOTE_READ
              | MrAccess.REMOTE_ATOMIC)


class _Range(NamedTuple):
    start: int
    end: int
    uses: int = 1


def add_ranges(setup: HostSetup, requests: dict[int, list[Seen]], peers: dict[int, list[Seen]],
               notes: list[str]) -> list[tuple[int, int]]:
    """One region a key: the pages of all ranges that requests name; (address, length) of each.

    Requests that the capture shows refused with a remote access NAK grant nothing.
    """
    by_key: dict[int, list[_Range]] = defaultdict(list)
    for qpn, held in requests.items():
        refused = {seen.psn for seen in peers.get(qpn, [])
                   if seen.report.get("aeth", {}).get("syndrome") == REMOTE_ACCESS}
        for seen in held:
            if seen.psn not in refused:
                _collect(seen, by_key)
    ended = {seen.report["ieth"]["rkey"] for held in requests.values() for seen in held
             if "ieth" in seen.report}
    for key in ended:  # even if nothing else used it
        by_key.setdefault(key, [_Range(0, PAGE, 0)])
    added = []
    for key, ranges in sorted(by_key.items()):
        clusters = _clusters(ranges)
        best = max(clusters, key=lambda cluster: cluster.uses)
        length = best.end - best.start
        kind = Kind.FAST_REGION if key in ended else Kind.REGION
        if not setup.add_region(key, best.start, length, EVERYTHING, kind=kind):
            notes.append(f"key {key:#x} has the MPT entry of another key; its requests are refused")
            continue
        added.append((best.start, length))
        notes.append(f"key {key:#x} is taken as a region of {length} bytes at {best.start:#x}, "
                     "from the addresses in its requests; it holds zeros at first")
        if len(clusters) > 1:
            notes.append(f"key {key:#x}: addresses more than {NEAR >> 30} GiB from those are "
                         "refused")
    return added


def _collect(seen: Seen, by_key: dict[int, list[_Range]]) -> None:
    if "reth" in seen.report:
        fields, length = seen.report["reth"], seen.report["reth"]["length"]
    elif "atomiceth" in seen.report:
        fields, length = seen.report["atomiceth"], 8
    else:
        return
    end = -(-(fields["va"] + length) // PAGE) * PAGE
    if length and end <= ADDRESS_SPACE:
        by_key[fields["rkey"]].append(_Range(fields["va"] // PAGE * PAGE, end))


def _clusters(ranges: list[_Range]) -> list[_Range]:
    clusters: list[_Range] = []
    for item in sorted(ranges):
        if clusters and item.start - clusters[-1].end <= NEAR:
            last = clusters.pop()
            item = _Range(last.start, max(last.end, item.end), last.uses + item.uses)
        clusters.append(item)
    return clusters
