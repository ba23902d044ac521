"""Key-group allocation: figures 2 to 5 of [Madsen2016] with bounds, and instances far beyond any solver.

    python benchmarks/allocation.py [--quick] [--only PART ...] --out DIR [--rebalancer PYTHON] [--seeds 0 1 ...] [--plain SECONDS]

Load distance in percent of the mean node load, instances of the families `madsen-allocation` and `madsen-scale-in`, one thread each, wall
times on two shared cores. Rebalancer is Meta's, run in the given Python (>= 3.12) with single and swap moves; the best of its four balance
formulas counts, with that formula's time, and *milp, same time* had just as long. Plain HiGHS, CP-SAT and the LP solve the declarative
statement of the first seed, where `--plain` gives them seconds.
"""

from __future__ import annotations

import multiprocessing
import resource
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import numpy as np
from page import run
from rebalancer import FORMULAS, ask

import keyshift as ks
from keyshift.generators.allocation import madsen_allocation
from keyshift.papers import madsen2016
from keyshift.papers.madsen2016 import over_time, scale_in, solved
from keyshift.papers.page import Page


def rebalanced(problem: ks.KeyGroupAllocation, python: str, formula: str, seconds: float) -> dict[str, Any]:
    w = problem.workload
    job = {"load": w.last_load.tolist(), "current": w.current.tolist(), "nodes": w.nodes, "seconds": seconds,
           "max_migrations": problem.max_migrations, "formula": FORMULAS[formula]}  # fmt: skip
    answer = ask(python, job)
    report = ks.check(problem, answer["assignment"])
    distance = 100 * report.objective / problem.scale if report.feasible else np.nan
    return {"method": f"rebalancer {formula}", "allowed": seconds, "seconds": answer["seconds"], "distance": distance,
            **over_time([(answer["seconds"], distance)], seconds)}  # fmt: skip


def drift(page: Page) -> None:
    """Figures 2 to 4: load distance over time.

    Means over the seeds. *Largest gap* is over the seeds, in points.
    """

    def theirs(problem: ks.KeyGroupAllocation, seconds: float) -> list[dict[str, Any]]:
        found = [rebalanced(problem, page.given.rebalancer, formula, seconds) for formula in FORMULAS]
        best = min(found, key=lambda r: (np.isnan(r["distance"]), r["distance"])) | {"method": "rebalancer"}
        return [*found, best, solved(problem, "milp", best["seconds"]) | {"method": "milp, same time"}]

    given = page.given
    beside = theirs if given.rebalancer else None
    madsen2016.drift(page, seeds=given.seeds, seconds=given.seconds, plain=given.plain, beside=beside)


def large(page: Page) -> None:
    """Large instances: varies 40 %, seed 0."""
    sizes, limits = [(200, 10_000, 500), (1_000, 100_000, 5_000)], (1, 5) if page.quick else (1, 5, 20, 60, 100)
    jobs = [(*size, seconds) for size, seconds in product(sizes[: 1 if page.quick else None], limits)]
    spawn = multiprocessing.get_context("spawn")  # a process for each: memory is a process's peak
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        page.table(list(pool.map(one_large, *zip(*jobs, strict=True))), "large")


def one_large(nodes: int, key_groups: int, limit: int, seconds: float) -> dict[str, Any]:
    ks.solve(madsen_allocation(nodes=4, key_groups=40, max_migrations=2))  # compile the kernels first
    problem = madsen_allocation(nodes=nodes, key_groups=key_groups, max_migrations=limit)
    found, flux = solved(problem, "milp", seconds), solved(problem, "flux", seconds)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"nodes": nodes, "key groups": key_groups, "moves": limit, "limit, s": seconds, "took, s": found["seconds"],
            "distance, %": found["distance"], "bound, %": found["bound"], "Flux, %": flux["distance"], "memory, GiB": memory}  # fmt: skip


if __name__ == "__main__":
    run("allocation", "Key-group allocation", __doc__, (drift, large, scale_in), rebalancer={"metavar": "PYTHON"},
        seconds={"type": float, "default": 60.0}, plain={"type": float, "default": 0.0},
        seeds={"type": int, "nargs": "+", "default": [0]})  # fmt: skip
