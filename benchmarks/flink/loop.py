"""[Fang2016] on a real Flink: routed by the hash, MinTable's, Mixed's and the exact table, before and after a drift.

The loop is closed: what the REST API and the workers of one period say makes the table of the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from runs import Live, Run, imbalance, row

import keyshift as ks
from keyshift.engines import flink as ours
from keyshift.generators.routing import ZipfStream

METHODS = {"hash": None, "MinTable": "min-table", "Mixed": "mixed", "exact": "milp"}
KEYS, WORKERS, DELAY, THETA = 1_000, 8, 0.0016, 0.05
PERIODS = ("before the drift", "drifted, old table", "drifted, new table")


def words_of(stream: ZipfStream, seed: int) -> list[str]:
    """A period's records in some order."""
    named = np.repeat(np.arange(stream.keys), stream.load.astype(int))
    return [f"w{k}" for k in np.random.default_rng(seed).permutation(named)]


def periods(count: int, seed: int) -> list[list[str]]:
    """Four periods of the paper's stream: it drifts once, before the third; its hash is our partitioner's."""
    stream = ZipfStream(KEYS, WORKERS, skew=0.85, fluctuation=1, tuples=count, seed=seed)
    stream.home = ours.homes([f"w{k}" for k in range(KEYS)], WORKERS)
    made = []
    for fluctuation in (0, 1, 0, 0):
        made.append(words_of(stream, seed))
        stream.fluctuation = fluctuation
        stream.advance()
    return made


def plan(seen: Run, current: np.ndarray, method: str) -> ks.Solution:
    """A new table from what the workers counted in the last period."""
    keys = [f"w{k}" for k in range(KEYS)]
    counts = [seen.counts[key] for key in keys]
    home = ours.homes(keys, WORKERS)
    w = ks.Workload(load=counts, state=counts, current=current, home=home, nodes=WORKERS, keys=keys)
    return ks.solve(ks.MixedRouting(w, theta_max=THETA), method, time_limit=10)


def follow(live: Live, name: str, streams: list[list[str]], first: Run) -> list[dict[str, Any]]:
    """One method through the periods, from the first one's figures: run and plan of each."""
    path = live.folder / f"{name}.json"
    ours.write_routing("hash", path)
    current, seen, made = ours.homes([f"w{k}" for k in range(KEYS)], WORKERS), first, []
    for words in streams[1:]:
        solution = None
        if METHODS[name] and imbalance(seen.records) > 100 * THETA:  # the REST API says when, the word counts say what
            solution = plan(seen, current, METHODS[name])
            current = solution.assignment
            ours.write_routing(solution, path)
        seen = live.run(words, path, WORKERS, DELAY)
        made.append({"run": seen, "plan": solution})
    return made


def loop(live: Live) -> list[dict[str, Any]]:
    """All methods, several runs of other seeds: a row for each method and period."""
    made: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in METHODS}
    for seed in range(live.runs):
        streams = periods(live.count, seed)
        ours.write_routing("hash", live.folder / "first.json")
        first = live.run(streams[0], live.folder / "first.json", WORKERS, DELAY)
        for name in METHODS:
            made[name].append(follow(live, name, streams, first))
    rows = []
    for i, period in enumerate(PERIODS):
        for name, followed in made.items():
            plans = [f[i]["plan"] for f in followed if f[i]["plan"] is not None]
            figures = row([f[i]["run"] for f in followed])
            moved = [100 * p.objective / p.problem.scale for p in plans]
            sizes = [p.metrics["table_size"] for p in plans]
            new = {"state moved %": np.mean(moved) if plans else "-", "table": np.mean(sizes) if plans else "-"}
            rows.append({"period": period, "routed by": name, **figures, **new})
    return rows
