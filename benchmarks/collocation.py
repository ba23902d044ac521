"""ALBIC, COLA and the exact model: figures 6 to 8 and 10 to 14 of [Madsen2016], ALBIC's gap to the optimum, and running times.

    python benchmarks/collocation.py [--quick] [--only PART ...] --out DIR

Loads, load distances, maxLD = 10 and maxPL = 25 are percentage points of a node's capacity, as in the paper (section 3). Two ALBICs appear:
*as printed* balances by the loads that were measured; *albic* also knows what the new pair will save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, product

import collocation_streams as streams
import numpy as np
import pandas as pd
from page import Page, best_of, cases, each, run

import keyshift as ks
from keyshift.heuristics.collocation.comparisons import two_choices
from keyshift.models.errors import InputError
from keyshift.models.families.collocation import BUSY, madsen_collocation, synthetic_cluster
from keyshift.replays.results import panels

FAST = {"finish": False, "search_steps": 100_000, "bound_steps": 60}
"""The exact method's search and bound, without HiGHS: for long replays."""
POINTS = {"max_load_distance": 10.0, "distance_unit": "load"}
PRINTED, SELECTIVE = "albic, as printed", "albic, sF = 20"
OF_THE_MEAN = "albic, as printed, limits in percent of the mean"
PLANNERS = {
    "albic": {"integrated": True}, PRINTED: {"settings": {"anticipate": False}},
    SELECTIVE: {"settings": {"score_factor": 20.0}, "integrated": True}, OF_THE_MEAN: {"settings": {"anticipate": False}},
    "local-search": {"integrated": True},
    "exact": {"settings": FAST, "integrated": True, "from_current": True},
}  # fmt: skip
SHOWN = ["collocation_factor", "load_distance", "load_index", "load_index_same_input", "migrations", "oscillations"]
SIZES = [(20, 400, 10), (40, 800, 20), (60, 1200, 30)]
"""Nodes, key groups, operators."""


def split_loads(workload: ks.Workload, seed: int = 0, merge_cost: float = 0.0, pieces: int = 20) -> np.ndarray:
    """Node loads when every key group's tuples go, piece by piece, to the less loaded of its two nodes, shape (n,).

    The state of a key group then lies on two nodes and has to be merged on the first one in every window: that costs
    ``merge_cost`` load for each unit of the state, and no choice is left about it ([Madsen2016], sections 2.2 and 5.2.1).

    Parameters
    ----------
    workload : Workload
        Its last window; capacities are not weighed.
    seed : int
        Of the two hash functions.
    merge_cost : float, default 0
        Load of merging one unit of state.
    pieces : int, default 20
        Into how many equal pieces each key group's load is dealt.
    """
    first, second = two_choices(workload.key_groups, workload.nodes, seed)
    loads = np.zeros(workload.nodes)
    for _ in range(pieces):
        for k, piece in enumerate(workload.last_load / pieces):
            loads[first[k] if loads[first[k]] <= loads[second[k]] else second[k]] += piece
    return loads + np.bincount(first, merge_cost * workload.state, workload.nodes)


def planner(name: str, migrations: int = 10) -> ks.replays.Planner:
    """COLA knows no migration limit; everybody else has ten moves a period."""
    options = POINTS | ({} if name == "cola" else {"max_migrations": migrations})
    options |= {"distance_unit": "percent"} if name == OF_THE_MEAN else {}
    method = "milp" if name == "exact" else name.partition(",")[0]
    return ks.replays.Planner(method, label=name, options=options, **PLANNERS.get(name, {}))


def replayed(stream: Iterator[ks.Workload], model: ks.replays.LoadModel, names: tuple[str, ...]) -> pd.DataFrame:
    return ks.replay(stream, [planner(name) for name in names], load_model=model).to_frame()


