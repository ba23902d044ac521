"""What the defaults reach where they used to stop short: against every other method, on heavy tails, on full tables, on dense graphs.

    python benchmarks/frontier.py [--quick] [--only PART ...] [--seconds 2] --out DIR

The instances are drawn here, or by the families of the package; none was used for tuning a number.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
import time
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
from frontier_allocation import abound, capacities, cold, limited
from frontier_collocation import dense, one_call, periods
from frontier_routing import long, tables
from page import run

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.generators.hard import Kind
from keyshift.generators.mclb import section_5_stream
from keyshift.models import Problem
from keyshift.papers import ding2015 as intervals
from keyshift.papers.page import Page

NEAR = 1e-4
"""A default counts as beaten where it is worse by more than this share of the problem's scale, such as a node's mean load."""
HARD: dict[str, Any] = {"kind": list(get_args(Kind))}
DRAWN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("madsen-allocation", {"nodes": [10, 20], "key_groups": 200, "max_migrations": [5, 20]}),
    ("hard-allocation", HARD | {"nodes": 8}),
    ("madsen-collocation", {"nodes": 10, "key_groups": 100, "one_to_one": [0.3, 1.0]}),
    ("hard-collocation", HARD),
    ("guo-mclb", {"keys": ["zipf", "gaussian"], "nodes": 5, "key_groups": 60, "windows": 24, "share_moved": [0.1, 0.4]}),
    ("hard-mclb", HARD),
    ("guo-movement", {"keys": ["zipf", "gaussian"], "width": [0.1, 0.3]}),
    ("hard-movement", HARD),
    ("nasir-splitting", {"exponent": [0.8, 1.4], "messages": 20_000}),
    ("hard-splitting", HARD),
    ("nasir-placement", {"exponent": [0.8, 1.4]}),
    ("hard-placement", HARD),
    ("fang-routing", {"keys": [2_000], "max_table_size": [400, 900], "theta_max": [0.04, 0.08]}),
    ("hard-routing", HARD),
    ("ding-step", {"tau": [0.1, 0.3]}),
    ("hard-step", HARD),
    ("ding-sequence", {}),
    ("hard-sequence", HARD),
    ("ding-policy", {"tasks": 16}),
    ("hard-policy", HARD),
)  # fmt: skip
"""Families and their parameters; the generators' own where none are given."""
LET_OUT: dict[str, dict[str, float]] = {
    "key-group-allocation": {"max_migrations": 2, "max_migration_cost": 1.5},
    "collocated-allocation": {"max_migrations": 2, "max_migration_cost": 1.5},
    "mclb": {"max_state_moved": 1.5},
    "mixed-routing": {"max_table_size": 1.5, "theta_max": 1.25},
    "interval-migration": {"tau": 1.5}, "migration-sequence": {"tau": 1.5}, "migration-policy": {"tau": 1.5},
}  # fmt: skip
"""By what a limit is multiplied in the second instance of a pair; problems without one have a pair of equals."""


