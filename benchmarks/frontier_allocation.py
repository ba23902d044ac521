"""Parts of `frontier.py` about key-group allocation: where moves abound, under budgets and everything at once, large and cold."""

from __future__ import annotations

import math
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numba import njit

import keyshift as ks
from keyshift.generators.allocation import madsen_allocation, synthetic_workload
from keyshift.models.base.compiling import uniform
from keyshift.papers.page import Page

SETTING = ["nodes", "key_groups", "varies", "limit", "seed"]


def limited(page: Page) -> None:
    """Budgets, and everything at once: allocation.

    40 nodes, 800 key groups. *cost*: loads drifted by 40 %, states log-normal, a share of all state may move. *everything*: nodes of three
    capacities, two of them draining, memory limits, and limits on number and cost of moves at once. Percent of the mean.
    """
    rows = []
    cases = [
        ("cost", f"{share:.1%} of the state", seed, within_cost(seed, share))
        for share in (0.002, 0.005, 0.02)
        for seed in range(5)
    ]
    cases += [
        ("everything", f"{moves} moves", seed, with_everything(seed, moves)) for moves in (60, 90) for seed in range(5)
    ]
    for limits, most, seed, problem in cases[:: 5 if page.quick else 1]:
        s = ks.solve(problem, time_limit=5 if page.quick else page.given.each)
        percent = 100 / problem.scale
        rows.append({"limits": limits, "most": most, "seed": seed, "moved": s.metrics["migrations"], "distance": percent * s.objective,
                     "bound": percent * s.bound, "gap_points": percent * (s.gap_abs or 0.0), "seconds": s.seconds})  # fmt: skip
        page.keep(rows, "limited")
    frame = pd.DataFrame(rows)
    over = frame.groupby(["limits", "most"], sort=False).agg(
        instances=("seed", "size"), distance=("distance", "mean"), bound=("bound", "mean"), largest_gap=("gap_points", "max")
    )  # fmt: skip
    page.table(frame, "limited", over)


def within_cost(seed: int, share: float) -> ks.KeyGroupAllocation:
    """A drift to mend with a share of all state, which is spread unevenly."""
    w = synthetic_workload(40, 800, varies=0.4, seed=seed)
    state = w.state * np.random.default_rng([seed, 5]).lognormal(0, 1, 800)
    return ks.KeyGroupAllocation(w.replace(state=state), max_migration_cost=share * state.sum())


def with_everything(seed: int, moves: int) -> ks.KeyGroupAllocation:
    """Balanced by Flux, then a tenth of the loads changes by up to 60 %, and two nodes are to be emptied."""
    rng = np.random.default_rng([seed, 6])
    w = synthetic_workload(40, 800, varies=0.4, seed=seed)
    capacity, memory = rng.choice([1.0, 1.5, 2.0], 40), rng.lognormal(0, 0.5, 800)
    state = w.state * rng.lognormal(0, 0.5, 800)
    posed = ks.Workload(load=w.last_load, state=state, current=np.arange(800) % 40, nodes=capacity)
    current = ks.solve(ks.KeyGroupAllocation(posed), "flux").assignment
    load = w.last_load * np.where(rng.random(800) < 0.1, rng.uniform(0.6, 1.6, 800), 1.0)
    w = ks.Workload(load=load, state=state, current=current, nodes=capacity, draining=np.arange(40) >= 38, resources={"memory": memory})  # fmt: skip
    room = np.maximum(np.bincount(current, memory, 40), 1.15 * memory.sum() * capacity / capacity.sum())
    return ks.KeyGroupAllocation(
        w, max_migrations=moves, max_migration_cost=0.9 * moves * state.mean(), resource_capacity={"memory": room}
    )


