"""Builds of simulators: cached, whole or not at all, with waveforms in the format asked for."""

import shutil

import pytest

from rtl.stream import SkidBuffer
from rtl.verilog import to_verilog
from tb import build
from tools.cache import BuildError, verilog

FST, VCD = b"\x00", b"$"  # how the files begin


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("tools.cache.CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def skid(simulator, **options):
    return build.simulate("skid", 16, lambda: to_verilog(SkidBuffer(16), "skid"), "tb.skid_tb",
                          simulator, job={"count": 50}, **options)


@pytest.mark.parametrize("suffix, start", [("fst", FST), ("vcd", VCD)])
def test_waveform_of_icarus(cache, tmp_path, suffix, start):
    path = tmp_path / f"run.{suffix}"
    assert skid("icarus", waves=path)["count"] == 50
    assert path.read_bytes().startswith(start)


@pytest.mark.slow
def test_waveform_of_verilator(cache, tmp_path):
    path = tmp_path / "run.vcd"
    assert skid("verilator", waves=path)["count"] == 50
    assert path.read_bytes().startswith(VCD)


def test_missing_libraries_of_the_waveform_are_named(cache, tmp_path, monkeypatch):
    for tool in ("make", "perl"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    (tmp_path / "g++").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError) as caught:
        skid("verilator", waves=tmp_path / "run.fst")
    assert str(caught.value) == ("Verilator needs lz4 and zlib to write .fst: apt-get install -y "
                                 "liblz4-dev zlib1g-dev; or write .vcd")


def test_second_build_is_the_first(cache):
    source = verilog("skid", 16, lambda: to_verilog(SkidBuffer(16), "skid"))
    folder = build.build("skid", source, "icarus")
    made = (folder / "sim.vvp").stat().st_mtime_ns
    assert build.build("skid", source, "icarus") == folder
    assert (folder / "sim.vvp").stat().st_mtime_ns == made
    other = verilog("skid", 8, lambda: to_verilog(SkidBuffer(8), "skid"))
    assert build.build("skid", other, "icarus") != folder


def test_failed_build_leaves_a_log_and_nothing_else(cache):
    source = verilog("broken", 1, lambda: "module broken(clk);\nnonsense\nendmodule\n")
    with pytest.raises(BuildError, match="icarus could not build broken: .*; see .*log"):
        build.build("broken", source, "icarus")
    left = sorted(path.suffix for path in (cache / "build").iterdir())
    assert left == [".lock", ".log"]


def test_generator_that_fails_leaves_no_verilog(cache):
    def fail():
        raise ValueError("no")
    with pytest.raises(ValueError, match="^no$"):
        verilog("skid", 1, fail)
    assert not list(cache.rglob("*.v"))
