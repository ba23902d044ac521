"""The figure of a front. Matplotlib loads when it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keyshift.figures.comparison import AFTER, BEFORE, BOUND, write_figure
from keyshift.models import Solution

if TYPE_CHECKING:
    from keyshift.figures.notebook_figure import Figure
    from keyshift.fronts.front import Front

COLOURS = ("#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
MARKERS = "sD^vPX*"


def front_figure(front: Front, path: str | Path | None = None, others: Sequence[Solution] = ()) -> Figure:
    """Draw the front as a staircase, its bounds below it, other solutions beside it; positive values on a log scale."""
    from keyshift.figures.notebook_figure import Figure

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
    unit, label = _unit(front)
    share = front.second * unit
    axes.step(share, front.objective, where="post", color=AFTER, linewidth=1.5, zorder=2)
    axes.plot(share, front.objective, "o", color=AFTER, label="front", zorder=3)
    bounds = np.array([np.nan if not s.bound else s.bound for s in front], dtype=float)
    axes.plot(share, bounds, "_", color=BOUND, markersize=12, markeredgewidth=2, label="lower bound")
    for low, high, x in zip(bounds, front.objective, share, strict=True):
        if np.isfinite(low):
            axes.plot([x, x], [low, high], color=BEFORE, linewidth=0.8, zorder=1)
    for i, s in enumerate(o for o in others if o.assignment is not None):
        x, colour = s.metrics[front.trade.metric] * unit, COLOURS[i % len(COLOURS)]
        axes.plot(
            [x],
            [float(s.objective or 0.0)],
            MARKERS[i % len(MARKERS)],
            color=colour,
            markersize=8,
            label=s.method,
            zorder=4,
        )
    if front.objective.min() > 0:
        axes.set_yscale("log")
    name = front.problem.objective_name
    axes.set_xlabel(label)
    axes.set_ylabel("imbalance h, summed over the windows" if front.problem.name == "mclb" else name)
    axes.set_title(f"{name.capitalize()} against {front.trade.name.replace('-', ' ')}")
    axes.legend(loc="best", fontsize=8)
    axes.grid(True, alpha=0.3)
    if path is not None:
        write_figure(figure, path)
    return figure


def _unit(front: Front) -> tuple[float, str]:
    """Factor and label of the second objective's axis: state in shares of all of it."""
    if front.trade.metric != "state_moved":
        return 1.0, front.trade.label
    total = float(front.problem.workload.state.sum()) or 1.0  # type: ignore[attr-defined]
    return 100 / total, "state moved (% of all state)"
