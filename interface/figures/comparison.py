"""Figures. Matplotlib loads when the first one is drawn."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keyshift.catalogue.method import Trade
from keyshift.models import InputError, Problem, Solution, Workload, metrics
from keyshift.models.base.disk import expect_place, write_file
from keyshift.models.base.lazily import pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from keyshift.figures.notebook_figure import Figure


# Okabe and Ito's colours, which colour-blind readers can tell apart.
BEFORE, AFTER, BOUND, MEAN = "#999999", "#0072B2", "#D55E00", "#000000"


FORMATS = (".png", ".svg", ".pdf")


def figure_path(path: str | Path) -> Path:
    """The path of a figure to be written.

    Raises
    ------
    InputError
        For a format or folder that will not do.
    MissingDependencyError
        Where no figure can be drawn.
    """
    target = Path(path)
    if target.suffix not in FORMATS:
        raise InputError(f"{target}: a figure is written as one of {', '.join(FORMATS)}")
    expect_pictures()
    return expect_place(target)


def expect_pictures() -> None:
    """Load what draws, before the work whose result is to be drawn."""
    importlib.import_module("keyshift.figures.notebook_figure")


def write_figure(figure: Figure, path: str | Path, dpi: int = 150) -> Path:
    """Write a figure, whole or not at all."""
    target = figure_path(path)
    return write_file(target, lambda stream: figure.savefig(stream, format=target.suffix[1:], dpi=dpi))


def comparison_figure(
    problem: Problem, solutions: Sequence[Solution], best: Solution | None, path: str | Path | None = None
) -> Figure:
    """Loads before and after (where the problem is about node loads), and objective and bound of every method.

    Parameters
    ----------
    problem : Problem
    solutions : sequence of Solution
        One for each method.
    best : Solution or None
        Whose loads are drawn.
    path : str or Path, optional
        Where to write the figure; the suffix chooses the format.
    """
    from keyshift.figures.notebook_figure import Figure

    workload = getattr(problem, "workload", None)
    reached = None if best is None else best.assignment
    has_loads = isinstance(workload, Workload) and reached is not None and reached.shape == (workload.key_groups,)
    figure = Figure(figsize=(11 if has_loads else 6, 4.2), layout="constrained")
    axes = figure.subplots(1, 2 if has_loads else 1, squeeze=False)[0]
    if has_loads:
        _draw_loads(axes[0], workload, best.assignment, best.method)  # type: ignore[arg-type,union-attr]
    _draw_objectives(axes[-1], problem, solutions)
    if path is not None:
        write_figure(figure, path)
    return figure


def _draw_loads(axes: Axes, workload: Workload, assignment: np.ndarray, method: str) -> None:
    after = metrics.last_node_loads(workload, assignment)
    new = len(after) - workload.nodes  # nodes that come with the answer
    capacity = np.append(workload.capacity, np.ones(new))
    before = np.append(metrics.last_node_loads(workload, workload.current), np.zeros(new)) / capacity
    after = after / capacity
    order = np.argsort(-before, kind="stable")
    rank = np.arange(len(after))
    axes.bar(rank, before[order], color=BEFORE, label="before")
    axes.plot(rank, after[order], "o", color=AFTER, label=f"after ({method})")
    mean = float(after.mean()) if new else workload.mean_load
    axes.axhline(mean, color=MEAN, linewidth=1, linestyle="--", label="mean")
    low, high = min(before.min(), after.min()), max(before.max(), after.max())
    if 0.5 * high < low < (1 - 1e-6) * high:  # a close-up shows what a full axis would hide; the label says so
        axes.set_ylim(low - 0.3 * (high - low), high + 0.3 * (high - low))
        axes.set_ylabel("load of the last window (axis cut)")
    else:
        axes.set_ylabel("load of the last window")
    axes.set_xlabel("node, most loaded first")
    axes.set_xticks(rank if len(rank) <= 20 else rank[:: len(rank) // 20 + 1])
    axes.set_xticklabels([str(i) for i in order[axes.get_xticks().astype(int)]], fontsize=8)
    axes.set_title("Load of every node")
    axes.legend()


def _draw_objectives(axes: Axes, problem: Problem, solutions: Sequence[Solution]) -> None:
    names = [s.method for s in solutions]
    for row, solution in enumerate(solutions):
        if solution.bound is not None and solution.objective is not None:
            axes.plot([solution.bound, solution.objective], [row, row], color=BEFORE, linewidth=2, zorder=1)
    for value, marker, colour, label in (
        ([s.objective for s in solutions], "o", AFTER, problem.objective_name),
        ([s.bound for s in solutions], "|", BOUND, "proven lower bound"),
    ):
        rows = [row for row, v in enumerate(value) if v is not None]
        style = {"color": colour, "label": label, "markersize": 9, "markeredgewidth": 2.5}
        axes.plot([float(value[r] or 0.0) for r in rows], rows, marker, **style)  # type: ignore[arg-type]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(f"{problem.objective_name} (less is better)")
    axes.set_title("What each method reached and proved")
    axes.grid(axis="x", alpha=0.3)
    axes.margins(x=0.08)
    axes.legend()


COLOURS = ("#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
MARKERS = "sD^vPX*"


def front_figure(
    problem: Problem, trade: Trade, points: Sequence[Solution], path: str | Path | None, others: Sequence[Solution]
) -> Figure:
    """Draw the front as a staircase, its bounds below it, other solutions beside it; positive values on a log scale."""
    from keyshift.figures.notebook_figure import Figure

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
    unit, label = _unit(problem, trade)
    share = unit * np.array([s.metrics[trade.metric] for s in points])
    objective = np.array([s.objective for s in points], dtype=float)
    axes.step(share, objective, where="post", color=AFTER, linewidth=1.5, zorder=2)
    axes.plot(share, objective, "o", color=AFTER, label="front", zorder=3)
    bounds = np.array([np.nan if not s.bound else s.bound for s in points], dtype=float)
    axes.plot(share, bounds, "_", color=BOUND, markersize=12, markeredgewidth=2, label="lower bound")
    for low, high, x in zip(bounds, objective, share, strict=True):
        if np.isfinite(low):
            axes.plot([x, x], [low, high], color=BEFORE, linewidth=0.8, zorder=1)
    for i, s in enumerate(o for o in others if o.assignment is not None):
        x, colour = s.metrics[trade.metric] * unit, COLOURS[i % len(COLOURS)]
        marker, y = MARKERS[i % len(MARKERS)], float(s.objective or 0.0)
        axes.plot([x], [y], marker, color=colour, markersize=8, label=s.method, zorder=4)
    if objective.min() > 0:
        axes.set_yscale("log")
    name = problem.objective_name
    axes.set_xlabel(label)
    axes.set_ylabel("imbalance h, summed over the windows" if problem.name == "mclb" else name)
    axes.set_title(f"{name.capitalize()} against {trade.name.replace('-', ' ')}")
    axes.legend(loc="best", fontsize=8)
    axes.grid(True, alpha=0.3)
    if path is not None:
        write_figure(figure, path)
    return figure


def _unit(problem: Problem, trade: Trade) -> tuple[float, str]:
    """Factor and label of the second objective's axis: state in shares of all of it."""
    if trade.metric != "state_moved":
        return 1.0, trade.label
    total = float(problem.workload.state.sum()) or 1.0  # type: ignore[attr-defined]
    return 100 / total, "state moved (% of all state)"


