"""The figure of a study: performance profiles and gaps. Matplotlib loads when it is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from keyshift.figures.comparison import AFTER, BOUND, write_figure
from keyshift.figures.front import COLOURS

if TYPE_CHECKING:
    from keyshift.figures.notebook_figure import Figure
    from keyshift.studies.study import Study

LEAST = 1e-4
"""Gaps below a hundredth of a percent are drawn there: the axis is logarithmic."""


def study_figure(study: Study, path: str | Path | None = None) -> Figure:
    """Draw a row for each problem: the time profile on the left, the distribution of gaps on the right."""
    from keyshift.figures.notebook_figure import Figure

    frame, profile = study.to_frame(), study.profile("time")
    problems = list(frame["problem"].unique())
    figure = Figure(figsize=(10, 3.8 * max(1, len(problems))), layout="constrained")
    rows = figure.subplots(max(1, len(problems)), 2, squeeze=False)
    for (left, right), problem in zip(rows, problems, strict=False):
        own = frame[frame["problem"] == problem]
        colour = {m: (AFTER, BOUND, *COLOURS)[i % (2 + len(COLOURS))] for i, m in enumerate(own["method"].unique())}
        for method, steps in profile[profile["problem"] == problem].groupby("method", sort=False):
            left.step(steps["factor"], steps["share"], where="post", color=colour[method], label=method)
            left.plot(steps["factor"].iloc[-1:], steps["share"].iloc[-1:], "o", color=colour[method], markersize=4)
        left.set_xscale("log")
        left.set_ylim(0, 1.03)
        left.set_xlabel("within this factor of the fastest that reached the best answer")
        left.set_ylabel("share of instances")
        gaps = {m: 100 * part["gap"].dropna().clip(lower=LEAST) for m, part in own.groupby("method", sort=False)}
        for place, (method, values) in enumerate(gaps.items()):
            right.plot(values, [place] * len(values), "|", color=colour[method], markersize=11, alpha=0.7)
        right.set_xscale("log")
        right.set_yticks(range(len(gaps)), list(gaps))
        right.set_xlabel(f"gap to the best bound (%; at {100 * LEAST:g}: as good or nearer)")
        left.set_title(problem)
        for axes in (left, right):
            axes.grid(True, alpha=0.3)
        if left.lines:
            left.legend(fontsize=8)
    if path is not None:
        write_figure(figure, path)
    return figure
