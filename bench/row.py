"""What a benchmark takes and gives."""

from dataclasses import dataclass
from typing import Any

from rtl.config import NicConfig

Row = dict[str, Any]
AGREED = "agreed"  # metric that is 1 when hardware and model agreed: no figure counts without


@dataclass(frozen=True, kw_only=True)
class Settings:
    config: NicConfig
    simulator: str = "verilator"
    seed: int = 1
    quick: bool = False  # under a minute


def make_row(bench: str, settings: Settings, metric: str, unit: str, value: float, *,
             at_least: float | None = None, at_most: float | None = None) -> Row:
    target = at_least if at_least is not None else at_most
    reached = None
    if at_least is not None:
        reached = value >= at_least
    elif at_most is not None:
        reached = value <= at_most
    return {"bench": bench, "config": settings.config.name, "metric": metric, "unit": unit,
            "value": value, "target": target, "ok": reached}
