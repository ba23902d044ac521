"""How often the default method ends with a worse answer than another method of its problem finds in a share of the time.

    python benchmarks/never_beaten.py [--quick] [--count N] [--first N] [--limit SECONDS] [--share 0.01] [--problem TEXT]
        [--kinds heuristic] --out DIR

Seconds are the processor's, without what compiles: on a busy machine whoever got more of it would win. Instances of every family and of heavy tails, in turn, sizes and limits at random. Where the default proves its answer nobody can
beat it, and the others are not asked. `--kinds itself` asks the default itself, too, for the same under half of its first limit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from page import run

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.papers.page import Page

Size = Callable[[int, int], int]
Drawn = tuple[str, ks.Problem]

FAMILIES: dict[str, Callable[[Size], dict[str, Any]]] = {
    "madsen-allocation": lambda of: {"nodes": of(4, 30), "key_groups": of(60, 800), "max_migrations": of(3, 60)},
    "madsen-windows": lambda of: {"nodes": of(4, 12), "key_groups": of(40, 300), "windows": of(2, 5), "max_migrations": of(3, 30)},
    "madsen-scale-in": lambda of: {"nodes": of(12, 30), "key_groups": of(60, 600), "drain": of(2, 6), "max_migrations": of(5, 60)},
    "hard-allocation": lambda of: {"nodes": of(4, 12), "key_groups": of(40, 300)},
    "madsen-collocation": lambda of: {"nodes": of(4, 12), "key_groups": 4 * of(10, 90), "max_migrations": of(5, 60)},
    "madsen-collocation-windows": lambda of: {"nodes": of(4, 8), "key_groups": 4 * of(10, 40), "windows": of(2, 4), "max_migrations": of(5, 30)},
    "hard-collocation": lambda of: {"nodes": of(4, 10), "key_groups": of(30, 200)},
    "guo-mclb": lambda of: {"nodes": of(3, 12), "key_groups": of(30, 300), "windows": of(1, 30), "share_moved": of(1, 50) / 100},
    "words-mclb": lambda of: {},
    "hard-mclb": lambda of: {"nodes": of(3, 10), "key_groups": of(30, 200)},
    "guo-movement": lambda of: {"nodes": of(3, 12), "key_groups": of(40, 300), "width": of(2, 30) / 100},
    "hard-movement": lambda of: {"nodes": of(3, 10), "key_groups": of(30, 200)},
    "nasir-splitting": lambda of: {"keys": of(100, 2000), "messages": of(2, 20) * 1000, "workers": of(3, 30), "exponent": of(8, 16) / 10},
    "hard-splitting": lambda of: {"messages": of(200, 2000), "workers": of(3, 20)},
    "nasir-placement": lambda of: {"keys": of(100, 2000), "messages": of(2, 20) * 1000, "workers": of(3, 30), "exponent": of(8, 16) / 10},
    "hard-placement": lambda of: {"messages": of(200, 2000), "workers": of(3, 20)},
    "fang-routing": lambda of: {"nodes": of(4, 15), "keys": of(100, 3000), "theta_max": of(2, 20) / 100, "max_table_size": of(50, 600)},
    "hard-routing": lambda of: {"nodes": of(3, 10), "keys": of(40, 300)},
    "ding-step": lambda of: {"tasks": of(60, 2000), "nodes": of(4, 12), "nodes_after": of(4, 14), "tau": of(10, 40) / 100},
    "hard-step": lambda of: {"tasks": of(30, 300)},
    "ding-sequence": lambda of: {"tasks": of(24, 300), "changes": of(2, 10)},
    "hard-sequence": lambda of: {"tasks": of(12, 80)},
    "ding-policy": lambda of: {"tasks": of(16, 200), "tau": of(10, 50) / 100, "discount": of(50, 99) / 100},
    "hard-policy": lambda of: {"tasks": of(10, 60)},
}  # fmt: skip
"""Parameters of the families, their sizes at random."""


def heavy(rng: np.random.Generator) -> Drawn:
    """Loads, states and traffic even or with heavy tails, nodes draining or not; each problem about nodes in turn.

    One in four is 128 key groups that talk, on 8 nodes, with 10 moves.
    """
    n, p, moves = (
        (8, 128, 10) if rng.random() < 0.25 else (int(rng.integers(*at)) for at in ((4, 14), (60, 260), (3, 40)))
    )

    def sizes(count: int) -> np.ndarray:
        return rng.pareto(1.1, count) + 0.05 if rng.random() < 0.6 else rng.random(count) + 0.1

    ends = rng.integers(0, p, (4 * p, 2))
    traffic = np.zeros((p, p))
    traffic[ends[:, 0], ends[:, 1]] = sizes(4 * p) * (ends[:, 0] != ends[:, 1])
    w = ks.Workload(load=sizes(p), state=sizes(p), current=rng.integers(0, n, p), nodes=n, traffic=traffic)
    draining = np.arange(n) < (rng.integers(1, n // 2) if rng.random() < 0.5 else 0)
    kind = int(rng.integers(5))
    if kind == 0:
        return "tails, allocation", ks.KeyGroupAllocation(w.replace(draining=draining), max_migrations=moves)
    if kind == 1:
        far = float(rng.choice([10.0, 50.0, 200.0]))
        return "tails, collocation", ks.CollocatedAllocation(
            w.replace(draining=draining), max_migrations=moves, max_load_distance=far
        )
    if kind == 2:
        return "tails, balance", ks.MCLB(w, max_state_moved=float(w.state.sum() * rng.random() / 2))
    if kind == 3:
        upper = float(w.load.sum() / n * rng.uniform(1.0, 1.5) + w.load.max())
        return "tails, movement", ks.MovementWithinLimits(w, lower=0.0, upper=upper)
    routed = w.replace(home=w.current)
    return "tails, routing", ks.MixedRouting(routed, theta_max=float(rng.uniform(0.05, 0.5)), max_table_size=int(moves))


def drawn(count: int, first: int, text: str) -> Iterator[Drawn]:
    """So many instances, every third of heavy tails."""
    known = {family.name: family for family in ks.families()}
    names = [*FAMILIES]
    for at in range(first, first + count):
        rng = np.random.default_rng([at, 32])
        if at % 3 == 2:
            name, problem = heavy(rng)
        else:
            name = names[(at - at // 3) % len(names)]
            if text not in f"{name} {known[name].problem}":
                continue  # some families read files that only they need
            grid = {key: values[int(rng.integers(len(values)))] for key, values in known[name].grid.items()}
            sizes = FAMILIES[name](lambda least, most, rng=rng: int(rng.integers(least, most)))
            problem = next(iter(ks.family(name, seed=at, **sizes, **grid)))[1]
        if text in f"{name} {problem.name}":
            yield f"{name} {at}", problem


def rivals(problem: ks.Problem, limit: float, share: float, kinds: list[str]) -> dict[str, Any]:
    """What the default ends with, and the best of the other methods, in a share of the time, where it has no proof."""
    others = FORMULATIONS[problem.name].methods[1:]
    best = ks.solve(problem, time_limit=limit, gap=0.0)
    row: dict[str, Any] = {"problem": problem.name, "status": best.status, "objective": best.objective, "bound": best.bound,
                           "seconds": best.seconds, "better": "", "least": best.objective,
                           "said": bool(best.message) or best.termination == "time_limit"}  # fmt: skip
    if best.status in ("optimal", "infeasible"):
        return row
    for method in others:
        if method.kind not in kinds or not method.may_help(problem):
            continue  # with nothing to drain, draining first is the default itself
        try:
            other = ks.solve(problem, method.name, time_limit=limit * share, gap=0.0)
        except ks.InputError:  # numbers that a solver refuses
            continue
        if other.problem is problem:
            keep_better(row, problem, other, method.name, method.kind)
    for first in problem.limits[:1] if "itself" in kinds else ():
        tighter = first.at(first.value // 2 if isinstance(first.value, int) else first.value / 2)
        keep_better(row, problem, ks.solve(tighter, time_limit=limit, gap=0.0), f"half of {first.name}", "itself")
    for thread in threading.enumerate():  # a solver that was left behind at its limit would take the next one's time
        if thread is not threading.main_thread():
            thread.join()
    return row


def keep_better(row: dict[str, Any], problem: ks.Problem, other: ks.Solution, name: str, kind: str) -> None:
    """Keep in the row what is better than all before."""
    if other.objective is not None:
        most = other.objective + problem.tolerance_of(other.objective)
        if row["least"] is None or most < row["least"]:
            row |= {"better": name, "least": other.objective, "kind": kind}


def sweep(page: Page) -> None:
    """The default against the others."""
    given = page.given
    rows = []
    for name, problem in drawn(12 if page.quick else given.count, given.first, given.problem):
        began = time.perf_counter()
        rows.append(
            {
                "instance": name,
                **rivals(problem, given.limit, given.share, given.kinds),
                "wall": time.perf_counter() - began,
            }
        )
        if rows[-1]["better"] or not (rows[-1]["said"] or rows[-1]["status"] != "feasible"):
            print(rows[-1], flush=True)
    frame = pd.DataFrame(rows)
    page.say(f"Of {len(frame)} instances the default proves {(frame['status'] == 'optimal').sum()}; in {given.share:g} of its time another method beats it on {(frame['better'] != '').sum()}.")  # fmt: skip
    page.table(frame, "sweep", frame[frame["better"] != ""])


if __name__ == "__main__":
    time.monotonic = time.process_time
    run("never_beaten", "The default and the other methods", __doc__, (sweep,),
        count={"type": int, "default": 180}, first={"type": int, "default": 0, "help": "the first instance's number"},
        kinds={"nargs": "+", "default": ["heuristic", "exact"], "help": "of the other methods"},
        limit={"type": float, "default": 1.0}, share={"type": float, "default": 0.01, "help": "of the time, for each other method"}, problem={"default": "", "help": "what contains this text"})  # fmt: skip