def abound(page: Page) -> None:
    """Where moves abound: allocation.

    The drifts of [Madsen2016], Figures 2 to 4, five seeds; largest gap over the seeds, in points (percent of the mean). Rebalancer's
    figures are those published with version 0.1, on the same instances: the best of its four formulas and the seconds of that one, which
    *at its time* had as well.
    """
    theirs = pd.read_csv(Path(__file__).parents[1] / "benchmarks/results/0.1.0/allocation.csv")
    theirs = theirs[theirs["method"].str.startswith("rebalancer ")].dropna(subset="distance")
    theirs = theirs.sort_values("distance", kind="stable").groupby(SETTING).first()
    sizes = [(nodes, 20 * nodes) for nodes in page.given.nodes[: 1 if page.quick else None]]
    rows = []
    for (nodes, key_groups), varies, limit, seed in product(
        sizes, (0.2, 0.4), (10, 20, 30, 40), range(1 if page.quick else 5)
    ):
        setting = {"nodes": nodes, "key_groups": key_groups, "varies": varies, "limit": limit, "seed": seed}
        problem = madsen_allocation(seed=seed, nodes=nodes, key_groups=key_groups, varies=varies, max_migrations=limit)
        percent = 100 / problem.scale
        s, seen = watched(problem, page.given.each)
        other = theirs.loc[tuple(setting.values())]
        rows.append({**setting, "distance": percent * s.objective, "bound": percent * s.bound, "gap_points": percent * (s.gap_abs or 0.0),
                     "proven": s.status == "optimal", "seconds": s.seconds, "at_its_time": percent * min(v for t, v in seen if t <= other["seconds"]),
                     "rebalancer": other["distance"], "its_seconds": other["seconds"]})  # fmt: skip
        page.keep(rows, "abound")
    frame = pd.DataFrame(rows)
    by = frame.groupby(SETTING[:4], sort=False)
    shown = by[["rebalancer", "its_seconds", "at_its_time", "distance", "seconds"]].mean()
    page.table(frame, "abound", shown.assign(largest_gap=by["gap_points"].max(), proven=by["proven"].sum()))
    behind = int((frame["at_its_time"] > frame["rebalancer"] + 1e-6).sum())  # published in six decimals
    page.say(f"At most {page.given.each:g} s. Gap at most 0.005 points on {(frame['gap_points'] <= 0.005).sum()} of {len(frame)}, the largest "
             f"{frame['gap_points'].max():.4f}; behind Rebalancer on {behind}.")  # fmt: skip


def watched(problem: ks.KeyGroupAllocation, seconds: float) -> tuple[ks.Solution, list[tuple[float, float]]]:
    """The answer, and what was known when."""
    seen, began = [(0.0, math.inf)], time.perf_counter()
    s = ks.solve(problem, time_limit=seconds, watch=lambda p: seen.append((time.perf_counter() - began, p.objective or math.inf)))  # fmt: skip
    return s, seen


def cold(page: Page) -> None:
    """Large allocation from a cold start.

    Loads drifted by 40 %; the wall time of one call of `solve` in a new process whose compiled code is on disk, and of a second call.
    Percent of the mean.
    """
    rows = []
    sizes = [
        (200, 10_000, 500),
        (1_000, 100_000, 5_000),
        (200, 10_000, 40),
        (400, 20_000, 60),
        (1_000, 100_000, 50),
    ]
    spawn = multiprocessing.get_context("spawn")
    for size in sizes[: 1 if page.quick else None]:
        for limit in (1.5, 5.0):
            with ProcessPoolExecutor(1, mp_context=spawn) as pool:
                rows += pool.submit(calls, *size, limit).result()
            page.keep(rows, "cold")
    page.table(rows, "cold")


def calls(nodes: int, key_groups: int, moves: int, limit: float) -> list[dict[str, Any]]:
    """Two calls, one after the other."""
    rows = []
    problem = madsen_allocation(nodes=nodes, key_groups=key_groups, max_migrations=moves)
    for call in ("first", "second"):
        began = time.perf_counter()
        s = ks.solve(problem, time_limit=limit)
        wall, percent = time.perf_counter() - began, 100 / problem.scale
        rows.append({"nodes": nodes, "key_groups": key_groups, "moves": moves, "limit": limit, "call": call, "wall": wall,
                     "distance": percent * s.objective, "bound": percent * s.bound})  # fmt: skip
    return rows


