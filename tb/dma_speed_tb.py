"""Bench of the DMA engine's speed: in which cycle everything moved."""

import time
from collections import deque

import cocotb

from tb.build import read_job, write_result
from tb.dma_tb import REGION, SOURCE, Bench, Job

PAGES = 64  # of 4096 bytes, that the reads go round


@cocotb.test(timeout_time=200, timeout_unit="ms")
async def speed(dut):
    """`writes` and `reads` of the job: {length, skew, count}, each on one port, back to back.
    `bulk` writers more write what `writes` says, and as many readers more read the like.

    Gives the cycles of the requests taken, of each TLP (with its beats), of each beat read.
    """
    job = read_job()
    bench = Bench(dut, job)
    bench.fill(SOURCE, (PAGES + 1) * 4096)
    writer = bench.add_writer(_jobs(job["writes"], REGION, bench)) if "writes" in job else None
    reader = bench.add_reader(_jobs(job["reads"], SOURCE, bench)) if "reads" in job else None
    for i in range(1, job.get("bulk", 0) + 1):
        bench.add_writer(_jobs(job["writes"], REGION * (i + 1), bench))
        bench.add_reader(_jobs(job["writes"], SOURCE, bench))
    host = await bench.start(latency=job.get("latency", 100))
    host.requests = deque()
    started = time.monotonic()
    cycles = await bench.finish(limit=1_000_000, quiet=0)
    write_result({
        "cycles": cycles, "seconds": time.monotonic() - started,
        "writes_taken": writer.request.taken if writer else [],
        "reads_taken": reader.request.taken if reader else [],
        # the host counts from 1 and notes a TLP with its last beat
        "tlps": [(request.cycle - 1, request.write,
                  -(-request.length // host.lanes) if request.write else 1)
                 for request in host.requests],
        "read_beats": [cycle for cycle, _ in reader.response.items] if reader else [],
    })


def _jobs(what: dict[str, int], base: int, bench: Bench) -> list[Job]:
    length, skew = what["length"], what["skew"]
    step = length if length < 4096 else -(-length // 4096) * 4096
    room = min(PAGES * 4096, REGION - 8192)
    jobs = []
    for i in range(what["count"]):
        place = base + i * step % max(step, room - room % step) + skew
        jobs.append(Job(place, length, i % 1024,
                        b"" if base == SOURCE else bench.rng.randbytes(length)))
    return jobs

