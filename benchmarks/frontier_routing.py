"""Parts of the frontier: mixed routing with full tables, and replays of long streams."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import keyshift as ks
from keyshift.generators.allocation import synthetic_cluster
from keyshift.models import Problem
from keyshift.papers.page import Page


def tables(page: Page) -> None:
    """Full tables: mixed routing.

    A hundred times a million keys (loads Zipf, at least 1; homes at random, where all keys are), 10 to 100 nodes, room for 500 to 10,000 entries, 20 s.
    The table leaves out instances in which one key alone is above every limit, which is seen at once.
    """
    labels: dict[str, dict[str, float]] = {}
    posed = full_tables(labels, 10 if page.quick else 100)
    done = ks.study(posed, ["milp"], time_limit=20, out=page.out / "tables-study")
    rows = done.to_frame().set_index("instance")[["status", "objective", "bound", "gap", "seconds"]]
    frame = pd.DataFrame.from_dict(labels, orient="index").join(rows)
    frame["gap_percent"] = 100 * frame.pop("gap")
    shown = frame[~frame["alone"]].drop(columns="alone")
    page.table(frame, "tables", shown)
    answered, proven = frame["objective"].notna(), frame["status"] == "infeasible"
    page.say(f"{len(frame)} instances: {answered.sum()} answered, {proven.sum()} proven to have no answer ({frame['alone'].sum()} at once), "
             f"{(~answered & ~proven).sum()} neither. Of the answers {(frame['gap_percent'] <= 1).sum()} are within 1 % of the bound; the largest "
             f"gap is {frame['gap_percent'].max():.3g} %. The longest took {frame['seconds'].max():.0f} s.")  # fmt: skip


def full_tables(labels: dict[str, dict[str, float]], count: int) -> Iterator[tuple[str, Problem]]:
    """Instances whose table may be too small, and what they were drawn by."""
    for seed in range(count):
        rng = np.random.default_rng([seed, 77])
        nodes, exponent, theta = int(rng.integers(10, 101)), rng.uniform(0.7, 1.2), rng.uniform(0.02, 0.15)
        room, ranks = int(np.exp(rng.uniform(np.log(500), np.log(10_000)))), np.arange(1, 10**6 + 1) ** -exponent
        load, home = np.maximum(1, np.round(ranks / ranks.sum() * 1e7)), rng.integers(0, nodes, 10**6)
        w = ks.Workload(load=load, state=load, current=home, home=home, nodes=nodes)
        problem = ks.MixedRouting(w, theta_max=theta, max_table_size=room)
        labels[str(seed)] = {"seed": seed, "nodes": nodes, "exponent": exponent, "theta_max": theta, "room": room,
                             "alone": bool(problem.conflicts())}  # fmt: skip
        yield str(seed), problem


def long(page: Page) -> None:
    """Long streams.

    `ks.replay` by Flux on 60 nodes, 1,200 key groups, 10 moves a period, loads on a random walk; time and memory of the process, by tenths of
    the stream. What grows is the rows that the replay returns, which are packed.
    """
    periods, rows, began = 500 if page.quick else 10_000, [], [time.perf_counter()]

    def watch(_: Any) -> None:
        began.append(time.perf_counter())
        if (done := len(began) - 1) % (periods // 10) == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            each = (began[done] - began[done - periods // 10]) / (periods // 10)
            rows.append({"periods": done, "ms_a_period": 1e3 * each, "memory_MB": pages * resource.getpagesize() / 1e6})

    ks.replay(walk(), ["flux"], problem="key-group-allocation", max_migrations=10, periods=periods, watch=watch)
    page.table(rows, "long")


def walk() -> Iterator[ks.Workload]:
    """A cluster whose loads wander by 5 % a period."""
    base, rng = next(synthetic_cluster(60, 1200, 30, 0.5, 1)), np.random.default_rng(0)
    load = base.last_load
    while True:
        load = np.maximum(load * np.exp(rng.normal(0, 0.05, load.size)), 1e-3)
        load = load * base.last_load.sum() / load.sum()
        yield base.replace(load=load)
