"""Versions of keyshift side by side: the same instances, on one machine, in one run, by each version's own interpreter.

    python benchmarks/versions.py --python 0.1.0=/somewhere/bin/python 0.2.0=/elsewhere/bin/python [--only PART ...] --out DIR

Each version is given an instance's data and answers by its default; what it answers is checked and valued by this version, but for key
splitting and policies. Limits are in seconds of a processor, so that other work on the machine takes nothing from anybody.
"""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import never_beaten
import numpy as np
import pandas as pd
from best_known import INSTANCES, TABLE
from frontier_allocation import with_everything
from page import run

import keyshift as ks
from keyshift.generators.allocation import madsen_allocation, madsen_windows
from keyshift.generators.mclb import section_5_stream
from keyshift.models import Problem
from keyshift.papers.page import Page
from keyshift.studies.tables import BestKnown
from keyshift.version import __version__

ASKED = """
import inspect, pickle, sys, time
time.monotonic = time.perf_counter = time.process_time
import numpy as np
import keyshift as ks

def posed(name, workload, options):
    kind = getattr(ks, name)
    return kind(**options) if workload is None else kind(ks.Workload(**workload), **options)

told, warm = [], set()
asked, more = pickle.load(open(sys.argv[1], "rb"))
more = {name: value for name, value in more.items() if name in inspect.signature(ks.solve).parameters}
for name, workload, options, method, limit in asked:
    try:
        problem = posed(name, workload, options)
        if name not in warm:  # what is compiled is compiled now, also where a version runs without at first
            warm.add(name)
            getattr(ks, "warm_up", lambda *_: None)(problem)
            ks.solve(problem, method, time_limit=2.0)
        began = time.process_time()
        found = ks.solve(problem, method, time_limit=limit, **more)
        seconds = time.process_time() - began
        answer = None if found.assignment is None else np.asarray(found.assignment)
        told.append((found.status, found.objective, found.bound, answer, seconds))
    except Exception as error:
        told.append((type(error).__name__ + ": " + str(error)[:80], None, None, None, 0.0))
pickle.dump(told, open(sys.argv[2], "wb"))
"""
"""What each version runs."""
Asked = tuple[str, Problem, str | None, float]
"""A label, the instance, the method (None: the default) and seconds."""


def plain(problem: Problem) -> tuple[str, dict[str, Any] | None, dict[str, Any]]:
    """The class, the workload and the options that differ from the defaults, as data that any version reads."""
    defaults = {f.name: f.default for f in dataclasses.fields(problem)}  # type: ignore[arg-type]
    given = {
        name: value
        for name, value in problem.arguments().items()
        if not (value is defaults[name] or (isinstance(value, str | float | int | tuple) and value == defaults[name]))
    }
    workload = given.pop("workload", None)
    if workload is not None:
        values = {name: value for name, value in workload.arguments().items() if value is not None}
        workload = {
            name: dict(v) if hasattr(v, "items") else v
            for name, v in values.items()
            if name not in ("groups", "domains")
        }
    return type(problem).__name__, workload, given


def answers(python: str, asked: Iterable[Asked], more: dict[str, float]) -> list[tuple[Any, ...]]:
    """What the version behind an interpreter answers, asked with such of these options as it knows."""
    with tempfile.TemporaryDirectory() as folder:
        script, given, told = (Path(folder) / name for name in ("ask.py", "given", "told"))
        script.write_text(ASKED)
        posed = [(*plain(problem), method, limit) for _, problem, method, limit in asked]
        given.write_bytes(pickle.dumps((posed, more)))
        subprocess.run([python, str(script), str(given), str(told)], check=True, cwd=folder)
        found: list[tuple[Any, ...]] = pickle.loads(told.read_bytes())
    return found


def beside(page: Page, asked: list[Asked], **more: float) -> pd.DataFrame:
    """A row for each instance and version: what this version makes of the answer, and the bound that was told."""
    rows = []
    pythons = dict(one.split("=", 1) for one in page.given.python) | {__version__: sys.executable}
    for version, python in pythons.items():
        for (label, problem, _, _), (status, told, bound, answer, seconds) in zip(
            asked, answers(python, asked, more), strict=True
        ):
            value = told
            if answer is not None and problem.name not in ("key-splitting", "migration-policy"):
                report = problem.check(answer)
                value = report.objective if report.feasible else None
            rows.append({"version": version, "problem": problem.name, "instance": label, "status": status, "objective": value,
                         "bound": bound, "seconds": round(seconds, 4)})  # fmt: skip
        print(version, len(rows), flush=True)
    return pd.DataFrame(rows)


