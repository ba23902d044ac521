"""A real Flink, live: the schemes of key splitting, the loop of mixed routing, and the state that a rescale moves.

Prints tables and keeps them as CSV files; ends with 1 if a subtask got other records than predicted. Two cores carry it:
workers sleep over each record, and sleeping costs no core.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # the other benchmarks' own modules

import loop
import rescale
import splitting
from cluster import cluster, jobs
from runs import Live

PARTS = {
    "rescale": rescale.rescale,
    "splitting": splitting.schemes,
    "loop": loop.loop,
    "aggregation": splitting.aggregation,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--count", type=int, default=8_000, help="records of a run")
    parser.add_argument("--period", type=float, default=10, help="seconds after which counts go to the aggregator")
    parser.add_argument("--seconds", type=int, default=1_100, help="after which Flink is stopped, finished or not")
    parser.add_argument(
        "--slow", type=float, default=1, help="offer so many times less, and sleep so many times longer"
    )
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with (
        cluster(slots=20, seconds=given.seconds) as flink,
        jobs(flink) as submit,
        tempfile.TemporaryDirectory() as folder,
    ):
        live = Live(flink, submit, Path(folder), given.out, given.runs, given.count, given.slow, given.period)
        print("load of the machine:", os.getloadavg(), flush=True)
        exact = [live.say(name, PARTS[name](live)) for name in given.parts]
        print("load of the machine:", os.getloadavg())
    return int(not all(exact))


if __name__ == "__main__":
    sys.exit(main())
