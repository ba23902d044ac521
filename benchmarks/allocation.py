"""Key-group allocation: figures 2 to 5 of [Madsen2016] with bounds, and instances far beyond any solver.

    python benchmarks/allocation.py [--quick] [--only PART ...] --out DIR [--rebalancer PYTHON] [--seeds 0 1 ...] [--plain SECONDS]

Load distance in percent of the mean node load, instances of the families `madsen-allocation` and `madsen-scale-in`, one thread each, wall
times on two shared cores. Rebalancer is Meta's, run in the given Python (>= 3.12) with single and swap moves; the best of its four balance
formulas counts, with that formula's time, and *milp, same time* had just as long. Plain HiGHS, CP-SAT and the LP solve the declarative
statement of the first seed, where `--plain` gives them seconds.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from page import Page, each, run
from rebalancer import FORMULAS, ask

import keyshift as ks
from keyshift.models.families.allocation import madsen_allocation, madsen_scale_in

TIMES = (1, 5, 10, 30, 60)
SETTING = ["nodes", "key_groups", "varies", "limit", "seed"]
DRAWN = ["milp", "highs", "cp-sat", "flux", "rebalancer", "milp's bound"]
LEAST = 1e-3
"""Where the figures' axis of distances begins, in percent."""


def over_time(seen: list[tuple[float, float]], seconds: float) -> dict[str, float]:
    """The least distance at the paper's times."""
    by = {t: [distance for at, distance in seen if at <= t] for t in TIMES if t <= seconds + 1}
    return {f"at_{t}": min(values) for t, values in by.items() if values}


def solved(problem: ks.KeyGroupAllocation, method: str, seconds: float) -> dict[str, Any]:
    """One run with its load distance over time, all in percent of the mean."""
    seen: list[tuple[float, float | None]] = []
    began, percent = time.perf_counter(), 100 / problem.scale
    s = ks.solve(problem, method, time_limit=seconds, watch=lambda p: seen.append((time.perf_counter() - began, p.objective)))  # fmt: skip
    known = [(at, percent * value) for at, value in [*seen, (s.seconds, s.objective)] if value is not None]
    return {
        "method": method, "allowed": seconds, "seconds": s.seconds, "proven": s.status == "optimal",
        "distance": np.nan if s.objective is None else percent * s.objective, "bound": np.nan if s.bound is None else percent * s.bound,
        **over_time(known, seconds), "first": known[0][0] if known else np.nan,
    }  # fmt: skip


def rebalanced(problem: ks.KeyGroupAllocation, python: str, formula: str, seconds: float) -> dict[str, Any]:
    w = problem.workload
    job = {"load": w.last_load.tolist(), "current": w.current.tolist(), "nodes": w.nodes, "seconds": seconds,
           "max_migrations": problem.max_migrations, "formula": FORMULAS[formula]}  # fmt: skip
    answer = ask(python, job)
    report = ks.check(problem, answer["assignment"])
    distance = 100 * report.objective / problem.scale if report.feasible else np.nan
    return {"method": f"rebalancer {formula}", "allowed": seconds, "seconds": answer["seconds"], "distance": distance,
            **over_time([(answer["seconds"], distance)], seconds)}  # fmt: skip


def drift(page: Page) -> None:
    """Figures 2 to 4: load distance over time.

    Means over the seeds. *Largest gap* is over the seeds, in points.
    """
    given, rows, full = page.given, [], 5.0 if page.quick else page.given.seconds
    ks.solve(madsen_allocation(seed=99), "milp", time_limit=5.0)  # compile the kernels first
    sizes, limits = (((20, 400),), (10,)) if page.quick else (((20, 400), (40, 800), (60, 1200)), (10, 20, 30, 40))
    for seed, (nodes, key_groups), varies, limit in product(given.seeds, sizes, (0.2, 0.4), limits):
        problem = madsen_allocation(seed=seed, nodes=nodes, key_groups=key_groups, varies=varies, max_migrations=limit)
        plain = dict.fromkeys(("lp", "highs", "cp-sat"), given.plain) if given.plain and seed == given.seeds[0] else {}
        found = [solved(problem, method, seconds) for method, seconds in {"flux": full, "milp": full, **plain}.items()]
        if given.rebalancer:
            theirs = [rebalanced(problem, given.rebalancer, formula, full) for formula in FORMULAS]
            best = min(theirs, key=lambda r: (np.isnan(r["distance"]), r["distance"])) | {"method": "rebalancer"}
            found += [*theirs, best, solved(problem, "milp", best["seconds"]) | {"method": "milp, same time"}]
        rows += [dict(zip(SETTING, (nodes, key_groups, varies, limit, seed), strict=True)) | r for r in found]
        frame = page.keep(rows, "drift")  # a long run: keep what there is
    by = frame.pivot_table(index=SETTING[:4], columns="method", values="distance", sort=False)
    gap = (frame["distance"] - frame["bound"]).clip(0)
    milp = frame.assign(gap=gap)[frame["method"] == "milp"].groupby(SETTING[:4], sort=False)
    gap, proven = milp["gap"].max(), milp["proven"].agg(lambda p: f"{p.sum()} of {len(p)}")
    page.table(by.assign(**{"milp, s": milp["seconds"].mean(), "largest gap": gap, "optimal": proven}))
    page.say(f"milp is worse than Flux in {(by['milp'] > by['flux'] + 1e-6).sum()} of {len(by)} settings; "
             f"its gap is at most 0.1 points in {(gap <= 0.1).sum()}.")  # fmt: skip
    at = {f"at_{t}": t for t in TIMES if f"at_{t}" in frame}
    bound = frame[frame["method"] == "milp"].assign(method="milp's bound", **dict.fromkeys(at, frame["bound"]))
    shown = pd.concat([frame, bound])
    shown = shown[(shown["seed"] == given.seeds[0]) & shown["method"].isin(DRAWN)].rename(columns=at)
    long = shown.melt([*SETTING, "method"], list(at.values()), "time (s)", "distance (%)").dropna()
    long = long.assign(**{"distance (%)": long["distance (%)"].clip(LEAST)}, plot=[
        f"varies {100 * varies:.0f} %, {limit} moves" for varies, limit in zip(long["varies"], long["limit"], strict=True)])  # fmt: skip
    for number, (nodes, part) in enumerate(long.groupby("nodes"), start=2):
        page.draw(f"fig{number}", f"As Figure {number}: {nodes} nodes, load distance over time.", *each(
            part, "plot", x="time (s)", y="distance (%)", by="method", xscale="log", yscale="log", xticks=TIMES, xticklabels=TIMES
        ), columns=len(limits), size=(3, 2.7), sharex=True)  # fmt: skip