def releases(page: Page) -> None:
    """A row a version.

    Instances of the table of best known answers, every so many-th of each problem; how far the default is above the best known answer and
    by how much its bound stays below it, in percent of the best known, and how many it proves.
    """
    known = BestKnown.read(TABLE).to_frame()
    drawn = known.groupby("problem").apply(
        lambda part: part.iloc[:: 24 if page.quick else page.given.each], include_groups=False
    )
    best = drawn.set_index("instance")
    asked = [(name, next(iter(ks.family(name)))[1], None, page.given.limit) for name in best.index]
    frame = page.keep(beside(page, asked), "releases")
    objective = frame["instance"].map(best["objective"])
    size = objective.abs().clip(lower=1e-12)
    frame["above"] = (100 * (frame["objective"] - objective) / size).where(objective.notna()).round(9).clip(lower=0)
    frame["short"] = (100 * (np.maximum(objective, 0) - frame["bound"].fillna(0)) / size).clip(lower=0, upper=100)
    frame["proven"], frame["answered"] = frame["status"].eq("optimal"), frame["objective"].notna()
    for said, name in (
        ("Above the best known answer, mean in percent:", "above"),
        ("Bound below the best known answer, mean in percent:", "short"),
    ):
        page.say(said, "")
        page.table(wide(frame, name, "mean"))
    page.say("Proven, of so many:", "")
    counts = wide(frame, "proven", "sum").astype({"version": str})
    total = wide(frame, "answered", "size")
    for column in counts.columns[1:]:
        counts[column] = counts[column].astype(int).astype(str) + " of " + total[column].astype(str)
    page.table(counts)


def wide(frame: pd.DataFrame, name: str, how: str) -> pd.DataFrame:
    table = frame.pivot_table(index="version", columns="problem", values=name, aggfunc=how)
    return table[list(INSTANCES)].round(4).reset_index()


def few_moves(seed: int, limit: int | None) -> Problem:
    """Collocation of 128 key groups on 8 nodes."""
    one = next(iter(ks.family("madsen-collocation", nodes=8, key_groups=128, one_to_one=0.3, seed=seed)))[1]
    return dataclasses.replace(one, max_migrations=limit)


def bars(page: Page) -> None:
    """Where bars were missed, before and after.

    Collocation of 128 key groups on 8 nodes, with 30 moves and without a limit; allocation with everything at once and 60 moves (40 nodes, 800 key groups);
    MCLB on five nodes, Zipf and Gauss; MCLB, `draining`. *gap* in percent of the answer; for allocation in points of the mean node load.
    """
    asked: list[Asked] = []
    for limit in (30, None):
        asked += [(f"collocation 128/8/{limit}, {seed}", few_moves(seed, limit), None, 8.0) for seed in range(2)]
    asked += [(f"everything, 60 moves, {seed}", with_everything(seed, 60), None, 4.5) for seed in range(3)]
    asked += [
        (f"MCLB, {keys}, 5 nodes", ks.MCLB(section_5_stream(keys, nodes=5)), None, 30.0)
        for keys in ("zipf", "gaussian")
    ]
    asked += [(name, problem, None, 2.0) for name, problem in ks.family("hard-mclb", kind="draining", count=2)]
    frame = beside(page, asked[:: 6 if page.quick else 1])
    scale = {label: problem.scale for label, problem, _, _ in asked}
    gap = 100 * (frame["objective"] - frame["bound"].fillna(0))
    points = frame["instance"].str.startswith("everything")
    frame["gap"] = (gap / np.where(points, frame["instance"].map(scale), frame["objective"])).round(3)
    page.table(frame.drop(columns="problem"), "bars")


