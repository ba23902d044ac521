"""Mixed routing against the optimum: [Fang2016]'s figures 7 to 12, 15 and 17 to 21, and the gap that no paper reports.

    python benchmarks/mixed_routing.py [--quick] [--only PART ...] --out DIR

Every figure is the mean over some intervals of one seeded stream: in each, the method under test plans from where its own last plan
left the keys, except in the table of methods, where all start from the same place. *moved*, *bound*: % of all state. *above bound*:
how far the state moved lies above the best bound proven, in % (in the sweeps the linear relaxation's, elsewhere the exact method's).
*met*: intervals in which every limit was met; where not, the figures are those of the plan that missed one. *proven*: intervals with a
proven optimum. Times on a shared, busy two-core machine.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from page import Page, grid, lines, plots, run

import keyshift as ks
from keyshift.heuristics.routing import mixed as routing
from keyshift.models.errors import InputError, MissingDependencyError
from keyshift.models.families.routing import ZipfStream, consistent_hash
from keyshift.models.routing.hlhe import discretised

LIMIT = 3_000
METHODS = ("min-table", "min-mig", "mixed", "mixed, beta = 1", "mixed-bf", "readj")
PAIR = ("min-table", "mixed")


def problems(
    method: str, intervals: int, *, theta: float = 0.08, limit: int | None = LIMIT, seed: int = 0, **stream: Any
) -> Iterator[ks.MixedRouting]:
    """Successive problems of one stream, each starting where the method's last plan left the keys."""
    source = ZipfStream(**stream, seed=seed)
    current = source.home
    for interval in range(-source.window, intervals):  # the windows fill first
        problem = ks.MixedRouting(source.workload(current), theta_max=theta, max_table_size=limit)
        if interval >= 0:
            yield problem
        plan = routing.min_table_plan(problem) if method == "min-table" else routing.mixed_plan(problem)
        current = plan.assignment
        source.advance()


def row(s: ks.Solution, **labels: Any) -> dict[str, Any]:
    """A solution as a row; a plan that misses a limit keeps its figures."""
    d, total, held = s.details, s.problem.scale, s.assignment is not None
    moved = s.objective if held else d.get("plan_state_moved")
    return {
        "method": s.method, **labels, "moved": np.nan if moved is None else 100 * moved / total,
        "bound": np.nan if s.bound is None else 100 * s.bound / total, "seconds": s.seconds,
        "theta": s.metrics["theta"] if held else d.get("plan_theta"), "status": s.status,
        "table": s.metrics["table_size"] if held else d.get("plan_table_size"),
    }  # fmt: skip


def with_gap(rows: list[dict[str, Any]], best: ks.Solution) -> list[dict[str, Any]]:
    """Add how far each plan is above the best bound; one that misses a limit may lie below it."""
    bound = 100 * (best.bound or 0.0) / best.problem.scale
    return [
        r
        | {
            "above bound": 100 * (r["moved"] / bound - 1)
            if bound and r["status"] in ("optimal", "feasible")
            else np.nan
        }
        for r in rows
    ]


def all_methods(
    problem: ks.MixedRouting, seconds: float = 60, trials: int = 100, **labels: Any
) -> list[dict[str, Any]]:
    """Every heuristic on one problem, and the exact method."""
    rows, exact = [], ks.solve(problem, "milp", time_limit=seconds)
    for name in METHODS:
        method, _, beta = name.partition(", beta = ")
        options = {"beta": float(beta)} if beta else {"trials": trials} if method == "mixed-bf" else {}
        rows.append(row(ks.solve(problem, method, time_limit=60, **options), **labels) | {"method": name})
    return with_gap([*rows, row(exact, **labels)], exact)


