"""Lexicographic collocation on Real Jobs 2 and 3 of [Madsen2016]: is there a plan no worse than ALBIC's and COLA's in anything?

    python benchmarks/collocation_priorities.py [--quick] [--only PART ...] --out DIR [--begins albic own cola] [--seconds 3]

In each period ALBIC and COLA plan, and so does the exact model with priorities (remote traffic, load distance, migrations), held to
the smaller of their load distances and to ALBIC's number of migrations; from several beginnings: where ALBIC's (`albic`) or COLA's (`cola`)
own run is, all three planning the very same instance; or (`own`) each where its own run is, with the limits of that period in the other
two. *holds*: no worse in all three; *impossible*: proven that there is no such plan; *open*: neither found nor disproved.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
from page import run

import keyshift as ks
from keyshift.papers import madsen2016_streams as streams
from keyshift.papers.madsen2016 import planner
from keyshift.papers.page import Page

ORDER = ("remote_traffic", "load_distance", "migrations")
SETTINGS = {"search_steps": 200_000, "bound_steps": 150}
"""The first stage's search and bound, in turns; HiGHS gets what they leave open."""
BEGINS = {"albic": (0, 0, 0), "own": (0, 1, 2), "cola": (1, 1, 1)}
"""From whose run - ALBIC's 0, COLA's 1, the exact model's 2 - ALBIC, COLA and the exact model begin each period."""
LIMIT = 10.0
"""maxLD, in points of capacity, where no plan keeps the smaller of the two distances."""


class Period:
    """One period's statistics, and the places where ALBIC's, COLA's and the exact model's runs begin it."""

    def __init__(self, w: ks.Workload, model: ks.replays.LoadModel, number: int, at: np.ndarray) -> None:
        self.model, self.number, self.workloads = model, number, [w.replace(current=place) for place in at]
        self.costs = {"serialisation": model.serialisation, "deserialisation": model.deserialisation}
        self.plans: dict[tuple[str, int], tuple[np.ndarray, dict[str, float]]] = {}

    def metrics(self, run_: int, place: np.ndarray) -> dict[str, float]:
        return ks.CollocatedAllocation(self.workloads[run_], max_load_distance=None, **self.costs).metrics(place)

    def plan_by(self, method: str, run_: int) -> tuple[np.ndarray, dict[str, float]]:
        """What ALBIC or COLA makes of the place of a run: the assignment and its figures."""
        if (method, run_) not in self.plans:
            w = self.workloads[run_]
            found = ks.solve(planner(method).pose(w, self.model)[0], method, seed=self.number)
            place = next(a for a in (found.assignment, found.offered, w.current) if a is not None)
            self.plans[method, run_] = place, self.metrics(run_, place)
        return self.plans[method, run_]

    def exact(self, run_: int, distance: float, moves: int, seconds: float, starts: list[np.ndarray]) -> ks.Solution:
        """Least remote traffic within the two limits, then least distance, then fewest moves."""
        limited = {"max_migrations": moves, "distance_unit": "load", **self.costs}
        problem = ks.CollocatedAllocation(self.workloads[run_], max_load_distance=distance, **limited, priorities=ORDER)
        able = [a for a in starts if problem.check(a).feasible]
        if not able:  # least traffic at any distance, then the least distance: it may be small enough
            near = ks.CollocatedAllocation(self.workloads[run_], max_load_distance=None, **limited, priorities=ORDER[:2])  # fmt: skip
            found = ks.solve(near, "milp", time_limit=seconds / 2, seed=self.number, start=starts[0], **SETTINGS)
            able = [a for a in [found.assignment] if a is not None and problem.check(a).feasible]
        start = min(able, key=problem.objective) if able else None
        return ks.solve(problem, "milp", time_limit=seconds, seed=self.number, start=start, **SETTINGS)


