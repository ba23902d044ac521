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
from typing import Any

import numpy as np
import pandas as pd
from page import Page, grid, lines, run
from rebalancer import FORMULAS, ask

import keyshift as ks
from keyshift.models.families.allocation import madsen_allocation, madsen_scale_in

TIMES = (1, 5, 10, 30, 60)
SETTING = ["nodes", "key_groups", "varies", "limit", "seed"]
LEAST = 1e-3
"""Where the figures' axis of distances begins, in percent."""


def solved(problem: ks.KeyGroupAllocation, method: str, seconds: float) -> dict[str, Any]:
    """One run with its load distance at the paper's times, all in percent of the mean."""
    seen: list[tuple[float, float]] = []
    began, percent = time.perf_counter(), 100 / problem.scale

    def watch(progress: Any) -> None:
        if progress.objective is not None:
            seen.append((time.perf_counter() - began, percent * progress.objective))

    s = ks.solve(problem, method, time_limit=seconds, watch=watch)
    if s.objective is not None:
        seen.append((s.seconds, percent * s.objective))
    by = {t: [v for at, v in seen if at <= t] for t in TIMES if t <= seconds + 1}
    return {
        "method": method, "allowed": seconds, "seconds": s.seconds, "proven": s.status == "optimal",
        "distance": seen[-1][1] if s.objective is not None else np.nan, "bound": np.nan if s.bound is None else percent * s.bound,
        **{f"at_{t}": min(values) for t, values in by.items() if values}, "first": seen[0][0] if seen else np.nan,
    }  # fmt: skip


def rebalanced(problem: ks.KeyGroupAllocation, python: str, formula: str, seconds: float) -> dict[str, Any]:
    w = problem.workload
    job = {"load": w.last_load.tolist(), "current": w.current.tolist(), "nodes": w.nodes, "seconds": seconds,
           "max_migrations": problem.max_migrations, "formula": FORMULAS[formula]}  # fmt: skip
    answer = ask(python, job)
    report = ks.check(problem, answer["assignment"])
    distance = 100 * report.objective / problem.scale if report.feasible else np.nan
    return {"method": f"rebalancer {formula}", "allowed": seconds, "seconds": answer["seconds"], "distance": distance}


def drift(page: Page) -> None:
    """Figures 2 to 4: load distance over time."""
    given, rows = page.given, []
    full = 5.0 if page.quick else given.seconds
    ks.solve(madsen_allocation(seed=99), "milp", time_limit=5.0)  # compile the kernels first
    sizes, limits = (((20, 400),), (10,)) if page.quick else (((20, 400), (40, 800), (60, 1200)), (10, 20, 30, 40))
    settings = [
        (*size, varies, limit, seed)
        for seed in given.seeds
        for size in sizes
        for varies in (0.2, 0.4)
        for limit in limits
    ]
    for setting in settings:
        nodes, key_groups, varies, limit, seed = setting
        problem = madsen_allocation(seed=seed, nodes=nodes, key_groups=key_groups, varies=varies, max_migrations=limit)
        plain = dict.fromkeys(("lp", "highs", "cp-sat"), given.plain) if given.plain and seed == given.seeds[0] else {}
        found = [solved(problem, method, seconds) for method, seconds in ({"flux": full, "milp": full} | plain).items()]
        if given.rebalancer:
            theirs = [rebalanced(problem, given.rebalancer, formula, full) for formula in FORMULAS]
            best = min(theirs, key=lambda r: (np.isnan(r["distance"]), r["distance"]))
            found += [
                *theirs,
                best | {"method": "rebalancer"},
                solved(problem, "milp", best["seconds"]) | {"method": "milp, same time"},
            ]
        rows += [dict(zip(SETTING, setting, strict=True)) | r for r in found]
        pd.DataFrame(rows).to_csv(page.csv("drift"), index=False, float_format="%.6g")  # a long run: keep what there is
    frame = pd.DataFrame(rows)
    by = frame.pivot_table(index=SETTING[:4], columns="method", values="distance", sort=False)
    milp = (
        frame[frame["method"] == "milp"]
        .assign(gap=lambda f: (f["distance"] - f["bound"]).clip(0))
        .groupby(SETTING[:4], sort=False)
    )
    proven = milp["proven"].agg(lambda p: f"{p.sum()} of {len(p)}")
    page.say("Means over the seeds. *Largest gap* is over the seeds, in points.")
    page.table(
        frame,
        "drift",
        by.assign(
            **{"milp, s": milp["seconds"].mean(), "largest gap": milp["gap"].max(), "optimal": proven}
        ).reset_index(),
    )
    worse = (by["milp"] > by["flux"] + 1e-6).sum()
    page.say(
        f"milp is worse than Flux in {worse} of {len(by)} settings; its gap is at most 0.1 points in {(milp['gap'].max() <= 0.1).sum()}."
    )
    for number, (nodes, part) in enumerate(frame[frame["seed"] == given.seeds[0]].groupby("nodes"), start=2):
        panels = list(part.groupby(["varies", "limit"]))
        figure, axes = grid(2, len(panels) // 2, (3, 2.7), sharex=True)
        for axis, ((varies, limit), one) in zip(axes, panels, strict=True):
            panel(axis, one.set_index("method"))
            axis.set_title(f"varies {100 * varies:.0f} %, {limit} moves", fontsize=10)
        axes[0].legend(fontsize=8)
        page.figure(figure, f"fig{number}", f"As Figure {number}: {nodes} nodes, load distance over time.")


def panel(axis: Any, runs: pd.DataFrame) -> None:
    """The methods of one setting over time; dashed what takes no time, dotted the bound (0 has no place on the axis)."""
    for number, method in enumerate(m for m in ("milp", "highs", "cp-sat") if m in runs.index):
        at = runs.loc[method, [f"at_{t}" for t in TIMES if f"at_{t}" in runs]].dropna()
        over = pd.DataFrame(
            {"time (s)": [int(t[3:]) for t in at.index], "distance (%)": at.to_numpy(dtype=float).clip(LEAST)}
        )
        lines(axis, over, "time (s)", "distance (%)", color=f"C{number}", label=method)
    axis.axhline(max(LEAST, runs.loc["milp", "bound"]), color="C0", linestyle=":", label="milp's bound")
    axis.axhline(runs.loc["flux", "distance"], color="C3", linestyle="--", label="Flux")
    if "rebalancer" in runs.index:
        axis.plot(
            runs.loc["rebalancer", "seconds"], runs.loc["rebalancer", "distance"], "D", color="C1", label="Rebalancer"
        )
    axis.set(xscale="log", yscale="log")


def large(page: Page) -> None:
    """Large instances: varies 40 %, seed 0."""
    rows, sizes = [], ((200, 10_000, 500), (1_000, 100_000, 5_000))
    for size in sizes[: 1 if page.quick else None]:
        for seconds in (1, 5) if page.quick else (1, 5, 20, 60, 100):
            with ProcessPoolExecutor(
                1, mp_context=multiprocessing.get_context("spawn")
            ) as pool:  # memory is a process's peak
                rows.append(pool.submit(one_large, *size, seconds).result())
    page.table(pd.DataFrame(rows), "large")


def one_large(nodes: int, key_groups: int, limit: int, seconds: float) -> dict[str, Any]:
    ks.solve(madsen_allocation(nodes=4, key_groups=40, max_migrations=2))  # compile the kernels first
    problem = madsen_allocation(nodes=nodes, key_groups=key_groups, max_migrations=limit)
    found, flux = solved(problem, "milp", seconds), solved(problem, "flux", seconds)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"nodes": nodes, "key groups": key_groups, "moves": limit, "limit, s": seconds, "took, s": found["seconds"],
            "distance, %": found["distance"], "bound, %": found["bound"], "Flux, %": flux["distance"], "memory, GiB": memory}  # fmt: skip


