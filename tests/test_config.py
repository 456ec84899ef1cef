"""Configurations: presets, files, single fields, and what cannot be built."""

import dataclasses

import pytest

from rtl.config import DATA_WIDTHS, DEFAULT_PRESET, PRESETS, ConfigError, load, override


@pytest.mark.parametrize("name", PRESETS)
def test_preset_builds(name):
    config = load(name)
    assert config.name == name
    assert config.data_width in DATA_WIDTHS


def test_rates_of_the_400g_presets():
    for name in ("fpga400g", "asic400g"):
        config = load(name)
        assert config.data_width * config.clock_mhz / 1e3 == pytest.approx(409.6)
        assert config.line_rate_gbps == 400


def test_default_is_asic400g():
    assert load() == load("asic400g")
    assert DEFAULT_PRESET == "asic400g"


def test_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        load().data_width = 64


def test_override_sets_nested_and_plain_fields():
    config = override(load("tiny"), ["context.ways=4", "data_width=128", "dma.mps=512"])
    assert (config.context.ways, config.data_width, config.dma.mps) == (4, 128, 512)
    assert config.context.sets == load("tiny").context.sets


def test_file_with_base(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "tiny"\nclock_mhz = 50\n[context]\nways = 8\n')
    config = load(str(path))
    assert (config.name, config.data_width, config.clock_mhz) == ("mine", 64, 50)
    assert (config.context.ways, config.context.sets) == (8, load("tiny").context.sets)


@pytest.mark.parametrize("setting, message", [
    ("data_width=100",
     "--set: data_width must be one of 64, 128, 256, 512, 1024, 2048, not 100"),
    ("context.ways=3", "--set: context: ways (policy plru) must be a power of 2, not 3"),
    ("context.sets=12", "--set: context: sets must be a power of 2, not 12"),
    ("dma.mps=abc", "--set: dma.mps: Input should be 128, 256, 512, 1024, 2048 or 4096"),
    ("dma.tags=3", "--set: dma: tags must be a power of 2, not 3"),
    ("mpt.entry_bytes=128", "--set: mpt.entry_bytes is 64 in the host interface"),
    ("context.entry_bytes=128", "--set: context.entry_bytes must be at least 256, not 128"),
    ("context.size=4", "--set context.size=4: no such field: context.size"),
    ("context=4", "--set context=4: no such field: context"),
    ("data_width.x=4", "--set data_width.x=4: no such field: data_width.x"),
    ("ways", "--set ways: write it as KEY=VALUE"),
    ("=4", "--set =4: no such field: "),
])
def test_setting_that_cannot_be(setting, message):
    with pytest.raises(ConfigError) as caught:
        override(load("tiny"), [setting])
    assert str(caught.value) == message


@pytest.mark.parametrize("setting", ["data_width=wide", "clock_mhz=0", "clock_mhz=nan",
                                     "clock_mhz=inf", "line_rate_gbps=inf", "context.policy=fifo",
                                     "dma.mps=300", "context.misses=0"])
def test_value_that_cannot_be_names_its_field(setting):
    with pytest.raises(ConfigError) as caught:
        override(load("tiny"), [setting])
    assert str(caught.value).startswith(f"--set: {setting.partition('=')[0]}: ")
    assert "\n" not in str(caught.value)


def test_unknown_preset_lists_the_presets():
    with pytest.raises(ConfigError) as caught:
        load("asic")
    assert str(caught.value) == ("no such configuration: asic (presets: tiny, fpga100g, fpga400g, "
                                 "asic400g, asic800g; or a .toml file)")


@pytest.mark.parametrize("text, message", [
    ("data_width = ", "Invalid value"),
    ('base = "huge"', "base: no such preset: huge"),
    ("base = [1]", "base: no such preset: [1]"),
    ("widht = 64", "no such field: widht"),
    ("[context]\nway = 2", "no such field: context.way"),
    ("context = 4", "context: "),
])
def test_bad_file_is_named(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_missing_file_is_named_once(tmp_path):
    path = str(tmp_path / "none.toml")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: No such file or directory"
