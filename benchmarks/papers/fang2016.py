"""[Fang2016]: worked examples, and figures 7 to 12, 15 and 17 to 21 with the best bound proven beside them.

Every figure is the mean over some intervals of one seeded stream: in each, the method under test plans from where its own last plan
left the keys, except in the table of methods, where all start from the same place. *moved*, *bound*: % of all state. *above bound*:
how far the state moved lies above the best bound proven, in % (in the sweeps the linear relaxation's, elsewhere the exact method's).
*met*: intervals in which every limit was met; where not, the figures are those of the plan that missed one. *proven*: intervals with a
proven optimum.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import keyshift as ks
from keyshift.generators.routing import ZipfStream, consistent_hash
from keyshift.heuristics.routing import mixed as routing
from keyshift.models.errors import InputError, MissingDependencyError
from keyshift.models.routing.compact import discretised, hlhe
from keyshift.papers.page import Case, Page, best_of, each, studied

LIMIT, THETAS, NODES = 3_000, [0.02, 0.05, 0.08, 0.15, 0.2, 0.3], [5, 10, 20, 30, 40]
METHODS = ["min-table", "min-mig", "mixed", "mixed-bf", "readj", "milp"]
PAIR = ("min-table", "mixed")
HELD = ["optimal", "feasible"]
SAID = ["moved", "bound", "above bound", "theta", "table", "seconds", "status"]


def problems(
    method: str, intervals: int, *, theta: float = 0.08, limit: int | None = LIMIT, seed: int = 0, **stream: Any
) -> Iterator[ks.MixedRouting]:
    """Successive problems of one stream, each starting where the method's last plan left the keys."""
    source = ZipfStream(**stream, seed=seed)
    current, plan = source.home, routing.min_table_plan if method == "min-table" else routing.mixed_plan
    for interval in range(-source.window, intervals):  # the windows fill first
        problem = ks.MixedRouting(source.workload(current), theta_max=theta, max_table_size=limit)
        if interval >= 0:
            yield problem
        current = plan(problem).assignment
        source.advance()


def measured(frame: pd.DataFrame, best: str = "milp") -> pd.DataFrame:
    """In percent of all state, and above the best bound; a plan that misses a limit keeps its figures and may lie below it."""
    bound = frame["instance"].map(frame[frame["method"] == best].set_index("instance")["bound"]).where(lambda b: b > 0)
    moved = frame["objective"].fillna(frame["offered"])
    return frame.assign(**{
        "moved": 100 * moved / frame["scale"], "bound": 100 * frame["bound"] / frame["scale"], "table": frame["table_size"],
        "above bound": (100 * (moved / bound - 1)).where(frame["status"].isin(HELD)),
    })  # fmt: skip


def all_methods(instances: Iterable[Case], seconds: float = 60, trials: int = 100) -> pd.DataFrame:
    """Every heuristic on the same problems, and the exact method."""
    drawn = list(instances)
    frame = studied(drawn, METHODS, time_limit=seconds, trials=trials)
    return measured(
        pd.concat([frame, studied(drawn, ["mixed"], time_limit=seconds, beta=1.0).assign(method="mixed, beta = 1")])
    )