def scale_in(page: Page) -> None:
    """Figure 5: scaling in."""
    nodes, key_groups, drain, periods, seconds = (20, 200, 4, 5, 1.0) if page.quick else (60, 1200, 10, 30, 2.0)
    page.say(
        f"{nodes} nodes, {drain} to drain, 20 moves a period; each period starts from the plan before. *milp* has {seconds:g} s a period."
    )
    rows = []
    for hot in (1, 5):
        first = madsen_scale_in(nodes=nodes, key_groups=key_groups, drain=drain, overloaded=hot)
        for method in ("milp", "drain-first"):
            problem = first
            for period in range(periods + 1):
                w = problem.workload
                rows.append({"overloaded": hot, "method": method, "period": period, "left": int(w.draining[w.current].sum()),
                             "distance": 100 * problem.objective(w.current) / problem.scale})  # fmt: skip
                plan = ks.solve(problem, method, time_limit=seconds)
                problem = ks.KeyGroupAllocation(w.replace(current=plan.assignment), max_migrations=20)
    frame = pd.DataFrame(rows)
    page.say("", "First period with a load distance of at most so much, and with so many of the key groups drained:")
    said = []
    for (hot, method), part in frame.groupby(["overloaded", "method"], sort=False):
        until = {f"distance <= {bar} %": part["distance"] <= bar for bar in (25, 10, 2)}
        until |= {
            f"{100 * share:.0f} % drained": part["left"] <= (1 - share) * part["left"].iloc[0] for share in (0.9, 1.0)
        }
        first = {what: part["period"][held].min() for what, held in until.items()}
        said.append({"overloaded nodes": hot, "method": method, **first, "left at the end": part["left"].iloc[-1]})
    page.table(frame, "scale_in", pd.DataFrame(said))
    figure, axes = grid(2, 2, (4.5, 3), sharex=True)
    for column, (hot, part) in enumerate(frame.groupby("overloaded")):
        lines(axes[column], part, "period", "distance", "method").set(
            yscale="symlog", ylabel="load distance (% of the mean)"
        )
        lines(axes[2 + column], part, "period", "left", "method").set_ylabel("key groups still to drain")
        axes[column].set_title(f"{hot} node{'s' * (hot > 1)} overloaded")
    axes[0].legend()
    page.figure(figure, "scale_in", "As Figure 5: integrated scale-in against draining first.")
    page.say("The integrated model has a good load distance long before draining first has. The last few key groups can stay: taking them in means",
             "mending most nodes at once, which 20 moves cannot, so that no period's best plan drains them. The paper's Lemma 4.2, that draining",
             "ends, is false for indivisible loads. More moves a period, or `drain-first` for the rest, ends it.")  # fmt: skip


if __name__ == "__main__":
    run("allocation", "Key-group allocation", __doc__, (drift, large, scale_in), rebalancer={"metavar": "PYTHON"},
        seconds={"type": float, "default": 60.0}, plain={"type": float, "default": 0.0},
        seeds={"type": int, "nargs": "+", "default": [0]})  # fmt: skip
