"""Area and logic depth of the wire side's blocks at every width, on UltraScale+ (docs/synth.md)."""

from collections.abc import Iterator

from bench.rate import ONE_BEAT, every_width
from bench.row import Row, Settings, make_row
from tools.synth import synthesize

TARGET = "xcup"
UNITS = ("parser", "icrc_check", "icrc_insert", "deparser")
FIGURES = {"lut": "LUT", "ff": "FF", "bram": "BRAM36", "levels": "levels"}
DEPTH = 8  # levels from register to register, with which 300 MHz is within reach


def area(settings: Settings) -> list[Row]:
    """A quick run takes the smallest block at the smallest width."""
    if settings.quick:
        return list(_of("icrc_insert", next(every_width(settings))))
    return [row for each in every_width(settings) for unit in UNITS for row in _of(unit, each)]


def _of(unit: str, settings: Settings) -> Iterator[Row]:
    found = synthesize(unit, settings.config, TARGET)
    for key, name in FIGURES.items():
        goal = DEPTH if key == "levels" and settings.config.data_width == ONE_BEAT else None
        yield make_row("area", settings, f"{unit}, {TARGET}: {name}", "", found[key], at_most=goal)
    yield make_row("area", settings, f"{unit}, {TARGET}: memories in flip-flops", "",
                   len(found["memories_as_registers"]), at_most=0)
