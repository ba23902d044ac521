"""ALBIC, COLA and the exact model: [Madsen2016]'s figures 6 to 8 and 10 to 14, ALBIC's gap to the optimum, and running times.

python benchmarks/collocation.py [--quick] [--only PART ...] --out docs/benchmarks/0.1.0/collocation

Parts: synthetic (figures 10, 11), job1 (figures 6 to 8), job2, job3, job4 (figures 12 to 14), gap (ALBIC against the
optimum, period by period), busy (Real Job 2 at other loads), speed (one
invocation at 40 / 800 and 60 / 1200), hundred (100 periods, four methods). Each writes a
table ``<part>.csv`` and a figure ``<part>.png``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import keyshift as ks
from keyshift.figures.replay import COLOURS, MARKERS, draw
from keyshift.heuristics.collocation.comparisons import split_loads
from keyshift.models.families.collocation import synthetic_cluster

sys.path.insert(0, str(Path(__file__).parent))
import collocation_streams as streams
from collocation_jobs import POINTS, PRINTED, SELECTIVE, busy, job_four, job_table, planner, real_job
from data_folder import data_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few periods of everything")
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if "job1" in given.only and data_folder() is None:
        print("job1 is left out: KEYSHIFT_TEST_DATA names no folder with the Wikipedia edits")
        given.only.remove("job1")
    for part in given.only:
        began = time.perf_counter()
        table, figure = PARTS[part](given.quick)
        table.to_csv(given.out / f"{part}.csv", index=False, float_format="%.5g")
        if figure is not None:
            figure.savefig(given.out / f"{part}.png", dpi=110)
        print(
            f"\n== {part} ({time.perf_counter() - began:.0f} s)\n{table.to_string(index=False, float_format='%.4g')}",
            flush=True,
        )


# Figures 10 and 11 ------------------------------------------------------------------------------------------------


def synthetic(quick: bool) -> tuple[pd.DataFrame, Figure]:
    """Figures 10, 11. ALBIC starts from COLA's first plan, as the paper advises, and may move 20 key groups a period."""
    periods, last = (4, 2) if quick else (80, 20)
    sizes = [(20, 400, 10)] if quick else [(20, 400, 10), (40, 800, 20), (60, 1200, 30)]
    rows = []
    for share in (0, 25, 50, 75, 100):
        for size in sizes:
            rows += list(_steady((*size, share / 100), periods, last))
            print(f"   {size[0]} / {size[1]}, {share} %", flush=True)
    table = pd.DataFrame(rows)
    figure = Figure(figsize=(3.7 * len(sizes), 6.4), layout="constrained")
    grid = figure.subplots(2, len(sizes), squeeze=False)
    for row, (metric, said) in enumerate(
        (("collocation_percent", "collocation (% of traffic)"), ("load_distance", "load distance (points of capacity)"))
    ):
        for column, (size, axes) in enumerate(zip(sizes, grid[row], strict=True)):
            part = table[table["nodes"] == size[0]]
            for number, (method, mine) in enumerate(part.groupby("method", sort=False)):
                axes.plot(
                    mine["most_collocation"], mine[metric], color=COLOURS[number], marker=MARKERS[number], label=method
                )
            axes.set_title(f"{size[0]} nodes, {size[1]} key groups, {size[2]} operators", fontsize=10)
            axes.set_xlabel("key groups that send one to one (%)")
            axes.set_ylabel(said if column == 0 else "")
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)
    figure.axes[0].legend()
    figure.suptitle(f"mean over the last {last} of {periods} periods (figures 10 and 11 of the paper)")
    return table, figure


def _steady(setting: tuple[int, int, int, float], periods: int, last: int) -> Iterator[dict[str, object]]:
    """Mean figures over the last periods. COLA has no memory here, so it need not live through the earlier ones."""
    nodes, key_groups, operators, share = setting
    first = next(synthetic_cluster(nodes, key_groups, operators, share, 1))
    start = ks.solve(ks.CollocatedAllocation(first, **POINTS), "cola")
    stream = [
        w.replace(current=start.assignment) for w in synthetic_cluster(nodes, key_groups, operators, share, periods)
    ]
    frames = [ks.replay(stream, [planner("albic", 20)]), ks.replay(stream[-last - 1 :], [planner("cola")])]
    for frame in (part.to_frame() for part in frames):
        end = frame[frame["period"] > frame["period"].max() - last]
        yield {
            "nodes": nodes, "key_groups": key_groups, "most_collocation": 100 * share, "method": end["method"].iloc[0],
            "collocation_percent": 100 * end["collocation_factor"].mean(),
            "load_distance": end["load_distance"].mean(), "load_distance_largest": end["load_distance"].max(),
            "migrations": end["migrations"].mean(), "straight_back": end["oscillations"].sum(),
            "collocation_start_percent": 100 * start.metrics["collocation_factor"],
        }  # fmt: skip


