"""How near their lower bound schedules of plans end: 10, 100 and 1,000 moves, with limits on the way and without."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

import keyshift as ks
from keyshift.models.plans.transfers import TransferScheduling
from keyshift.solvers.plans.fast import fast_schedule

SIZES = ((10, 5), (10, 20), (100, 10), (100, 20), (1000, 20), (1000, 50))
STATES = {
    "uniform": lambda rng, e: rng.uniform(1, 10, e),
    "equal": lambda rng, e: np.ones(e),
    "pareto": lambda rng, e: rng.pareto(1.5, e) + 0.1,
}


def workload(seed: int, moves: int, nodes: int, states: str) -> tuple[ks.Workload, np.ndarray]:
    """A workload twice as large as its plan, and the assignment that the plan leads to."""
    rng = np.random.default_rng(seed)
    p = 2 * moves
    w = ks.Workload(
        load=rng.uniform(1, 3, p), state=STATES[states](rng, p), current=rng.integers(0, nodes, p), nodes=nodes
    )
    target = w.current.copy()
    chosen = rng.choice(p, moves, replace=False)
    target[chosen] = (target[chosen] + rng.integers(1, nodes, moves)) % nodes
    return w, target


def unlimited(seeds: int) -> pd.DataFrame:
    """One phase, no limit on the way: gap of the fast method alone, and of `ks.plan`, to the best bound."""
    rows = []
    for moves, nodes in SIZES:
        for parallel in (1, 2, 4):
            for states in STATES:
                for seed in range(seeds):
                    w, target = workload(seed, moves, nodes, states)
                    moving = np.flatnonzero(w.current != target)
                    none = np.zeros((0, nodes))
                    problem = TransferScheduling(
                        w.current[moving],
                        target[moving],
                        w.state[moving],
                        nodes,
                        parallel,
                        none,
                        np.zeros((0, moves)),
                        none,
                    )
                    began = time.perf_counter()
                    fast = fast_schedule(problem)
                    seconds = time.perf_counter() - began
                    assert not problem.violations(fast.starts)
                    plan = ks.plan(ks.KeyGroupAllocation(w), target, parallel=parallel, phase_moves=None, time_limit=10)
                    assert plan.violations() == []
                    bound = max(plan.seconds_bound, fast.bound)
                    rows.append(
                        {
                            "moves": moves, "nodes": nodes, "parallel": parallel, "state": states, "seed": seed,
                            "fast_gap": fast.seconds / bound - 1, "plan_gap": plan.seconds / bound - 1, "fast_seconds": seconds,
                        }
                    )  # fmt: skip
    return pd.DataFrame(rows)


def limited(seeds: int) -> pd.DataFrame:
    """No node above 1.3 times the larger of what it has before and after: overload and gap to the bound without limits."""
    rows = []
    for moves, nodes in SIZES[:-1]:
        for seed in range(seeds):
            w, target = workload(seed, moves, nodes, "uniform")
            before, after = (np.bincount(a, weights=w.last_load, minlength=nodes) for a in (w.current, target))
            plan = ks.plan(
                ks.KeyGroupAllocation(w), target, phase_moves=None, time_limit=10,
                max_on_the_way={"load": 1.3 * np.maximum(np.maximum(before, after), w.last_load.max())},
            )  # fmt: skip
            assert plan.violations() == []
            rows.append(
                {
                    "moves": moves,
                    "nodes": nodes,
                    "seed": seed,
                    "overload": plan.overload,
                    "gap": plan.seconds / plan.seconds_bound - 1,
                }
            )
    return pd.DataFrame(rows)


def stoppable(plans: int) -> pd.DataFrame:
    """Random plans in phases of at most five moves: whether each can be stopped after any phase."""
    rows = []
    for seed in range(plans):
        rng = np.random.default_rng(seed)
        moves, nodes = int(rng.integers(6, 60)), int(rng.integers(2, 12))
        w, target = workload(seed, moves, nodes, "uniform")
        plan = ks.plan(ks.KeyGroupAllocation(w), target, phase_moves=5, time_limit=0.0)
        before, after = plan.load_distance
        worst = max(p.load_distance for p in plan.phases)
        rows.append(
            {
                "possible": after <= before * (1 + 1e-9), "kept": worst <= before * (1 + 1e-9),
                "longest_phase": max(len(p.moves) for p in plan.phases),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    asked = parser.parse_args()
    seeds = 1 if asked.quick else 5
    asked.out.mkdir(parents=True, exist_ok=True)
    free, tight, stops = unlimited(seeds), limited(seeds), stoppable(50 if asked.quick else 500)
    free.to_csv(asked.out / "plans.csv", index=False)
    by = free.groupby(["moves", "nodes", "parallel"])
    table = by[["fast_gap", "plan_gap"]].max().join(by["fast_seconds"].mean()).reset_index()
    percent = {name: 100 * table[name] for name in ("fast_gap", "plan_gap")}
    shown = table.assign(**percent).rename(
        columns={"fast_gap": "fast, worst %", "plan_gap": "plan, worst %", "fast_seconds": "fast, s"}
    )
    stopped = stops[stops["possible"]]
    text = [
        "# Plans", "",
        f"Schedules of random plans, uniform, equal and Pareto states, {seeds} of each: how far the longest ends above the best lower bound known.", "",
        shown.round(3).to_markdown(index=False), "",
        "With a limit of 1.3 times what a node has before or after; the bound leaves the limit out:", "",
        tight.groupby(["moves", "nodes"])[["overload", "gap"]].max().reset_index().round(4).to_markdown(index=False), "",
        f"Of {len(stops)} random plans in phases of at most five moves, {len(stopped)} end no worse than they began, and all of these "
        f"({int(stopped['kept'].sum())}) can be stopped after any phase; their longest phase has {int(stopped['longest_phase'].max())} moves. "
        f"The other {len(stops) - len(stopped)} end in a worse state than they begin, whatever the order.", "",
    ]  # fmt: skip
    (asked.out / "plans.md").write_text("\n".join(text))
    print("\n".join(text))


if __name__ == "__main__":
    main()
