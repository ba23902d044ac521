"""Where bounds or speed were weak: every part measured by the version before and by this one, one after the other.

    python benchmarks/bounds.py [--quick] [--only PART ...] [--beside PYTHON] --out DIR

`--beside` names the interpreter of an environment with the version before. Seconds are of the processor, not of the clock.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from page import run
from rebalancer import FORMULAS, ask

import keyshift as ks
from keyshift.papers.page import Page

Row = dict[str, Any]
FEW = (
    "madsen-allocation",
    "madsen-windows",
    "madsen-scale-in",
    "hard-allocation",
    "madsen-collocation",
    "madsen-patterns",
)
"""Families of twelve to twenty key groups."""


def spent(work: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """Processor seconds, and the result."""
    began = time.process_time()
    result = work(*given)
    return time.process_time() - began, result


# What is measured, by whichever version runs this: labels, then figures -----------------------------------------------


def stream_of(law: float, messages: int) -> np.ndarray:
    from keyshift.generators.splitting import draw_keys, zipf_shares

    return draw_keys(np.random.default_rng(0), zipf_shares(10**6, law), messages)


def send(scheme: str, sources: int, keys: np.ndarray, out: np.ndarray) -> Any:
    partitioner = ks.Partitioner(scheme, 100, sources=sources)
    for begin in range(0, keys.size, 1 << 18):
        partitioner.feed(keys[begin : begin + (1 << 18)], out=out[begin : begin + (1 << 18)])
    return partitioner


def measured_messages(quick: bool) -> Iterator[Row]:
    m = 2_000_000 if quick else 32_000_000
    out = np.empty(m, dtype=np.int32)
    for law in (0.0, 0.8, 1.2):
        keys = stream_of(law, m)
        for scheme in ("pkg", "d-choices", "w-choices"):
            for sources in (1, 5):
                send(scheme, sources, keys[: 1 << 20], out)
                count = min(spent(np.bincount, keys)[0] for _ in range(3))
                began, runs = time.monotonic(), [spent(send, scheme, sources, keys, out) for _ in range(3)]
                took, partitioner = min(runs, key=lambda each: each[0])
                wall = (time.monotonic() - began) / len(runs)
                yield {"Zipf's exponent": law, "scheme": scheme, "sources": sources, "M messages/s": m / took / 1e6,
                       "share of bincount": count / took, "M messages/s by the clock": m / wall / 1e6,
                       "average imbalance": partitioner.average_imbalance,
                       "sent to": hashlib.sha256(out.tobytes()).hexdigest()[:8]}  # fmt: skip


def measured_policies(quick: bool) -> Iterator[Row]:
    from keyshift.models import Budget
    from keyshift.models.base.compiling import COMPILING
    from keyshift.models.intervals.policy.transitions import transition_matrix
    from keyshift.papers import ding2015

    w, _ = ding2015.start(Page("start", Path(mkdtemp()), quick=quick, say=str))
    chances = transition_matrix(ding2015.histories()[0])
    problems = {("Ding2015", tau): ks.MigrationPolicy(w, chances, tau, 0.8) for tau in ("0.2", "0.21")[: 2 - quick]}
    problems |= {("drawn", seed): drawn_policy(seed) for seed in range(4 if quick else 24)}
    for (stream, which), problem in problems.items():
        iteration = ding2015.PolicyIteration(problem)
        with COMPILING.at_once():
            for chosen in (slice(None), slice(0, None, 2)):
                iteration.ruler.sweep(*small(iteration, chosen))
            seconds, _ = spent(iteration.run, Budget(None), 1e-7)
        values, scale = np.concatenate(list(iteration.value.values())), problem.workload.state.sum()
        yield {"stream": stream, "tau or seed": str(which), "partitions": values.size, "discount": problem.discount,
               "rounds": iteration.rounds, "seconds": seconds, "mean value": values.mean() / scale,
               "least value": values.min() / scale, "certain to": iteration.gap / scale}  # fmt: skip


def drawn_policy(seed: int) -> ks.MigrationPolicy:
    """A thousand to some hundred thousand partitions of gamma loads; nodes come and go at random."""
    rng = np.random.default_rng(seed)
    tasks, least = (26, 30, 34, 38)[seed % 4], int(rng.integers(4, 7))
    load, counts = rng.gamma(4.0, 1.0, tasks) + 1, range(least, least + int(rng.integers(3, 6)))
    state = rng.gamma(2.0, 1.0, tasks) if seed % 2 else rng.integers(1, 1000, tasks)
    chances = {
        n: dict(zip([k for k in counts if k != n], rng.dirichlet(np.ones(len(counts) - 1)), strict=True))
        for n in counts
    }
    w = ks.Workload(load=load, state=state, current=np.arange(tasks) * least // tasks, nodes=least)
    return ks.MigrationPolicy(w, chances, ("0.3", "0.4", "0.5")[seed % 3], (0.8, 0.95)[seed // 2 % 2])


def small(iteration: Any, chosen: slice) -> tuple[Any, ...]:
    """A sweep that compiles."""
    least = min(iteration.classes.values(), key=lambda each: each.size)
    rows = least.rows[chosen]
    return least, rows, np.zeros(rows.shape[0], dtype=np.int64)


def many(nodes: int, key_groups: int, seed: int = 0) -> ks.Workload:
    """Gamma loads on random nodes, as on the ladder of sizes."""
    rng = np.random.default_rng(seed)
    load, state = rng.gamma(2.0, 1.0, key_groups) * rng.uniform(0.7, 1.3, key_groups), rng.gamma(2.0, 1.0, key_groups)
    return ks.Workload(load=load, state=state, current=rng.integers(0, nodes, key_groups), nodes=nodes)


def solved(problem: ks.Problem, effort: float, **labels: Any) -> Row:
    """Objective and bound in percent of the problem's scale, after so much work."""
    seconds, s = spent(lambda: ks.solve(problem, effort=effort))
    share = 100 / problem.scale
    bound = 0.0 if s.bound is None else s.bound * share
    value = np.nan if s.objective is None else s.objective * share
    return {**labels, "objective, %": value, "bound, %": bound, "gap, points": value - bound, "seconds": seconds}


