"""[Madsen2016]: what its text claims - partitioning patterns, capacities, two lemmas, and what section 5.4 says of operation."""

from __future__ import annotations

import numpy as np
import pandas as pd

import keyshift as ks
from keyshift.generators.allocation import madsen_patterns, synthetic_cluster
from keyshift.papers.madsen2016 import POINTS
from keyshift.papers.page import Page


def operation(page: Page) -> None:
    """Section 5.4, after a start from COLA's plan: what its collocation becomes under ALBIC, the program and Flux.

    20 nodes, 400 key groups, half of them one to one, 20 moves a period, 20 periods (in a quick run 4); loads drift as in section 5.3.
    *recalculated*: periods in which ALBIC tried smaller partitions. *nodes*: as many as keep the load, traffic included, to 80 %.
    """
    stream = list(synthetic_cluster(20, 400, 10, 0.5, 4 if page.quick else 20, seed=page.seed))
    planned = ks.solve(ks.CollocatedAllocation(stream[0], **POINTS), "cola").assignment
    half = (
        stream[0].last_load.sum() / stream[0].traffic.sum() / 2
    )  # a tuple costs both its ends as much as processing it
    load_model, limit = ks.replays.LoadModel(half, half), {"max_migrations": 20}
    ways = {
        "albic": (ks.CollocatedAllocation, POINTS),
        "allocation-milp": (ks.KeyGroupAllocation, {}),
        "flux": (ks.KeyGroupAllocation, {}),
    }
    rows, starts = [], {"as dealt": stream[0].current, "COLA's plan": planned}
    for method, (problem, options) in ways.items():
        at = planned
        for period, w in enumerate(stream):
            now = w.replace(current=at)
            s = ks.solve(problem(now, **limit, **options), method.removeprefix("allocation-"), effort=0.3, seed=period)
            at = s.assignment if s.assignment is not None else at
            rows.append({"method": method, "period": period, "collocation, %": 100 * ks.CollocatedAllocation(now).metrics(at)["collocation_factor"],
                         "recalculated": s.details.get("programs", 1) > 1})  # fmt: skip
    frame = page.keep(rows, "operation")
    page.table(frame.groupby("method", sort=False)[["collocation, %", "recalculated"]].agg({"collocation, %": ["first", "last"], "recalculated": "mean"}).set_axis(
        ["collocation, first, %", "last, %", "recalculated"], axis=1), "operation_means")  # fmt: skip
    loads = {start: load_model.total_load(stream[0], at) for start, at in starts.items()}
    page.table(
        [{"start": start, "load": load, "nodes": int(np.ceil(load / 80))} for start, load in loads.items()],
        "operation_nodes",
    )
    page.draw("operation", "Collocation from COLA's plan on, under ALBIC, the program and Flux.",
              {"frame": frame, "x": "period", "y": "collocation, %", "by": "method"}, size=(5, 3.4))  # fmt: skip


def capacities(page: Page) -> None:
    """[Madsen2016], section 3: capacities inferred at runtime, "by first assuming all nodes are homogeneous, then measuring the actual effect".

    A node of capacity c shows the load y of a key group as y / c points, here measured to 5 %. A move shows it on two nodes: the logarithm of
    the quotient is a difference of two logarithms of capacities, and least squares over all moves so far gives them all, nodes that no
    move has touched being taken for average. Each period plans ten moves with them. *distance*: true, in percent of the mean.
    """
    rng, (nodes, key_groups, periods) = np.random.default_rng(page.seed), (8, 80, 8) if page.quick else (20, 400, 20)
    true = rng.choice([0.5, 1.0, 2.0], nodes)
    load, start, rows = rng.uniform(5, 15, key_groups), rng.integers(0, nodes, key_groups), []
    for knows in ("nothing", "what moves tell", "capacities"):
        place, guess, seen = start.copy(), np.ones(nodes), []
        noise = np.random.default_rng([1, page.seed])
        for period in range(periods + 1):
            used = np.bincount(place, load, nodes) / true
            mean = load.sum() / true.sum()
            error = 100 * float(np.abs(guess / guess.sum() * true.sum() / true - 1).mean())
            rows.append(
                {
                    "knows": knows,
                    "period": period,
                    "distance": 100 * float(np.abs(used - mean).max()) / mean,
                    "capacities off, %": error,
                }
            )
            if knows == "capacities":
                guess = true
            shown = load / true[place] * noise.normal(1, 0.05, key_groups)
            w = ks.Workload(load=shown * guess[place], state=np.ones(key_groups), current=place, nodes=guess)
            after = ks.solve(ks.KeyGroupAllocation(w, max_migrations=10), "milp", time_limit=1.0).assignment
            moved = np.flatnonzero(after != place)
            again = load[moved] / true[after[moved]] * noise.normal(1, 0.05, moved.size)
            seen += list(zip(place[moved], after[moved], np.log(shown[moved] / again), strict=True))
            place = after
            if knows == "what moves tell" and seen:
                a = np.zeros((len(seen) + 1, nodes))
                for row, (source, target, _) in enumerate(seen):
                    a[row, target], a[row, source] = 1.0, -1.0
                a[-1] = 1.0  # their product is 1
                guess = np.exp(np.linalg.lstsq(a, np.array([*(q for *_, q in seen), 0.0]), rcond=None)[0])
    frame = pd.DataFrame(rows)
    page.table(frame, "capacities", frame[frame["period"].isin((0, periods // 2, periods))])


def lemmas(page: Page) -> None:
    """[Madsen2016], Lemmas 1 and 4.2: the smallest cases in which loads that cannot be cut refute them.

    Lemma 1: a node at 110, of which one key group of 10 may move, ten nodes at 99, one empty node that drains, one move. Lemma 4.2: kept
    nodes at 10, 10, 10, and one key group of 1.5 on a draining node.
    """
    one = ks.Workload(
        load=[10, 100, *[99] * 10],
        state=[1, *[100] * 11],
        current=[0, 0, *range(1, 11)],
        nodes=12,
        draining=np.arange(12) == 11,
    )
    two = ks.Workload(
        load=[10, 10, 10, 1.5], state=np.ones(4), current=[0, 1, 2, 3], nodes=4, draining=np.arange(4) == 3
    )
    limits, rows = {"max_migrations": 1, "max_migration_cost": 1}, []
    for lemma, plan, problem in (
        (1, "as the lemma says", ks.KeyGroupAllocation(one, **limits)),
        (1, "the optimum", ks.KeyGroupAllocation(one, **limits, into_draining=True)),
        (4.2, "the optimum", ks.KeyGroupAllocation(two)),
    ):
        s = ks.solve(problem)
        left = int(problem.workload.draining[s.assignment].sum())
        rows.append({"lemma": lemma, "plan": plan, "load distance": s.objective, "left": left, "status": s.status})
    page.table(rows, "lemmas")


def patterns(page: Page) -> None:
    """[Madsen2016], Figure 1: how much of the traffic can be collocated under each of the four patterns, all key groups free to move."""
    rows = []
    for pattern in ("one-to-one", "partial-merge", "partial-partitioning", "full"):
        problem = madsen_patterns(pattern=pattern, max_migrations=None, seed=page.seed)
        s = ks.solve(problem, effort=2 if page.quick else 8)
        of = 100 / problem.total_traffic
        rows.append(
            {
                "pattern": pattern,
                "most collocation, %": 100 - of * s.objective,
                "at most, %": 100 - of * s.bound,
                "status": s.status,
            }
        )
    page.table(rows, "patterns")