def job_table(frame: pd.DataFrame, model: ks.replays.LoadModel) -> pd.DataFrame:
    """Means over the last tenth of the periods, and over all; how often a distance is below COLA's, how often collocation falls."""
    last = frame["period"].max() - max(1, frame["period"].nunique() // 10) + 1
    moving = model.per_tuple * frame["state_moved"] / frame["total_load"]  # a unit of state as a tuple
    cola = frame["period"].map(frame[frame["method"] == "cola"].set_index("period")["load_distance"])
    fall = frame.groupby("method")["collocation_factor"].diff() <= -0.005
    below = frame["load_distance"] < cola if cola.notna().any() else np.nan
    frame = frame.assign(moving=moving, fall=fall, failed=frame["fallback"] != "", below=below)
    by, end = (
        frame.groupby("method", sort=False),
        frame[frame["period"] >= last].groupby("method", sort=False).mean(numeric_only=True),
    )
    factor = frame["collocation_factor"]
    until = {share: frame[factor >= share * factor.max()].groupby("method")["period"].min() for share in (0.9, 0.999)}
    return pd.DataFrame({
        "periods": by.size(), "collocation_end": end["collocation_factor"], "load_index_end": end["load_index"],
        "load_index_same_input_end": end["load_index_same_input"], "index_with_moves_end": end["load_index_same_input"] * (1 + end["moving"]),
        "load_distance_mean": by["load_distance"].mean(), "load_distance_largest": by["load_distance"].max(),
        "load_distance_end": end["load_distance"], "below_cola": by["below"].sum(min_count=1), "migrations": by["migrations"].mean(),
        "straight_back": by["oscillations"].sum(), "fallbacks": by["failed"].sum(), "falls": by["fall"].sum(),
        "periods_to_90_percent": until[0.9], "periods_to_most": until[0.999],
    }).reindex(frame["method"].unique()).rename_axis("method").reset_index()  # fmt: skip


SAID = ["method", "collocation_end", "periods_to_most", "load_index_same_input_end", "index_with_moves_end", "load_distance_mean",
        "load_distance_largest", "below_cola", "migrations", "straight_back"]  # fmt: skip


def compared(
    page: Page, name: str, caption: str, frame: pd.DataFrame, model: ks.replays.LoadModel, *extra: pd.DataFrame
) -> None:
    table = pd.concat([job_table(frame, model), *extra])
    page.table(table, name, table[SAID])
    page.figure(panels(frame, SHOWN), name, caption)


def real_job(page: Page, job: int, periods: int, names: tuple[str, ...], *extra: pd.DataFrame) -> None:
    stream, model = streams.in_points(streams.flights(job, 5 if page.quick else periods))
    caption = f"Real Job {job}: flights of New York 2013, nodes {BUSY:g} % busy at the start."
    compared(page, f"job{job}", caption, replayed(stream, model, names), model, *extra)


def job2(page: Page) -> None:
    """Real Job 2 on the flights of New York (figure 12).

    A period for each day of the last seven days' flights; 20 nodes, 200 key groups, 10 migrations; nothing is collocated at the start.
    """
    real_job(page, 2, 150, ("albic", PRINTED, "cola", "local-search", "exact"))


def job3(page: Page) -> None:
    """Real Job 3 (figure 13)."""
    real_job(page, 3, 150, ("albic", SELECTIVE, PRINTED, "cola", "local-search"))


def job4(page: Page) -> None:
    """Real Job 4 (figure 14); COLA, as in the paper, three times from a random allocation."""
    stream, model = streams.in_points(streams.flights(4, 1))
    first, rows = next(stream), []
    for seed in range(3):
        place = np.random.default_rng(seed).integers(0, first.nodes, first.key_groups)
        plan = ks.solve(planner("cola").pose(first.replace(current=place), model), "cola", seed=seed)
        chosen = plan.assignment if plan.assignment is not None else plan.offered
        after = ks.CollocatedAllocation(model.measured(first.replace(current=chosen))).metrics(chosen)
        rows.append({"method": f"cola, random start {seed + 1}", "periods": 1, "collocation_end": after["collocation_factor"],
                     "load_distance_mean": after["load_distance"], "migrations": int((chosen != place).sum())})  # fmt: skip
    real_job(page, 4, 350, ("albic", SELECTIVE, "local-search"), pd.DataFrame(rows))


def busy(page: Page) -> None:
    """Busier and idler nodes: Real Job 2 at other loads, and with limits that know nothing of capacity."""
    periods, frames, tables = (4 if page.quick else 90), [], []
    for at, names in [(a, ("albic", PRINTED, "cola")) for a in (25, 50, 75, 100)] + [("any", (OF_THE_MEAN,))]:
        stream, model = streams.in_points(streams.flights(2, periods), BUSY if at == "any" else at)
        frames.append(replayed(stream, model, names).assign(plot=f"nodes {at} % busy at the start"))
        tables.append(job_table(frames[-1], model).assign(busy_percent=at))
    table = pd.concat(tables)
    page.table(table, "busy", table[["busy_percent", *SAID, "falls"]])
    page.draw("busy", "Real Job 2 by load.", *each(pd.concat(frames[:4]), "plot", x="period", y="load_distance", by="method"),
              columns=2, size=(5, 3))  # fmt: skip


def job1(page: Page) -> None:
    """Real Job 1 on Wikipedia edits (figures 6 to 9); PoTC pays a unit of load for merging a unit of state, every period."""
    periods = 6 if page.quick else 30
    planners = [ks.replays.Planner("flux", problem="key-group-allocation", options={"max_migrations": 13})]
    planners += [ks.replays.Planner("allocation-milp", label=f"milp, {m or 'all'}", options={"max_migrations": m, "max_load_distance": None})
                 for m in (10, 13, 20, None)]  # fmt: skip
    try:
        frame = ks.replay(streams.edits(periods), planners).to_frame()
    except InputError as no_data:
        page.say(f"Left out: {no_data}.")
        return
    loads = np.array([split_loads(w, merge_cost=1.0) for w in streams.edits(periods)])
    distance = 100 * np.abs(loads / loads.mean(axis=1, keepdims=True) - 1).max(axis=1)
    potc = {"period": range(len(loads)), "method": "PoTC", "load_distance_percent": distance, "migrations": 0, "oscillations": 0}  # fmt: skip
    frame = pd.concat([frame, pd.DataFrame(potc)])
    by = frame.groupby("method", sort=False)
    table = by["load_distance_percent"].agg(load_distance_mean="mean", load_distance_max="max")
    table = table.join(by[["migrations", "state_moved"]].mean())
    page.table(table.assign(**{"paused, s (2.5 s a key group)": 2.5 * table["migrations"]}), "job1")
    sets = ("flux", "milp, 13", "PoTC"), ("milp, 10", "milp, 13", "milp, 20", "milp, all")
    page.draw("job1", "Real Job 1: as Figures 6 to 8.", *(
        {"frame": frame[frame["method"].isin(chosen)], "x": "period", "y": metric, "by": "method"}
        for metric in ("load_distance_percent", "migrations") for chosen in sets), columns=2, size=(5.5, 3))  # fmt: skip


def synthetic(page: Page) -> None:
    """Figures 10 and 11: a steady state.

    From COLA's first plan on, as the paper advises; ALBIC has 20 migrations a period; mean over the last 20 of 80 periods (in a quick
    run 2 of 4).
    """
    (periods, last), rows = (4, 2) if page.quick else (80, 20), []
    for share, (nodes, key_groups, operators) in product((0, 25, 50, 75, 100), SIZES[: 1 if page.quick else None]):
        draw = partial(synthetic_cluster, nodes, key_groups, operators, share / 100)
        start = ks.solve(ks.CollocatedAllocation(next(draw(1)), **POINTS), "cola").assignment
        stream = [w.replace(current=start) for w in draw(periods)]
        for name, part in (("albic", stream), ("cola", stream[-last - 1 :])):  # COLA has no memory here
            end = ks.replay(part, [planner(name, 20)]).to_frame()
            end = end[end["period"] > end["period"].max() - last].mean(numeric_only=True)
            rows.append({"nodes": nodes, "one_to_one": share, "method": name, "collocation_percent": 100 * end["collocation_factor"],
                         "load_distance": end["load_distance"], "migrations": end["migrations"]})  # fmt: skip
    values, frame = ["collocation_percent", "load_distance", "migrations"], pd.DataFrame(rows)
    wide = frame.pivot(index=["nodes", "one_to_one"], columns="method", values=values)
    page.table(frame, "synthetic", wide.set_axis([", ".join(column) for column in wide], axis=1))
    frame["plot"] = frame["nodes"].map("{} nodes".format)
    page.draw("synthetic", "As Figures 10 and 11, over the share of key groups that send one to one (%).", *(
        plot for y in values[:2] for plot in each(frame, "plot", x="one_to_one", y=y, by="method")
    ), columns=frame["nodes"].nunique(), size=(3.7, 3.2))  # fmt: skip


def gap(page: Page) -> None:
    """How far ALBIC is from the optimum: in each period of its own replay, the same problem solved exactly.

    Traffic newly collocated in a period, % of all; `over_optimum`: ALBIC's remote traffic above the exact plan's, %.
    """
    (periods, seconds), said = (3, 6) if page.quick else (16, 10), ["ALBIC", "exact, incumbent", "exact, bound"]
    drawn = {
        "20 / 100, one to one": (synthetic_cluster(20, 100, 5, 1.0, periods, seed=1), ks.replays.LoadModel()),
        "20 / 200, Real Job 2": streams.in_points(streams.flights(2, periods)),
        "20 / 400, one to one": (synthetic_cluster(20, 400, 10, 1.0, periods, seed=3), ks.replays.LoadModel()),
        "20 / 400, half one to one": (synthetic_cluster(20, 400, 10, 0.5, periods, seed=4), ks.replays.LoadModel()),
    }  # fmt: skip
    frame = pd.DataFrame({"case": case, **row} for case, drawn_ in drawn.items() for row in gaps(*drawn_, periods, seconds))  # fmt: skip
    by = frame.groupby("case", sort=False)
    proven = by["status"].agg(lambda s: (s == "optimal").sum())
    page.table(frame, "gap", by[[*said, "over_optimum"]].mean().assign(proven=proven))
    long = frame.melt(["case", "period"], said, "of", "newly collocated, %")
    page.draw("gap", "ALBIC's gap.", *each(long, "case", x="period", y="newly collocated, %", by="of"), columns=2, size=(5, 3))  # fmt: skip


def gaps(
    stream: Iterator[ks.Workload], model: ks.replays.LoadModel, periods: int, seconds: float
) -> Iterator[dict[str, object]]:
    place = None
    for period, w in enumerate(islice(stream, periods)):
        w = model.measured(w if place is None else w.replace(current=place))
        problem = ks.CollocatedAllocation(w, max_migrations=10, **POINTS)
        albic = ks.solve(problem, "albic", seed=period)
        fallen = albic.assignment is None
        exact = ks.solve(problem, "milp", start=None if fallen else albic, time_limit=seconds, seed=period)
        place = ks.solve(ks.KeyGroupAllocation(w, max_migrations=10), "flux").assignment if fallen else albic.assignment
        values = {"ALBIC": albic.objective, "exact, incumbent": exact.objective, "exact, bound": exact.bound}
        now = problem.objective(w.current)
        yield {"period": period, **{name: np.nan if value is None else 100 * (now - value) / problem.scale for name, value in values.items()},
               "over_optimum": 100 * (albic.objective / exact.objective - 1) if albic.objective and exact.objective else np.nan,
               "status": exact.status, "albic_s": albic.seconds, "exact_s": exact.seconds}  # fmt: skip


def speed(page: Page) -> None:
    """Running times: one invocation from a spread start, 20 migrations; the exact method has 10 s."""
    rows = []
    for nodes, key_groups, operators in SIZES[: 1 if page.quick else None]:
        drawn = cases("madsen-collocation", seed=7, nodes=nodes, key_groups=key_groups, operators=operators, one_to_one=[0.5, 1.0])  # fmt: skip
        for said, problem in drawn:
            _, cpu, albic = best_of(1, ks.solve, problem, "albic", seed=1)
            exact = ks.solve(problem, "milp", start=problem.workload.current, time_limit=10, seed=1)
            percent = 100 / problem.scale
            rows.append({"nodes": nodes, "key groups": key_groups, "one to one, %": 100 * said["one_to_one"], "ALBIC, s": albic.seconds, "CPU, s": cpu,
                         "ALBIC, remote %": percent * albic.objective, "exact, s": exact.seconds, "exact, remote %": percent * exact.objective,
                         "bound, %": percent * (exact.bound or 0), "status": exact.status})  # fmt: skip
    page.table(rows, "speed")


def call(page: Page) -> None:
    """One call on the clusters of figures 10 and 11.

    From the spread start, ten points of load distance, 20 migrations; COLA knows no such limit. Collocated traffic, % of all; `milp` has
    `--seconds`; the other seconds are the least of three calls.
    """
    rows = []
    for (nodes, key_groups, operators), share in product(SIZES[: 1 if page.quick else None], (0, 25, 50, 75, 100)):
        w = next(synthetic_cluster(nodes, key_groups, operators, share / 100, 1))
        posed = {"cola": ks.CollocatedAllocation(w, **POINTS)}
        row: dict[str, object] = {"nodes": nodes, "key groups": key_groups, "one to one, %": share}
        for method in ("albic", "local-search", "milp", "cola"):
            problem = posed.get(method, ks.CollocatedAllocation(w, max_migrations=20, **POINTS))
            limit, runs = (page.given.seconds, 1) if method == "milp" else (None, 1 if method == "cola" else 3)
            seconds, _, s = best_of(runs, ks.solve, problem, method, time_limit=limit)
            row |= {method: np.nan if s.objective is None else 100 * (1 - s.objective / problem.total_traffic)}
            row |= {f"{method}, s": seconds} if runs > 1 else {}
            if method == "milp":
                row["at most"] = 100 * (1 - s.bound / problem.total_traffic)
        rows.append(row)
        print(row, flush=True)
    page.table(rows, "call")


def hundred(page: Page) -> None:
    """A hundred periods at 20 nodes, 400 key groups, four methods."""
    draw = partial(synthetic_cluster, 20, 400, 10, 0.5)
    model = ks.replays.LoadModel.for_share(next(draw(1)), 0.3)
    methods = ("albic", "cola", "flux", "allocation-milp")
    seconds, cpu, frame = best_of(1, replayed, draw(5 if page.quick else 100), model, methods)
    page.say(f"{seconds:.0f} s, {cpu:.0f} s of CPU.")
    compared(page, "hundred", "A hundred periods.", frame, model)


if __name__ == "__main__":
    for method in ("albic", "milp"):  # compile first
        ks.solve(madsen_collocation(nodes=4, key_groups=40, max_migrations=2), method, time_limit=60)
    parts: tuple[Callable[[Page], None], ...] = (speed, call, gap, job2, busy, job3, job4, job1, synthetic, hundred)
    run(
        "collocation",
        "Collocation: ALBIC, COLA and the exact model",
        __doc__,
        parts,
        seconds={"type": float, "default": 30.0},
    )
