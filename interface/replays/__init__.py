"""Replay: the adaptation loop over a stream of workloads. Begin with adaptation.py, which holds `keyshift.replay`."""

from __future__ import annotations

from keyshift.models.base.lazily import lazily, on_first_use

with lazily() as _LAZY:
    from keyshift.models.collocation.load_model import LoadModel
    from keyshift.replays.forecasting import Forecast
    from keyshift.replays.planner import NodeCounts, Planned, Planner, Scaling, TargetUtilisation
    from keyshift.replays.results import Replay

__all__ = ["Forecast", "LoadModel", "NodeCounts", "Planned", "Planner", "Replay", "Scaling", "TargetUtilisation"]
__getattr__ = on_first_use(globals(), _LAZY)