def means(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means over the intervals, and how many of them met every limit."""
    groups = frame.groupby(by, sort=False)
    return groups[["moved", "bound", "above bound", "theta", "table", "seconds"]].mean().assign(
        met=groups["status"].agg(lambda s: f"{s.isin(HELD).sum()}/{len(s)}"),
        proven=groups["status"].agg(lambda s: f"{(s == 'optimal').sum()}/{len(s)}"))  # fmt: skip


def methods(page: Page) -> None:
    """Every method from the same place (z = 0.85, f = 1, theta_max = 0.08, beta = 1.5).

    With w = 1 every key's state equals its load, so whoever moves just the excess moves the least: there is nothing for a priority to
    get wrong. With longer windows there is, and beta = 1 is the order in which the bound's own fractional knapsack fills. Some intervals
    at K = 1,000,000, w = 5 are infeasible for N_A = 3,000 whatever moves (the relaxation proves it).
    """
    sizes = [(2_000, 5, 600, 100), (10_000, 10, LIMIT, 100), (1_000_000, 10, LIMIT, 20)][: 2 if page.quick else 3]
    frame = pd.concat(all_methods((
        ({"keys": keys, "nodes": nodes, "window": window, "interval": interval}, problem) for window in (1, 5)
        for interval, problem in enumerate(problems("mixed", 2, keys=keys, nodes=nodes, window=window, limit=limit))
    ), 120, trials) for keys, nodes, limit, trials in sizes)  # fmt: skip
    labels, by = ["keys", "nodes", "window", "interval", "method"], ["keys", "window", "method"]
    page.table(frame[labels + SAID], "methods", means(frame, ["keys", "nodes", "window", "method"]))
    wide = frame[frame["status"].isin(HELD)].pivot_table(index=["keys", "window", "interval"], columns="method", values="moved")  # fmt: skip
    page.say("How many times the state that Mixed moves (the paper has three for MinTable):")
    others = [m for m in ("min-table", "readj", "mixed, beta = 1", "milp") if m in wide]
    page.table(wide[others].div(wide["mixed"], axis=0).groupby(["keys", "window"]).mean().add_suffix(" / mixed"), "ratios")  # fmt: skip
    axes = frame.groupby(by, sort=False)["above bound"].mean().unstack().plot.bar(
        figsize=(9, 4.2), rot=0, xlabel="keys, window", ylabel="state moved above the bound, %")  # fmt: skip
    axes.set_yscale("symlog")
    axes.legend(ncols=4, fontsize=8)
    page.figure(axes.figure, "methods", "How far above the bound each method is, by size.")


def planned(problem: ks.MixedRouting, method: str, **options: Any) -> dict[str, Any]:
    """One plan, also where it misses a limit, in percent of all state, MinMig's with the linear relaxation's bound.

    Where a key alone is above the limit of every node, no method is asked.
    """
    s = ks.solve(problem, method, **options)
    at = s.offered if s.assignment is None else s.assignment
    if at is None:
        return dict.fromkeys(("moved", "bound", "above bound", "theta", "table"), np.nan) | {
            "seconds": s.seconds, "status": s.status}  # fmt: skip
    held, percent = problem.metrics(at), 100 / problem.scale
    relaxed = ks.solve(problem, "lp").bound if method == "min-mig" else None
    bound = np.nan if relaxed is None else percent * relaxed
    moved = percent * problem.objective(at)
    return {"moved": moved, "bound": bound, "above bound": 100 * (moved / bound - 1) if s.assignment is not None and bound > 0 else np.nan,
            "theta": held["theta"], "table": held["table_size"], "seconds": s.seconds, "status": s.status}  # fmt: skip


def sweeps(page: Page, figures: str = "") -> None:
    """One parameter at a time (K = 10,000, N_D = 10, N_A = 3,000 unless varied), 16 intervals of each stream.

    `figures`: "fig. 9" leaves only its parameters. Figure 8 has 100,000 keys: one of them alone is above the limit of 40 nodes, so that no
    plan meets it. MixedBF tries twenty sizes of the table. The linear relaxation's bound is there for MinMig.
    """
    n, many = 4 if page.quick else 16, 100_000
    sizes, nodes = (
        ([5_000, 10_000], [10, 30]) if page.quick else ([5_000, 10_000, 100_000, 1_000_000], [10, 20, 30, 40])
    )
    table = [
        ("N_D (fig. 8, w = 1)", "nodes", nodes, PAIR, {"keys": many}),
        ("N_D (fig. 8, w = 5)", "nodes", nodes, PAIR, {"keys": many, "window": 5}),
        ("theta_max (fig. 9, w = 1)", "theta", THETAS, PAIR, {}),
        ("theta_max (fig. 9)", "theta", THETAS, PAIR, {"window": 5}),
        ("K (fig. 10)", "keys", sizes, PAIR, {"window": 5}),
        ("f (fig. 12)", "fluctuation", [0.2, 0.5, 1, 1.5, 2], ("mixed", "mixed-bf", "readj"), {"window": 5}),
        ("N_A (fig. 17)", "limit", [2**i for i in range(3, 12, 2)], ("mixed",), {"window": 5}),
        ("w (fig. 19)", "window", [1, 5, 10, 20], PAIR, {}),
        ("beta (figs. 20, 21)", "beta", [1.0, 1.25, 1.5, 1.75, 2.0], ("min-mig",), {"window": 5, "limit": None}),
    ]  # fmt: skip
    rows = []
    for name, key, values, of, fixed in table:
        for value, method in product(values, of) if figures in name else ():
            given = {**fixed, key: value}
            options = {"beta": given.pop("beta")} if key == "beta" else {"trials": 20} if method == "mixed-bf" else {}
            for interval, problem in enumerate(problems(method, n, seed=page.seed, **given)):
                labels = {"parameter": name, "value": value, "method": method, "interval": interval}
                rows.append(labels | planned(problem, method, **options))
    frame = page.keep(rows, "sweeps")
    labels = ["parameter", "value", "method"]
    page.table(means(frame, labels), "sweeps_means")
    mean = frame[frame["status"].isin(HELD)].groupby(labels, sort=False)[["moved", "bound"]].mean().reset_index()
    below = mean.dropna().assign(moved=mean["bound"], method="bound for " + mean["method"])
    page.draw("sweeps", "State moved against each parameter, over the intervals in which the limits were met.", *each(
        pd.concat([mean, below]), "parameter", x="value", y="moved", by="method", ylabel="state moved, % of all"))  # fmt: skip


def compact(page: Page) -> None:
    """The compact form (figure 11, w = 5).

    `largest` and `mean` error: of the estimated load of a node, in %. *as printed* rounds values to representatives and plans with them;
    ours takes the mean of each class. `compact=R` is the method's option, expanding and mending included.
    """
    rows, keys = [], 100_000 if page.quick else 1_000_000
    for nodes in (10, 40):
        *_, problem = problems("mixed", 1, keys=keys, nodes=nodes, window=5, seed=page.seed)
        forms = [("all keys", keys, 0.0, best_of(3, routing.mixed_plan, problem))]
        for degree in (1, 8, 64, 256):
            for said in ("", ", as printed"):
                _, grouping, records = best_of(3, discretised, problem.workload, degree, printed=bool(said))
                forms.append((f"R = {degree}{said}", records.size, grouping, best_of(3, routing.mixed_plan, problem, keys=records)))  # fmt: skip
            planned = best_of(3, routing.compact_plan, problem, degree, routing.mixed_plan)
            forms.append((f"`compact={degree}`", records.size, 0.0, planned))
        for form, records, grouping, (_, seconds, plan) in forms:
            error = 100 * np.abs(plan.estimated / plan.loads - 1)
            rows.append({
                "nodes": nodes, "form": form, "records": records, "grouping, s": grouping, "plan, s": seconds,
                "largest error": error.max(), "mean error": error.mean(), "theta (true)": plan.theta, "table": plan.table_size,
                "moved": 100 * plan.state_moved / problem.scale, "within the limits": plan.feasible,
            })  # fmt: skip
    page.table(rows, "compact")
    page.say(f"K = {keys:,}. Peak memory of the whole run: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB.")  # fmt: skip


def hash_alone(page: Page) -> None:
    """The hash alone (figure 7).

    Loads of the nodes under hashes drawn at random, from the frequencies themselves: median, and in brackets the least and largest of the
    hashes. The paper has *max / min* 2.5 at N_D = 40, and 4 at K = 5,000. Drawn is the distribution over the nodes, each place in their order
    a mean over the hashes. *of means*: of the nodes' mean loads over fifty intervals of our stream, as the paper may mean it; f = 1, means of
    five streams.
    """
    rng, rows, places = np.random.default_rng(page.seed), [], []
    sizes = [*product([10_000], (5, 10, 40)), *product([5_000], (10, 15, 20)), (100_000, 10), (1_000_000, 10)]
    for z, (keys, nodes) in product((0.5, 0.7, 0.85, 1.0), sizes):
        if keys > 10_000 and (page.quick or z != 0.85):
            continue
        weight, hashes = np.arange(1.0, keys + 1) ** -z, 1000 if keys <= 10_000 else 50
        loads = np.array([np.bincount(rng.integers(0, nodes, keys), weight, nodes) for _ in range(hashes)])
        ratios = {"max / min": loads.max(axis=1) / loads.min(axis=1), "max / mean": loads.max(axis=1) / loads.mean(axis=1)}  # fmt: skip
        if z == 0.85:
            places += [{"K": f"{keys:,}", "N_D": nodes, "load over the mean": load, "share of the nodes": (place + 1) / nodes}
                       for place, load in enumerate(np.sort(loads / loads.mean(axis=1, keepdims=True), axis=1).mean(axis=0))]  # fmt: skip
        said = {name: f"{np.median(r):.2f} ({r.min():.2f} to {r.max():.2f})" for name, r in ratios.items()}
        rows.append({"z": z, "keys": keys, "nodes": nodes, **said, "median max / min": np.median(ratios["max / min"])})
    page.table(rows, "hash", pd.DataFrame(rows).drop(columns="median max / min"))
    frame, axes = page.keep(places, "distribution"), {"x": "load over the mean", "y": "share of the nodes"}
    page.draw("distribution", "As Figure 7.", {"frame": frame[frame["K"] == "10,000"], "by": "N_D", "title": "K = 10,000", **axes},
              {"frame": frame[frame["N_D"] == 10], "by": "K", "title": "N_D = 10", **axes}, size=(4.5, 3.4))  # fmt: skip
    means = []
    for keys, nodes, seed in product((10_000, 5_000), (10, 40), range(5)):
        stream, total = ZipfStream(keys, nodes, seed=seed), np.zeros(nodes)
        for _ in range(50):
            total += np.bincount(stream.home, stream.load, nodes)
            stream.advance()
        means.append({"keys": keys, "nodes": nodes, "max / min of means": total.max() / total.min()})
    page.table(pd.DataFrame(means).groupby(["keys", "nodes"], sort=False).mean(), "over_intervals")


def adjustments(page: Page) -> None:
    """MinMig's table over adjustments (figure 18, K = 10,000).

    Without a limit on the table. *limit* is (N_D - 1) / N_D K, where the paper says the tables converge; it prints 9,350.
    """
    rows = []
    for nodes, theta in ((10, 0.02), (10, 0.08), (10, 0.3), (15, 0.02), (15, 0.3), (20, 0.02)):
        stream = ZipfStream(10_000, nodes, seed=3 + page.seed)
        current = stream.home
        for adjustment in range(1, (64 if page.quick else 2048) + 1):
            plan = routing.min_mig_plan(ks.MixedRouting(stream.workload(current), theta_max=theta))
            current = plan.assignment
            if adjustment.bit_count() == 1:
                rows.append({"series": f"N_D = {nodes}, theta_max = {theta}", "adjustments": adjustment, "table": plan.table_size,
                             "limit": (nodes - 1) / nodes * stream.keys})  # fmt: skip
            stream.advance()
    frame = pd.DataFrame(rows)
    page.table(frame, "adjustments", frame.pivot(index="adjustments", columns="series", values="table"))
    ticks = [4**i for i in range(6)]
    page.draw("adjustments", "As Figure 18: entries of MinMig's table after so many adjustments; dotted: the paper's 9,350.",
              {"frame": frame, "x": "adjustments", "y": "table", "by": "series", "at": [9350], "xscale": "log", "xticks": ticks,
               "xticklabels": ticks}, size=(5.5, 3.6))  # fmt: skip


def scale_out(page: Page) -> None:
    """One more node (figure 15): empty; the hash stays, or is spread over it as well."""
    stream = ZipfStream(10_000, 10, window=5, seed=1)
    balanced = routing.mixed_plan(ks.MixedRouting(stream.workload())).assignment
    homes = {"hash unchanged": stream.home, "hash over 11 nodes": consistent_hash(np.arange(stream.keys), 11)}
    frame = all_methods(({"case": case}, ks.MixedRouting(
        ks.Workload(load=stream.load, state=stream.state, current=balanced, home=home, nodes=11), max_table_size=LIMIT
    )) for case, home in homes.items())  # fmt: skip
    page.table(means(frame, ["case", "method"]), "scale_out")


def real_keys(page: Page) -> None:
    """Real keys: words and tail numbers, shifted as section V does."""
    cases = []
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
        cases.append(({"case": f"{name} ({counts.size})"}, ks.MixedRouting(stream.workload(current), max_table_size=LIMIT)))  # fmt: skip
    if cases:
        page.table(means(all_methods(cases), ["case", "method"]), "real_keys")


def worked_examples(page: Page) -> None:
    """Figures 4 and 6: LLFD and MinTable on six keys, the discretisation on ten values."""
    w = ks.Workload(
        load=[7, 4, 2, 1, 5, 1], state=[7, 4, 2, 1, 5, 1], current=[0, 0, 1, 1, 0, 1], home=[0, 0, 0, 1, 1, 1], nodes=2
    )
    problem, values = ks.MixedRouting(w, theta_max=0), np.array([8.0, 6, 3, 2, 2, 1, 1, 1, 1, 1])
    keys = np.array([f"k{k}" for k in range(1, 7)])
    page.table([{"method": method, "d1": " ".join(keys[s.assignment == 0]), "d2": " ".join(keys[s.assignment == 1]),
                 "entries": s.metrics["table_size"]} for method in ("llfd", "min-table") for s in [ks.solve(problem, method)]], "figure_4")  # fmt: skip
    rounded = {said: hlhe(values, 4, printed=said == "as printed") for said in ("least deviation", "as printed")}
    rounded["Figure 6(a)"] = np.select([values <= 3, values <= 6], [2.0, 5.0], 8.0)
    page.table([{"rule": said, "deviation": (values - of).sum(), "values": " ".join(f"{v:g}" for v in of)} for said, of in rounded.items()], "figure_6")  # fmt: skip


def theorem_1(page: Page) -> None:
    """[Fang2016], Theorem 1: LLFD's imbalance over (1 - 1/N_D) / 3, the largest of drawn cases that some assignment balances perfectly."""
    rng, rows = np.random.default_rng(page.seed), []
    for nodes in (2, 3, 5, 10):
        shares = []
        for _ in range(100 if page.quick else 2000):
            mean = int(rng.choice([6, 10, 12, 30, 100, 1000]))
            cuts = [
                np.sort(rng.choice(np.arange(1, mean), min(int(rng.integers(1, 6)), mean - 1), replace=False))
                for _ in range(nodes)
            ]
            load = np.concatenate([np.diff(np.concatenate(([0], cut, [mean]))) for cut in cuts])
            at = rng.integers(0, nodes, load.size)
            plan = routing.llfd_plan(
                ks.MixedRouting(ks.Workload(load=load, state=load, current=at, home=at, nodes=nodes), theta_max=0.0)
            )
            shares.append(plan.theta / ((1 - 1 / nodes) / 3))
        rows.append(
            {
                "nodes": nodes,
                "cases": len(shares),
                "largest share of the bound": max(shares),
                "mean share": np.mean(shares),
            }
        )
    page.table(rows, "theorem_1")
