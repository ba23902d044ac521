"""How near their lower bound schedules of plans end: 10, 100 and 1,000 moves, with limits on the way and without.

    python benchmarks/plans.py [--quick] [--only PART ...] --out DIR

Random plans on workloads twice their size, uniform, equal and Pareto states.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
from page import run

import keyshift as ks
from keyshift.models.plans.transfers import TransferScheduling
from keyshift.papers.page import Page, best_of
from keyshift.solvers.plans import fast_schedule

SIZES = ((10, 5), (10, 20), (100, 10), (100, 20), (1000, 20), (1000, 50))
STATES = {
    "uniform": lambda rng, e: rng.uniform(1, 10, e), "equal": lambda rng, e: np.ones(e), "pareto": lambda rng, e: rng.pareto(1.5, e) + 0.1,
}  # fmt: skip


def drawn(seed: int, moves: int, nodes: int, states: str = "uniform") -> tuple[ks.Workload, np.ndarray]:
    """A workload twice as large as its plan, and the assignment that the plan leads to."""
    rng, p = np.random.default_rng(seed), 2 * moves
    load, state, current = rng.uniform(1, 3, p), STATES[states](rng, p), rng.integers(0, nodes, p)
    target, chosen = current.copy(), rng.choice(p, moves, replace=False)
    target[chosen] = (target[chosen] + rng.integers(1, nodes, moves)) % nodes
    return ks.Workload(load=load, state=state, current=current, nodes=nodes), target


def unlimited(page: Page) -> None:
    """One phase, no limit on the way: how far the longest ends above the best lower bound known, in %."""
    rows = []
    for (moves, nodes), parallel, states, seed in product(SIZES, (1, 2, 4), STATES, range(1 if page.quick else 5)):
        w, target = drawn(seed, moves, nodes, states)
        moving, none = np.flatnonzero(w.current != target), np.zeros((0, nodes))
        ends, state = (w.current[moving], target[moving]), w.state[moving]
        problem = TransferScheduling(*ends, state, nodes, parallel, none, np.zeros((0, moves)), none)
        seconds, _, fast = best_of(1, fast_schedule, problem)
        plan = ks.plan(ks.KeyGroupAllocation(w), target, parallel=parallel, phase_moves=None, time_limit=10)
        assert not problem.violations(fast.starts)
        assert plan.violations() == []
        bound = max(plan.seconds_bound, fast.bound)
        rows.append({"moves": moves, "nodes": nodes, "parallel": parallel, "state": states, "seed": seed, "fast, worst %": 100 * (fast.seconds / bound - 1),
                     "plan, worst %": 100 * (plan.seconds / bound - 1), "fast, s": seconds})  # fmt: skip
    frame = pd.DataFrame(rows)
    worst = {"fast, worst %": "max", "plan, worst %": "max", "fast, s": "mean"}
    page.table(frame, "unlimited", frame.groupby(["moves", "nodes", "parallel"]).agg(worst).round(3))


def limited(page: Page) -> None:
    """No node above 1.3 times the larger of what it has before and after; the bound leaves the limit out."""
    rows = []
    for (moves, nodes), seed in product(SIZES[:-1], range(1 if page.quick else 5)):
        w, target = drawn(seed, moves, nodes)
        ends = [np.bincount(a, weights=w.last_load, minlength=nodes) for a in (w.current, target)]
        most = 1.3 * np.maximum(np.maximum(*ends), w.last_load.max())
        plan = ks.plan(ks.KeyGroupAllocation(w), target, phase_moves=None, time_limit=10, max_on_the_way={"load": most})
        assert plan.violations() == []
        gap = plan.seconds / plan.seconds_bound - 1
        rows.append({"moves": moves, "nodes": nodes, "overload": plan.overload, "gap": gap})
    page.table(pd.DataFrame(rows).groupby(["moves", "nodes"]).max(), "limited")


def stoppable(page: Page) -> None:
    """Random plans in phases of at most five moves: whether each can be stopped after any phase."""
    rows = []
    for seed in range(50 if page.quick else 500):
        rng = np.random.default_rng(seed)
        w, target = drawn(seed, int(rng.integers(6, 60)), int(rng.integers(2, 12)))
        plan = ks.plan(ks.KeyGroupAllocation(w), target, phase_moves=5, time_limit=0.0)
        before, after = plan.load_distance
        worst = max(phase.load_distance for phase in plan.phases)
        rows.append((*(np.array([after, worst]) <= before * (1 + 1e-9)), max(len(p.moves) for p in plan.phases)))
    frame = pd.DataFrame(rows, columns=["better", "kept", "longest"])
    ended = frame[frame["better"]]
    page.say(f"Of {len(frame)} plans {len(ended)} end no worse than they began; {ended['kept'].sum()} of these can be stopped after any phase, "
             f"their longest phase has {ended['longest'].max()} moves. The others end in a worse state than they begin, whatever the order.")  # fmt: skip


if __name__ == "__main__":
    run("plans", "Plans", __doc__, (unlimited, limited, stoppable))
