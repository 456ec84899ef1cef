"""Bench of the deparser, alone or with the ICRC's insertion: items in, frames out, written down."""

import random

import cocotb
from cocotb.clock import Clock

from tb.build import read_job, write_result
from tb.ports import Sink, Source, beats, is_last, packets, reset, run


@cocotb.test()
async def frames(dut):
    job = read_job()
    width = job["width"]
    rng = random.Random(cocotb.RANDOM_SEED)
    Clock(dut.clk, 2, unit="ns").start(start_high=False)
    idle, stall = job.get("idle", 0), job.get("stall", 0)
    headers = Source(dut, "headers", rng, idle)
    payload = Source(dut, "payload", rng, idle)
    headers.queue.extend(int(word, 16) for word in job["headers"])
    for data, error in zip(job["payloads"], job["errors"], strict=True):
        payload.queue.extend(beats(bytes.fromhex(data), width, bool(error),
                                   rng.getrandbits(width)))
    out = Sink(dut, "o", rng, stall)
    sinks = [out]
    if job["alone"]:
        sinks.append(Sink(dut, "info", rng, stall))
    await reset(dut)

    looked = ended = 0

    def done() -> bool:
        nonlocal looked, ended
        ended += sum(is_last(word, width) for _, word in out.items[looked:])
        looked = len(out.items)
        return ended == len(job["headers"])

    limit = 400 + 40 * (len(headers.queue) * 16 + len(payload.queue))
    await run(dut, [headers, payload, *sinks], done, limit, quiet=40)
    assert not headers.queue and not payload.queue, "something was not taken"
    words = [word for _, word in out.items]
    error_bit = width + 1 + (width // 8 - 1).bit_length()
    write_result({
        "frames": [frame.hex() for frame in packets(words, width)],
        "errors": [word >> error_bit & 1 for word in words if is_last(word, width)],
        "infos": [hex(word) for _, word in sinks[-1].items] if len(sinks) > 1 else [],
        "beats": len(words),
        "out_cycles": out.items[-1][0] - out.items[0][0] + 1,
        "latency": out.items[0][0] - headers.taken[0],
        "cycles": [cycle for cycle, _ in out.items],
    })
