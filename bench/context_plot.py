"""The plot of docs/context-cache.md: `python -m bench.context_plot docs/context-qps.svg`."""

import sys

import matplotlib
from matplotlib import pyplot

from bench.context_qps import LATENCIES_NS, PATTERNS, QPS, caches, rate, requests
from rtl.config import load

COUNT = 400_000
STYLES = {500: "-", 1000: "--"}


def plot(path: str) -> None:
    matplotlib.rcParams["svg.hashsalt"] = "rnic"  # the same picture from the same figures
    config = load()
    figure, axes = pyplot.subplots(1, len(PATTERNS), figsize=(11, 3.6), sharey=True)
    for axis, pattern in zip(axes, PATTERNS, strict=True):
        for color, (name, cache) in enumerate(caches(config).items()):
            for latency in LATENCIES_NS:
                rates = [rate(config, cache, requests(pattern, qps, COUNT), latency)[0]
                         for qps in QPS]
                axis.plot(QPS, rates, STYLES[latency], color=f"C{color}", marker=".",
                          label=f"{name}, {latency} ns")
        axis.set(xscale="log", yscale="log", title=pattern, xlabel="QPs", ylim=(0.01, 1.5))
        axis.set_xscale("log", base=4)
        axis.set_xticks(QPS[::2], ["1", "16", "256", "4 K", "64 K"])
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("lookups a cycle")
    axes[0].legend(fontsize=7, loc="lower left")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


if __name__ == "__main__":
    plot(sys.argv[1])
