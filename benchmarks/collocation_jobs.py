"""The Real Jobs of [Madsen2016] on the flights of New York: figures 12 to 14, and how busy nodes change them.

Loads, maxLD = 10 and maxPL = 25 are percentage points of a node's capacity, as in the paper (section 3).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import keyshift as ks
from keyshift.figures.replay import COLOURS, draw
from keyshift.models.families.collocation import BUSY

sys.path.insert(0, str(Path(__file__).parent))
import collocation_streams as streams

FAST = {"finish": False, "search_steps": 100_000, "bound_steps": 60}
"""The exact method's search and bound, without HiGHS: for long replays."""
POINTS = {"max_load_distance": 10.0, "distance_unit": "load"}
"""maxLD, in points of a node's capacity."""
PRINTED = "albic, as printed"
SELECTIVE = "albic, sF = 20"
OF_THE_MEAN = "albic, as printed, limits in percent of the mean"
PANELS = {
    "collocation_factor": None,
    "load_distance": "load distance (points of capacity)",
    "load_distance_percent": None,
    "load_index_same_input": "load index (% of same input unmoved)",
    "migrations": None,
    "oscillations": None,
}
"""The metrics that are drawn, and what their axes say where the library's label is too general."""


def planner(name: str, migrations: int = 10) -> ks.Planner:
    """COLA knows no migration limit; everybody else has ten moves a period. ALBIC has its default parameters."""
    limited = {**POINTS, "max_migrations": migrations}
    known = {
        "albic": ks.Planner("albic", options=limited, integrated=True),
        PRINTED: ks.Planner("albic", label=PRINTED, options=limited, settings={"anticipate": False}),
        SELECTIVE: ks.Planner(
            "albic", label=SELECTIVE, options=limited, settings={"score_factor": 20.0}, integrated=True
        ),
        OF_THE_MEAN: ks.Planner(
            "albic",
            label=OF_THE_MEAN,
            options={**limited, "distance_unit": "percent"},
            settings={"anticipate": False},
        ),
        "cola": ks.Planner("cola", options=POINTS),
        "exact": ks.Planner("milp", label="exact", options=limited, settings=FAST, integrated=True, from_current=True),
    }
    return known.get(name) or ks.Planner(name, options=limited)


def real_job(job: int, periods: int, methods: tuple[str, ...]) -> Callable[[bool], tuple[pd.DataFrame, Figure]]:
    """Figures 12, 13: the last seven days' flights, a period a day, 20 nodes, 10 migrations."""

    def run(quick: bool) -> tuple[pd.DataFrame, Figure]:
        stream, model = streams.in_points(streams.flights(job, 5 if quick else periods))
        frame = ks.replay(stream, [planner(name) for name in methods], load_model=model).to_frame()
        return job_table(frame, model), job_figure(job, frame)

    return run


def job_four(quick: bool) -> tuple[pd.DataFrame, Figure]:
    """Figure 14: ALBIC period by period; COLA, as in the paper, three times from a random allocation."""
    periods = 4 if quick else 350
    stream, model = streams.in_points(streams.flights(4, periods))
    frame = ks.replay(stream, [planner("albic"), planner(SELECTIVE)], load_model=model).to_frame()
    table = pd.concat([job_table(frame, model), pd.DataFrame(_cola_from_random(4))])
    figure = job_figure(4, frame)
    cola = table.loc[table["method"].str.startswith("cola"), "collocation_end"]
    figure.axes[0].axhline(cola.mean(), color=COLOURS[2], linestyle="--", label="cola, mean of three random starts")
    figure.axes[0].set_ylim(0, 1.1 * max(cola.max(), frame["collocation_factor"].max()))
    figure.axes[0].legend(fontsize=8)
    return table, figure


def _cola_from_random(job: int) -> Iterator[dict[str, object]]:
    """COLA's plan for the first period of a job."""
    stream, model = streams.in_points(streams.flights(job, 1))
    first = next(stream)
    for seed in range(3):
        place = np.random.default_rng(seed).integers(0, first.nodes, first.key_groups)
        posed = planner("cola").pose(first.replace(current=place), model)
        plan = ks.solve(posed, "cola", seed=seed)
        placed = model.measured(first.replace(current=plan.assignment))
        after = ks.CollocatedAllocation(placed).metrics(plan.assignment)
        yield {
            "method": f"cola, random start {seed + 1}", "periods": 1, "collocation_end": after["collocation_factor"],
            "load_distance_mean": after["load_distance"], "migrations": plan.metrics["migrations"],
        }  # fmt: skip


