"""Allocation far beyond any solver: what "milp" reaches within a few seconds, and in how much memory.

    python benchmarks/allocation_large.py --out docs/benchmarks/0.1.0 [--quick]

Every run has a process of its own, since memory is measured as the process's peak.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

SIZES = ((200, 10_000, 500), (1_000, 100_000, 5_000))
SECONDS = (1, 5, 20, 60, 100)


def run(nodes: int, key_groups: int, limit: int, seconds: float) -> dict:
    import keyshift as ks
    from keyshift.models.families.allocation import synthetic_workload

    ks.solve(ks.KeyGroupAllocation(synthetic_workload(4, 40), max_migrations=2))  # compile the kernels first
    problem = ks.KeyGroupAllocation(synthetic_workload(nodes, key_groups, varies=0.4), max_migrations=limit)
    percent = 100 / problem.scale
    began = time.perf_counter()
    s = ks.solve(problem, "milp", time_limit=seconds)
    took = time.perf_counter() - began
    assert ks.check(problem, s.assignment).feasible
    return {
        "nodes": nodes, "key_groups": key_groups, "limit": limit, "allowed": seconds, "seconds": round(took, 2),
        "distance": f"{percent * s.objective:.5f}", "bound": f"{percent * s.bound:.5f}",
        "flux": f"{percent * ks.solve(problem, 'flux').objective:.3f}",
        "memory": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="the smaller one, five seconds at most")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for size in SIZES[: 1 if args.quick else None]:
        for seconds in SECONDS[: 2 if args.quick else None]:
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                rows.append(pool.submit(run, *size, seconds).result())
            print(rows[-1], flush=True)
    with (args.out / "allocation_large.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
