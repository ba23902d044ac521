"""A study of thousands: how far every method ends from the optimum, family by family, on five thousand small instances.

    python benchmarks/gaps.py --out out/gaps                       the whole, some hours
    python benchmarks/gaps.py --out out/gaps --pieces 8 --piece 1  one of eight pieces, a fair sample of the whole
    python benchmarks/gaps.py --out out/gaps --pieces 8            the pieces that are still missing, then the tables
    python benchmarks/gaps.py --out out/gaps --spark local[4]      as tasks of Spark, on any master

Work is limited, not seconds: rows are the same whoever else uses the machine, in whatever pieces they ran. A piece that was killed
goes on where it stopped.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keyshift as ks
from keyshift.models import Problem
from keyshift.papers.page import Page
from keyshift.studies.tables import BestKnown

HARD = ["ties", "giant", "two-scales", "boundary", "draining"]
DRAWN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("madsen-allocation", {"nodes": [3, 4], "key_groups": [12, 16], "max_migrations": [3, 6]}),
    ("madsen-windows", {"nodes": 3, "key_groups": 12, "max_migrations": [3, 6], "windows": 3, "over": ["mean", "max"]}),
    ("madsen-scale-in", {"nodes": 5, "key_groups": [15, 20], "drain": [1, 2], "max_migrations": [6, 10]}),
    ("replicas-allocation", {"nodes": 4, "key_groups": 15, "racks": 3, "moved": [0.2, 0.4]}),
    ("hard-allocation", {"nodes": 4, "key_groups": 20, "kind": HARD}),
    ("madsen-collocation", {"nodes": [3, 4], "key_groups": 16, "one_to_one": [0.0, 0.5, 1.0], "max_migrations": 6}),
    ("madsen-patterns", {"nodes": 3, "key_groups": 18, "fan": 3, "max_migrations": 8,
                         "pattern": ["one-to-one", "partial-merge", "partial-partitioning", "full"]}),
    ("madsen-collocation-windows", {"nodes": 3, "key_groups": 12, "max_migrations": 4, "windows": 3}),
    ("hard-collocation", {"nodes": 3, "key_groups": 12, "kind": HARD}),
    ("guo-mclb", {"keys": ["zipf", "gaussian"], "nodes": [3, 5], "key_groups": 16, "windows": 6, "share_moved": [None, 0.3]}),
    ("hard-mclb", {"nodes": 3, "key_groups": 12, "windows": 3, "kind": HARD}),
    ("guo-movement", {"keys": ["zipf", "gaussian"], "nodes": [3, 5], "key_groups": 24, "width": [0.4, 0.8]}),
    ("hard-movement", {"nodes": 4, "key_groups": 24, "kind": HARD}),
    ("nasir-splitting", {"messages": 1000, "keys": [50, 200], "exponent": [0.8, 1.4], "workers": [5, 10]}),
    ("hard-splitting", {"messages": 400, "keys": 30, "workers": 5, "kind": HARD}),
    ("nasir-placement", {"messages": 1000, "keys": [50, 200], "exponent": [0.8, 1.4], "workers": [5, 10]}),
    ("hard-placement", {"messages": 400, "keys": 30, "workers": 5, "kind": HARD}),
    ("fang-routing", {"keys": [100, 300], "nodes": [4, 8], "max_table_size": [20, 60], "theta_max": 0.1}),
    ("hard-routing", {"nodes": 4, "keys": 30, "kind": HARD}),
    ("ding-step", {"tasks": [16, 32], "nodes": 4, "nodes_after": [3, 5], "tau": [0.4, 0.8]}),
    ("hard-step", {"tasks": 16, "nodes": 3, "nodes_after": 4, "kind": ["ties", "giant", "two-scales", "boundary"]}),
    ("ding-sequence", {"tasks": 20, "changes": [3, 4], "tau": [0.4, 0.6]}),
    ("hard-sequence", {"tasks": 12, "nodes": 3, "changes": 3, "kind": ["ties", "giant", "two-scales", "boundary"]}),
    ("ding-policy", {"tasks": [10, 12], "least": 2, "most": [3, 4], "tau": 0.8, "discount": [0.5, 0.9]}),
    ("hard-policy", {"tasks": 8, "discount": [0.5, 0.9], "kind": ["ties", "giant", "two-scales", "boundary"]}),
)  # fmt: skip
"""Families that need no data from elsewhere, in sizes of which most optima are proven."""


def instances(count: int) -> Iterator[tuple[str, Problem]]:
    """At least so many instances, as many of each family, and in it of each choice of parameters."""
    for name, parameters in DRAWN:
        choices = math.prod(len(values) for values in parameters.values() if isinstance(values, list))
        yield from ks.family(name, count=math.ceil(count / len(DRAWN) / choices), **parameters)


def piece(args: argparse.Namespace, number: int, spark: Any = None) -> ks.studies.Study:
    """Every so-and-so-manieth instance; what has been solved before is read."""
    mine = itertools.islice(instances(args.instances), number - 1, None, args.pieces)
    folder = args.out / f"piece-{number}-of-{args.pieces}"
    return ks.study(mine, out=folder, effort=args.effort, workers=args.workers, spark=spark)


def tables(args: argparse.Namespace, studies: Sequence[ks.studies.Study]) -> None:
    """The gaps of everything that answers, the bounds of everything that bounds, and what contradicts itself: nothing may."""
    whole = ks.studies.Study(tuple(row for study in studies for row in study.rows), BestKnown())
    frame, wrong = whole.to_frame(), whole.contradictions()
    page = Page("gaps", args.out, say=lambda text: None)
    page.begin("Gaps by family and method")
    page.say(
        f"{frame['instance'].nunique():,} instances, {len(frame):,} solves, effort {args.effort:g}; the optimum of "
        f"{100 * frame.groupby('instance')['status'].agg(lambda s: s.isin(['optimal', 'infeasible']).any()).mean():.1f} % "
        f"of the instances is proven, or that there is no answer; {len(wrong)} contradictions; "
        f"{int((frame['status'] == 'failed').sum())} solves failed.",
        "",
        "Gap: (objective - best bound) / objective, in percent; 100 where the bound is 0 and the objective is not. *of the scale*: the same "
        "difference in percent of the problem's scale - the mean load, all the state, all the traffic. At the best: how many answers are the "
        "best known one. Interval: 95 % of the mean, by bootstrap. Without a gap: no answer keeps the limits, or the method answers another "
        "problem, as schemes do that know no candidates.",
    )
    more = frame.groupby(["family", "method"], sort=False).agg(kind=("kind", "first"))
    answers = whole.summary().merge(more, on=["family", "method"])
    answers = answers[answers["kind"] != "relaxation"]
    of = {name: (100 * answers[f"gap_{name}"]).round(2) for name in ("mean", "low", "high", "median", "worst")}
    counts = answers[["family", "method", "kind", "solves", "solved", "proven"]]
    page.table(
        counts.assign(**{
            "at the best, %": (100 * answers["wins"] / answers["solves"]).round(1), "gap, mean": of["mean"], "from": of["low"],
            "to": of["high"], "median": of["median"], "worst": of["worst"], "of the scale, mean": (100 * answers["gap_of_scale_mean"]).round(3),
        }),
        "answers",
    )  # fmt: skip
    page.begin("Bounds by family")
    page.say("How far a relaxation's bound lies below the best known answer, in percent of that.", "")
    below = frame[(frame["kind"] == "relaxation") & frame["bound"].notna() & (frame["best_known"] > 0)].copy()
    below["gap"] = (100 * (1 - below["bound"] / below["best_known"])).clip(lower=0)
    found = below.groupby(["family", "method"], sort=False)["gap"].agg(["size", "mean", "median", "max"]).round(2)
    page.table(found.rename(columns={"size": "bounds", "max": "worst"}), "bounds")
    page.write("How far from the optimum", (__doc__ or "").strip().split("\n\n")[-1])
    print(f"{page.path}: {len(frame)} solves, {len(wrong)} contradictions", *wrong, sep="\n")


def main() -> None:
    """Read the command line, solve what is missing, write the tables of what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/gaps"))
    parser.add_argument("--instances", type=int, default=5000)
    parser.add_argument("--effort", type=float, default=0.2, help="work for each solve, in units of about a second")
    parser.add_argument("--pieces", type=int, default=1)
    parser.add_argument("--piece", type=int, nargs="*", help="solve these only; default: all")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--spark", help="a Spark master, in place of workers")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.spark:
        from keyshift.spark_stats.session import local_session

        with local_session("keyshift gaps", master=args.spark) as spark:
            studies = [piece(args, number, spark) for number in args.piece or range(1, args.pieces + 1)]
    else:
        studies = [piece(args, number) for number in args.piece or range(1, args.pieces + 1)]
    tables(args, studies)


if __name__ == "__main__":
    main()
