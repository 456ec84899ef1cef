"""The configuration of the NIC: one frozen object that every block reads its geometry from.

Named presets are in `PRESETS`; `load` reads a preset name or a TOML file, `override` applies
`key=value` texts such as `context.ways=4`. A value that cannot be built raises `ConfigError`
with one line that names the field and the limit.
"""

import dataclasses
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

DATA_WIDTHS = (64, 128, 256, 512, 1024, 2048)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ConfigError(ValueError):
    """A configuration that cannot be built; the text is one line."""


def _power_of_two(name: str, value: int) -> None:
    if value < 1 or value & (value - 1):
        raise ValueError(f"{name} must be a power of 2, not {value}")


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class CacheConfig:
    """Geometry of one context cache (see docs/context-cache.md)."""

    sets: Annotated[int, Field(ge=1, le=65536)] = 64
    ways: Annotated[int, Field(ge=1, le=16)] = 4
    entry_bytes: Literal[64, 128, 256, 512] = 256  # size of a slot in the host's table
    misses: Annotated[int, Field(ge=1, le=512)] = 16  # M: fetches in flight
    targets: Annotated[int, Field(ge=1, le=64)] = 4  # T: requests merged into one miss
    write_buffer: Annotated[int, Field(ge=1, le=64)] = 4  # dirty victims on their way out
    policy: Literal["plru", "lru", "srrip", "random"] = "plru"
    index: Literal["modulo", "hash"] = "modulo"
    tenants: Literal[1, 2, 4, 8, 16] = 1  # who may be given ways of their own
    timeout_cycles: Annotated[int, Field(ge=1024, le=1 << 30)] = 1 << 18  # of a fetch

    @model_validator(mode="after")
    def _check(self) -> "CacheConfig":
        _power_of_two("sets", self.sets)
        if self.policy == "plru":
            _power_of_two("ways (policy plru)", self.ways)
        return self


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class DmaConfig:
    """Limits of the PCIe link that the DMA engine keeps (bytes; see docs/dma.md)."""

    mps: Literal[128, 256, 512, 1024, 2048, 4096] = 256  # Max_Payload_Size
    mrrs: Literal[128, 256, 512, 1024, 2048, 4096] = 512  # Max_Read_Request_Size
    rcb: Literal[64, 128] = 64  # Read Completion Boundary
    tags: Annotated[int, Field(ge=1, le=1024)] = 64  # reads in flight
    timeout_cycles: Annotated[int, Field(ge=256, le=1 << 30)] = 1 << 16  # of a read
    # TLPs a round, where payload has 1: of the context caches, and of completions and receive WQEs
    context_weight: Annotated[int, Field(ge=1, le=16)] = 4
    completion_weight: Annotated[int, Field(ge=1, le=16)] = 2

    @model_validator(mode="after")
    def _check(self) -> "DmaConfig":
        _power_of_two("tags", self.tags)
        return self


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class ParserConfig:
    """Limits of the wire side (bytes)."""

    max_frame: Annotated[int, Field(ge=1518, le=16000)] = 9216  # longer frames are `oversize`
    host_queues: Literal[1, 2, 4, 8, 16] = 4  # receive queues for traffic that is not RDMA


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class NicConfig:
    """The whole NIC. Bytes, bits and cycles as the fields say."""

    name: str = "custom"
    data_width: int = 512  # bits of a beat, wire side and host side alike
    clock_mhz: Positive = 800.0  # nominal; turns cycles into seconds
    line_rate_gbps: Positive = 400.0  # of the Ethernet port
    context: CacheConfig = CacheConfig(sets=256, ways=4, entry_bytes=256, misses=64)
    mpt: CacheConfig = CacheConfig(sets=128, ways=4, entry_bytes=64)
    cqc: CacheConfig = CacheConfig(sets=64, ways=4, entry_bytes=64)
    dma: DmaConfig = DmaConfig()
    parser: ParserConfig = ParserConfig()

    @model_validator(mode="after")
    def _check(self) -> "NicConfig":
        if self.data_width not in DATA_WIDTHS:
            widths = ", ".join(map(str, DATA_WIDTHS))
            raise ValueError(f"data_width must be one of {widths}, not {self.data_width}")
        for name in ("mpt", "cqc"):
            if getattr(self, name).entry_bytes != 64:
                raise ValueError(f"{name}.entry_bytes is 64 in the host interface")
        if self.context.entry_bytes < 256:
            raise ValueError(
                f"context.entry_bytes must be at least 256, not {self.context.entry_bytes}")
        return self

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8


_SMALL = {
    "context": {"sets": 8, "ways": 2, "misses": 4, "targets": 2, "write_buffer": 2},
    "mpt": {"sets": 8, "ways": 2, "entry_bytes": 64, "misses": 4, "targets": 2,
            "write_buffer": 2},
    "cqc": {"sets": 8, "ways": 2, "entry_bytes": 64, "misses": 2, "targets": 2,
            "write_buffer": 2},
    "dma": {"tags": 8},
}

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"data_width": 64, "clock_mhz": 100.0, "line_rate_gbps": 6.4, **_SMALL},
    "fpga100g": {"data_width": 512, "clock_mhz": 250.0, "line_rate_gbps": 100.0},
    "fpga400g": {"data_width": 2048, "clock_mhz": 200.0},
    "asic400g": {"data_width": 512, "clock_mhz": 800.0},
    "asic800g": {"data_width": 1024, "clock_mhz": 800.0, "line_rate_gbps": 800.0},
}
DEFAULT_PRESET = "asic400g"

_ADAPTER = TypeAdapter(NicConfig)


def _build(fields: dict[str, Any], origin: str) -> NicConfig:
    try:
        return _ADAPTER.validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            raise ConfigError(f"{origin}: no such field: {where}") from None
        message = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{origin}: {where + ': ' if where else ''}{message}") from None


def load(name: str = DEFAULT_PRESET) -> NicConfig:
    """A preset by name, or a TOML file that may name one as its `base`."""
    if name in PRESETS:
        return _build({"name": name, **PRESETS[name]}, name)
    path = Path(name)
    if path.suffix != ".toml":
        raise ConfigError(f"no such configuration: {name} (presets: {', '.join(PRESETS)}; "
                          "or a .toml file)")
    try:
        fields = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{name}: {error}") from None
    base = fields.pop("base", DEFAULT_PRESET)
    if not isinstance(base, str) or base not in PRESETS:
        raise ConfigError(f"{name}: base: no such preset: {base}")
    merged = _merge({"name": path.stem, **PRESETS[base]}, fields)
    return _build(merged, name)


def _merge(base: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in extra.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) \
            else value
    return merged


def override(config: NicConfig, settings: list[str] | tuple[str, ...]) -> NicConfig:
    """`config` with `key=value` texts applied, for instance `context.ways=4`."""
    fields = dataclasses.asdict(config)
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: write it as KEY=VALUE")
        node, *rest = [part.strip() for part in key.split(".")][::-1]
        place: Any = fields
        for part in reversed(rest):
            place = place.get(part) if isinstance(place, dict) else None
        if not isinstance(place, dict) or node not in place or isinstance(place[node], dict):
            raise ConfigError(f"--set {text}: no such field: {key.strip()}")
        place[node] = _number(value.strip()) if isinstance(place[node], int) else value.strip()
    return _build(fields, "--set")


def _number(text: str) -> int | str:
    """Literal fields compare with numbers; a text that is none is left for the message."""
    try:
        return int(text, 0)
    except ValueError:
        return text