def large(page: Page) -> None:
    """Large instances: varies 40 %, seed 0."""
    sizes, limits = [(200, 10_000, 500), (1_000, 100_000, 5_000)], (1, 5) if page.quick else (1, 5, 20, 60, 100)
    jobs = [(*size, seconds) for size, seconds in product(sizes[: 1 if page.quick else None], limits)]
    spawn = multiprocessing.get_context("spawn")  # a process for each: memory is a process's peak
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        page.table(list(pool.map(one_large, *zip(*jobs, strict=True))), "large")


def one_large(nodes: int, key_groups: int, limit: int, seconds: float) -> dict[str, Any]:
    ks.solve(madsen_allocation(nodes=4, key_groups=40, max_migrations=2))  # compile the kernels first
    problem = madsen_allocation(nodes=nodes, key_groups=key_groups, max_migrations=limit)
    found, flux = solved(problem, "milp", seconds), solved(problem, "flux", seconds)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"nodes": nodes, "key groups": key_groups, "moves": limit, "limit, s": seconds, "took, s": found["seconds"],
            "distance, %": found["distance"], "bound, %": found["bound"], "Flux, %": flux["distance"], "memory, GiB": memory}  # fmt: skip


def scale_in(page: Page) -> None:
    """Figure 5: scaling in.

    60 nodes, 10 to drain, 20 moves a period (in a quick run 20 nodes, 4 to drain); each period starts from the plan before. *milp* has
    2 s a period, in a quick run 1. First the period with a load distance of at most so much, and with so many of the key groups drained.

    The integrated model has a good load distance long before draining first has. The last few key groups can stay: taking them in means
    mending most nodes at once, which 20 moves cannot, so that no period's best plan drains them. The paper's Lemma 4.2, that draining
    ends, is false for indivisible loads. More moves a period, or `drain-first` for the rest, ends it.
    """
    nodes, key_groups, drain, periods, seconds = (20, 200, 4, 5, 1.0) if page.quick else (60, 1200, 10, 30, 2.0)
    rows = []
    for hot, method in product((1, 5), ("milp", "drain-first")):
        problem = madsen_scale_in(nodes=nodes, key_groups=key_groups, drain=drain, overloaded=hot)
        for period in range(periods + 1):
            w = problem.workload
            rows.append({"overloaded": hot, "method": method, "period": period, "left": int(w.draining[w.current].sum()),
                         "distance": 100 * problem.objective(w.current) / problem.scale})  # fmt: skip
            plan = ks.solve(problem, method, time_limit=seconds)
            problem = ks.KeyGroupAllocation(w.replace(current=plan.assignment), max_migrations=20)
    frame, said = pd.DataFrame(rows), []
    for (hot, method), part in frame.groupby(["overloaded", "method"], sort=False):
        until = {f"distance <= {bar} %": part["distance"] <= bar for bar in (25, 10, 2)}
        until |= {f"{share:.0%} drained": part["left"] <= (1 - share) * part["left"].iloc[0] for share in (0.9, 1.0)}
        first = {what: part["period"][held].min() for what, held in until.items()}
        said.append({"overloaded nodes": hot, "method": method, **first, "left at the end": part["left"].iloc[-1]})
    page.table(frame, "scale_in", pd.DataFrame(said))
    frame["plot"] = frame["overloaded"].map("overloaded nodes: {}".format)
    style = {"x": "period", "by": "method"}
    page.draw("scale_in", "As Figure 5: integrated scale-in against draining first.",
              *each(frame, "plot", **style, y="distance", yscale="symlog", ylabel="load distance (% of the mean)"),
              *each(frame, "plot", **style, y="left", ylabel="key groups still to drain"), columns=2, size=(4.5, 3), sharex=True)  # fmt: skip


if __name__ == "__main__":
    run("allocation", "Key-group allocation", __doc__, (drift, large, scale_in), rebalancer={"metavar": "PYTHON"},
        seconds={"type": float, "default": 60.0}, plain={"type": float, "default": 0.0},
        seeds={"type": int, "nargs": "+", "default": [0]})  # fmt: skip
