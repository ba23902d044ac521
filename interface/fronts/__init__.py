"""Pareto fronts: the trade-off between two objectives. Begin with front.py, which holds `keyshift.pareto`."""

from __future__ import annotations

from keyshift.models.base.lazily import lazily, on_first_use

with lazily() as _LAZY:
    from keyshift.fronts.front import Distance, Front

__all__ = ["Distance", "Front"]
__getattr__ = on_first_use(globals(), _LAZY)