def means(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means over the intervals, and how many of them met every limit."""
    groups = frame.groupby(by, sort=False)
    status = groups["status"]
    return groups[["moved", "bound", "above bound", "theta", "table", "seconds"]].mean(numeric_only=True).assign(
        met=status.agg(lambda s: f"{s.isin(['optimal', 'feasible']).sum()}/{len(s)}"),
        proven=status.agg(lambda s: f"{(s == 'optimal').sum()}/{len(s)}"),
    ).reset_index()  # fmt: skip


def methods(page: Page) -> None:
    """Every method from the same place (z = 0.85, f = 1, theta_max = 0.08, beta = 1.5)."""
    page.say("With w = 1 every key's state equals its load, so whoever moves just the excess moves the least: there is nothing for a priority to",
             "get wrong. With longer windows there is, and beta = 1 is the order in which the bound's own fractional knapsack fills. Some intervals",
             f"at K = 1,000,000, w = 5 are infeasible for N_A = {LIMIT} whatever moves (the relaxation proves it).")  # fmt: skip
    rows: list[dict[str, Any]] = []
    for keys, nodes, limit in [(2_000, 5, 600), (10_000, 10, LIMIT), (1_000_000, 10, LIMIT)][: 2 if page.quick else 3]:
        for window in (1, 5):
            for interval, problem in enumerate(
                problems("mixed", 2, keys=keys, nodes=nodes, window=window, limit=limit)
            ):
                labels = {"keys": keys, "nodes": nodes, "window": window, "interval": interval}
                rows += all_methods(problem, 120, 20 if keys == 10**6 else 100, **labels)
    frame = pd.DataFrame(rows)
    page.table(frame, "methods", means(frame, ["keys", "nodes", "window", "method"]))
    wide = frame[frame["status"].isin(["optimal", "feasible"])].pivot_table(
        index=["keys", "window", "interval"], columns="method", values="moved"
    )
    page.say("How many times the state that Mixed moves (the paper has three for MinTable):")
    others = [m for m in ("min-table", "readj", "mixed, beta = 1", "milp") if m in wide]
    page.table(
        wide[others].div(wide["mixed"], axis=0).groupby(["keys", "window"]).mean().add_suffix(" / mixed").reset_index(),
        "ratios",
    )
    axis = (
        frame.groupby(["keys", "window", "method"], sort=False)["above bound"]
        .mean()
        .unstack()[[*METHODS, "milp"]]
        .plot.bar(figsize=(9, 4.2))
    )
    axis.set(ylabel="state moved above the bound, %", xlabel="keys, window", yscale="symlog")
    axis.legend(ncols=4, fontsize=8)
    axis.tick_params(axis="x", rotation=0)
    page.figure(axis.figure, "methods", "How far above the bound each method is, by size.")


def sweeps(page: Page) -> None:
    """One parameter at a time (K = 10,000, N_D = 10, N_A = 3,000 unless varied; figure 8 with K = 1,000,000)."""
    n, many = (
        (2 if page.quick else 4),
        {"keys": 100_000 if page.quick else 1_000_000},
    )  # fewer: one alone above the limit of 40 nodes
    sizes = [5_000, 10_000] if page.quick else [5_000, 10_000, 100_000, 1_000_000]
    table = [
        ("N_D (fig. 8, w = 1)", [5, 10, 20, 30, 40], PAIR, lambda v: {**many, "nodes": v}, 2),
        ("N_D (fig. 8, w = 5)", [5, 10, 20, 30, 40], PAIR, lambda v: {**many, "nodes": v, "window": 5}, 2),
        ("theta_max (fig. 9, w = 1)", [0.02, 0.05, 0.08, 0.15, 0.2, 0.3], PAIR, lambda v: {"theta": v}, n),
        ("theta_max (fig. 9)", [0.02, 0.05, 0.08, 0.15, 0.2, 0.3], PAIR, lambda v: {"theta": v, "window": 5}, n),
        ("K (fig. 10)", sizes, PAIR, lambda v: {"keys": v, "window": 5}, n),
        ("f (fig. 12)", [0.2, 0.5, 1, 1.5, 2], ("mixed", "readj"), lambda v: {"fluctuation": v, "window": 5}, n),
        ("N_A (fig. 17)", [2**i for i in range(3, 12, 2)], ("mixed",), lambda v: {"limit": v, "window": 5}, n),
        ("w (fig. 19)", [1, 5, 10, 20], PAIR, lambda v: {"window": v}, n),
        ("beta (figs. 20, 21)", [1, 1.25, 1.5, 1.75, 2], ("min-mig",), lambda v: {"window": 5, "limit": None}, n),
    ]  # fmt: skip
    frame = pd.concat(sweep(*entry) for entry in table)
    page.table(frame, "sweeps", means(frame, ["parameter", "value", "method"]))
    met = frame[frame["above bound"].notna()].assign(bound=lambda f: f["moved"] / (1 + f["above bound"] / 100))
    mean = met.groupby(["parameter", "value", "method"], sort=False)[["moved", "bound"]].mean().reset_index()
    below = mean.assign(moved=mean["bound"], method="bound for " + mean["method"])
    figure = plots(pd.concat([mean, below]), "value", "moved", "method", "parameter", 3)
    for axes in figure.axes:
        axes.set_ylabel("state moved, % of all")
        axes.legend(fontsize=6)
    page.figure(
        figure, "sweeps", "State moved against each parameter, over the intervals in which the limits were met."
    )


def sweep(
    name: str, values: list[Any], methods: tuple[str, ...], make: Callable[[Any], dict[str, Any]], intervals: int
) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for value in values:
        for method in methods:
            for problem in problems(method, intervals, **make(value)):
                found = ks.solve(problem, method, **({"beta": value} if name.startswith("beta") else {}))
                rows += with_gap([row(found, parameter=name, value=value)], ks.solve(problem, "lp"))
    return pd.DataFrame(rows)


def compact(page: Page) -> None:
    """The compact form (figure 11)."""
    page.say("`largest` and `mean` error: of the estimated load of a node, in %. *as printed* rounds values to representatives and plans with them;",
             "ours takes the mean of each class. `compact=R` is the method's option, expanding and mending included.")  # fmt: skip
    rows, keys = [], 100_000 if page.quick else 1_000_000
    for nodes in (10, 40):
        *_, problem = problems("mixed", 1, keys=keys, nodes=nodes, window=5)
        seconds, plan = best_of(lambda: routing.mixed_plan(problem))  # noqa: B023
        rows.append(compact_row(nodes, "all keys", keys, 0.0, seconds, plan))
        for degree in (1, 8, 64, 256):
            for printed in (False, True):
                grouping, records = best_of(lambda: discretised(problem.workload, degree, printed=printed))  # noqa: B023
                seconds, plan = best_of(lambda: routing.mixed_plan(problem, keys=records))  # noqa: B023
                rows.append(
                    compact_row(
                        nodes, f"R = {degree}{', as printed' if printed else ''}", records.size, grouping, seconds, plan
                    )
                )
            seconds, plan = best_of(lambda: routing.compact_plan(problem, degree, routing.mixed_plan))  # noqa: B023
            rows.append(compact_row(nodes, f"`compact={degree}`", records.size, 0.0, seconds, plan))
    page.table(pd.DataFrame(rows), "compact")
    page.say(
        f"K = {keys:,}, w = 5. Peak memory of the whole run: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB."
    )


def compact_row(nodes: int, form: str, records: int, grouping: float, seconds: float, plan: Any) -> dict[str, Any]:
    error = 100 * np.abs(plan.estimated / plan.loads - 1)
    return {
        "nodes": nodes, "form": form, "records": records, "grouping, s": grouping, "plan, s": seconds, "largest error": error.max(),
        "mean error": error.mean(), "theta (true)": plan.theta, "table": plan.table_size,
        "moved": 100 * plan.state_moved / plan.problem.scale, "within the limits": plan.feasible,
    }  # fmt: skip


def best_of(work: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    """Least wall time of a few runs, and the last result."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds), result


def hash_alone(page: Page) -> None:
    """The hash alone (figure 7)."""
    page.say("Loads of the nodes under hashes drawn at random, from the frequencies themselves: median, and in brackets the least and largest of the",
             "hashes. The paper has *max / min* 2.5 at N_D = 40, and 4 at K = 5,000.")  # fmt: skip
    rng, rows = np.random.default_rng(0), []
    for z in (0.5, 0.7, 0.85, 1.0):
        for keys, nodes in [
            (10_000, 5),
            (10_000, 10),
            (10_000, 40),
            (5_000, 10),
            (5_000, 15),
            (5_000, 20),
            (100_000, 10),
            (1_000_000, 10),
        ]:
            if keys > 10_000 and (page.quick or z != 0.85):
                continue
            weight = np.arange(1.0, keys + 1) ** -z
            loads = np.array(
                [
                    np.bincount(rng.integers(0, nodes, keys), weight, nodes)
                    for _ in range(1000 if keys <= 10_000 else 50)
                ]
            )
            ratios = {
                "max / min": loads.max(axis=1) / loads.min(axis=1),
                "max / mean": loads.max(axis=1) / loads.mean(axis=1),
            }
            said = {name: f"{np.median(r):.2f} ({r.min():.2f} to {r.max():.2f})" for name, r in ratios.items()}
            rows.append(
                {"z": z, "keys": keys, "nodes": nodes, **said, "median max / min": np.median(ratios["max / min"])}
            )
    page.table(frame := pd.DataFrame(rows), "hash", frame.drop(columns="median max / min"))


def adjustments(page: Page) -> None:
    """MinMig's table over adjustments (figure 18, K = 10,000)."""
    page.say(
        "Without a limit on the table. *limit* is (N_D - 1) / N_D K, where the paper says the tables converge; it prints 9,350."
    )
    rows = []
    for nodes, theta, most in [(10, 0.02, 4096), (10, 0.08, 1024), (10, 0.3, 1024), (15, 0.02, 4096)]:
        stream = ZipfStream(10_000, nodes, seed=3)
        current = stream.home
        for adjustment in range(1, min(most, 64 if page.quick else most) + 1):
            plan = routing.min_mig_plan(ks.MixedRouting(stream.workload(current), theta_max=theta))
            current = plan.assignment
            if adjustment & (adjustment - 1) == 0:
                rows.append({"series": f"N_D = {nodes}, theta_max = {theta}", "adjustments": adjustment, "table": plan.table_size,
                             "limit": (nodes - 1) / nodes * stream.keys})  # fmt: skip
            stream.advance()
    frame = pd.DataFrame(rows)
    page.table(frame, "adjustments", frame.pivot(index="adjustments", columns="series", values="table").reset_index())
    figure, axes = grid(1, 1, (5.5, 3.6))
    lines(axes[0], frame, "adjustments", "table", "series").set_xscale("log", base=2)
    axes[0].axhline(9350, color="black", linestyle=":", label="the paper's 9,350")
    axes[0].legend(fontsize=8)
    page.figure(figure, "adjustments", "As Figure 18: entries of MinMig's table after so many adjustments.")


def scale_out(page: Page) -> None:
    """One more node (figure 15): empty; the hash stays, or is spread over it as well."""
    rows: list[dict[str, Any]] = []
    stream = ZipfStream(10_000, 10, window=5, seed=1)
    balanced = routing.mixed_plan(ks.MixedRouting(stream.workload())).assignment
    for case, home in {
        "hash unchanged": stream.home,
        "hash over 11 nodes": consistent_hash(np.arange(stream.keys), 11),
    }.items():
        w = ks.Workload(load=stream.load, state=stream.state, current=balanced, home=home, nodes=11)
        rows += all_methods(ks.MixedRouting(w, max_table_size=LIMIT), case=case)
    page.table(means(pd.DataFrame(rows), ["case", "method"]), "scale_out")


def real_keys(page: Page) -> None:
    """Real keys: words and tail numbers, shifted as section V does."""
    rows: list[dict[str, Any]] = []
    for name, family, options in (
        ("words", "words-routing", {"words": 100_000}),
        ("tail numbers", "flights-routing", {}),
    ):
        try:
            counts = next(iter(ks.family(family, **options)))[1].workload.last_load
        except (InputError, MissingDependencyError) as no_data:
            page.say(f"{name} are left out: {no_data}.")
            continue
        stream = ZipfStream(frequencies=counts, nodes=10, window=5, seed=2)
        current = routing.mixed_plan(ks.MixedRouting(stream.workload(), max_table_size=LIMIT)).assignment
        stream.advance()
        rows += all_methods(
            ks.MixedRouting(stream.workload(current), max_table_size=LIMIT), case=f"{name} ({counts.size})"
        )
    if rows:
        page.table(means(pd.DataFrame(rows), ["case", "method"]), "real_keys")


if __name__ == "__main__":
    ks.solve(next(problems("mixed", 1, keys=200, nodes=2)), "milp")  # compile first
    run(
        "mixed-routing",
        "Mixed routing",
        __doc__,
        (methods, sweeps, compact, hash_alone, adjustments, scale_out, real_keys),
    )
