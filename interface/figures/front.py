"""The figure of a front. Matplotlib loads when it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keyshift.figures.comparison import AFTER, BEFORE, BOUND, figure_path
from keyshift.models import Solution

if TYPE_CHECKING:
    from keyshift.figures.notebook_figure import Figure
    from keyshift.fronts.front import Front

COLOURS = ("#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
MARKERS = "sD^vPX*"


def front_figure(front: Front, path: str | Path | None = None, others: Sequence[Solution] = ()) -> Figure:
    """Draw the front as a staircase, its bounds below it, other solutions beside it; imbalance on a log scale."""
    from keyshift.figures.notebook_figure import Figure

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
    total = float(front.problem.workload.state.sum()) or 1.0  # type: ignore[attr-defined]
    share = 100 * front.state_moved / total
    axes.step(share, front.imbalance, where="post", color=AFTER, linewidth=1.5, zorder=2)
    axes.plot(share, front.imbalance, "o", color=AFTER, label="front", zorder=3)
    bounds = np.array([np.nan if not s.bound else s.bound for s in front], dtype=float)
    axes.plot(share, bounds, "_", color=BOUND, markersize=12, markeredgewidth=2, label="lower bound")
    for low, high, x in zip(bounds, front.imbalance, share, strict=True):
        if np.isfinite(low):
            axes.plot([x, x], [low, high], color=BEFORE, linewidth=0.8, zorder=1)
    for i, s in enumerate(o for o in others if o.assignment is not None):
        x, colour = 100 * s.metrics["state_moved"] / total, COLOURS[i % len(COLOURS)]
        axes.plot(
            [x],
            [float(s.objective or 0.0)],
            MARKERS[i % len(MARKERS)],
            color=colour,
            markersize=8,
            label=s.method,
            zorder=4,
        )
    if front.imbalance.min() > 0:
        axes.set_yscale("log")
    axes.set_xlabel("state moved (% of all state)")
    axes.set_ylabel("imbalance h, summed over the windows")
    axes.set_title("Imbalance against state moved")
    axes.legend(loc="best", fontsize=8)
    axes.grid(True, alpha=0.3)
    if path is not None:
        figure.savefig(figure_path(path), dpi=150)
    return figure
