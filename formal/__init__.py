"""Proofs of the blocks: each module named in `UNITS` holds its `PROOFS` (docs/formal.md)."""

import importlib

UNITS = ("stream", "deparser", "icrc", "parser")


def proofs(unit: str, *, quick: bool = False):
    """Those of a unit, or the cheap ones of them."""
    every = importlib.import_module(f"formal.{unit}").PROOFS
    return tuple(proof for proof in every if proof.quick or not quick)