# Real Job 1: figures 6 to 8 -----------------------------------------------------------------------------------------


def job1(quick: bool) -> tuple[pd.DataFrame, Figure]:
    """Figures 6 to 8: balance alone. PoTC pays a unit of load for merging a unit of state, every period."""
    periods = 6 if quick else 30
    balance = {"problem": "key-group-allocation"}
    methods = [
        ks.Planner("flux", options={"max_migrations": 13}, **balance),
        *(
            ks.Planner(
                "allocation-milp", label=f"milp, {m or 'all'}", options={"max_migrations": m, "max_load_distance": None}
            )
            for m in (10, 13, 20, None)
        ),
    ]
    frame = ks.replay(streams.edits(periods), methods).to_frame()
    frame = pd.concat([frame, _power_of_two(periods)])
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    grid = figure.subplots(2, 2)
    for column, chosen in enumerate((("flux", "milp, 13", "PoTC"), ("milp, 10", "milp, 13", "milp, 20", "milp, all"))):
        shown = frame[frame["method"].isin(chosen)]
        for row, metric in enumerate(("load_distance_percent", "migrations")):
            draw(grid[row, column], shown[shown[metric].notna()], metric)
            grid[row, column].legend(fontsize=8)
    figure.suptitle("Real Job 1, Wikipedia edits: figures 6 to 8")
    table = frame.groupby("method", sort=False).agg(
        load_distance_mean=("load_distance_percent", "mean"), load_distance_max=("load_distance_percent", "max"),
        migrations=("migrations", "mean"), state_moved=("state_moved", "mean"), straight_back=("oscillations", "sum"),
    )  # fmt: skip
    return table.reset_index(), figure


def _power_of_two(periods: int) -> pd.DataFrame:
    """PoTC's load distance: no moves, but state to merge, which its choices cannot balance."""
    rows = []
    for period, w in enumerate(streams.edits(periods)):
        loads = split_loads(w, merge_cost=1.0)
        distance = 100 * np.abs(loads - loads.mean()).max() / loads.mean()
        rows.append(
            {"period": period, "method": "PoTC", "load_distance_percent": distance, "migrations": 0, "oscillations": 0}
        )
    return pd.DataFrame(rows)


# ALBIC's gap --------------------------------------------------------------------------------------------------------


def gap(quick: bool) -> tuple[pd.DataFrame, Figure]:
    """In each period of ALBIC's own replay, the same problem solved exactly from the same nodes."""
    periods = 3 if quick else 16
    rows = []
    _compile()
    cases = {
        "20 / 100, one to one": synthetic_cluster(20, 100, 5, 1.0, periods, seed=1),
        "20 / 200, Real Job 2": streams.flights(2, periods),
        "20 / 400, one to one": synthetic_cluster(20, 400, 10, 1.0, periods, seed=3),
        "20 / 400, half one to one": synthetic_cluster(20, 400, 10, 0.5, periods, seed=4),
    }
    for case, stream in cases.items():
        rows += list(_gaps(case, stream, periods, 6 if quick else 10))
    table = pd.DataFrame(rows)
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    for axes, (case, part) in zip(figure.subplots(2, 2).ravel(), table.groupby("case", sort=False), strict=True):
        names = (("albic_gain", "ALBIC"), ("exact_gain", "exact, incumbent"), ("most_gain", "exact, bound"))
        for number, (column, label) in enumerate(names):
            style = "--" if column == "most_gain" else "-"
            axes.plot(
                part["period"],
                part[column],
                style,
                color=COLOURS[number],
                marker=MARKERS[number],
                label=label,
                markersize=4,
            )
        axes.set_title(case, fontsize=10)
        axes.set_xlabel("period of ALBIC's replay")
        axes.set_ylabel("traffic newly collocated\nin the period (% of all)", fontsize=9)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize=9)
    return table, figure


