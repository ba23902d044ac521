"""Where bounds or speed were weak: every part measured by the version before and by this one, one after the other.

    python benchmarks/bounds.py [--quick] [--only PART ...] [--beside PYTHON] --out DIR

`--beside` names the interpreter of an environment with the version before. Seconds are of the processor, not of the clock.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd
from page import run

import keyshift as ks
from keyshift.papers.page import Page

Row = dict[str, Any]


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
    m = 2_000_000 if quick else 10_000_000
    out = np.empty(m, dtype=np.int32)
    for law in (0.0, 0.8, 1.2):
        keys = stream_of(law, m)
        for scheme in ("pkg", "d-choices", "w-choices"):
            for sources in (1, 5):
                send(scheme, sources, keys[: 1 << 20], out)
                count = min(spent(np.bincount, keys)[0] for _ in range(5))
                runs = [spent(send, scheme, sources, keys, out) for _ in range(5)]
                took, partitioner = min(runs, key=lambda each: each[0])
                yield {"Zipf's exponent": law, "scheme": scheme, "sources": sources, "M messages/s": m / took / 1e6,
                       "share of bincount": count / took, "average imbalance": partitioner.average_imbalance}  # fmt: skip


def measured_policies(quick: bool) -> Iterator[Row]:
    from keyshift.models import Budget
    from keyshift.models.base.compiling import COMPILING
    from keyshift.models.intervals.policy.transitions import transition_matrix
    from keyshift.papers import ding2015

    w, _ = ding2015.start(Page("start", Path(mkdtemp()), quick=quick, say=str))
    chances = transition_matrix(ding2015.histories()[0])
    for tau, discount in [("0.2", 0.8)] if quick else [("0.2", 0.8), ("0.2", 0.95), ("0.21", 0.8), ("0.22", 0.8)]:
        iteration = ding2015.PolicyIteration(ks.MigrationPolicy(w, chances, tau, discount))
        with COMPILING.at_once():
            iteration.ruler.sweep(*small(iteration))
            seconds, _ = spent(iteration.run, Budget(None), 1e-7)
        values = sum(float(v.sum()) for v in iteration.value.values())
        yield {"tau": tau, "discount": discount, "partitions": sum(iteration.sizes().values()), "rounds": iteration.rounds,
               "seconds": seconds, "sum of values": values, "certain to": iteration.gap / w.state.sum()}  # fmt: skip


def small(iteration: Any) -> tuple[Any, ...]:
    """A sweep that compiles."""
    least = min(iteration.classes.values(), key=lambda each: each.size)
    return least, least.rows, np.zeros(least.size, dtype=np.int64)


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

    A million keys, 100 workers; `np.bincount` over the same keys counts as 1. Best of five.
    """
    beside(page, "messages", ["Zipf's exponent", "scheme", "sources"])


def policies(page: Page) -> None:
    """Policies.

    Policy iteration over all partitions of [Ding2015]'s stream, from 8 to 16 nodes, to a ten-millionth of all the state.
    """
    beside(page, "policies", ["tau", "discount"])


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


PARTS = (messages, policies, very_many, usual)

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
        )