def measured_very_many(quick: bool) -> Iterator[Row]:
    for p, n in ((10_000, 60), (100_000, 200)) if quick else ((10_000, 60), (100_000, 200), (1_000_000, 2000)):
        w = many(n, p)
        for moves in (n // 4, n // 2, n, 2 * n, 3 * n, 10 * n, p // 20):
            yield solved(
                ks.KeyGroupAllocation(w, max_migrations=moves), 5, **{"key groups": p, "nodes": n, "moves": moves}
            )


def measured_usual(quick: bool) -> Iterator[Row]:
    for p, n, moves in ((400, 20, 13), (800, 40, 40), (2000, 50, 100), (2000, 50, 400)):
        for seed in range(1 if quick else 5):
            problem = ks.KeyGroupAllocation(many(n, p, seed), max_migrations=moves)
            yield solved(problem, 5, **{"key groups": p, "nodes": n, "moves": moves, "seed": seed})


def measured_few(quick: bool) -> Iterator[Row]:
    """Each of these families, with all its parameters, by the default and by CP-SAT: what is proven, and the answers added up."""
    from gaps import DRAWN

    ks.warm_up()
    for name, parameters in DRAWN:
        if name not in FEW:
            continue
        problems = [problem for _, problem in ks.family(name, count=1 if quick else 3, **parameters)]
        for method, effort in itertools.product(("milp", "cp-sat"), (0.2, 1.0)):
            seconds, found = spent(
                lambda p=problems, m=method, e=effort: [ks.solve(each, m, gap=0, effort=e) for each in p]
            )
            shares = [
                100 * s.objective / each.scale
                for each, s in zip(problems, found, strict=True)
                if s.objective is not None
            ]
            yield {
                "family": name, "method": method, "effort": effort, "instances": len(found),
                "proven": sum(s.status in ("optimal", "infeasible") for s in found), "objective, %": float(np.mean(shares)),
                "seconds": seconds,
            }  # fmt: skip


def measured_windows(quick: bool) -> Iterator[Row]:
    from keyshift.generators.allocation import madsen_windows

    solved(madsen_windows(nodes=4, key_groups=40, windows=2, max_migrations=2), 1)  # compile first
    for over, fluctuation, moves in itertools.product(("mean", "max"), (0.05, 0.15), (20, 40)):
        for seed in range(1 if quick else 3 if over == "mean" else 2):
            given = {"over": over, "fluctuation": fluctuation, "max_migrations": moves, "seed": seed}
            problem = madsen_windows(**given)
            seconds, bound = spent(lambda problem=problem: ks.solve(problem, "prices").bound * 100 / problem.scale)
            found = solved(problem, 20)
            yield {**given, "objective, %": found["objective, %"], "bound, %": bound,
                   "gap, points": found["objective, %"] - bound, "seconds of the bound": seconds}  # fmt: skip


def talking(kind: str, p: int, nodes: int, seed: int = 0) -> ks.CollocatedAllocation:
    """Key groups on a ring that send to others near by ("ring"), or within communities of a node's size but for 0.6 % ("communities")."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(p), 3 if kind == "ring" else 6)
    if kind == "ring":
        to = (source + rng.geometric(0.02, source.size)) % p
    else:
        size = p // nodes
        community = rng.permutation(p) // size
        to = np.argsort(community, kind="stable")[community[source] * size + rng.integers(0, size, source.size)]
        out = rng.random(source.size) < 0.006
        to[out] = rng.integers(0, p, out.sum())
    traffic = sp.csr_array((rng.gamma(2.0, 1.0, to.size), (source, to)), shape=(p, p))
    load, state, current = rng.gamma(2.0, 1.0, p), rng.gamma(2.0, 1.0, p), rng.integers(0, nodes, p)
    return ks.CollocatedAllocation(ks.Workload(load=load, state=state, current=current, nodes=nodes, traffic=traffic))


def measured_parts(quick: bool) -> Iterator[Row]:
    for kind in ("ring", "communities"):
        for effort in (5,):
            labels = {"graph": kind, "key groups": 40_000, "nodes": 200, "work": effort}
            yield solved(talking(kind, 40_000, 200), effort, **labels)


# Both versions beside each other ---------------------------------------------------------------------------------------


def beside(page: Page, part: str, labels: list[str]) -> pd.DataFrame:
    """The rows of a part by both versions, joined by their labels."""
    found = {}
    for version, python in (("before", page.given.beside), ("now", sys.executable)):
        if python:
            command = [python, __file__, "--measure", part, *["--quick"] * page.quick]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found[version] = pd.DataFrame(map(json.loads, said.splitlines())).set_index(labels)
    both = pd.concat(found, axis=1).swaplevel(axis=1)
    figures = list(dict.fromkeys(both.columns.get_level_values(0)))
    both = both[[(figure, version) for figure in figures for version in found]]
    both.columns = [f"{figure}, {version}" for figure, version in both.columns]
    return page.table(both.reset_index(), part)


def messages(page: Page) -> None:
    """Message routing.

    A million keys, 100 workers, 32 million messages; `np.bincount` over the same keys counts as 1. Best of three; by the clock the mean.
    """
    beside(page, "messages", ["Zipf's exponent", "scheme", "sources"])


def policies(page: Page) -> None:
    """Policies.

    Policy iteration over all partitions of [Ding2015]'s stream, from 8 to 16 nodes, and of drawn ones, to a ten-millionth
    of all the state; values in shares of it.
    """
    beside(page, "policies", ["stream", "tau or seed", "partitions", "discount"])


def very_many(page: Page) -> None:
    """Very many key groups.

    Gamma loads on random nodes, five units of work.
    """
    beside(page, "very_many", ["key groups", "nodes", "moves"])


def usual(page: Page) -> None:
    """The same at usual sizes.

    Twenty instances, five units of work each.
    """
    beside(page, "usual", ["key groups", "nodes", "moves", "seed"])


def rebalancer(page: Page) -> None:
    """Beside Rebalancer.

    The distance that Meta's local search leaves after a minute, the sum of squares as its goal (the best of its formulas here), and
    ours after five units of work.
    """
    rows = []
    for p, n in ((10_000, 60), (100_000, 200), (1_000_000, 2000))[: 1 if page.quick else 3]:
        w = many(n, p)
        for moves in (n // 2, 2 * n, p // 20):
            problem = ks.KeyGroupAllocation(w, max_migrations=moves)
            job = {"load": w.last_load.tolist(), "current": w.current.tolist(), "nodes": n, "max_migrations": moves,
                   "formula": FORMULAS["squares"], "seconds": 60}  # fmt: skip
            answer = ask(page.given.rebalancer, job) if page.given.rebalancer else None
            theirs = (
                np.nan if answer is None else problem.objective(np.array(answer["assignment"])) * 100 / problem.scale
            )
            ours = solved(problem, 5, **{"key groups": p, "nodes": n, "moves": moves})
            waited = np.nan if answer is None else answer["seconds"]
            rows.append(ours | {"Rebalancer, %": theirs, "its seconds": waited})
            page.keep(rows, "rebalancer")
    page.table(rows, "rebalancer")


def few(page: Page) -> None:
    """Twelve to twenty key groups.

    Four families of small allocations and two of collocations, three instances of each choice of their parameters: what is
    proven, and the mean objective.
    """
    beside(page, "few", ["family", "method", "effort", "instances"])


def windows(page: Page) -> None:
    """Eight windows at once.

    40 nodes, 800 key groups, in percent of the mean load: twenty units of work for the answer, and the bound of `prices`.
    """
    beside(page, "windows", ["over", "fluctuation", "max_migrations", "seed"])


def parts(page: Page) -> None:
    """Collocation at size.

    Remote traffic in percent of all; all key groups may move.
    """
    beside(page, "parts", ["graph", "key groups", "nodes", "work"])


def enumerated(page: Page) -> None:
    """Against enumeration.

    2,000 small instances each, all assignments tried: how often a bound is above the least objective, at it, and above 0.
    """
    rows = []
    for name, draw, bound in (
        ("what moves carry away", drawn_allocation, carried),
        ("counts of departures and arrivals", drawn_allocation, counted_out),
        ("whole pairs", drawn_allocation, paired),
        ("subsets", drawn_allocation, tabled),
        ("whole pairs, 2 to 4 windows", partial(drawn_allocation, windows=(2, 5)), paired),
        ("parts", drawn_collocation, parted),
    ):
        found, seed = [], 0
        while len(found) < (200 if page.quick else 2000):
            problem, seed = draw(seed), seed + 1
            every = itertools.product(range(problem.workload.nodes), repeat=problem.workload.key_groups)
            values = [problem.objective(a) for a in map(np.array, every) if not problem.violations(a)]
            if values:
                found.append((bound(problem), min(values), problem.tolerance))
        low, least, slack = np.array(found).T
        rows.append({"bound": name, "instances": low.size, "above the optimum": (low > least * (1 + 1e-12)).sum(),
                     "at the optimum": (low >= least - slack).sum(), "above 0": (low > 0).sum()})  # fmt: skip
    page.table(rows, "enumerated")


def drawn_allocation(seed: int, windows: tuple[int, int] = (1, 3)) -> ks.KeyGroupAllocation:
    rng = np.random.default_rng(seed)
    nodes, p, drawn = int(rng.integers(2, 4)), int(rng.integers(2, 6)), int(rng.integers(*windows))
    load = (rng.gamma(2.0, 1.0, (drawn, p)), rng.integers(0, 6, (drawn, p)) * 1.0, rng.pareto(1.0, (drawn, p)))[
        seed % 3
    ]
    state, current = rng.gamma(2.0, 1.0, p), rng.integers(0, max(1, nodes - (seed % 7 == 0)), p)
    draining = (rng.random(nodes) < 0.3) & (np.arange(nodes) > 0) if seed % 4 == 0 else None
    sizes = nodes if seed % 2 else rng.choice([1.0, 2.0, 3.0], nodes)
    w = ks.Workload(load=load, state=state, current=current, nodes=sizes, draining=draining)
    cost = float(w.state.sum() * rng.random()) if seed % 6 == 1 else None
    over = ("max", "mean", "cvar")[seed % 3]
    return ks.KeyGroupAllocation(
        w, max_migrations=int(rng.integers(0, p)), max_migration_cost=cost, windows=drawn, over=over
    )


def drawn_collocation(seed: int) -> ks.CollocatedAllocation:
    rng, p, nodes = np.random.default_rng(seed), 6, 3
    pairs = np.triu(rng.integers(1, 9, (p, p)) * (rng.random((p, p)) < 0.5), 1) * 1.0
    load, current = rng.integers(1, 5, p) * 1.0, rng.integers(0, nodes, p)
    w = ks.Workload(load=load, state=np.ones(p), current=current, nodes=nodes, traffic=sp.csr_array(pairs))
    return ks.CollocatedAllocation(w, max_load_distance=float(rng.integers(20, 60)))


def carried(problem: ks.KeyGroupAllocation) -> float:
    from keyshift.solvers.allocation.arrays import Instance
    from keyshift.solvers.allocation.counting import carried_away

    lows = [carried_away(window) * window.problem.scale for window in Instance(problem).by_window]
    return float(problem.planned.combined(np.array(lows)))


def counted_out(problem: ks.KeyGroupAllocation) -> float:
    from keyshift.solvers.allocation.arrays import Instance
    from keyshift.solvers.allocation.counting import CountBound, counted

    return counted(problem, [CountBound(window) for window in Instance(problem).by_window]) * problem.scale


def paired(problem: ks.KeyGroupAllocation) -> float:
    from keyshift.models import Budget
    from keyshift.solvers.allocation.arrays import Instance
    from keyshift.solvers.allocation.whole_pairs import bounds_over_windows

    return max(bounds_over_windows(Instance(problem), Budget())) * problem.scale


def tabled(problem: ks.KeyGroupAllocation) -> float:
    """What subsets alone prove of an answer that they cannot better; 0 where they do not suit."""
    from keyshift.models import Budget
    from keyshift.solvers.allocation.arrays import Instance
    from keyshift.solvers.allocation.subsets import SubsetProgram

    instance = Instance(problem)
    if not SubsetProgram.suits(instance):
        return 0.0
    program, low, high = SubsetProgram(instance), 0.0, instance.distance(instance.current)
    while high - low > 2e-6:
        target = program.between(low, high - 1e-6, Budget())
        _, place = program.within(-target, target, np.inf, Budget())
        if place is None:
            low = min(program.beyond(target), high) - instance.error_bound
        else:
            high = instance.distance(place)
    return max(0.0, low) * problem.scale


def parted(problem: ks.CollocatedAllocation) -> float:
    from keyshift.models import Budget
    from keyshift.solvers.collocation import structural_bounds
    from keyshift.solvers.collocation.arrays import Arrays

    structural_bounds.LARGEST_SPECTRUM = 4  # so that small instances have parts
    return structural_bounds.spectral_cut(Arrays(problem), Budget()) * problem.scale


PARTS = (messages, policies, very_many, rebalancer, usual, few, windows, parts, enumerated)

if __name__ == "__main__":
    if "--measure" in sys.argv:
        for row in globals()["measured_" + sys.argv[2]]("--quick" in sys.argv):
            print(json.dumps(row), flush=True)
    else:
        run(
            "bounds",
            "Where the bounds are weak",
            __doc__,
            PARTS,
            beside={"help": "an interpreter of the version before"},
            rebalancer={"help": "an interpreter with Meta's rebalancer"},
        )
