"""[Madsen2016]: the program against Flux, scaling in, Real Jobs 1 to 4, ALBIC against COLA, and what migrations cost (simulated).

Loads, load distances, maxLD = 10 and maxPL = 25 are percentage points of a node's capacity, as in the paper (section 3). Two ALBICs appear:
*as printed* balances by the loads that were measured; *albic* also knows what the new pair will save.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import scipy.sparse as sp

import keyshift as ks
from keyshift.generators.allocation import BUSY, madsen_allocation, madsen_scale_in, synthetic_cluster
from keyshift.heuristics.collocation.albic import Demand, Invocation, after_demand, target_nodes
from keyshift.heuristics.collocation.comparisons import score, split_by_place, two_choices
from keyshift.models.errors import InputError
from keyshift.papers import madsen2016_streams as streams
from keyshift.papers.page import Page, each
from keyshift.papers.queues import RATE, ms
from keyshift.replays.results import panels

FAST = {"finish": False, "search_steps": 100_000, "bound_steps": 60}
"""The exact method's search and bound, without HiGHS: for long replays."""
POINTS = {"max_load_distance": 10.0, "distance_unit": "load"}
PRINTED, SELECTIVE = "albic, as printed", "albic, sF = 20"
OF_THE_MEAN, FROM_COLA = "albic, as printed, limits in percent of the mean", "albic, from COLA's plan"
BALANCED, DEMANDS = "albic, step 3 by balance", Invocation.demands
PLANNERS = {
    "albic": {"integrated": True}, BALANCED: {"integrated": True}, PRINTED: {"settings": {"anticipate": False}},
    SELECTIVE: {"settings": {"score_factor": 20.0}, "integrated": True}, OF_THE_MEAN: {"settings": {"anticipate": False}},
    "local-search": {"integrated": True}, FROM_COLA: {"integrated": True},
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
    stream, model = streams.in_points(streams.flights(job, 5 if page.quick else periods, whole_year=not page.quick))
    caption = f"Real Job {job}: flights of New York 2013, nodes {BUSY:g} % busy at the start."
    compared(page, f"job{job}", caption, replayed(stream, model, names), model, *extra)


def job2(page: Page) -> None:
    """Real Job 2 on the flights of New York (figure 12).

    A period for each day of the last seven days' flights; 20 nodes, 200 key groups, 10 migrations; nothing is collocated at the start.
    """
    real_job(page, 2, 150, ("albic", PRINTED, "cola", *(() if page.quick else ("local-search", "exact"))))


def job3(page: Page) -> None:
    """Real Job 3 (figure 13)."""
    real_job(page, 3, 150, ("albic", PRINTED, "cola", *(() if page.quick else (SELECTIVE, "local-search"))))


def job4(page: Page) -> None:
    """Real Job 4 (figure 14); COLA, as in the paper, three times from a random allocation."""
    stream, model = streams.in_points(streams.flights(4, 1))
    first, rows = next(stream), []
    for seed in range(1 if page.quick else 3):
        place = np.random.default_rng(seed).integers(0, first.nodes, first.key_groups)
        posed, _ = planner("cola").pose(first.replace(current=place), model)
        plan = ks.solve(posed, "cola", seed=seed)
        chosen = plan.assignment if plan.assignment is not None else plan.offered
        after = ks.CollocatedAllocation(model.measured(first.replace(current=chosen))).metrics(chosen)
        rows.append({"method": f"cola, random start {seed + 1}", "periods": 1, "collocation_end": after["collocation_factor"],
                     "load_distance_mean": after["load_distance"], "migrations": int((chosen != place).sum())})  # fmt: skip
    real_job(page, 4, 350, ("albic", PRINTED, *(() if page.quick else (SELECTIVE, "local-search"))), pd.DataFrame(rows))


def by_balance(
    begun: Invocation, max_load: float, anticipate: bool = True
) -> tuple[ks.Workload, list[np.ndarray], Demand | None]:
    """Step 3 of ALBIC otherwise: of the 400 heaviest pairs apart, the one that brings most traffic together, less what comes apart."""
    expected, partitions, demand = DEMANDS(begun, max_load, anticipate)
    if demand is None:
        return expected, partitions, demand
    p, w = begun.problem, begun.measured
    _, apart = split_by_place(score(w), w.current)
    traffic = sp.csr_array(w.traffic + w.traffic.T)
    with_node = traffic @ np.eye(w.nodes)[w.current]
    piece_of = {int(k): piece for piece in partitions for k in piece}
    most = 0.0
    for c in np.argsort(-apart.traffic, kind="stable")[:400]:
        pair = int(apart.sender[c]), int(apart.receiver[c])
        members = np.unique(np.concatenate([piece_of.get(k, np.array([k])) for k in pair]))
        node = target_nodes(w, *pair, pair[0] in piece_of, pair[1] in piece_of)[0]
        movers = members[w.current[members] != node]
        if movers.size > (p.max_migrations or movers.size):
            continue
        left, among = w.current[movers], traffic[movers][:, movers].toarray()
        stays = left[:, None] == left  # traffic within what leaves a node together does not come apart
        gain = float(
            (with_node[movers, node] - with_node[movers, left]).sum() + np.where(stays, among, among / 2).sum()
        )
        if gain > most:
            most, demand = gain, Demand(members, node)
    return after_demand(p, w, demand) if anticipate else w, partitions, demand


def step_three(page: Page) -> None:
    """Why Real Job 4 differs (figure 14): ALBIC with another step 3.

    As printed, step 3 takes the heaviest pair that is apart, whatever its partitions leave behind. Here it takes the pair after which most traffic
    lies on one node; all else, the limit of ten moves included, is ALBIC's.
    """
    stream, model = streams.in_points(streams.flights(4, 5 if page.quick else 350, whole_year=not page.quick))
    with patch.object(Invocation, "demands", by_balance):
        frame = replayed(stream, model, (BALANCED,))
    page.table(table := job_table(frame, model), "step_three", table[SAID])


def job1(page: Page) -> None:
    """Real Job 1 on Wikipedia edits (figures 6 to 9); PoTC pays a unit of load for merging a unit of state, every period."""
    periods = 2 if page.quick else 30
    planners = [ks.replays.Planner("flux", problem="key-group-allocation", options={"max_migrations": 13})]
    planners += [ks.replays.Planner("allocation-milp", label=f"milp, {m or 'all'}", options={"max_migrations": m, "max_load_distance": None})
                 for m in ((10, 13, None) if page.quick else (10, 13, 20, None))]  # fmt: skip
    try:
        stream = list(streams.edits(periods))
        frame = ks.replay(iter(stream), planners, time_limit=1.0 if page.quick else 60.0).to_frame()
    except InputError as no_data:
        page.say(f"Left out: {no_data}.")
        return
    loads = np.array([split_loads(w, merge_cost=1.0) for w in stream])
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


def synthetic(page: Page, sizes: Sequence[tuple[int, int, int]] = SIZES, ones: Sequence[int] = (0, 50, 100)) -> None:
    """Figures 10 and 11: a steady state.

    ALBIC twice: from its own start, where key groups lie as they are dealt, and from COLA's first plan, which the paper advises for
    operation (section 5.4). It has 20 migrations a period; mean over the last 3 of 15 periods (in a quick run 2 of 4).
    """
    (periods, last), rows = (4, 2) if page.quick else (15, 3), []
    for share, (nodes, key_groups, operators) in product(
        ones[-3:] if page.quick else ones, sizes[: 1 if page.quick else None]
    ):
        stream = list(synthetic_cluster(nodes, key_groups, operators, share / 100, periods, seed=page.seed))
        start = ks.solve(ks.CollocatedAllocation(stream[0], **POINTS), "cola").assignment
        from_cola = [w.replace(current=start) for w in stream]
        for name, part in {
            "albic": stream,
            FROM_COLA: from_cola,
            "cola": from_cola[-last - 1 :],
        }.items():  # COLA has no memory here
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


TIMES = (1, 5, 10, 30, 60)
CLUSTERS = ((20, 400), (40, 800), (60, 1200))
"""Nodes and key groups of figures 2 to 4."""
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


def drift(page: Page, sizes: Sequence[tuple[int, int]] = CLUSTERS, seeds: Sequence[int] = (), seconds: float = 60.0, plain: float = 0.0,
          beside: Callable[[ks.KeyGroupAllocation, float], list[dict[str, Any]]] | None = None) -> None:  # fmt: skip
    """Figures 2 to 4: load distance over time.

    Means over the seeds. *Largest gap* is over the seeds, in points.
    """
    rows, full, seeds = [], 5.0 if page.quick else seconds, seeds or (page.seed,)
    ks.solve(madsen_allocation(seed=99), "milp", time_limit=5.0)  # compile the kernels first
    sizes, limits = (sizes[:1], (10,)) if page.quick else (sizes, (10, 20, 30, 40))
    for seed, (nodes, key_groups), varies, limit in product(seeds, sizes, (0.2, 0.4), limits):
        problem = madsen_allocation(seed=seed, nodes=nodes, key_groups=key_groups, varies=varies, max_migrations=limit)
        others = dict.fromkeys(("lp", "highs", "cp-sat"), plain) if plain and seed == seeds[0] else {}
        found = [solved(problem, method, least) for method, least in {"flux": full, "milp": full, **others}.items()]
        if beside is not None:
            found += beside(problem, full)
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
    shown = shown[(shown["seed"] == seeds[0]) & shown["method"].isin(DRAWN)].rename(columns=at)
    long = shown.melt([*SETTING, "method"], list(at.values()), "time (s)", "distance (%)").dropna()
    long = long.assign(**{"distance (%)": long["distance (%)"].clip(LEAST)}, plot=[
        f"varies {100 * varies:.0f} %, {limit} moves" for varies, limit in zip(long["varies"], long["limit"], strict=True)])  # fmt: skip
    for nodes, part in long.groupby("nodes"):
        number = {20: 2, 40: 3, 60: 4}[nodes]
        page.draw(f"fig{number}", f"As Figure {number}: {nodes} nodes, load distance over time.", *each(
            part, "plot", x="time (s)", y="distance (%)", by="method", xscale="log", yscale="log", xticks=TIMES, xticklabels=TIMES
        ), columns=len(limits), size=(3, 2.7), sharex=True)  # fmt: skip


def scale_in(page: Page) -> None:
    """Figure 5: scaling in.

    60 nodes, 10 to drain, 20 moves a period (in a quick run 20 nodes, 4 to drain); each period starts from the plan before. *milp* has
    half a unit of work a period. First the period with a load distance of at most so much, and with so many of the key groups drained.

    The integrated model has a good load distance long before draining first has. The last few key groups can stay: taking them in means
    mending most nodes at once, which 20 moves cannot, so that no period's best plan drains them. The paper's Lemma 4.2, that draining
    ends, is false for indivisible loads. More moves a period, or `drain-first` for the rest, ends it.
    """
    nodes, key_groups, drain, periods, effort = (20, 200, 4, 5, 0.3) if page.quick else (60, 1200, 10, 20, 0.5)
    rows = []
    for hot, method in product((1, 5), ("milp", "drain-first")):
        problem = madsen_scale_in(nodes=nodes, key_groups=key_groups, drain=drain, overloaded=hot, seed=page.seed)
        for period in range(periods + 1):
            w = problem.workload
            rows.append({"overloaded": hot, "method": method, "period": period, "left": int(w.draining[w.current].sum()),
                         "distance": 100 * problem.objective(w.current) / problem.scale})  # fmt: skip
            plan = ks.solve(problem, method, effort=effort)
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


def queues(page: Page) -> None:
    """[Madsen2016], Figure 9: what migrations cost in latency.

    Real Job 1 on Wikipedia's edits, 20 nodes at 70 % of their capacity in the mean, periods of five minutes, 2.5 s a key
    group as in the paper; as a fluid. The program sees a period and places the next one. *paused*: seconds that key groups were
    held, summed, a period.
    """
    periods, rows, over_time = 4 if page.quick else 12, [], []
    try:
        stream = list(streams.edits(periods))
    except InputError as no_data:
        page.say(f"Left out: {no_data}.")
        return
    load = np.array([w.last_load for w in stream])
    load *= 0.7 * RATE * stream[0].nodes * 300 / load.sum(axis=1).mean()
    for most in (0, 10, 13, 20, None):
        at = [stream[0].current]
        for w in stream[:-1]:
            problem = ks.KeyGroupAllocation(w.replace(current=at[-1]), max_migrations=most)
            at.append(ks.solve(problem, time_limit=2).assignment)
        moved = [int((a != b).sum()) for a, b in pairwise(at)]
        found = ks.simulate(load, np.array(at), service_rate=RATE, nodes=stream[0].nodes, window_seconds=300, method="fluid",
                            migration=ks.simulation.Migration(seconds=2.5))  # fmt: skip
        label = "none" if most == 0 else str(most or "all")
        over_time += [{"limit": label, "period": t + 1, "paused, s": 2.5 * count} for t, count in enumerate(moved)]
        rows.append({"limit": label, "moved a period": np.mean(moved), "paused, s a period": found.paused / (periods - 1),
                     "share of their time, %": 100 * found.paused / (periods - 1) / load.shape[1] / 300, **ms(found)})  # fmt: skip
    page.table(rows, "madsen")
    page.draw("madsen", "As Figure 9 of [Madsen2016], simulated: time that key groups are held, summed.",
              {"frame": pd.DataFrame(over_time), "x": "period", "y": "paused, s", "by": "limit", "yscale": "symlog"}, size=(6, 3.6))  # fmt: skip


def ceiling(page: Page) -> None:
    """Real Job 1: how much of a whole day's traffic can be collocated at all, with every key group free to move."""
    try:
        w = next(streams.edits(3 if page.quick else 1))
    except InputError as no_data:
        page.say(f"Left out: {no_data}.")
        return
    problem = ks.CollocatedAllocation(w, max_load_distance=10.0)
    rows = []
    for method in ("cola", "local-search", "milp"):
        s = ks.solve(problem, method, effort=2 if page.quick else 10)
        value = s.objective if s.objective is not None else problem.objective(s.offered)
        at_most = np.nan if s.bound is None else 100 * (1 - s.bound / problem.total_traffic)
        rows.append(
            {"method": method, "collocation, %": 100 * (1 - value / problem.total_traffic), "at most, %": at_most}
        )
    page.table(rows, "ceiling")
