"""How the innermost kernels are compiled."""

from __future__ import annotations

LEAF = {"cache": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
"""For `numba.njit`, of kernels that allocate nothing: without reference counts on the arrays that they are handed, and
merged into what calls them, searches take a half to a tenth of the time."""
