"""Compiled functions of the models: `@compiled` is Numba's, kept on disk from run to run.

Numba looks only at a function's own file to tell whether what it kept is still right, not at the
files of what it calls; so each state of the models' source has a folder of its own.
"""

import hashlib
from pathlib import Path

import numba

_HERE = Path(__file__).resolve().parent
_SOURCE = b"".join(path.read_bytes() for path in sorted(_HERE.glob("*.py")))
numba.config.CACHE_DIR = str(
    _HERE.parents[1] / ".cache" / "numba" / hashlib.sha256(_SOURCE).hexdigest()[:16])

# Inlined, since each function takes the whole model, and a call would copy it.
compiled = numba.njit(cache=True, error_model="numpy", forceinline=True)
