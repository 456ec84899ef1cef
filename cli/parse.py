"""rnic parse: every frame of a capture through the RTL parser."""

import json
from pathlib import Path
from typing import Any

import click

from cli import options, output


@click.command("parse")
@click.argument("capture", type=click.Path(path_type=Path))
@options.configured
@options.simulator
@options.json_file("Write JSON lines, one a frame")
@options.quiet
def command(capture: Path, config_name: str, settings: tuple[str, ...], simulator: str,
            json_path: Path | None, quiet: bool) -> int:
    """Put every frame of CAPTURE through the RTL parser and print a line for each."""
    config = options.resolve(config_name, settings)
    from sim.wire.capture import read_capture
    frames = [frame.data for frame in read_capture(capture)]
    from tb.parser_run import parse_frames
    with output.progress_bar(capture.name, quiet) as progress:
        reports = parse_frames(frames, config, simulator, progress=progress)
    for number, report in enumerate(reports, 1):  # as captures are counted
        report["frame"] = number
    if json_path is not None:
        output.write_text(json_path, "".join(json.dumps(report) + "\n" for report in reports))
    if not quiet and str(json_path) != "-":
        for report in reports:
            click.echo(line(report))
    return 0


def line(report: dict[str, Any]) -> str:
    """A frame as one line of text: number, kind, addresses, transport, payload, fault."""
    parts = [f"{report['frame']:5}", f"{report['kind']:5}"]
    ip, bth = report.get("ip"), report.get("bth")
    ends = ip or report.get("eth")
    if ends:
        parts.append(f"{ends['src']} > {ends['dst']}")
    if bth:
        parts.append(f"{_opcode(bth['opcode'])} qp {bth['dqpn']:#x} psn {bth['psn']}"
                     + (" ackreq" if bth["ackreq"] else ""))
        parts.append(f"{report['payload_length']} bytes")
    if report.get("icrc_ok") is False:
        parts.append("ICRC wrong")
    if report.get("error"):
        parts.append(f"error {report['error']}")
    return "  ".join(parts)


def _opcode(opcode: int) -> str:
    from sim.wire.opcodes import OPCODES
    return OPCODES[opcode].name if opcode in OPCODES else f"opcode {opcode:#04x}"