def one_period(now: Period, begins: list[str], seconds: float) -> tuple[list[dict[str, Any]], np.ndarray]:
    """A row for each beginning, and where the three runs are afterwards."""
    rows, mine = [], now.workloads[2].current
    for name in begins:
        albic_run, cola_run, run_ = BEGINS[name]
        (known, albic), (_, cola) = now.plan_by("albic", albic_run), now.plan_by("cola", cola_run)
        distance, moves = min(albic["load_distance"], cola["load_distance"]), int(albic["migrations"])
        starts, began = [now.workloads[run_].current, *([known] if albic_run == run_ else [])], time.perf_counter()
        ours = now.exact(run_, distance, moves, seconds, starts)
        row, placed, bound = {"begins": name, "seconds": time.perf_counter() - began}, ours.assignment, ours.bound
        if name == "own" and placed is None:  # the limits cannot be kept from here: those of the paper
            looser = now.exact(run_, LIMIT, moves, seconds, starts)
            placed, bound = looser.assignment, max(b for b in (bound, looser.bound, 0.0) if b is not None)
        mine = placed if name == "own" and placed is not None else mine
        row |= {"verdict": verdict(ours, bound, albic, cola), "remote_bound": bound}
        of = {"": now.metrics(run_, placed) if placed is not None else {}, "albic_": albic, "cola_": cola}
        rows.append(row | {prefix + metric: values.get(metric) for prefix, values in of.items() for metric in ORDER})
    return rows, np.array([now.plan_by("albic", 0)[0], now.plan_by("cola", 1)[0], mine])


def verdict(ours: ks.Solution, bound: float | None, *theirs: dict[str, float]) -> str:
    target = min(of["remote_traffic"] for of in theirs)
    tie = ours.problem.tie("remote_traffic", target)  # type: ignore[attr-defined]
    if ours.status == "infeasible" or (bound is not None and bound > target + tie):
        return "impossible"
    return "holds" if ours.assignment is not None and ours.objective <= target + tie else "open"


def job(page: Page, number: int) -> None:
    """A row a period and beginning is added to the table; a later call goes on after the last period, from the places in a ``.npy`` file."""
    path, places = page.csv(str(number)), page.csv(str(number)).with_suffix(".npy")
    rows = pd.read_csv(path).to_dict("records") if path.exists() else []
    done, at = (rows[-1]["period"] + 1, np.load(places)) if rows else (0, None)
    stream, model = streams.in_points(streams.flights(number, 2 if page.quick else page.given.periods))
    for period, w in enumerate(stream):
        if period < done:
            continue
        made, at = one_period(
            Period(w, model, period, np.array([w.current] * 3) if at is None else at),
            page.given.begins,
            page.given.seconds,
        )
        rows += [{"job": number, "period": period, **row} for row in made]
        np.save(places, at)
        pd.DataFrame(rows).to_csv(path, index=False, float_format="%.6g")
    frame = pd.DataFrame(rows).fillna(np.inf)
    better = {f"{metric} at most {name.upper()}'s": frame[metric] <= frame[f"{name}_{metric}"] * (1 + 1e-9)
              for metric, name in (("remote_traffic", "albic"), ("remote_traffic", "cola"), ("load_distance", "cola"), ("migrations", "albic"))}  # fmt: skip
    counted = pd.get_dummies(frame["verdict"]).assign(periods=1, **better).groupby(frame["begins"]).sum()
    page.table(counted.reset_index())


def job2(page: Page) -> None:
    """Real Job 2."""
    job(page, 2)


def job3(page: Page) -> None:
    """Real Job 3."""
    job(page, 3)


if __name__ == "__main__":
    run("collocation-priorities", "Lexicographic collocation against ALBIC and COLA", __doc__, (job2, job3),
        begins={"nargs": "*", "choices": list(BEGINS), "default": list(BEGINS)}, seconds={"type": float, "default": 3.0},
        periods={"type": int, "default": 150})  # fmt: skip