def points(page: Page) -> None:
    """Gaps of allocation, before and after.

    The 120 drifts of [Madsen2016] where moves abound, six seconds each, and 24 settings of 52 windows on 60 nodes, four seconds each:
    drifts, moves, and what becomes of the windows' distances. Both go on until nothing is left of a gap; gaps are in points of the mean
    node load.
    """
    moves, more = (10, 20, 30, 40), {"nodes": 60, "key_groups": 1200, "windows": 52}
    drifts: list[Problem] = [
        madsen_allocation(seed=seed, nodes=n, key_groups=20 * n, varies=varies, max_migrations=limit)
        for n, varies, limit, seed in product((20, 40, 60), (0.2, 0.4), moves, range(5))
    ]
    windows: list[Problem] = [
        madsen_windows(**more, over=over, varies=varies, max_migrations=limit, seed=0)
        for over, varies, limit in product(("mean", "max", "cvar"), (0.2, 0.4), moves)
    ]
    asked: list[Asked] = [
        (f"{what} {at}", problem, None, seconds)
        for what, problems, seconds in (("drift", drifts, 6.0), ("52 windows", windows, 4.0))
        for at, problem in enumerate(problems[:: 12 if page.quick else 1])
    ]
    frame = beside(page, asked, gap=0.0)
    scale = {label: problem.scale for label, problem, _, _ in asked}
    frame["gap"] = 100 * (frame["objective"] - frame["bound"].fillna(0)) / frame["instance"].map(scale)
    page.keep(frame, "points")
    frame["instances"] = frame["instance"].str.rsplit(n=1).str[0]
    frame["proven"], frame["within 0.005"] = frame["status"] == "optimal", frame["gap"] <= 0.005
    told = {"gap": ["count", "median", "max"], "proven": "sum", "within 0.005": "sum"}
    table = frame.groupby(["instances", "version"]).agg(told).round(3)
    page.table(table.set_axis([a if b == "sum" else b for a, b in table], axis=1).reset_index())


def tails(page: Page) -> None:
    """Heavy tails, before and after.

    The instances of `benchmarks/never_beaten.py --problem tails`, two seconds each: how many a version proves, and on how many its answer
    is better than this version's, or worse, by more than tolerance.
    """
    drawn = list(never_beaten.drawn(30 if page.quick else 1_500, 400_000, "tails"))
    asked: list[Asked] = [(label, problem, None, 2.0) for label, problem in drawn]
    frame = page.keep(beside(page, asked, gap=0.0), "tails")
    problems, by = dict(drawn), frame.pivot(index="instance", columns="version", values="objective")
    slack = [problems[label].tolerance_of(value) for label, value in by[__version__].fillna(0.0).items()]
    rows = []
    for (problem, version), part in frame.groupby(["problem", "version"], sort=False):
        less = (by[version].fillna(np.inf) - by[__version__].fillna(np.inf)).fillna(0.0).loc[part["instance"]]
        allowed = pd.Series(slack, by.index).loc[part["instance"]]
        rows.append({"problem": problem, "version": version, "instances": len(part), "proven": (part["status"] == "optimal").sum(),
                     "better": (less < -allowed).sum(), "worse": (less > allowed).sum()})  # fmt: skip
    page.table(rows)


SMALL: dict[str, dict[str, Any]] = {
    "hard-allocation": {"nodes": 4, "key_groups": 16},
    "hard-collocation": {"nodes": 3, "key_groups": 12},
    "hard-mclb": {"nodes": 3, "key_groups": 10, "windows": 3},
    "hard-movement": {"nodes": 4, "key_groups": 16},
    "hard-splitting": {"messages": 60, "keys": 12, "workers": 3},
    "hard-placement": {"messages": 100, "keys": 12, "workers": 3},
    "hard-routing": {"nodes": 4, "keys": 24},
    "hard-step": {"tasks": 16, "nodes": 4, "nodes_after": 5},
    "hard-sequence": {"tasks": 12, "nodes": 3, "changes": 2},
    "hard-policy": {"tasks": 8},
}
"""A family for each problem, and sizes that most methods solve to the end."""


def answers_by_seed(page: Page) -> None:
    """The same answers by seed?

    Two hundred small instances of each problem, ties and giants among them, each by the default and by one of the problem's methods in turn;
    *better* and *worse*: this version's value, or a relaxation's bound, beside the other's, by more than a millionth.
    """
    asked: list[Asked] = []
    for family, sizes in SMALL.items():
        drawn = list(ks.family(family, **sizes, count=4 if page.quick else 50))[:200]
        methods = [method.name for method in ks.methods(drawn[0][1].name)]
        for i, (label, problem) in enumerate(drawn):
            asked += [(f"{label}, {method}", problem, method, 2.0) for method in (None, methods[i % len(methods)])]
    frame = page.keep(beside(page, asked), "answers_by_seed")
    mine, others = frame[frame["version"] == __version__], frame[frame["version"] != __version__]
    both = mine.merge(others, on=["problem", "instance"], suffixes=("", "_other"))
    mark = both["objective"].fillna(-both["bound"]).fillna(np.inf)
    other = both["objective_other"].fillna(-both["bound_other"]).fillna(np.inf)
    near = np.isclose(mark, other, rtol=1e-6, atol=1e-12)
    absent = both["status_other"].str.contains("no method")
    both["comes"] = np.select([absent, near, mark < other], ["method is new", "same", "better"], "worse")
    page.table(
        both.pivot_table(
            index=["version_other", "problem"], columns="comes", values="bound", aggfunc="size", fill_value=0
        )
        .reset_index()
        .rename(columns=PLAIN)
    )
    page.say("Worse:", "")
    shown = [
        "version_other",
        "instance",
        "status",
        "objective",
        "bound",
        "status_other",
        "objective_other",
        "bound_other",
    ]
    page.table(both.loc[both["comes"] == "worse", shown])


