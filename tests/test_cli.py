"""The command line: what it does, and what it says when it is asked for what cannot be."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.errors import report
from cli.main import COMMANDS
from cli.table import where_they_part
from rtl.units import UNITS

ROOT = Path(__file__).resolve().parent.parent
FIRST = ROOT / "captures" / "first.pcap"
COMMAND = [sys.executable, "-P", "-m", "cli"]


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", **extra}


def rnic(*arguments, cwd=ROOT, **env) -> subprocess.CompletedProcess:
    return subprocess.run([*COMMAND, *map(str, arguments)], cwd=cwd, env=environment(**env),
                          capture_output=True, text=True, timeout=300)


def refusal(*arguments, **options) -> str:
    """What follows `rnic: error: ` in the one line of a refused command."""
    done = rnic(*arguments, **options)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("rnic: error: ")
    return done.stderr.removeprefix("rnic: error: ").rstrip("\n")


# Usage

def test_help_names_every_command():
    done = rnic("--help")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.split("Commands:\n")[1].splitlines()] \
        == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS[:-1])
def test_help_of_a_command(command):
    done = rnic(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: rnic {command} ")


def test_no_command_shows_the_help():
    done = rnic()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Commands:" in done.stderr


@pytest.mark.parametrize("arguments, message", [
    (["simulat"], "No such command 'simulat'"),
    (["--foo"], "No such option '--foo'"),
    (["simulate", "--foo"], "No such option '--foo'"),
    (["simulate", "--trace", "x"], "No such option '--trace'"),  # until it is there
    (["simulate", "--simulator", "vcs"], "'vcs' is not one of 'verilator', 'icarus'"),
    (["simulate", "--seed", "-1"], "-1 is not in the range"),
    (["simulate", "--latency", "0"], "0 is not in the range"),
    (["simulate", "--config"], "Option '--config' requires an argument"),
    (["simulate", "a.pcap", "b.pcap"], "Got unexpected extra argument (b.pcap)"),
    (["parse"], "Missing argument 'CAPTURE'"),
    (["bench", "nothing"], "no such benchmark: nothing; there are simulate"),
    (["verilog", "--unit", "alu"], "'alu' is not one of 'nic', 'parser'"),
    (["verilog", "--output", "pyproject.toml"], "Directory 'pyproject.toml' is a file"),
])
def test_usage(arguments, message):
    said = refusal(*arguments)
    assert message in said
    assert re.search(r"\(see rnic( \w+)? --help\)$", said)


# Configuration

@pytest.mark.parametrize("command", ["simulate", "verilog", "bench"])
@pytest.mark.parametrize("arguments, message", [
    (["--config", "asic"], "no such configuration: asic (presets: tiny, fpga100g, fpga400g, "
                           "asic400g, asic800g; or a .toml file)"),
    (["--config", "none.toml"], "none.toml: No such file or directory"),
    (["--set", "ways=4"], "--set ways=4: no such field: ways"),
    (["--set", "context.ways"], "--set context.ways: write it as KEY=VALUE"),
    (["--set", "data_width=100"],
     "--set: data_width must be one of 64, 128, 256, 512, 1024, 2048, not 100"),
])
def test_configuration_that_cannot_be(command, arguments, message):
    assert refusal(command, *arguments) == message


# Captures, truth files and what is written

@pytest.fixture
def damaged(tmp_path):
    """Files that are no whole capture, and a capture without a truth file."""
    whole = FIRST.read_bytes()
    (tmp_path / "empty.pcap").touch()
    (tmp_path / "truncated.pcap").write_bytes(whole[:3000])
    (tmp_path / "text.pcap").write_text("no capture at all\n")
    (tmp_path / "folder.pcap").mkdir()
    (tmp_path / "alone.pcap").write_bytes(whole)
    (tmp_path / "foreign.json").write_text('{"format": "something else"}')
    return tmp_path


@pytest.mark.parametrize("command", ["simulate", "parse"])
@pytest.mark.parametrize("name, message", [
    ("none.pcap", "no such file; give the path of a pcap or pcapng capture"),
    ("empty.pcap", "the file is empty; give a pcap or pcapng capture"),
    ("truncated.pcap", "truncated in frame 27; fetch the file again"),
    ("text.pcap", "no capture (neither pcap nor pcapng); save it with tcpdump -w or Wireshark"),
    ("folder.pcap", "cannot be read (Is a directory); give the path of a pcap or pcapng capture"),
])
def test_file_that_is_no_capture(damaged, command, name, message):
    assert refusal(command, name, cwd=damaged) == f"{name}: {message}"


@pytest.mark.parametrize("truth, message", [
    ("none.json", "none.json: no such truth file; "),
    ("text.pcap", "text.pcap: no JSON "),
    ("folder.pcap", "folder.pcap: cannot be read (Is a directory); "),
    ("foreign.json", "foreign.json: format is 'something else'; "),
])
def test_truth_file_that_does_not_fit(damaged, truth, message):
    assert refusal("simulate", "alone.pcap", "--truth", truth, cwd=damaged).startswith(message)


@pytest.mark.parametrize("option, value, message", [
    ("--waves", "run.txt", "'run.txt' must end in .fst or .vcd"),
    ("--waves", "none/run.fst", "the directory of 'none/run.fst' does not exist; make it first"),
    ("--json", "none/run.json", "the directory of 'none/run.json' does not exist; make it first"),
    ("--json", "folder.pcap", "'folder.pcap' is a directory; give the name of a file"),
])
def test_output_that_cannot_be_written_is_found_out_first(damaged, option, value, message):
    assert message in refusal("simulate", option, value, cwd=damaged)


# What is missing on the machine

def test_missing_simulator_is_named_with_its_remedy(tmp_path):
    assert refusal("parse", FIRST, "--simulator", "icarus", PATH=str(tmp_path)) \
        == "icarus: iverilog is not installed: apt-get install -y iverilog"
    assert refusal("parse", FIRST, "--simulator", "verilator", PATH=str(tmp_path)) \
        == "Verilator needs g++: apt-get install -y g++ make perl"


def test_fault_of_the_program_is_one_line_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tools.cache.CACHE", tmp_path)
    assert report(RuntimeError("first line\nsecond line")) == 2
    assert capsys.readouterr().err == ("rnic: error: a fault of this program: RuntimeError: "
                                       f"first line (see {tmp_path}/error.log)\n")
    assert "second line" in (tmp_path / "error.log").read_text()


# Verilog

@pytest.mark.parametrize("unit", UNITS)
def test_unit_has_verilog_and_a_port_map_that_agree(unit, tmp_path):
    done = rnic("verilog", "--unit", unit, "--config", "tiny", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / f"{unit}.v").read_text()
    head = text[text.index(f"module {unit}("):]
    found = {name: (direction, int(high or 0) + 1) for direction, high, name in re.findall(
        r"^  (input|output) (?:\[(\d+):0\] )?\\?(\w+) ?;", head[:head.index("endmodule")],
        re.MULTILINE)}
    ports = json.loads((tmp_path / f"{unit}.ports.json").read_text())["ports"]
    assert {port["name"]: (port["direction"], port["width"]) for port in ports
            if port["width"]} == found
    for port in ports:
        places = [bit for field in port["fields"]
                  for bit in range(field["offset"], field["offset"] + field["width"])]
        assert sorted(places) == list(range(port["width"])) or not port["fields"], port["name"]
    assert (tmp_path / f"{unit}.f").read_text() == f"{unit}.v\n"
    page = (tmp_path / f"{unit}.ports.md").read_text()
    assert all(f"`{port['name']}`" in page for port in ports)


# Runs

def test_parse_gives_a_line_a_frame(tmp_path):
    done = rnic("parse", FIRST, "--config", "tiny", "--json", tmp_path / "frames.json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "frames.json").read_text().splitlines()]
    assert len(done.stdout.splitlines()) == len(rows)
    assert [row["frame"] for row in rows] == list(range(1, len(rows) + 1))
    roce = [row for row in rows if row["kind"] == "roce2"]
    assert len(roce) == 396  # 240 requests and 156 answers
    assert all(row["icrc_ok"] and row["error"] is None for row in roce)
    assert list(tmp_path.iterdir()) == [tmp_path / "frames.json"]  # nothing half-written


def test_parse_into_a_pipe_that_closes():
    done = subprocess.run(
        ["sh", "-c", f"{{ {' '.join(COMMAND)} parse {FIRST} --config tiny; echo $? >&2; }} | head "
         "-n 1 | cut -c 1"], env=environment(), capture_output=True, text=True, timeout=300)
    assert done.stderr in ("141\n", "0\n")  # 0: all of it fitted into the pipe


def test_simulate_agrees_and_says_so(tmp_path):
    done = rnic("simulate", "--config", "tiny", "--json", tmp_path / "result.json",
                PYTHONIOENCODING="ascii")  # a terminal without µ
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("pass: hardware and model agree")
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["verdict"] == "pass"
    assert (result["frames_in"], result["frames_out"]) == (240, 156)
    assert len(result["memory_regions"]) == 6
    assert all(region["ok"] for region in result["memory_regions"])


def test_simulate_quietly_to_stdout(tmp_path):
    done = rnic("simulate", "--config", "tiny", "--json", "-", "--truth", "none", "-q")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["verdict"] == "pass"
    assert result["source"] == "inferred"
    assert result["notes"]


def test_simulate_reports_a_mismatch_with_exit_status_1(tmp_path):
    for path in (FIRST, FIRST.with_suffix(".json")):
        shutil.copy(path, tmp_path)
    shutil.copytree(FIRST.with_suffix(".mem"), tmp_path / "first.mem")
    truth = json.loads((tmp_path / "first.json").read_text())
    region = next(item for item in truth["memory_regions"] if item["host"] == "A")
    final = tmp_path / region["final_bin"]
    final.write_bytes(bytes([final.read_bytes()[0] ^ 1]) + final.read_bytes()[1:])
    region["final_sha256"] = hashlib.sha256(final.read_bytes()).hexdigest()
    (tmp_path / "first.json").write_text(json.dumps(truth))
    done = rnic("simulate", tmp_path / "first.pcap", "--config", "tiny", "--json", "r.json",
                cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["verdict"] == "fail"
    assert [item["field"] for item in result["mismatches"]] == [f"memory region {region['id']}"]
    assert f"memory region {region['id']}" in done.stdout
    assert "fail" in done.stdout.splitlines()[0]


def test_test_command_runs_pytest(tmp_path):
    assert rnic("test", "-q", "--collect-only", "tests/test_config.py").returncode == 0
    assert rnic("test", "-q", "tests/none.py").returncode == 2


@pytest.mark.parametrize("expected, got, shown", [
    ("5", "6", ("5", "6")),
    ("ab" * 30 + "01" + "cd" * 20, "ab" * 30 + "0102", (
        "byte 31 of 51: cdcdcdcdcdcdcdcd…", "byte 31 of 32: 02")),
    ("the words are long enough to be cut and then differ: yes", "the words are long enough to be "
     "cut and then differ: no", ("…differ: yes", "…differ: no")),
])
def test_long_values_are_shown_from_their_first_difference(expected, got, shown):
    assert where_they_part(expected, got) == shown


# Interruption

def session(leader: int) -> set[int]:
    """Processes of the session that `leader` leads."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.add(int(status.parent.name))
    return found


def wait_for(what, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are seen in /proc")
@pytest.mark.parametrize("number, processes", [
    (signal.SIGINT, 2), (signal.SIGHUP, 2),  # while the Verilog is written
    (signal.SIGINT, 4), (signal.SIGTERM, 4),  # while it compiles: make, shell, g++
])
def test_interruption_leaves_no_process_behind(number, processes, tmp_path):
    """Only the program itself gets the signal, as from `kill`; its children must go with it.

    A shell lets what it runs in the background ignore SIGINT, and so all that is started there.
    """
    program = subprocess.Popen(
        [*COMMAND, "parse", FIRST, "--config", "tiny"], start_new_session=True,
        env=environment(RNIC_CACHE=str(tmp_path)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    try:
        assert wait_for(lambda: len(session(program.pid)) >= processes)
        program.send_signal(number)
        _, err = program.communicate(timeout=20)
        assert program.returncode == 128 + number
        assert err.strip() == "rnic: interrupted"
        assert wait_for(lambda: not session(program.pid), 2)
    finally:
        for left in session(program.pid):
            os.kill(left, signal.SIGKILL)
    assert not list(tmp_path.glob("build/*/done"))


