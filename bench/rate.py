"""What the benches of the wire side share: every width, and beats a cycle out of cycles."""

import dataclasses
import shutil
from collections.abc import Iterator, Sequence

from bench.row import Settings
from rtl.config import DATA_WIDTHS

SMALL_FRAME = 64  # bytes
ONE_BEAT = 512  # bits from which such a frame is one beat


def every_width(settings: Settings) -> Iterator[Settings]:
    """`settings` at each data width. Quick runs take Icarus, which builds in a moment."""
    quick = settings.quick and shutil.which("iverilog")
    for width in DATA_WIDTHS:
        config = dataclasses.replace(settings.config, data_width=width,
                                     name=f"{settings.config.name} {width} b")
        yield dataclasses.replace(settings, config=config,
                                  simulator="icarus" if quick else settings.simulator)


def beats(length: int, width: int) -> int:
    """Of a frame of `length` bytes."""
    return -(-8 * length // width)


def rate(cycles: Sequence[int], items: int | None = None) -> float:
    """Items (beats, unless said) a cycle, from the cycles in which beats were transferred."""
    count = len(cycles) if items is None else items
    return round(count / (cycles[-1] - cycles[0] + 1), 4)


def parts(cycles: Sequence[int], lengths: Sequence[Sequence[int]],
          width: int) -> Iterator[Sequence[int]]:
    """The cycles of the beats, cut after each group of frames of these lengths."""
    start = 0
    for group in lengths:
        end = start + sum(beats(length, width) for length in group)
        yield cycles[start:end]
        start = end
    if start != len(cycles):
        raise ValueError(f"{len(cycles)} beats where the frames have {start}")