def instances(pairs: int) -> Iterator[tuple[str, Problem]]:
    """Every pair: the instance as drawn, then the same with a limit let out."""
    for name, parameters in DRAWN:
        choices = math.prod(len(v) for v in parameters.values() if isinstance(v, list))
        drawn = ks.family(name, count=-(-pairs // (2 * choices)), **parameters)
        for instance, problem in [*drawn][: -(-pairs // 2)]:
            yield instance, problem
            yield f"{instance}, let out", let_out(problem)
    for draw in (heavy_allocation, heavy_collocation, heavy_movement):
        for seed in range(pairs // 2):
            problem = draw(seed)
            yield f"{draw.__name__}/{seed}", problem
            yield f"{draw.__name__}/{seed}, let out", let_out(problem)


def let_out(problem: Problem) -> Problem:
    """The problem with the first limit that it has let out."""
    for field, factor in LET_OUT.get(problem.name, {}).items():
        limit = getattr(problem, field)
        if limit is not None:
            more = math.ceil(limit * factor) if isinstance(limit, int) else limit * factor
            return dataclasses.replace(problem, **{field: more})  # type: ignore[type-var]
    return problem


def users(rng: np.random.Generator, key_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """A heavy-tailed log: how much each of some thousand users asks for, and the key group that each hashes to."""
    asked = np.round(10 * rng.pareto(rng.uniform(0.8, 1.3), int(rng.choice([300, 1_000, 3_000])))) + 1
    return asked, rng.integers(0, key_groups, asked.size)


def heavy_allocation(seed: int) -> Problem:
    """128 key groups of a heavy-tailed log on 8 nodes, 10 of which may move."""
    rng = np.random.default_rng([seed, 1])
    asked, group = users(rng, 128)
    load = np.bincount(group, asked, 128)
    w = ks.Workload(load=load, state=load + 1, current=rng.permutation(128) % 8, nodes=8)
    return ks.KeyGroupAllocation(w, max_migrations=10)


def heavy_collocation(seed: int) -> Problem:
    """Two operators of 200 key groups that nearly all talk to each other, on 10 nodes."""
    rng = np.random.default_rng([seed, 2])
    asked, first = users(rng, 200)
    traffic = np.zeros((400, 400))
    for _ in range(20):
        np.add.at(
            traffic,
            (first, 200 + (first * 7 + rng.integers(0, 3 if rng.random() < 0.2 else 200, first.size)) % 200),
            asked,
        )
    load = traffic.sum(axis=0) + traffic.sum(axis=1)
    posed = ks.Workload(load=load, state=load + 1, current=np.arange(400) % 10, nodes=10)
    current = ks.solve(ks.KeyGroupAllocation(posed), "flux").assignment
    w = ks.Workload(load=load, state=load + 1, current=current, nodes=10, traffic=traffic)
    return ks.CollocatedAllocation(w, max_load_distance=30.0, max_migrations=20)


def beaten(page: Page) -> None:
    """Is a default ever beaten.

    Pairs of instances of all ten problems, the second with its first limit let out. Every method but the relaxations gets the same time; the
    default is beaten where another method, or the default itself under the tighter limit, is better by more than a ten-thousandth of
    the problem's scale.
    """
    posed = dict(instances(2 if page.quick else page.given.pairs))
    posed = {name: problem for name, problem in posed.items() if problem.name in (page.given.problems or FORMULATIONS)}
    methods = {name: [m.name for m in f.methods if m.kind != "relaxation"] for name, f in FORMULATIONS.items()}
    done = ks.study(posed, methods=methods, time_limit=page.given.seconds, out=page.out / "frontier-study")
    rows = pd.DataFrame([row for row in done.rows if row["same_problem"] and row["objective"] is not None])
    failed = [row for row in done.rows if row["status"] == "failed"]
    slack = {name: problem.tolerance + NEAR * problem.scale for name, problem in posed.items()}
    worse = pd.DataFrame(found_better(rows, slack), columns=["instance", "default", "better", "by"])
    problems = pd.Series({name: problem.name for name, problem in posed.items()})
    table = pd.DataFrame({"instances": problems.value_counts(sort=False)}).rename_axis("problem")
    table["solves"] = pd.Series([row["problem"] for row in done.rows]).value_counts()
    table["beaten"] = worse["instance"].map(problems).value_counts().reindex(table.index, fill_value=0)
    page.table(table, "defaults")
    page.say(f"{len(problems)} instances, {page.given.seconds:g} s each; failed solves: {len(failed)}.")
    if not worse.empty:
        page.table(worse, "beaten")


def found_better(rows: pd.DataFrame, slack: dict[str, float]) -> Iterator[dict[str, Any]]:
    """What is better than the default's answer on its instance, and than its answer with the limit let out."""
    defaults = {name: f.methods[0].name for name, f in FORMULATIONS.items()}
    own = rows[rows["method"] == rows["problem"].map(defaults)].set_index("instance")["objective"]
    for row in rows.itertuples():
        if not own.get(row.instance, math.inf) <= row.objective + slack[row.instance]:
            yield {
                "instance": row.instance,
                "default": own.get(row.instance),
                "better": row.objective,
                "by": row.method,
            }
    for instance, value in own.items():
        looser = f"{instance}, let out"
        if looser in slack and not own.get(looser, math.inf) <= value + slack[looser]:
            yield {"instance": looser, "default": own.get(looser), "better": value, "by": "the tighter limit"}


def heavy_movement(seed: int) -> Problem:
    """400 key groups of a heavy-tailed log, placed at random on 20 nodes, within a twentieth of the mean or the largest."""
    rng = np.random.default_rng([seed, 3])
    asked, group = users(rng, 400)
    load = np.bincount(group, asked, 400)
    w = ks.Workload(load=load, state=load + 1, current=rng.integers(0, 20, 400), nodes=20)
    upper = max(1.05 * load.sum() / 20, load.max())
    return ks.MovementWithinLimits(w, max(0.0, load.sum() / 10 - upper), upper, nodes_after=20)


def heavy(page: Page) -> None:
    """Heavy tails: allocation.

    128 key groups of a heavy-tailed log, 8 nodes, 10 moves, 30 s.
    """
    rows = []
    for seed in range(3 if page.quick else 20):
        problem = heavy_allocation(seed)
        s = ks.solve(problem, time_limit=5 if page.quick else 30, seed=0)
        rows.append({"seed": seed, "objective": s.objective, "bound": s.bound, "percent_of_mean": 100 * (s.gap_abs or 0) / problem.scale,
                     "proven": s.status == "optimal", "seconds": s.seconds})  # fmt: skip
    page.table(rows, "heavy")


def messages(page: Page) -> None:
    """Key splitting end to end.

    `ks.solve(problem, "pkg")` on keys Zipf 1.5 over 100,000, 100 workers: the answer checked and valued; and the partitioner alone. *texts* were
    made numbers when the problem was posed; those in Parquet files, with and without Parquet's dictionaries, are read within the time.
    """
    size, rows = 10**6 if page.quick else 2 * 10**7, []
    keys = np.random.default_rng(0).zipf(1.5, size) % 100_000
    ks.solve(ks.KeySplitting(keys[:1000], workers=100), "pkg")
    for name, stream in (("integers", keys), ("texts", np.char.mod("user-%d", keys[: size // 10]))):
        problem = ks.KeySplitting(stream, workers=100)
        seconds = min(timed(lambda p=problem: ks.solve(p, "pkg")) for _ in range(3))
        alone = min(timed(lambda p=problem: fed(p)) for _ in range(3))
        rows.append({"keys": name, "messages": stream.size, "solve_M_per_s": stream.size / seconds / 1e6,
                     "partitioner_M_per_s": stream.size / alone / 1e6})  # fmt: skip
    names = pa.array(np.char.mod("user-%d", np.arange(100_000)))
    table = pa.table({"user": pa.DictionaryArray.from_arrays(pa.array(keys), names).cast(pa.string())})
    with tempfile.TemporaryDirectory() as folder:
        for name, dictionary in (("texts in Parquet", True), ("texts in Parquet, plain", False)):
            path = f"{folder}/users-{dictionary}.parquet"
            parquet.write_table(table, path, use_dictionary=dictionary)
            seconds = min(timed(lambda p=path: ks.solve(ks.KeySplitting(p, workers=100), "pkg")) for _ in range(3))
            rows.append({"keys": name, "messages": size, "solve_M_per_s": size / seconds / 1e6})
    page.table(rows, "messages")


def balance(page: Page) -> None:
    """Balance over many windows, within a budget and without.

    The streams of [Guo2018], 100 key groups and 120 windows: fronts on 10 nodes, 10 budgets in 100 s on two workers, and what the
    default reaches without a budget in 30 s. *rms* is the root mean square over nodes and windows of a node's distance from the mean, in
    percent of the mean node load; *behind* is how far, in the same points, it may be from the least one.
    """
    seconds, rows = (10, 10) if page.quick else (100, 30), []
    for keys in ("gaussian", "zipf"):
        for nodes in (5, 10, 15):
            problem = ks.MCLB(section_5_stream(keys, nodes=nodes))
            found = [("no budget", ks.solve(problem, time_limit=seconds[1]))]
            if nodes == 10:
                starts = [ks.solve(problem, method) for method in ("elb", "clb", "clb-moment", "uhlb", "pkg")]
                found += [("front", s) for s in ks.pareto(problem, 10, time_limit=seconds[0], workers=2, starts=starts)]
            rows += [{"keys": keys, "nodes": nodes, "of": of, **balanced(problem.workload, s)} for of, s in found]
    page.table(rows, "balance")


def balanced(w: ks.Workload, s: Any) -> dict[str, float]:
    """How near the best placement found is to the bound, for the formula and for an operator."""
    mean = float(w.load.sum()) / (w.windows * w.nodes)
    rms, least = (100 * math.sqrt(h / w.windows) / mean for h in (s.objective, s.bound))
    return {"moved_percent": 100 * s.metrics["share_moved"], "h": s.objective, "bound": s.bound, "gap_percent": 100 * s.gap,
            "rms_percent": rms, "behind_points": rms - least, "seconds": s.seconds}  # fmt: skip


def fed(problem: ks.KeySplitting) -> None:
    """The partitioner alone, on keys that are numbers by now."""
    one = ks.Partitioner("pkg", problem.workers)
    for keys in problem.stream.chunks():
        one.feed(keys)


def timed(what: Any) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def policies(page: Page) -> None:
    """Migration policies beyond enumeration.

    Words and flights as in *Interval migration*, 8 to 16 nodes, gamma = 0.8; values are shares of all the state. `potentials` on two threads,
    before: `mtm-restricted`; both with a limit of a minute.
    """
    cases = [("0.25", 64), ("0.3", 64), ("0.4", 64), ("0.5", 64), ("0.2", 128)]
    rows = []
    for tau, tasks in cases[:1] if page.quick else cases:
        w, _ = intervals.start(page, tasks)
        problem = ks.MigrationPolicy(w, intervals.transition_matrix(intervals.histories()[0]), tau, intervals.GAMMA)
        size = sum(intervals.census(problem).values())
        limit = page.given.policy_seconds
        for method, options in (("mtm-restricted", {}), ("potentials", {"threads": 2})):
            s = ks.solve(problem, method, time_limit=limit, **options)
            rows.append({"tau": float(tau), "m": tasks, "partitions": size, **valued(problem, s)})
            print(rows[-1], flush=True)
    page.table(rows, "policies")


def enumerated(page: Page) -> None:
    """Migration policies: 2.3 million partitions enumerated.

    The same at tau = 0.25, by `mtm` on two threads, to a millionth of all the state.
    """
    w, _ = intervals.start(page)
    tau = intervals.TAU if page.quick else "0.25"
    problem = ks.MigrationPolicy(w, intervals.transition_matrix(intervals.histories()[0]), tau, intervals.GAMMA)
    s = ks.solve(problem, "mtm", threads=2, tolerance=1e-6, time_limit=840)
    page.table([{"tau": float(tau), "partitions": sum(intervals.census(problem).values()), **valued(problem, s), "termination": s.termination,
                 "rounds": s.details.get("rounds")}], "enumerated")  # fmt: skip


def valued(problem: Problem, s: ks.Solution) -> dict[str, Any]:
    """What an answer is worth, in shares of all the state, and how far it is proven."""
    value, bound = (math.nan if v is None else v / problem.scale for v in (s.objective, s.bound))
    return {"method": s.method, "value": value, "bound": bound, "gap, %": 100 * (1 - bound / value), "gap over state": value - bound,
            "seconds": s.seconds}  # fmt: skip


if __name__ == "__main__":
    options = {
        "seconds": {"type": float, "default": 2.0},
        "each": {"type": float, "default": 20.0, "help": "seconds for each allocation and collocation"},
        "nodes": {"type": int, "nargs": "+", "default": [20, 40, 60], "help": "of the drifts of `abound`"},
        "periods": {"type": int, "default": 20, "help": "that every method is replayed for, collocation"},
        "jobs": {"type": int, "nargs": "*", "default": [2, 3, 4], "help": "of `periods`"},
        "shares": {"type": int, "nargs": "*", "default": [0, 25, 50, 75, 100], "help": "one to one, of `periods`"},
        "pairs": {"type": int, "default": 25, "help": "of each problem"},
        "problems": {"nargs": "+", "help": "of `beaten`; all when absent"},
        "policy-seconds": {"type": float, "default": 60.0, "help": "for each policy beyond enumeration"},
    }
    run(
        "frontier",
        "Frontier: where the defaults used to stop short",
        __doc__,
        (
            beaten,
            heavy,
            abound,
            limited,
            capacities,
            cold,
            tables,
            long,
            one_call,
            periods,
            dense,
            messages,
            balance,
            policies,
            enumerated,
        ),
        **options,
    )
