"""Which peer QP belongs to which of ours: no packet names both, so answers have to tell."""

from bisect import bisect_left
from collections import Counter, defaultdict

from sim.workload.traffic import Seen

Flow = tuple[str, int]  # peer's address, peer's QPN


def pair_with_peers(requests: dict[int, list[Seen]], sent: list[Seen]) -> dict[int, list[Seen]]:
    """The answers among `sent` for each of our QPNs that has any.

    An answer repeats the PSN of a request, so the QP that last got that PSN from the answer's
    destination votes for the answer's QPN. What is left over is paired by who asked last before
    the first answer went out.
    """
    answers: dict[Flow, list[Seen]] = defaultdict(list)
    for seen in sent:
        if seen.is_answer:
            answers[seen.report["ip"]["dst"], seen.dqpn].append(seen)
    pairs = _best(_votes(requests, answers))
    _pair_by_time(requests, answers, pairs)
    return {qpn: answers[flow] for flow, qpn in pairs.items()}


def _votes(requests: dict[int, list[Seen]],
           answers: dict[Flow, list[Seen]]) -> Counter[tuple[Flow, int]]:
    arrivals: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for qpn, held in requests.items():
        for seen in held:
            arrivals[seen.report["ip"]["src"], seen.psn].append((seen.number, qpn))
    for found in arrivals.values():
        found.sort()
    votes: Counter[tuple[Flow, int]] = Counter()
    for flow, held in answers.items():
        for answer in held:
            found = arrivals.get((flow[0], answer.psn), [])
            before = bisect_left(found, (answer.number, 0))
            if before:
                votes[flow, found[before - 1][1]] += 1
    return votes


def _best(votes: Counter[tuple[Flow, int]]) -> dict[Flow, int]:
    """One to one, most votes first."""
    pairs: dict[Flow, int] = {}
    for (flow, qpn), _ in votes.most_common():
        if flow not in pairs and qpn not in pairs.values():
            pairs[flow] = qpn
    return pairs


def _pair_by_time(requests: dict[int, list[Seen]], answers: dict[Flow, list[Seen]],
                  pairs: dict[Flow, int]) -> None:
    for flow, held in answers.items():
        taken = set(pairs.values())
        if flow not in pairs:
            asked = [(seen.number, qpn) for qpn, theirs in requests.items() if qpn not in taken
                     for seen in theirs
                     if seen.report["ip"]["src"] == flow[0] and seen.number < held[0].number]
            if asked:
                pairs[flow] = max(asked)[1]
