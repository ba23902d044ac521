"""Figures of a replay: one metric over the periods, one line for each method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keyshift.figures.comparison import write_figure
from keyshift.models.files.writing import make_folder

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from keyshift.figures.notebook_figure import Figure

LABELS = {
    "collocation_factor": "collocation factor (share of traffic)",
    "load_distance": "load distance (units of load)",
    "load_distance_percent": "load distance (% of the mean load)",
    "load_index": "load index (% of the load at the start)",
    "load_index_same_input": "load index (% of the same input unmoved)",
    "migrations": "migrations per period (key groups)",
    "oscillations": "moves straight back per period",
    "remote_traffic": "remote traffic per period (tuples)",
    "state_moved": "state moved per period",
    "theta": "theta (excess of the busiest node)",
    "table_size": "entries of the routing table",
    "regret": "regret (less the plan in hindsight)",
    "nodes": "nodes, draining ones included",
}
DEFAULT = ("collocation_factor", "load_distance_percent", "load_index", "migrations", "oscillations")
# Okabe and Ito's colours, which colour-blind readers can tell apart; markers help on paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "x")


def metric_figures(frame: pd.DataFrame, folder: Path, metrics: Sequence[str] | None = None) -> list[Path]:
    """Write ``<metric>.png`` for each metric; return the paths."""
    from keyshift.figures.notebook_figure import Figure

    make_folder(folder)
    written = []
    for metric in _present(frame, metrics):
        figure = Figure(figsize=(6.5, 3.6), layout="constrained")
        axes = figure.subplots()
        draw(axes, frame, metric)
        axes.legend(fontsize=9)
        written.append(write_figure(figure, folder / f"{metric}.png", 130))
    return written


def panels(frame: pd.DataFrame, metrics: Sequence[str] | None = None) -> Figure:
    """All metrics in one figure, two in a row."""
    from keyshift.figures.notebook_figure import Figure

    names = _present(frame, metrics)
    rows = (len(names) + 1) // 2
    figure = Figure(figsize=(11, 3.1 * rows), layout="constrained")
    grid = figure.subplots(rows, min(2, len(names)), squeeze=False).ravel()
    for axes, metric in zip(grid, names, strict=False):
        draw(axes, frame, metric)
    for axes in grid[len(names) :]:
        axes.set_visible(False)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(6, len(labels)), fontsize=9)
    return figure


def draw(axes: Axes, frame: pd.DataFrame, metric: str) -> None:
    """One metric over the periods."""
    for number, (method, part) in enumerate(frame.groupby("method", sort=False)):
        every = max(1, len(part) // 12)
        axes.plot(
            part["period"], part[metric], label=str(method), color=COLOURS[number % len(COLOURS)], linewidth=1.5,
            marker=MARKERS[number % len(MARKERS)], markersize=4, markevery=(number % every, every),
        )  # fmt: skip
    axes.set_xlabel("period")
    axes.set_ylabel(LABELS.get(metric, metric.replace("_", " ")), fontsize=9)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _present(frame: pd.DataFrame, metrics: Sequence[str] | None) -> list[str]:
    return [name for name in (DEFAULT if metrics is None else metrics) if name in frame]