SIZES: dict[str, tuple[dict[str, Any], ...]] = {
    "hard-allocation": tuple({"nodes": n, "key_groups": 10 * n, "kind": "ties"} for n in (3, 10, 40)),
    "hard-collocation": tuple({"nodes": n, "key_groups": p} for n, p in ((3, 12), (4, 20), (6, 30))),
    "hard-mclb": tuple({"nodes": 3, "key_groups": p, "windows": 3} for p in (8, 12, 16)),
    "hard-movement": tuple({"nodes": n, "key_groups": 8 * n} for n in (4, 12, 40)),
    "hard-splitting": tuple({"messages": m, "keys": m // 10 + 2} for m in (40, 400, 4000)),
    "hard-placement": tuple({"messages": 10 * k, "keys": k} for k in (12, 40, 120)),
    "hard-routing": tuple({"nodes": 6, "keys": k} for k in (30, 100, 400)),
    "hard-step": tuple({"tasks": m} for m in (24, 96, 240)),
    "hard-sequence": tuple({"tasks": m} for m in (12, 20, 30)),
    "hard-policy": tuple({"tasks": m} for m in (8, 12, 16)),
}
"""A family for each problem in three sizes."""
LONGEST = 5.0
"""Processor seconds for each of them."""


def timings(page: Page) -> None:
    """Seconds of the defaults.

    Ten instances of each of three sizes, each solved to the proof, the gap, or for five processor seconds, the quickest of three runs, the versions in turn;
    the median of the ratios of the other version's seconds to this one's (above 1: this version is quicker) where both end before the limit, and how many do.
    """
    asked: list[Asked] = []
    for family, sizes in SIZES.items():
        for size, options in zip(("small", "middle", "large"), sizes, strict=True):
            drawn = list(ks.family(family, **options, count=10))
            chosen = drawn[:: max(len(drawn) // 10, 1)][: 2 if page.quick else 10]
            asked += [(f"{size}, {label}", problem, None, LONGEST) for label, problem in chosen]
    runs = pd.concat([beside(page, asked) for _ in range(3)])
    found = runs.groupby(["version", "problem", "instance"], sort=False, as_index=False).agg({"seconds": "min"})
    frame = page.keep(found, "timings")
    mine, others = frame[frame["version"] == __version__], frame[frame["version"] != __version__]
    both = mine.merge(others, on=["problem", "instance"], suffixes=("", "_other"))
    both["size"] = both["instance"].str.split(",").str[0]
    both["ended"], both["ended_other"] = both["seconds"] < 0.98 * LONGEST, both["seconds_other"] < 0.98 * LONGEST
    both["ratio"] = (both["seconds_other"] / both["seconds"]).where(both["ended"] & both["ended_other"])
    by = both.groupby(["version_other", "problem", "size"], sort=False)
    told = {"seconds_other": "median", "seconds": "median", "ratio": "median", "ended_other": "sum", "ended": "sum"}
    page.table(by.agg(told).round(4).reset_index().rename(columns=PLAIN))


PLAIN = {"version_other": "other version", "seconds_other": "its seconds", "seconds": "seconds now", "ended_other": "it ends",
         "ended": "ends now"}  # fmt: skip
"""Names of columns, as the page has them."""

PARTS: tuple[Callable[[Page], None], ...] = (releases, bars, points, tails, answers_by_seed, timings)

if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "python": {"nargs": "*", "default": [], "help": "version=interpreter, of other versions"},
        "limit": {"type": float, "default": 1.0, "help": "seconds of a processor, for each instance of `releases`"},
        "each": {"type": int, "default": 8, "help": "every so many-th instance of `releases`"},
    }
    run("versions", "Versions side by side", __doc__, PARTS, **options)