def capacities(page: Page) -> None:
    """Few key groups a node, with capacities: allocation.

    8,152 key groups on 1,213 nodes of three capacities, loads and memory log-normal, a limit on each node's memory. Distance in means, and
    the bound of `milp` after 30 s. *plain*: 30 s of annealing that puts one key group at a time elsewhere; HiGHS would have 9.9 million binaries.
    """
    rows = []
    for moves, seed in product((20, 60, 200), range(1 if page.quick else 3)):
        problem = with_capacities(seed, moves)
        long = 5.0 if page.quick else 30.0
        row = {"moves": moves, "seed": seed, "now": problem.objective(problem.workload.current) / problem.scale}
        for method in ("flux", "potc", "drain-first"):
            row[method] = ks.solve(problem, method, time_limit=long).objective / problem.scale
        row["plain"] = problem.objective(plainly(problem, long)) / problem.scale
        for limit in (5.0, 10.0, 30.0):
            s = ks.solve(problem, time_limit=limit)
            row[f"milp, {limit:g} s"] = s.objective / problem.scale
        rows.append({**row, "bound": s.bound / problem.scale, "proven": s.status == "optimal", "seconds": s.seconds})
        page.keep(rows, "capacities")
        print(rows[-1], flush=True)
    page.table(rows, "capacities")


def plainly(problem: ks.KeyGroupAllocation, seconds: float) -> np.ndarray:
    """The best that relocations alone find, annealed for so long, always within the limits."""
    w, until, heat = problem.workload, time.perf_counter() + seconds, 1.0
    use, room = w.resources["memory"], problem.resource_capacity["memory"] * (1 + 1e-12)
    a, who = w.current.copy(), np.full(problem.max_migrations, -1)
    dev = np.bincount(a, w.last_load / problem.scale, w.nodes) / w.capacity - 1
    instance = (w.last_load / problem.scale, 1 / w.capacity, use, room, w.current)
    used, best, rng = np.bincount(a, use, w.nodes), a.copy(), np.array([1], dtype=np.uint64)
    while time.perf_counter() < until:
        relocated(rng, heat, *instance, a, who, dev, used)
        best = min(best, a.copy(), key=problem.objective)
        heat = 0.7 * heat if heat > 1e-4 else 1.0
    return best


@njit(cache=True)
def shifted(k, i, load, weight, use, a, dev, used):  # type: ignore[no-untyped-def]
    """Put key group k on node i; by how much the sum of fourth powers of deviations grows."""
    rise = 0.0
    for node, sign in ((a[k], -1.0), (i, 1.0)):
        rise -= dev[node] ** 4
        dev[node] += sign * load[k] * weight[node]
        used[node] += sign * use[k]
        rise += dev[node] ** 4
    a[k] = i
    return rise


@njit(cache=True)
def relocated(rng, heat, load, weight, use, room, current, a, who, dev, used):  # type: ignore[no-untyped-def]
    """Two million steps: the key group of a slot goes back, and another one goes to any node in its stead."""
    for _ in range(2_000_000):
        s, k, i = int(uniform(rng) * who.size), int(uniform(rng) * a.size), int(uniform(rng) * weight.size)
        old, rise = who[s], 0.0
        if k == old or a[k] != current[k]:
            continue
        back, was = current[max(old, 0)], a[max(old, 0)]
        if old >= 0:
            rise = shifted(old, back, load, weight, use, a, dev, used)
        rise += shifted(k, i, load, weight, use, a, dev, used)
        fits = used[i] <= room[i] and (old < 0 or used[back] <= room[back])
        if fits and (rise <= 0 or uniform(rng) < np.exp(-rise / heat)):
            who[s] = k
            continue
        shifted(k, current[k], load, weight, use, a, dev, used)
        if old >= 0:
            shifted(old, was, load, weight, use, a, dev, used)


def with_capacities(seed: int, moves: int, nodes: int = 1_213, key_groups: int = 8_152) -> ks.KeyGroupAllocation:
    """Nodes of three capacities, loads and memory log-normal, memory limits a fifth above an even share; some nodes are full."""
    rng = np.random.default_rng([seed, 7])
    capacity, load = rng.choice([1.0, 2.0, 4.0], nodes, p=[0.5, 0.3, 0.2]), rng.lognormal(0, 1, key_groups)
    memory = rng.lognormal(0, 0.7, key_groups)
    current = rng.choice(nodes, key_groups, p=capacity / capacity.sum())
    w = ks.Workload(load=load, state=memory, current=current, nodes=capacity, resources={"memory": memory})
    room = np.maximum(np.bincount(current, memory, nodes), 1.2 * memory.sum() * capacity / capacity.sum())
    return ks.KeyGroupAllocation(w, max_migrations=moves, resource_capacity={"memory": room})
