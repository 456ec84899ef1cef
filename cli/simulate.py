"""rnic simulate: a capture through the RTL NIC, beside the golden model."""

from pathlib import Path

import click

from cli import options, output

FIRST = Path(__file__).resolve().parent.parent / "captures" / "first.pcap"


@click.command("simulate")
@click.argument("capture", type=click.Path(path_type=Path), default=FIRST, required=False)
@click.option("--truth", default="auto", metavar="FILE|none",
              help="What the hosts had set up; the file beside the capture if not given. "
                   "none: work it out from the capture.")
@click.option("--latency", type=click.IntRange(1, 100_000), default=200, show_default=True,
              metavar="CYCLES", help="How long the host's memory takes to answer.")
@options.configured
@options.simulator
@options.seed
@options.json_file("Write the result")
@options.waves
@options.quiet
def command(capture: Path, truth: str, latency: int, config_name: str, settings: tuple[str, ...],
            simulator: str, seed: int, json_path: Path | None, waves: Path | None,
            quiet: bool) -> int:
    """Replay CAPTURE (pcap or pcapng) into the NIC and compare it with the golden model.

    Every packet sent, every context and all of the host's memory are compared. Without CAPTURE,
    the bundled captures/first.pcap is replayed. Exit status 1 when something differs.
    """
    config = options.resolve(config_name, settings)
    from sim.workload.replay import load
    scenario = load(capture, None if truth == "none" else truth,
                    entry_bytes=config.context.entry_bytes)
    from tb.nic_run import simulate_scenario
    with output.progress_bar(scenario.name, quiet) as progress:
        result = simulate_scenario(scenario, config, simulator=simulator, seed=seed,
                                   latency=latency, waves=waves, progress=progress)
    output.write_json(json_path, result)
    if not quiet and str(json_path) != "-":
        from cli.table import print_result
        print_result(result)
    return 0 if result["verdict"] == "pass" else 1
