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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--count", type=int, default=8_000, help="records of a run")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with cluster(slots=20) as flink, jobs(flink) as submit, tempfile.TemporaryDirectory() as folder:
        live = Live(flink, submit, Path(folder), given.out, given.runs, given.count)
        print("load of the machine:", os.getloadavg(), flush=True)
        exact = [
            live.say("splitting", splitting.schemes(live)),
            live.say("aggregation", splitting.aggregation(live, period=10, seconds=12)),
            live.say("loop", loop.loop(live)),
            live.say("rescale", rescale.rescale(live)),
        ]
        print("load of the machine:", os.getloadavg())
    return int(not all(exact))


if __name__ == "__main__":
    sys.exit(main())