def _gaps(case: str, stream: Iterator[ks.Workload], periods: int, seconds: float) -> Iterator[dict[str, object]]:
    model, place = ks.LoadModel(), None
    if "Job" in case:
        stream, model = streams.in_points(stream)
    for period, w in enumerate(islice(stream, periods)):
        w = model.measured(w if place is None else w.replace(current=place))
        problem = ks.CollocatedAllocation(w, max_migrations=10, **POINTS)
        albic = ks.solve(problem, "albic", seed=period)
        start = albic if albic.assignment is not None else None
        exact = ks.solve(problem, "milp", start=start, time_limit=seconds, seed=period)
        balanced = (
            albic if albic.assignment is not None else ks.solve(ks.KeyGroupAllocation(w, max_migrations=10), "flux")
        )
        place = balanced.assignment
        before, whole = problem.objective(w.current), problem.scale
        share = lambda value: np.nan if value is None else 100 * (before - value) / whole  # noqa: B023, E731
        yield {
            "case": case, "period": period, "before": 100 * before / whole,
            "albic_gain": share(albic.objective), "exact_gain": share(exact.objective), "most_gain": share(exact.bound),
            "albic_over_optimum_percent": 100 * (albic.objective / exact.objective - 1)
            if albic.objective and exact.objective
            else np.nan,
            "exact_gap_percent": 100 * (exact.gap or 0) if exact.objective else np.nan, "exact_status": exact.status,
            "albic_seconds": albic.seconds, "exact_seconds": exact.seconds,
        }  # fmt: skip


# Running times ------------------------------------------------------------------------------------------------------


def speed(quick: bool) -> tuple[pd.DataFrame, None]:
    """One invocation from a spread start: ALBIC's time, and the exact model's incumbent after 10 s of its own."""
    rows = []
    sizes = [(20, 400, 10)] if quick else [(20, 400, 10), (40, 800, 20), (60, 1200, 30)]
    _compile()
    for nodes, key_groups, operators in sizes:
        for share in (0.5, 1.0):
            w = next(synthetic_cluster(nodes, key_groups, operators, share, 1, seed=7))
            problem = ks.CollocatedAllocation(w, max_migrations=20)
            cpu = time.process_time()
            albic = ks.solve(problem, "albic", seed=1)
            cpu = time.process_time() - cpu
            exact = ks.solve(problem, "milp", start=w.current, time_limit=10, seed=1)
            rows.append(
                {
                    "nodes": nodes, "key_groups": key_groups, "one_to_one_percent": 100 * share,
                    "albic_seconds": albic.seconds, "albic_cpu_seconds": cpu,
                    "albic_remote_percent": 100 * albic.objective / problem.scale,
                    "exact_seconds": exact.seconds, "exact_remote_percent": 100 * exact.objective / problem.scale,
                    "bound_percent": 100 * (exact.bound or 0) / problem.scale, "exact_status": exact.status,
                }
            )  # fmt: skip
    return pd.DataFrame(rows), None


def _compile() -> None:
    """One small solve by each method, so that Numba's compilation falls into nobody's time."""
    for method in ("albic", "milp"):
        ks.solve(
            ks.CollocatedAllocation(next(synthetic_cluster(4, 40, 2, 1.0, 1)), max_migrations=2), method, time_limit=60
        )


def hundred(quick: bool) -> tuple[pd.DataFrame, Figure]:
    """100 periods at 20 nodes, 400 key groups, four methods."""
    periods = 5 if quick else 100
    model = ks.LoadModel.for_share(next(synthetic_cluster(20, 400, 10, 0.5, 1)), 0.3)
    began, cpu = time.perf_counter(), time.process_time()
    names = ("albic", "cola", "flux", "allocation-milp")
    result = ks.replay(
        synthetic_cluster(20, 400, 10, 0.5, periods), [planner(name) for name in names], load_model=model
    )
    table = job_table(result.to_frame(), model)
    table["wall_seconds_all"] = time.perf_counter() - began
    table["cpu_seconds_all"] = time.process_time() - cpu
    return table, result.figure()


PARTS: dict[str, Callable[[bool], tuple[pd.DataFrame, Figure | None]]] = {
    "speed": speed,
    "gap": gap,
    "job2": real_job(2, 150, ("albic", PRINTED, "cola", "exact")),
    "busy": busy,
    "job3": real_job(3, 150, ("albic", SELECTIVE, PRINTED, "cola")),
    "job4": job_four,
    "job1": job1,
    "synthetic": synthetic,
    "hundred": hundred,
}

if __name__ == "__main__":
    main()
