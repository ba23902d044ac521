"""Several windows at once: our searches and bounds, the statements, and the last window's optimum.

    python benchmarks/windows.py [--quick] [--only PART ...] --out DIR [--seconds 60]

Distances, bounds and gaps are in points of the mean node load, one thread each, wall times on two shared cores. Instances are those of
`madsen_windows` (`keyshift.generators.allocation`): the drift of [Madsen2016], section 5.1, and in every window a fluctuation of each load
by up to 5 %, drawn anew. A run that is killed goes on where it stopped: rows that are there already are not run again.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from page import run

import keyshift as ks
from keyshift.generators.allocation import madsen_windows, synthetic_cluster
from keyshift.papers.page import Page

SETTING = ["nodes", "key_groups", "windows", "over", "varies", "max_migrations", "seed"]


def kept(page: Page, name: str) -> list[dict[str, Any]]:
    """The rows of an earlier run."""
    path = page.csv(name)
    return pd.read_csv(path).to_dict("records") if path.exists() else []


def measured(problem: ks.KeyGroupAllocation, method: str, seconds: float) -> dict[str, Any]:
    """One run, in points of the mean; `last window` is the plan for it alone, valued over all.

    "milp" has a quarter of the time for that plan: it is rarely improved later.
    """
    points = 100 / problem.scale
    if method != "last window":
        s = ks.solve(problem, method, time_limit=seconds)
        bound = np.nan if s.bound is None else points * s.bound
        return {
            "distance": np.nan if s.objective is None else points * s.objective,
            "bound": bound,
            "seconds": s.seconds,
        }
    w = problem.workload
    s = ks.solve(ks.KeyGroupAllocation(w, max_migrations=problem.max_migrations), time_limit=seconds / 4)
    return {"distance": points * problem.objective(s.assignment), "bound": np.nan, "seconds": s.seconds}


def runs(page: Page, name: str, settings: list[dict[str, Any]], methods: tuple[str, ...]) -> pd.DataFrame:
    """Every method on every setting, each kept as soon as it is there."""
    rows = kept(page, name)
    done = {tuple(row[key] for key in ("method", *SETTING)) for row in rows}
    ks.solve(madsen_windows(nodes=4, key_groups=40, windows=2, max_migrations=2), time_limit=2)  # compile first
    for setting, method in product(settings, methods):
        setting = dict(zip(SETTING, (setting[key] for key in SETTING), strict=True))
        if (method, *setting.values()) not in done:
            rows.append(
                {**setting, "method": method, **measured(madsen_windows(**setting), method, page.given.seconds)}
            )
            page.keep(rows, name)
    return pd.DataFrame(rows)


def eight(page: Page) -> None:
    """40 nodes, 800 key groups, 20 moves, 8 windows.

    The mean over eight windows. *gap*: what the answer lies above the best bound of any method ("prices" among them), in points; *last
    window*: the plan that is best for the last window alone.
    """
    settings = [
        {
            "nodes": 40,
            "key_groups": 800,
            "windows": 8,
            "over": "mean",
            "varies": 0.4,
            "max_migrations": 20,
            "seed": seed,
        }
        for seed in range(1 if page.quick else 3)
    ]
    frame = runs(page, "eight", settings, ("prices", "milp", "highs", "cp-sat", "last window"))
    best = frame.groupby("seed")["bound"].transform("max")
    frame = frame.assign(gap=frame["distance"] - best)[frame["method"] != "prices"]
    shown = {
        f"{name}, seed {seed}": part.set_index("method")[name]
        for seed, part in frame.groupby("seed")
        for name in ("distance", "bound", "gap")
    }
    page.table(pd.DataFrame(shown).sort_index(axis=1).round(3))


def year(page: Page) -> None:
    """60 nodes, 1,200 key groups, 52 windows.

    24 settings: the drift, the number of moves, and what becomes of the windows' distances. *bound*: that of "milp" itself.
    """
    settings = [
        {
            "nodes": 60,
            "key_groups": 1200,
            "windows": 52,
            "over": over,
            "varies": varies,
            "max_migrations": limit,
            "seed": 0,
        }
        for over, varies, limit in product(("mean", "max", "cvar"), (0.2, 0.4), (10, 20, 30, 40))
    ]
    frame = runs(page, "year", settings[: 2 if page.quick else None], ("milp", "last window"))
    ours = frame[frame["method"] == "milp"].set_index(SETTING)
    last = frame[frame["method"] == "last window"].set_index(SETTING)["distance"]
    ours = ours.assign(gap=ours["distance"] - ours["bound"], **{"last window": last})
    shown = ours.reset_index()[["over", "varies", "max_migrations", "distance", "bound", "gap", "last window"]]
    page.table(shown.round(3))
    page.say(
        f"Within 0.2 points of the bound in {(ours['gap'] <= 0.2).sum()} of {len(ours)} settings; the median gap is "
        f"{ours['gap'].median():.2f} points, the largest {ours['gap'].max():.2f}. The last window's plan lies "
        f"{(ours['last window'] - ours['distance']).median():.2f} points above (median)."
    )


def answers(page: Page, name: str, problems: dict[tuple[int, ...], ks.Problem], methods: tuple[str, ...]) -> None:
    """A table of what methods reach and prove on problems by their nodes, key groups and windows."""
    rows = []
    for size, problem in problems.items():
        for method in methods:
            ks.solve(problem, method, time_limit=1)  # compile first
            s = ks.solve(problem, method, time_limit=page.given.seconds)
            sizes = dict(zip(("nodes", "key_groups", "windows"), size, strict=True))
            rows.append({**sizes, "method": method, "objective": s.objective, "bound": s.bound, "seconds": s.seconds})
    page.table(pd.DataFrame(rows).round(1), name)


def collocation(page: Page) -> None:
    """Collocation under the limits of every window.

    Remote traffic in tuples: two operators of [Madsen2016], section 5.3, whose loads fluctuate by up to 15 % anew in each window, within
    4 % of the mean node load (6 % on 10 nodes) in all of them; as many moves as nodes.
    """
    problems = {}
    for nodes, key_groups, windows, limit in ((10, 100, 4, 6.0), (20, 400, 8, 4.0), (40, 800, 12, 4.0))[
        : 1 if page.quick else 3
    ]:
        w = next(synthetic_cluster(nodes, key_groups, 2, 0.5, 1, 0))
        loads = w.last_load * (1 + np.random.default_rng([0, windows]).uniform(-0.15, 0.15, (windows, key_groups)))
        problems[nodes, key_groups, windows] = ks.CollocatedAllocation(
            w.replace(load=loads), max_load_distance=limit, max_migrations=nodes, windows=windows
        )
    answers(page, "collocation", problems, ("milp", "local-search"))


def routing(page: Page) -> None:
    """Mixed routing with prices for every window.

    State moved: keys with Zipf loads (0.85) that fluctuate by up to 40 % anew in each window, every node within 5 % above the mean in all of
    them, a table for a twentieth of the keys.
    """
    problems = {}
    for nodes, keys, windows in ((10, 2000, 4), (20, 10_000, 8))[: 1 if page.quick else 2]:
        rng = np.random.default_rng(0)
        weight = np.arange(1, keys + 1) ** -0.85
        load = 1e6 * rng.permutation(weight) / weight.sum()
        home, loads = rng.integers(0, nodes, keys), load * rng.uniform(0.6, 1.4, (windows, keys))
        state = np.rint(load * rng.uniform(0.5, 1.5, keys)).clip(1)
        w = ks.Workload(load=loads, state=state, current=home, home=home, nodes=nodes)
        problems[nodes, keys, windows] = ks.MixedRouting(w, theta_max=0.05, max_table_size=keys // 20, windows=windows)
    answers(page, "routing", problems, ("lp", "milp"))


if __name__ == "__main__":
    run(
        "windows", "Several windows at once", __doc__, (eight, year, collocation, routing),
        seconds={"type": float, "default": 60.0, "help": "for each run"},
    )  # fmt: skip
