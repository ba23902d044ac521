"""Figure 5 of [Madsen2016]: integrated scale-in against draining first, period by period.

    python benchmarks/allocation_scale_in.py --out docs/benchmarks/0.1.0 [--quick]

60 nodes, 1,200 key groups, ten nodes to drain, twenty migrations a period, one or five of the kept nodes overloaded
(twice their load). Each period the plan is applied and the next one starts from it. "milp" has two seconds a period.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

import keyshift as ks
from keyshift.models.families.allocation import synthetic_workload

METHODS = ("milp", "drain-first")


def overloaded(nodes: int, key_groups: int, drain: int, hot: int, seed: int) -> ks.Workload:
    calm = synthetic_workload(nodes, key_groups, varies=0.0, drain=drain, seed=seed)
    return calm.replace(load=calm.last_load * np.where(calm.current < hot, 2.0, 1.0))


def scale_in(w: ks.Workload, method: str, limit: int, periods: int, seconds: float) -> list[tuple[float, int]]:
    """Load distance (percent of the mean) and key groups still on draining nodes, before and after every period."""
    problem = ks.KeyGroupAllocation(w, max_migrations=limit)
    line = [(100 * problem.objective(w.current) / problem.scale, int(w.draining[w.current].sum()))]
    for _ in range(periods):
        solution = ks.solve(problem, method, time_limit=seconds)
        w = w.replace(current=solution.assignment)
        problem = ks.KeyGroupAllocation(w, max_migrations=limit)
        line.append((100 * solution.objective / problem.scale, int(w.draining[w.current].sum())))
    return line


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 6), sharex=True, layout="constrained")
    for column, hot in enumerate((1, 5)):
        for method, style in zip(METHODS, ("o-", "s--"), strict=True):
            mine = [r for r in rows if r["overloaded"] == hot and r["method"] == method]
            periods = [r["period"] for r in mine]
            label = "integrated (milp)" if method == "milp" else "drain first"
            axes[0, column].plot(periods, [r["distance"] for r in mine], style, label=label, markersize=4)
            axes[1, column].plot(periods, [r["left"] for r in mine], style, label=label, markersize=4)
        axes[0, column].set_title(f"{hot} node{'s' * (hot > 1)} overloaded")
        axes[0, column].set_yscale("symlog", linthresh=1)
        axes[1, column].set_xlabel("adaptation period")
    axes[0, 0].set_ylabel("load distance (% of the mean)")
    axes[1, 0].set_ylabel("key groups still to drain")
    axes[0, 0].legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    nodes, key_groups, drain, periods, seconds = (20, 200, 4, 5, 1.0) if args.quick else (60, 1200, 10, 30, 2.0)
    rows = []
    for hot in (1, 5):
        for method in METHODS:
            line = scale_in(overloaded(nodes, key_groups, drain, hot, 0), method, 20, periods, seconds)
            for period, (distance, left) in enumerate(line):
                rows.append(
                    {
                        "overloaded": hot,
                        "method": method,
                        "period": period,
                        "distance": round(distance, 4),
                        "left": left,
                    }
                )
            print(hot, method, [(round(d, 2), left) for d, left in line], flush=True)
    with (args.out / "allocation_scale_in.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, args.out / "allocation_scale_in.png")


if __name__ == "__main__":
    main()
