"""Instances of teaching size, drawn anew: how many of each problem the default method proves, and how long it takes.

3 to 10 nodes and 12 to 100 key groups (collocation 12 to 60, MCLB 12 to 24 in up to 6 windows), loads of every kind, with and without
limits; `--seed` draws others. Seconds, those of the limit too, are a processor's, of everything but the first answer of each problem, which may compile.
HiGHS and CP-SAT keep to a wall clock: where others use the machine, a run can end at the limit of that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pandas as pd
from page import run

import keyshift as ks
from keyshift.models import answer
from keyshift.models.base import compiling
from keyshift.papers.page import Page

answer.time = compiling.time = SimpleNamespace(monotonic=time.process_time)  # type: ignore[assignment] # limits count the processor's seconds, whoever else runs

LOADS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "Zipf": lambda rng, p: 1000.0 * rng.permutation(np.arange(1, p + 1.0) ** -rng.choice([0.5, 0.8, 1.0, 1.2])),
    "uniform": lambda rng, p: rng.uniform(1, 10, p),
    "integer": lambda rng, p: rng.integers(1, 10, p).astype(float),
    "heavy tails": lambda rng, p: 10 * (rng.pareto(1.3, p) + 1),
}
Drawn = tuple[ks.Problem, str]


def workload(
    rng: np.random.Generator, key_groups: tuple[int, int], windows: int = 1, **fields: object
) -> tuple[ks.Workload, str]:
    """A workload on 3 to 10 nodes, in balance or not, and the kind of its loads; now and then a node drains."""
    n, kind = int(rng.integers(3, 11)), str(rng.choice(list(LOADS)))
    p = int(rng.integers(max(key_groups[0], 2 * n if key_groups[1] > 24 else n + 2), key_groups[1] + 1))
    base = LOADS[kind](rng, p)
    load = base * rng.uniform(0.5, 1.5, (windows, p)) if windows > 1 else base
    current = rng.integers(0, n, p)
    if rng.random() < 0.5:  # in balance
        held = np.zeros(n)
        for k in np.argsort(-base):
            current[k] = held.argmin()
            held[current[k]] += base[k]
    made = {name: make(rng, base) if callable(make) else make for name, make in fields.items()}
    draining = np.arange(n) == (n - 1 if rng.random() < 0.1 else -1)
    w = ks.Workload(load=load, state=rng.integers(1, 10, p), current=current, nodes=n, draining=draining, **made)
    return w, kind


def moves(rng: np.random.Generator, w: ks.Workload) -> dict[str, float | int]:
    """No limit, a number of migrations, or a migration cost."""
    kind = rng.integers(3)
    if kind == 0:
        return {}
    if kind == 1:
        return {"max_migrations": int(rng.integers(2, w.key_groups // 3 + 1))}
    return {"max_migration_cost": float(rng.uniform(0.1, 0.4) * w.state.sum())}


def traffic(rng: np.random.Generator, load: np.ndarray) -> np.ndarray:
    """Traffic one to one, in a ring, sparse, dense, or of heavy tails."""
    p, kind = load.size, rng.integers(5)
    made = np.zeros((p, p))
    if kind == 0:
        made[np.arange(p // 2), p // 2 + rng.permutation(p // 2)] = np.rint(100 * load[: p // 2])
    elif kind == 1:
        made[np.arange(p), (np.arange(p) + 1) % p] = rng.integers(1, 100, p)
    elif kind == 2:
        made = np.where(rng.random((p, p)) < 2 / p, rng.integers(1, 100, (p, p)), 0).astype(float)
    elif kind == 3:
        made = rng.integers(0, 100, (p, p)).astype(float)
    else:
        made = np.where(rng.random((p, p)) < 0.15, np.rint(20 * rng.pareto(1.2, (p, p))), 0.0)
    np.fill_diagonal(made, 0)
    return made


def allocation(rng: np.random.Generator) -> Drawn:
    w, kind = workload(rng, (12, 100))
    return ks.KeyGroupAllocation(w, **moves(rng, w)), kind


def collocation(rng: np.random.Generator) -> Drawn:
    w, kind = workload(rng, (12, 60), traffic=traffic)
    return ks.CollocatedAllocation(w, max_load_distance=float(rng.choice([5, 10, 20, 50])), **moves(rng, w)), kind


def mclb(rng: np.random.Generator) -> Drawn:
    w, kind = workload(rng, (12, 24), windows=int(rng.integers(2, 7)))
    forced = float(w.state[w.draining[w.current]].sum())
    limit = None if rng.random() < 0.5 else forced + float(rng.uniform(0.1, 0.6) * w.state.sum())
    return ks.MCLB(w, max_state_moved=limit), kind


def movement(rng: np.random.Generator) -> Drawn:
    w, kind = workload(rng, (12, 100))
    mean, most = float(w.last_load.sum()) / int(w.kept.sum()), float(w.last_load.max())
    width = float(rng.choice([0.1, 0.3]))
    return ks.MovementWithinLimits(
        w, lower=(1 - width) * mean if most < mean else 0.0, upper=max((1 + width) * mean, most)
    ), kind


def routing(rng: np.random.Generator) -> Drawn:
    w, kind = workload(rng, (12, 100))
    w = w.replace(home=np.where(rng.random(w.key_groups) < 0.7, w.current, rng.integers(0, w.nodes, w.key_groups)))
    most = float(w.last_load.max() * int(w.kept.sum()) / w.last_load.sum()) - 1
    table = None if rng.random() < 0.3 else int(rng.integers(w.key_groups // 4, w.key_groups))
    return ks.MixedRouting(
        w, theta_max=max(most, 0.0) + float(rng.choice([0.05, 0.1, 0.3])), max_table_size=table
    ), kind


def stream(rng: np.random.Generator) -> tuple[np.ndarray, dict[str, int]]:
    """Messages by a Zipf law, and workers with choices."""
    keys = int(rng.integers(12, 101))
    weight = np.arange(1, keys + 1.0) ** -rng.choice([0.5, 1.0, 1.5])
    messages = rng.choice(keys, int(rng.integers(100, 2000)), p=weight / weight.sum())
    return messages, {
        "workers": int(rng.integers(3, 11)),
        "choices": int(rng.integers(2, 4)),
        "hash_seed": int(rng.integers(1000)),
    }


def splitting(rng: np.random.Generator) -> Drawn:
    messages, options = stream(rng)
    return ks.KeySplitting(messages, **options), "Zipf"


def placement(rng: np.random.Generator) -> Drawn:
    messages, options = stream(rng)
    return ks.KeyPlacement(messages, **options), "Zipf"


def tasks(rng: np.random.Generator, most: int) -> tuple[ks.Workload, str]:
    """Tasks in a row on nodes that run one interval each."""
    w, kind = workload(rng, (12, most))
    return ks.Workload(load=w.last_load, state=w.state, current=np.sort(w.current), nodes=w.nodes), kind


def step(rng: np.random.Generator) -> Drawn:
    w, kind = tasks(rng, 100)
    return ks.IntervalMigration(w, int(rng.integers(2, w.nodes + 3)), float(rng.choice([0.5, 1.0]))), kind


def sequence(rng: np.random.Generator) -> Drawn:
    w, kind = tasks(rng, 40)
    return ks.MigrationSequence(w, rng.integers(2, w.nodes + 2, 3).tolist(), float(rng.choice([0.5, 1.0]))), kind


def policy(rng: np.random.Generator) -> Drawn:
    w, kind = tasks(rng, 16)
    w = ks.Workload(load=w.last_load, state=w.state, current=np.sort(rng.integers(0, 3, w.key_groups)), nodes=3)
    return ks.MigrationPolicy(w, {2: {3: 1.0}, 3: {2: 0.5, 4: 0.5}, 4: {3: 1.0}}, 1.0, 0.8), kind


DRAWN: tuple[Callable[[np.random.Generator], Drawn], ...] = (
    allocation, collocation, mclb, movement, routing, splitting, placement, step, sequence, policy,
)  # fmt: skip


def teaching(page: Page) -> None:
    """Teaching sizes.

    Proven: optimal, or proven to have no answer. Within 1e-4: not proven, but the gap is less than this share of the problem's scale,
    where a run ends by itself. Open: neither, at the limit of `--seconds`.
    """
    rows = []
    for place, draw in enumerate(DRAWN):
        for number in range(4 if page.quick else page.given.each):
            rng = np.random.default_rng([page.given.seed, place, number])
            problem, kind = draw(rng)
            if number == 0:
                ks.solve(problem, time_limit=5.0)
            wall, began = time.perf_counter(), time.process_time()
            found = ks.solve(problem, time_limit=page.given.seconds)
            print(problem.name, number, found.status, f"{time.process_time() - began:.2f} s", flush=True)
            gap = None if found.objective is None or found.bound is None else found.objective - found.bound
            rows.append({
                "problem": problem.name, "method": found.method, "loads": kind, "number": number, "status": found.status,
                "proven": found.status in ("optimal", "infeasible"), "within": gap is not None and gap <= 1e-4 * problem.scale, "gap": gap, "objective": found.objective,
                "bound": found.bound, "seconds": time.process_time() - began, "wall": time.perf_counter() - wall,
                "asked": repr(problem)[:200],
            })  # fmt: skip
        frame = page.keep(rows, "runs")
    summary(page, frame)


def summary(page: Page, frame: pd.DataFrame) -> None:
    """Counts for each problem, then what is open."""
    page.table(
        [
            {
                "problem": name, "method": part["method"].iloc[0], "instances": len(part), "infeasible": int((part["status"] == "infeasible").sum()),
                "proven": int(part["proven"].sum()), "within 1e-4": int((part["within"] & ~part["proven"]).sum()), "open": int((~part["within"] & ~part["proven"]).sum()),
                "proven in 10 s": int((part["proven"] & (part["seconds"] <= 10)).sum()),
                "median s": round(part["seconds"].median(), 2), "longest s": round(part["seconds"].max(), 2),
            }
            for name, part in frame.groupby("problem", sort=False)
        ],
        "summary",
    )  # fmt: skip
    still = frame[~(frame["proven"] | frame["within"])]
    if len(still):
        page.say("Open:", "")
        page.table(pd.DataFrame(still)[["problem", "loads", "number", "objective", "bound", "seconds"]].round(3))


if __name__ == "__main__":
    run(
        "teaching", "Teaching sizes", __doc__ or "", [teaching],
        seed={"type": int, "default": 1}, each={"type": int, "default": 40}, seconds={"type": float, "default": 10.0},
    )  # fmt: skip
