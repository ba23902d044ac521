"""One study of a thousand solves, run in several ways: are the rows the same, and what does a second process bring?

    python benchmarks/studies.py --out out/studies one two spark killed report

Each way is a folder of results, so that it can be run on a day of its own; `report` compares what there is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

import keyshift as ks
from keyshift.models import Problem
from keyshift.papers.markdown_table import markdown

LIMIT, PATIENCE = 60.0, 900.0
"""Seconds for a solve, and for what comes before: none of these small instances needs them on an idle machine, and a solve that
is stopped does not give the same row twice."""
TIMES = ["seconds", "wall"]
DRAWN: tuple[tuple[str, dict[str, object]], ...] = (
    ("hard-allocation", {"nodes": 3, "key_groups": 12, "count": 2}),
    ("madsen-allocation", {"nodes": [4, 5], "key_groups": 20, "max_migrations": 4, "count": 5}),
    ("hard-collocation", {"nodes": 3, "key_groups": 9, "count": 2}),
    ("madsen-collocation", {"nodes": 3, "key_groups": 12, "one_to_one": [0.5, 1.0], "max_migrations": 4, "count": 5}),
    ("hard-routing", {"nodes": 3, "keys": 16, "count": 2}),
    ("fang-routing", {"nodes": 3, "keys": [100, 200], "max_table_size": 60, "count": 5}),
    ("hard-step", {"tasks": 12, "nodes": 3, "nodes_after": 4, "kind": ["ties", "giant", "two-scales", "boundary"],
                   "count": 2}),
    ("ding-step", {"tasks": [12, 16], "nodes": 3, "nodes_after": 4, "tau": 0.4, "count": 6}),
    ("hard-splitting", {"messages": 200, "keys": 20, "workers": 4, "count": 2}),
    ("nasir-splitting", {"messages": 300, "keys": 50, "exponent": [0.8, 1.4], "workers": 5, "count": 5}),
)  # fmt: skip


def instances() -> Iterator[tuple[str, Problem]]:
    """Twenty instances of each of five problems."""
    return itertools.chain.from_iterable(ks.family(name, **parameters) for name, parameters in DRAWN)  # type: ignore[arg-type]


def run(way: str, out: Path) -> ks.studies.Study:
    """The study in one of its ways."""
    if way != "spark":
        return ks.study(
            instances(), time_limit=LIMIT, patience=PATIENCE, out=out / way, workers=2 if way == "two" else 1
        )
    from keyshift.spark_stats.session import local_session

    with local_session("keyshift studies", master="local-cluster[2,1,1024]") as spark:
        return ks.study(instances(), time_limit=LIMIT, patience=PATIENCE, out=out / way, spark=spark)


def processor_seconds() -> float:
    """Of this process and of all its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def timed(way: str, out: Path) -> None:
    """Run, and note wall and processor time beside the results."""
    load, began = os.getloadavg()[0], time.perf_counter()
    done = run(way, out)
    took = {
        "way": way, "solves": len(done.rows), "wall": time.perf_counter() - began, "processor": processor_seconds(),
        "load_before": load, "load_after": os.getloadavg()[0],
    }  # fmt: skip
    (out / f"{way}.json").write_text(json.dumps(took))
    print(took, flush=True)


def killed(out: Path) -> None:
    """Start the study, kill it with SIGKILL after a third and after two thirds, then let it finish."""
    folder = out / "killed"
    total = sum(1 for _ in (out / "one" / "results").glob("*.json"))
    for share in (1 / 3, 2 / 3):
        child = subprocess.Popen([sys.executable, __file__, "--out", str(out), "_killed"], start_new_session=True)
        while sum(1 for _ in folder.glob("results/*.json")) < share * total and child.poll() is None:
            time.sleep(0.1)
        assert child.poll() is None, "it ended before it could be killed"
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        print(f"killed with {sum(1 for _ in folder.glob('results/*.json'))} results", flush=True)
    run("killed", out)


def report(out: Path) -> None:
    """Compare the ways that were run, row by row."""
    ways = [way for way in ("one", "two", "spark", "killed") if (out / way).is_dir()]
    frames = {
        way: run(way, out)
        if way != "spark"
        else ks.study(instances(), time_limit=LIMIT, patience=PATIENCE, out=out / way)
        for way in ways
    }
    first = frames["one"].to_frame().drop(columns=TIMES)
    rows = []
    for way, study in frames.items():
        frame = study.to_frame().drop(columns=TIMES)
        differ = int((first.ne(frame) & ~(first.isna() & frame.isna())).any(axis=1).sum())
        took = json.loads((out / f"{way}.json").read_text()) if (out / f"{way}.json").exists() else {}
        rows.append({"way": way, "rows": len(frame), "rows that differ": differ, **took})
        for place in (first.ne(frame) & ~(first.isna() & frame.isna())).any(axis=1).to_numpy().nonzero()[0][:10]:
            print(pd.DataFrame({"one": first.iloc[place], way: frame.iloc[place]}).to_string())
    print(markdown(pd.DataFrame(rows)))
    frames["one"].report(out / "study.html", "A thousand solves")
    print(f"{(out / 'study.html').stat().st_size:,} bytes of HTML; contradictions: {frames['one'].contradictions()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("ways", nargs="+", choices=["one", "two", "spark", "killed", "_killed", "report"])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for way in args.ways:
        if way == "report":
            report(args.out)
        elif way == "killed":
            killed(args.out)
        elif way == "_killed":
            run("killed", args.out)
        else:
            timed(way, args.out)


if __name__ == "__main__":
    main()
