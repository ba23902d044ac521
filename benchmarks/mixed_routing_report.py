"""Means and figures of the mixed-routing benchmark."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

METHODS = ("min-table", "min-mig", "mixed", "mixed, beta = 1", "mixed-bf", "readj")
SHOWN = ["moved_pct", "bound_pct", "above_bound_pct", "theta", "table", "seconds", "load_error_pct"]


def mean_over(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means over the intervals, and how many of them met every limit."""
    grouped = frame.groupby(by, sort=False)
    figures = grouped[[c for c in SHOWN if c in frame]].mean(numeric_only=True)
    figures["met"] = grouped["status"].agg(lambda s: f"{s.isin(['optimal', 'feasible']).sum()}/{len(s)}")
    figures["proven"] = grouped["status"].agg(lambda s: f"{(s == 'optimal').sum()}/{len(s)}")
    return figures.reset_index()


def min_table_over_mixed(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean ratio of state moved, by size and window."""
    frame = frame[frame["status"].isin(["optimal", "feasible"])]
    wide = frame.pivot_table(index=["keys", "window", "interval"], columns="method", values="moved_pct")
    ratios = pd.DataFrame(
        {f"{m} / mixed": wide[m] / wide["mixed"] for m in ("min-table", "readj", "mixed, beta = 1", "milp")}
    )
    return ratios.groupby(["keys", "window"]).mean().reset_index()


def figure_sweeps(frame: pd.DataFrame, path: Path) -> None:
    """State moved against each parameter, with the linear relaxation's bound below it."""
    names = list(dict.fromkeys(frame["parameter"]))
    figure, axes = plt.subplots(2, (len(names) + 1) // 2, figsize=(15, 6.4), layout="constrained")
    colours = {"mixed": "#0b6e99", "min-table": "#c8553d", "readj": "#6a994e", "min-mig": "#8e6c8a"}
    for name, axis in zip(names, axes.flat, strict=False):
        part = frame[(frame["parameter"] == name) & frame["above_bound_pct"].notna()]  # intervals that met the limits
        for method, own in part.groupby("method", sort=False):
            mean = own.groupby("value")[["moved_pct", "bound_pct", "above_bound_pct"]].mean(numeric_only=True)
            axis.plot(mean.index, mean["moved_pct"], marker="o", color=colours[method], label=method)
            bound = mean["moved_pct"] / (1 + mean["above_bound_pct"] / 100)
            axis.plot(mean.index, bound, linestyle=":", color=colours[method], label=f"bound for {method}")
        axis.set(title=name, ylim=(0, None))
        if part["value"].max() > 100:
            axis.set_xscale("log")
        axis.legend(fontsize=7)
        axis.grid(alpha=0.3)
    for axis in list(axes.flat)[len(names) :]:
        axis.set_visible(False)
    figure.supylabel("state moved, % of all state")
    figure.savefig(path, dpi=80)
    plt.close(figure)


def figure_methods(frame: pd.DataFrame, path: Path) -> None:
    """How far above the bound each method is, by size."""
    mean = frame.groupby(["keys", "window", "method"], sort=False)["above_bound_pct"].mean().unstack()
    mean = mean[[*METHODS, "milp"]]
    axis = mean.plot.bar(figsize=(9, 4.2), width=0.8)
    axis.set(ylabel="state moved above the bound, %", xlabel="", yscale="symlog")
    axis.set_xticklabels([f"K = {k:,}\nw = {w}" for k, w in mean.index], rotation=0)
    axis.grid(axis="y", alpha=0.3)
    axis.legend(ncols=7, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.12), frameon=False)
    axis.figure.tight_layout()
    axis.figure.savefig(path, dpi=90)
    plt.close(axis.figure)