def busy(quick: bool) -> tuple[pd.DataFrame, Figure]:
    """Real Job 2 for nodes 25, 50, 75 or 100 % busy at the start; and with limits that know nothing of capacity."""
    periods = 4 if quick else 90
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    grid = figure.subplots(2, 2)
    tables = []
    for at, axes in zip((25, 50, 75, 100), grid.ravel(), strict=True):
        stream, model = streams.in_points(streams.flights(2, periods), at)
        methods = [planner(name) for name in ("albic", PRINTED, "cola")]
        frame = ks.replay(stream, methods, load_model=model).to_frame()
        tables.append(_with_falls(frame, model).assign(busy_percent=at))
        _panel(axes, frame, "load_distance")
        axes.set_title(f"nodes {at} % busy at the start", fontsize=10)
    grid[0, 0].legend(fontsize=8)
    stream, model = streams.in_points(streams.flights(2, periods))
    frame = ks.replay(stream, [planner(OF_THE_MEAN)], load_model=model).to_frame()
    tables.append(_with_falls(frame, model).assign(busy_percent="any"))
    return pd.concat(tables), figure


def _with_falls(frame: pd.DataFrame, model: ks.LoadModel) -> pd.DataFrame:
    """The table, with the number of periods in which collocation fell by half a percent of the traffic or more."""
    falls = frame.groupby("method", sort=False)["collocation_factor"].agg(lambda c: int((c.diff() <= -0.005).sum()))
    return job_table(frame, model).assign(falls=falls.to_numpy())


def job_figure(job: int, frame: pd.DataFrame) -> Figure:
    """Six metrics over the periods."""
    figure = Figure(figsize=(11, 10), layout="constrained")
    for axes, metric in zip(figure.subplots(3, 2).ravel(), PANELS, strict=True):
        _panel(axes, frame, metric)
    figure.axes[0].legend(fontsize=8)
    figure.suptitle(
        f"Real Job {job}, flights of New York 2013, one-week windows a day apart; nodes {BUSY:g} % busy at the start"
    )
    return figure


def _panel(axes: Axes, frame: pd.DataFrame, metric: str) -> None:
    draw(axes, frame, metric)
    label = PANELS[metric]
    if label is not None:
        axes.set_ylabel(label, fontsize=9)


def job_table(frame: pd.DataFrame, model: ks.LoadModel) -> pd.DataFrame:
    """Means over the last tenth of the periods, and over all; how often a distance is below COLA's."""
    rows = []
    last = frame["period"].max() - max(1, frame["period"].nunique() // 10) + 1
    cola = frame[frame["method"] == "cola"].set_index("period")["load_distance"]
    for method, part in frame.groupby("method", sort=False):
        end = part[part["period"] >= last]
        moving = (model.per_tuple * end["state_moved"] / end["total_load"]).mean()  # a unit of state as a tuple
        mine = part.set_index("period")["load_distance"]
        rows.append(
            {
                "method": method,
                "periods": len(part),
                "collocation_end": end["collocation_factor"].mean(),
                "load_index_end": end["load_index"].mean(),
                "load_index_same_input_end": end["load_index_same_input"].mean(),
                "index_with_moves_end": end["load_index_same_input"].mean() * (1 + moving),
                "load_distance_mean": part["load_distance"].mean(),
                "load_distance_largest": part["load_distance"].max(),
                "load_distance_end": end["load_distance"].mean(),
                "load_distance_percent_mean": part["load_distance_percent"].mean(),
                "below_cola": (mine < cola).mean() if len(cola) else np.nan,
                "migrations": part["migrations"].mean(),
                "straight_back": int(part["oscillations"].sum()),
                "fallbacks": int((part["fallback"] != "").sum()),
                "periods_to_90_percent": _until(part, 0.9 * frame["collocation_factor"].max()),
                "periods_to_most": _until(part, 0.999 * frame["collocation_factor"].max()),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _until(part: pd.DataFrame, level: float) -> float:
    reached = part[part["collocation_factor"] >= level]["period"]
    return float(reached.iloc[0]) if len(reached) else np.nan