DASHES = ("-", "--", "-.", ":")


def study_figure(
    profiles: Mapping[str, pd.DataFrame], frame: pd.DataFrame, path: str | Path | None, width: float
) -> Figure:
    """Draw each problem's performance profile over objectives and, below it, its profile of gaps; every method is in both.

    Parameters
    ----------
    profiles : mapping of "objective" and "gap" to the steps of `Study.profile`
    frame : DataFrame
        The solves: their problems and methods.
    path : str or Path, optional
    width : float
        In millimetres.
    """
    from keyshift.figures.notebook_figure import Figure

    problems = list(frame["problem"].unique())
    figure = Figure(figsize=(width / 25.4, 4.6 * max(1, len(problems))), layout="constrained")
    rows = figure.subplots(2 * max(1, len(problems)), 1, squeeze=False)[:, 0]
    for upper, lower, problem in zip(rows[::2], rows[1::2], problems, strict=False):
        methods = list(frame.loc[frame["problem"] == problem, "method"].unique())
        # Gaps below a hundredth of a percent are drawn at the left end: the axis is logarithmic.
        for axes, over, unit, least in ((upper, "objective", 1.0, 1.0), (lower, "gap", 100.0, 0.01)):
            steps = profiles[over][profiles[over]["problem"] == problem]
            most = max(unit * steps["factor"].max() if len(steps) else 0.0, 2 * least)
            for number, method in enumerate(methods):
                own = steps[steps["method"] == method]
                factor = np.maximum(unit * own["factor"].to_numpy(), least)
                share = np.concatenate([[0.0], own["share"], [own["share"].max() if len(own) else 0.0]])
                colour = (AFTER, BOUND, *COLOURS)[number % 8]
                style = {"color": colour, "linestyle": DASHES[number % 4], "linewidth": 1.2}
                axes.step(np.concatenate([[least], factor, [most]]), 100 * share, where="post", label=method, **style)
            axes.set(xscale="log", ylim=(-2, 103), xlim=(least, most))
            axes.set_ylabel("% of instances", fontsize=8)
            axes.tick_params(labelsize=7)
            axes.tick_params(axis="x", which="minor", labelsize=6)
            axes.grid(True, alpha=0.3)
        upper.set_title(problem, fontsize=8, loc="left")
        upper.set_xlabel("objective within this factor of the best found", fontsize=8)
        lower.set_xlabel("gap to the best bound of at most this many percent", fontsize=8)
        upper.legend(fontsize=7, loc="lower right", ncols=1 + len(methods) // 6)
    if path is not None:
        write_figure(figure, path)
    return figure
