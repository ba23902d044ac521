"""Lexicographic collocation on Real Jobs 2 and 3 of [Madsen2016]: is there a plan no worse than ALBIC's and COLA's in anything?

python benchmarks/collocation_priorities.py --job 2 --out DIR [--seconds 3] [--periods 150] [--until SECONDS]

In each period ALBIC and COLA plan, and so does the exact model with priorities (remote traffic, load distance, migrations), held to
the smaller of their load distances and to ALBIC's number of migrations; from several beginnings:

    albic, cola   where ALBIC's, or COLA's, own run is: all three plan the very same instance;
    own           each where its own run is: the limits are those of that period in ALBIC's and in COLA's run.

A row a period and beginning is added to ``priorities_<job>.csv``; a later call goes on after the last period, from the places in
a ``.npy`` file beside it.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import keyshift as ks

sys.path.insert(0, str(Path(__file__).parent))
import collocation_streams as streams
from collocation_jobs import planner

ORDER = ("remote_traffic", "load_distance", "migrations")
SETTINGS = {"search_steps": 200_000, "bound_steps": 150}
"""The first stage's search and bound, in turns; HiGHS gets what they leave open."""
BEGINS = {"albic": (0, 0, 0), "own": (0, 1, 2), "cola": (1, 1, 1)}
"""From whose run - ALBIC's 0, COLA's 1, the exact model's 2 - ALBIC, COLA and the exact model begin each period."""
LIMIT = 10.0
"""maxLD, in points of capacity, where no plan keeps the smaller of the two distances."""
FIELDS = (
    "job", "begins", "period", "verdict", "remote", "distance", "migrations", "remote_bound", "distance_proven",
    "migrations_proven", "albic_remote", "albic_distance", "albic_migrations", "cola_remote", "cola_distance",
    "cola_migrations", "seconds",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", type=int, choices=(2, 3), required=True)
    parser.add_argument("--begins", nargs="*", choices=list(BEGINS), default=list(BEGINS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each plan of the exact model")
    parser.add_argument("--periods", type=int, default=150)
    parser.add_argument("--until", type=float, default=np.inf, help="begin no period after so many seconds")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    table, places = (given.out / f"priorities_{given.job}.{kind}" for kind in ("csv", "npy"))
    done = (sum(1 for _ in table.open()) - 1) // len(given.begins) if table.exists() else 0
    at = np.load(places) if done else None
    began = time.monotonic()
    stream, model = streams.in_points(streams.flights(given.job, given.periods))
    with table.open("a", newline="") as file:
        rows = csv.DictWriter(file, FIELDS)
        if not done:
            rows.writeheader()
        for period, w in enumerate(stream):
            if period < done:
                continue
            if time.monotonic() - began > given.until:
                break
            at = np.array([w.current] * 3) if at is None else at
            made, at = one_period(Period(w, model, period, at), given.begins, given.seconds)
            np.save(places, at)
            rows.writerows({"job": given.job, "period": period, **row} for row in made)
            file.flush()


class Period:
    """One period's statistics, and the places where ALBIC's, COLA's and the exact model's runs begin it."""

    def __init__(self, w: ks.Workload, model: ks.LoadModel, number: int, at: np.ndarray) -> None:
        self.model, self.number = model, number
        self.workloads = [w.replace(current=place) for place in at]
        self.plans: dict[tuple[str, int], tuple[np.ndarray, dict[str, float]]] = {}

    def free(self, run: int) -> ks.CollocatedAllocation:
        """The problem without limits, to measure plans by."""
        return ks.CollocatedAllocation(self.workloads[run], max_load_distance=None, **costs(self.model))

    def plan_by(self, method: str, run: int) -> tuple[np.ndarray, dict[str, float]]:
        """What ALBIC or COLA makes of the place of a run: the assignment and its figures."""
        if (method, run) not in self.plans:
            w = self.workloads[run]
            found = ks.solve(planner(method).pose(w, self.model), method, seed=self.number)
            place = found.assignment if found.assignment is not None else found.offered
            place = w.current if place is None else place
            self.plans[method, run] = place, self.free(run).metrics(place)
        return self.plans[method, run]


def one_period(now: Period, begins: list[str], seconds: float) -> tuple[list[dict[str, Any]], np.ndarray]:
    """A row for each beginning, and where the three runs are afterwards."""
    rows = []
    mine = now.workloads[2].current
    for name in begins:
        albic_run, cola_run, run = BEGINS[name]
        known, albic = now.plan_by("albic", albic_run)
        _, cola = now.plan_by("cola", cola_run)
        distance = min(albic["load_distance"], cola["load_distance"])
        moves = int(albic["migrations"])
        clock = time.perf_counter()
        starts = [now.workloads[run].current, *([known] if albic_run == run else [])]
        ours = plan(now, run, distance, moves, seconds, starts)
        clock = time.perf_counter() - clock
        placed, bound = ours.assignment, ours.bound
        if name == "own":
            if placed is None:  # the limits cannot be kept from here: those of the paper
                looser = plan(now, run, LIMIT, moves, seconds, starts)
                placed, bound = looser.assignment, max(b for b in (bound, looser.bound, 0.0) if b is not None)
            mine = mine if placed is None else placed
        row = {"begins": name, "seconds": round(clock, 2), "verdict": verdict(ours, bound, albic, cola)}
        if placed is not None:
            row |= figures("", now.free(run).metrics(placed))
        if ours.assignment is not None:
            row |= {"distance_proven": ours.priorities[1].proven, "migrations_proven": ours.priorities[2].proven}
        row["remote_bound"] = "" if bound is None else f"{bound:.0f}"
        rows.append({**row, **figures("albic_", albic), **figures("cola_", cola)})
    return rows, np.array([now.plan_by("albic", 0)[0], now.plan_by("cola", 1)[0], mine])


def costs(model: ks.LoadModel) -> dict[str, float]:
    return {"serialisation": model.serialisation, "deserialisation": model.deserialisation}


def plan(now: Period, run: int, distance: float, moves: int, seconds: float, starts: list[np.ndarray]) -> ks.Solution:
    """The exact model's plan: least remote traffic within the two limits, then least distance, then fewest moves."""
    w, seed = now.workloads[run], now.number
    limited = {"max_migrations": moves, "distance_unit": "load", **costs(now.model)}
    problem = ks.CollocatedAllocation(w, max_load_distance=distance, **limited, priorities=ORDER)
    able = [a for a in starts if problem.check(a).feasible]
    if not able:  # least traffic at any distance, then the least distance: it may be small enough
        near = ks.CollocatedAllocation(w, max_load_distance=None, **limited, priorities=ORDER[:2])
        found = ks.solve(near, "milp", time_limit=seconds / 2, seed=seed, start=starts[0], **SETTINGS)
        able = [a for a in [found.assignment] if a is not None and problem.check(a).feasible]
    start = min(able, key=problem.objective) if able else None
    return ks.solve(problem, "milp", time_limit=seconds, seed=seed, start=start, **SETTINGS)


def verdict(ours: ks.Solution, bound: float | None, *theirs: dict[str, float]) -> str:
    """holds: no worse in all three; impossible: proven that there is no such plan; open: neither found nor disproved."""
    target = min(of["remote_traffic"] for of in theirs)
    tie = ours.problem.tie("remote_traffic", target)  # type: ignore[attr-defined]
    if ours.status == "infeasible" or (bound is not None and bound > target + tie):
        return "impossible"
    if ours.assignment is not None and ours.objective <= target + tie:
        return "holds"
    return "open"


def figures(prefix: str, of: dict[str, float]) -> dict[str, str]:
    names = (("remote", "remote_traffic"), ("distance", "load_distance"), ("migrations", "migrations"))
    return {prefix + short: f"{of[name]:.6g}" for short, name in names}


if __name__ == "__main__":
    main()
