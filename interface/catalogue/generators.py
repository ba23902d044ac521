"""Generators of synthetic workloads: each follows one paper's experiments and returns a `Workload`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

GENERATORS: Mapping[str, str] = MappingProxyType(
    {
        "allocation": "keyshift.models.families.allocation:synthetic_workload",
    }
)
"""Name -> ``"module:function"``; the function's parameters are the options of ``keyshift generate``."""
