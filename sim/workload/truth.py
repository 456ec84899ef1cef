"""Truth files: what a capture's hosts had set up, and their memory before and after."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

FORMAT = "rxe-truth-1"


class TruthError(ValueError):
    """A truth file that cannot be used; the text is one line with the remedy."""


class TruthRegion(NamedTuple):
    """A memory region of host A with its contents."""

    id: int
    va: int
    length: int
    lkey: int
    rkey: int
    access: str  # "lw rr rw ra"
    initial: bytes
    final: bytes


class Truth(NamedTuple):
    path: Path
    fields: dict[str, Any]
    regions: list[TruthRegion]

    def mac(self, host: str) -> str:
        return self.fields["hosts"][host]["mac"]


def read_truth(path: str | Path) -> Truth:
    """The file with the memory of host A, everything checked that it says of itself."""
    path = Path(path)
    fields = _read_json(path)
    if fields["format"] != FORMAT:
        raise TruthError(f"{path}: format is {fields['format']!r}; this program reads {FORMAT}")
    try:
        for host in "AB":
            bytes.fromhex(fields["hosts"][host]["mac"].replace(":", ""))
        regions = [_region(path, region) for region in fields["memory_regions"]
                   if region["host"] == "A"]
        for key in ("connections", "memory_windows"):
            list(fields[key])
        int(fields["capture"]["frames"])
    except TruthError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise misfit(path, error) from None
    return Truth(path, fields, regions)


def misfit(path: Path, error: Exception) -> TruthError:
    """What an exception while reading the file's fields means to its user."""
    what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else f"damaged ({error})"
    return TruthError(f"{path}: {what}; make the truth file again, or move it away to replay "
                      "from the capture alone")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        fields = json.loads(path.read_text())
    except FileNotFoundError:
        raise TruthError(f"{path}: no such truth file; give its path, or replay from the "
                         "capture alone") from None
    except OSError as error:
        raise TruthError(f"{path}: cannot be read ({error.strerror}); give the path of a "
                         "truth file") from None
    except ValueError as error:  # JSON and UTF-8
        raise TruthError(f"{path}: no JSON ({error}); make the truth file again") from None
    if not isinstance(fields, dict) or "format" not in fields:
        raise TruthError(f"{path}: no truth file (no \"format\"); this program reads {FORMAT}")
    return fields


def _region(path: Path, fields: dict[str, Any]) -> TruthRegion:
    initial, final = (_image(path, fields, when) for when in ("initial", "final"))
    return TruthRegion(fields["id"], fields["va"], fields["length"], fields["lkey"],
                       fields["rkey"], fields["access"], initial, final)


def _image(path: Path, fields: dict[str, Any], when: str) -> bytes:
    name = fields[f"{when}_bin"]
    try:
        data = (path.parent / name).read_bytes()
    except OSError:
        raise TruthError(f"{path}: memory file {name} of region {fields['id']} cannot be read; "
                         "put it beside the truth file") from None
    if len(data) != fields["length"]:
        raise TruthError(f"{path}: memory file {name} has {len(data)} bytes, region "
                         f"{fields['id']} has {fields['length']}; fetch the file again")
    if hashlib.sha256(data).hexdigest() != fields[f"{when}_sha256"]:
        raise TruthError(f"{path}: memory file {name} has not the SHA-256 that the truth file "
                         "gives; fetch the file again")
    return data
