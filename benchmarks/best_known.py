"""The instances of the table of best known answers, over all ten problems: solve them, add what is better, and check it all.

python benchmarks/best_known.py --out out/best_known            solve, resumable; --minutes 9 stops after so long
python benchmarks/best_known.py --out out/best_known --update   write what is better into docs/benchmarks
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import keyshift as ks
from keyshift.models import Problem

TABLE = Path(__file__).parent.parent / "docs" / "benchmarks" / "best_known.csv"
LIMIT = 2.0
TASKS = ["ties", "giant", "two-scales", "boundary"]

INSTANCES: dict[str, list[tuple[str, dict[str, object]]]] = {
    "key-group-allocation": [
        ("hard-allocation", {"count": 3}),
        ("madsen-allocation", {"nodes": 10, "key_groups": 100, "max_migrations": [5, 10], "count": 6}),
        ("madsen-allocation", {"count": 4}),
        ("madsen-scale-in", {"nodes": 20, "key_groups": 200, "drain": 4, "count": 6}),
        ("flights-allocation", {"count": 6}),
    ],
    "collocated-allocation": [
        ("hard-collocation", {"count": 4}),
        ("madsen-collocation", {"nodes": 6, "key_groups": 48, "one_to_one": [0.25, 0.5, 0.75, 1.0], "count": 5}),
        ("madsen-collocation", {"nodes": 10, "key_groups": 120, "count": 3}),
    ],
    "mclb": [
        ("hard-mclb", {"count": 4}),
        ("guo-mclb", {"keys": ["gaussian", "zipf"], "nodes": 4, "key_groups": 24, "windows": 12,
                      "share_moved": [0.1, 0.3], "count": 4}),
        ("guo-mclb", {"keys": ["gaussian", "zipf"], "drift": [0.0, 0.3], "share_moved": 0.2, "count": 2}),
    ],
    "movement-within-limits": [
        ("hard-movement", {"count": 4}),
        ("guo-movement", {"keys": ["gaussian", "zipf"], "width": [0.05, 0.2], "count": 6}),
    ],
    "key-splitting": [
        ("hard-splitting", {"count": 4, "messages": 1000}),
        ("nasir-splitting", {"messages": 2000, "keys": 300, "exponent": [0.8, 1.4], "workers": [5, 10], "count": 6}),
    ],
    "key-placement": [
        ("hard-placement", {"count": 4}),
        ("nasir-placement", {"messages": 5000, "keys": [100, 300], "exponent": [0.8, 1.4], "count": 6}),
    ],
    "mixed-routing": [
        ("hard-routing", {"count": 4}),
        ("fang-routing", {"keys": [500, 1000], "nodes": 5, "theta_max": [0.02, 0.08], "max_table_size": 300, "count": 5}),
        ("flights-routing", {"count": 2}),
    ],
    "interval-migration": [
        ("hard-step", {"kind": TASKS, "count": 5}),
        ("ding-step", {"tasks": [32, 64], "nodes_after": [6, 10], "count": 6}),
    ],
    "migration-sequence": [
        ("hard-sequence", {"kind": TASKS, "count": 5}),
        ("ding-sequence", {"tasks": [24, 32], "changes": [2, 5], "count": 6}),
    ],
    "migration-policy": [
        ("hard-policy", {"kind": TASKS, "count": 5}),
        ("ding-policy", {"tasks": [12, 16], "discount": [0.8, 0.95], "count": 6}),
    ],
}  # fmt: skip


def drawn(problem: str) -> Iterator[tuple[str, Problem]]:
    """The instances of one problem."""
    for family, parameters in INSTANCES[problem]:
        yield from ks.family(family, **parameters)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=list(INSTANCES), nargs="*", default=list(INSTANCES))
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    for name in args.only:
        began = time.perf_counter()
        done = ks.study(drawn(name), time_limit=LIMIT, out=args.out / name, workers=args.workers, best_known=TABLE)
        print(f"{name}: {done}, {time.perf_counter() - began:.0f} s", flush=True)
        for sentence in done.contradictions():
            print("  contradiction:", sentence, flush=True)
        if args.update:
            for sentence in done.update_best(TABLE):
                print("  better:", sentence, flush=True)


if __name__ == "__main__":
    main()
