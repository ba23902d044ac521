"""Figures 2-4 of [Madsen2016]: load distance over time, for clusters of 20, 40 and 60 nodes, with bounds.

    python benchmarks/allocation.py --out docs/benchmarks/0.1.0 [--quick] [--rebalancer PYTHON] [--seconds 60]

Every run writes one line to allocation.csv (runs that are there already are not repeated); the table and the
figures are drawn from it. "milp" stops when it has a proof. Rebalancer runs in the given Python (>= 3.12, with
`rebalancer` installed) with single and swap moves, under each of its four balance formulas; the best of the four
counts, with its own time, and "milp" is then given that much time for the comparison at equal time.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import tempfile
import time
from pathlib import Path

import keyshift as ks
from keyshift.models.families.allocation import synthetic_workload

SIZES = ((20, 400), (40, 800), (60, 1200))
LIMITS = (10, 20, 30, 40)
VARIES = (0.2, 0.4)
TIMES = (1, 5, 10, 30, 60)
FORMULAS = {"linear": 1, "squares": 2, "max": 3, "ideal": 4}
FIELDS = [
    "nodes",
    "key_groups",
    "varies",
    "limit",
    "seed",
    "method",
    "allowed",
    "seconds",
    "distance",
    "bound",
    "proven",
]
FIELDS += [f"at_{t}" for t in TIMES] + ["first"]


def problem_of(nodes: int, key_groups: int, varies: float, limit: int, seed: int) -> ks.KeyGroupAllocation:
    return ks.KeyGroupAllocation(synthetic_workload(nodes, key_groups, varies=varies, seed=seed), max_migrations=limit)


def run_method(problem: ks.KeyGroupAllocation, method: str, seconds: float) -> dict:
    """One run with its load distance at the paper's times, all in percent of the mean."""
    seen: list[tuple[float, float]] = []
    began = time.perf_counter()

    def watch(progress) -> None:
        if progress.objective is not None:
            seen.append((time.perf_counter() - began, 100 * progress.objective / problem.scale))

    s = ks.solve(problem, method, time_limit=seconds, watch=watch)
    row = {"method": method, "allowed": seconds, "seconds": round(s.seconds, 2), "proven": s.status == "optimal"}
    if s.objective is not None:
        row["distance"] = round(100 * s.objective / problem.scale, 6)
        seen.append((s.seconds, row["distance"]))
    row["bound"] = "" if s.bound is None else round(100 * s.bound / problem.scale, 6)
    for t in TIMES:
        reached = [v for at, v in seen if at <= t]
        row[f"at_{t}"] = round(min(reached), 6) if reached and t <= seconds + 1 else ""
    row["first"] = round(seen[0][0], 3) if seen else ""
    return row


def run_rebalancer(problem: ks.KeyGroupAllocation, python: str, formula: str, seconds: float) -> dict:
    w = problem.workload
    job = {
        "load": w.last_load.tolist(), "current": w.current.tolist(), "nodes": w.nodes,
        "max_migrations": problem.max_migrations, "formula": FORMULAS[formula], "seconds": seconds,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answer.json"
        worker = Path(__file__).with_name("rebalancer_worker.py")
        subprocess.run(
            [python, str(worker), str(out)], input=json.dumps(job), text=True, check=True, capture_output=True
        )
        answer = json.loads(out.read_text())
    report = ks.check(problem, answer["assignment"])
    distance = 100 * report.objective / problem.scale if report.feasible else ""
    return {
        "method": f"rebalancer {formula}", "allowed": seconds, "seconds": round(answer["seconds"], 2),
        "distance": round(distance, 6) if report.feasible else "",
    }  # fmt: skip


class Results:
    """The lines of allocation.csv, by what was run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict] = []
        if path.exists():
            with path.open(newline="") as file:
                self.rows = list(csv.DictReader(file))

    def find(self, setting: tuple, method: str) -> dict | None:
        for row in self.rows:
            if (row["nodes"], row["varies"], row["limit"], row["seed"], row["method"]) == (
                str(setting[0]), str(setting[2]), str(setting[3]), str(setting[4]), method,
            ):  # fmt: skip
                return row
        return None

    def add(self, setting: tuple, row: dict) -> None:
        full = dict(zip(("nodes", "key_groups", "varies", "limit", "seed"), setting, strict=True)) | row
        self.rows.append({name: str(full.get(name, "")) for name in FIELDS})
        new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            if new:
                writer.writeheader()
            writer.writerow(self.rows[-1])
        print(setting, row, flush=True)


def run_setting(
    results: Results, setting: tuple, methods: dict[str, float], python: str | None, allowed: float
) -> None:
    problem = problem_of(*setting)
    for method, seconds in methods.items():
        if results.find(setting, method) is None:
            results.add(setting, run_method(problem, method, seconds))
    if python is None:
        return
    for formula in FORMULAS:
        if results.find(setting, f"rebalancer {formula}") is None:
            results.add(setting, run_rebalancer(problem, python, formula, allowed))
    best = best_rebalancer(results, setting)
    if best is not None and results.find(setting, "milp, equal time") is None:
        row = run_method(problem, "milp", float(best["seconds"]))
        results.add(setting, row | {"method": "milp, equal time"})


def best_rebalancer(results: Results, setting: tuple) -> dict | None:
    rows = [results.find(setting, f"rebalancer {formula}") for formula in FORMULAS]
    found = [row for row in rows if row is not None and row["distance"]]
    return min(found, key=lambda row: float(row["distance"])) if found else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="two settings, five seconds")
    parser.add_argument("--rebalancer", metavar="PYTHON", help="a Python >= 3.12 that has rebalancer")
    parser.add_argument("--seconds", type=float, default=60.0, help="for milp on the first seed")
    parser.add_argument("--others", type=float, default=5.0, help="for milp on the other seeds")
    parser.add_argument(
        "--plain", type=float, default=0.0, help="for highs and cp-sat on the first seed; 0 leaves them out"
    )
    parser.add_argument("--only", nargs="+", metavar="METHOD", help="of keyshift's methods only these")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    results = Results(args.out / "allocation.csv")
    warm = problem_of(20, 400, 0.4, 10, 99)
    ks.solve(warm, "milp", time_limit=5.0)  # compile the kernels first
    for seed in args.seeds:
        for nodes, key_groups in SIZES[: 1 if args.quick else None]:
            for varies in VARIES:
                for limit in LIMITS[: 1 if args.quick else None]:
                    full = 5.0 if args.quick else args.seconds if seed == args.seeds[0] else args.others
                    methods = {"flux": full, "milp": full}
                    if seed == args.seeds[0] and args.plain:
                        methods |= {"lp": args.plain, "highs": args.plain, "cp-sat": args.plain}
                    if args.only:
                        methods = {name: limit for name, limit in methods.items() if name in args.only}
                    run_setting(results, (nodes, key_groups, varies, limit, seed), methods, args.rebalancer, full)
    from allocation_report import report

    report(args.out)


if __name__ == "__main__":
    main()
