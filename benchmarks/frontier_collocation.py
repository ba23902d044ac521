"""Parts of `frontier.py` about collocated allocation: one call beside ALBIC's, many periods, dense graphs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from scipy import sparse

import keyshift as ks
from keyshift.generators.allocation import synthetic_cluster
from keyshift.papers import madsen2016_streams as streams
from keyshift.papers.page import Page, best_of

POINTS = {"max_load_distance": 10.0, "distance_unit": "load"}
SHARES = (0, 25, 50, 75, 100)


def one_call(page: Page) -> None:
    """One call beside ALBIC's: collocation.

    60 nodes, 1,200 key groups in 30 operators, 20 moves, ten points of load distance, from the spread start. Collocated traffic, % of
    all, means over the seeds; *least of `milp`*: the lowest share of what `milp` collocates in its time that `local-search` does.
    Seconds are the lesser of two calls, one after the other; *ratio*: `local-search` over ALBIC, the mean over seeds and the largest.
    """
    rows = []
    size, seeds = ((20, 400, 10), 1) if page.quick else ((60, 1200, 30), 5)
    for share, seed in product(SHARES, range(seeds)):
        w = next(synthetic_cluster(*size, share / 100, 1, seed))
        problem = ks.CollocatedAllocation(w, max_migrations=20, **POINTS)
        row: dict[str, float] = {"one to one, %": share, "seed": seed}
        for method in ("albic", "local-search", "milp", "cola"):
            posed = ks.CollocatedAllocation(w, **POINTS) if method == "cola" else problem
            runs, limit = (1, page.given.each) if method == "milp" else (2, None)
            seconds, processor, s = best_of(runs, ks.solve, posed, method, time_limit=limit)
            row |= {
                method: 100 * (1 - s.objective / problem.scale),
                f"{method}, s": seconds,
                f"{method}, CPU s": processor,
            }
            if method == "milp":
                row["at most"] = 100 * (1 - s.bound / problem.scale)
        rows.append(row)
        page.keep(rows, "one_call")
    frame = pd.DataFrame(rows)
    frame["ratio"] = frame["local-search, s"] / frame["albic, s"]
    frame["least of milp"] = frame["local-search"] / frame["milp"]
    by = frame.groupby("one to one, %")
    shown = by[
        ["albic", "local-search", "milp", "at most", "cola", "albic, s", "local-search, s", "cola, s", "ratio"]
    ].mean()
    page.table(
        frame, "one_call", shown.assign(largest=by["ratio"].max(), **{"least of milp": by["least of milp"].min()})
    )


def drawn(page: Page) -> Iterator[tuple[str, list[ks.Workload], ks.replays.LoadModel, int]]:
    """Streams with what their tuples cost, and how many moves a period has: Real Jobs 2 to 4, then synthetic clusters."""
    periods = 3 if page.quick else page.given.periods
    for job, whole in ((2, 150), (3, 150), (4, 350)):
        if job in page.given.jobs:
            stream, model = streams.in_points(streams.flights(job, 5 if page.quick else whole))
            yield f"Real Job {job}", list(stream), model, 10
    draw = partial(synthetic_cluster, 20, 400, 10, periods=periods)
    for share in page.given.shares:
        yield f"20 / 400, {share} % one to one", list(draw(share / 100)), ks.replays.LoadModel(), 20


def periods(page: Page) -> None:
    """Many periods: collocation.

    Each method goes on from its own plan of the period before; ten points of load distance; `milp` has `--each` seconds a period. Means over
    the periods but for the collocation, which is the last one's; *of exact*: collocation, as a share of `milp`'s. COLA knows no limit on moves.
    """
    rows, short = [], 3 if page.quick else page.given.periods
    for name, stream, model, moves in drawn(page):
        for method in ("albic", "cola", "local-search", "milp"):
            options = POINTS | ({} if method == "cola" else {"max_migrations": moves})
            planner = ks.replays.Planner(
                method, options=options, integrated=method != "cola", from_current=method == "milp"
            )
            limit = page.given.each if method == "milp" else None
            for many in {short, len(stream)} if method == "local-search" else {short}:
                replay = ks.replay(stream[:many], [planner], load_model=model, time_limit=limit)
                frame = replay.to_frame()
                rows.append({"stream": name, "periods": many, "method": method, "collocation": frame["collocation_factor"].iloc[-1],
                             **frame[["migrations", "load_distance"]].mean(), "largest": frame["load_distance"].max(),
                             "seconds a period": pd.DataFrame(replay.seconds)["seconds"].mean()})  # fmt: skip
                page.keep(rows, "periods")
                print(rows[-1], flush=True)
    frame = pd.DataFrame(rows)
    exact = frame[frame["method"] == "milp"].set_index(["stream", "periods"])["collocation"]
    frame["of exact"] = (
        frame["collocation"] / exact.reindex(pd.MultiIndex.from_frame(frame[["stream", "periods"]])).to_numpy()
    )
    page.table(frame, "periods")


def dense(page: Page) -> None:
    """Dense graphs: collocation.

    Two operators of 1,000 key groups of which nearly all talk to each other, on 20 nodes; 10, 30 and 100 moves. *plain*: forty lines of
    annealing, relocations alone.
    """
    w = dense_workload(200 if page.quick else 1000)
    now, rows = ks.check(ks.CollocatedAllocation(w), w.current).metrics["load_distance_percent"], []
    limits = {"max_load_distance": max(10.0, 1.1 * now)}
    for moves in (10, 30, 100):
        problem = ks.CollocatedAllocation(w, max_migrations=moves, **limits)
        report = ks.check(problem, plainly(problem, 0.7))
        row = {"moves": moves, "method": "plain", "limit": 0.7, "feasible": report.feasible}
        rows.append(row | {"remote_traffic": report.objective, "moved": report.metrics["migrations"], "seconds": 0.7})
        for method, limit in (("local-search", 30.0), ("milp", 5.0), ("milp", 30.0)):
            s = ks.solve(problem, method, time_limit=limit / 5 if page.quick else limit)
            row = {"moves": moves, "method": method, "limit": limit, "feasible": s.assignment is not None}
            rows.append(
                row
                | {
                    "remote_traffic": s.objective,
                    "bound": s.bound,
                    "moved": s.metrics.get("migrations"),
                    "seconds": s.seconds,
                }
            )
        page.keep(rows, "dense")
    page.say(f"{w.traffic.nnz:,} pairs; {w.load.sum() / 2:,.0f} tuples.")
    page.table(rows, "dense")


def plainly(problem: ks.CollocatedAllocation, seconds: float) -> np.ndarray:
    """The best that relocations alone find, annealed for so long, always within the limits."""
    w, rng, until = problem.workload, np.random.default_rng(0), time.perf_counter() + seconds
    both = sparse.csr_array(w.traffic + w.traffic.T)
    a, load = w.current.copy(), np.bincount(w.current, w.last_load, w.nodes)
    low, high = problem.load_band(load.mean())
    on_node = both @ np.eye(w.nodes)[a]
    best, gained, most, heat = a.copy(), 0.0, 0.0, float(on_node.max() - on_node.mean())
    cooling = 0.1 ** (1 / (20_000 * seconds))  # about so many steps
    while time.perf_counter() < until:
        heat *= cooling
        shifts = [(int(rng.integers(a.size)), int(rng.integers(w.nodes)))]
        away = np.flatnonzero(a != w.current)
        if away.size >= problem.max_migrations:
            k = int(rng.choice(away))
            shifts.insert(0, (k, int(w.current[k])))
        old, won = [(k, int(a[k])) for k, _ in shifts], 0.0
        for k, i in shifts:
            won += relocated(k, i, a, load, on_node, both, w)
        fits = low <= load.min() and load.max() <= high and (a != w.current).sum() <= problem.max_migrations
        if fits and (won >= 0 or rng.random() < np.exp(won / heat)):
            gained += won
            if gained > most:
                best, most = a.copy(), gained
        else:
            for k, i in old[::-1]:
                relocated(k, i, a, load, on_node, both, w)
    return best


def relocated(
    k: int, i: int, a: np.ndarray, load: np.ndarray, on_node: np.ndarray, both: sparse.csr_array, w: ks.Workload
) -> float:
    """Put key group k on node i; the traffic that no longer is remote."""
    near = slice(both.indptr[k], both.indptr[k + 1])
    won = float(on_node[k, i] - on_node[k, a[k]])
    on_node[both.indices[near], a[k]] -= both.data[near]
    on_node[both.indices[near], i] += both.data[near]
    load[a[k]] -= w.last_load[k]
    load[i] += w.last_load[k]
    a[k] = i
    return won


def dense_workload(each: int) -> ks.Workload:
    """Key groups of heavy-tailed activity; a tenth of the traffic goes to three favourites."""
    rng, tuples = np.random.default_rng(0), 2_800 * each
    act = rng.pareto(1.1, 2 * each) + 0.05
    first = rng.choice(each, tuples, p=0.3 * act[:each] / act[:each].sum() + 0.7 / each)
    anyone = rng.choice(each, tuples, p=0.3 * act[each:] / act[each:].sum() + 0.7 / each)
    second = np.where(rng.random(tuples) < 0.1, (7 * first + rng.integers(0, 3, tuples)) % each, anyone)
    traffic = sparse.coo_array((np.ones(tuples), (first, each + second)), shape=(2 * each, 2 * each)).tocsr()
    load = np.asarray(traffic.sum(axis=0) + traffic.sum(axis=1), dtype=float)
    given = {"load": load, "state": load, "nodes": 20}
    current = ks.solve(ks.KeyGroupAllocation(ks.Workload(current=np.arange(2 * each) % 20, **given)), "flux").assignment
    return ks.Workload(current=current, traffic=traffic, operator=np.repeat([0, 1], each), **given)
