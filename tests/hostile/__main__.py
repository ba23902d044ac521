"""The net from the shell: ``python -m hostile --count 1000 --seed 1 --out out/hostile``, with `tests` on the path."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from hostile import summary
from hostile.judge import HARD, SOFT
from hostile.runner import forget, run
from hostile.solving import MODULES, Instance


def main(arguments: list[str] | None = None) -> int:
    """Run, print the table; exit code 1 when anything was wrong."""
    parser = argparse.ArgumentParser(prog="hostile", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="instances of all problems together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/hostile"))
    parser.add_argument("--problem", action="append", choices=list(MODULES), help="this one only; may be repeated")
    parser.add_argument("--seconds", type=float, help="stop after so long; run it again to go on")
    parser.add_argument("--table", action="store_true", help="run nothing, print what is on file")
    parser.add_argument("--retry", action="store_true", help="run anew what went wrong, such as after a mend")
    parser.add_argument("--again", type=int, metavar="INDEX", help="one instance in this process, in full")
    parser.add_argument("--show", choices=[*HARD, *SOFT, "hard"], help="the smallest instances of a class of failure")
    given = parser.parse_args(arguments)
    problems = given.problem or list(MODULES)
    if given.again is not None:
        return again(problems, given.seed, given.again)
    if given.retry:
        for problem in problems:
            forget(given.out / f"{problem}.jsonl", hard)
    if not given.table and not given.show:
        run(given.out, problems, given.seed, -(-given.count // len(problems)), until=given.seconds)
    found = summary.read(given.out)
    if given.show:
        kinds = HARD if given.show == "hard" else [given.show]
        for (problem, method, kind), case in sorted(summary.smallest(found, kinds).items()):
            print(f"{problem} {method}: {kind}: {case['said']}\n    {case['verdict'].get('at', '')}")
            print(f"    seed {case['seed']} index {case['index']} {case['verdict']['run']}\n    {case['spec']}")
        return 0
    print(summary.table(found))
    return int(any(map(hard, found)))


def hard(record: dict[str, Any]) -> bool:
    """Whether a record holds what must never be."""
    return any(kind in HARD for verdict in record["runs"] for kind, _ in verdict["found"])


def again(problems: list[str], seed: int, index: int) -> int:
    """One instance of every problem named, every run in full."""
    wrong = 0
    for problem in problems:
        instance = Instance.numbered(problem, seed, index)
        print(instance.spec)
        print("best", instance.truth.best, "loose", instance.truth.loose, "strict", instance.truth.strict)
        for run_ in instance.runs:
            verdict = instance.run(run_)
            wrong += any(kind in HARD for kind, _ in verdict["found"])
            print(f"  {run_} -> {verdict}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
