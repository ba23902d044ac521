"""ALBIC, COLA and the exact model: figures 6 to 8 and 10 to 14 of [Madsen2016], ALBIC's gap to the optimum, and running times.

    python benchmarks/collocation.py [--quick] [--only PART ...] --out DIR

Loads, load distances, maxLD = 10 and maxPL = 25 are percentage points of a node's capacity, as in the paper (section 3). There are two ALBICs:
*as printed* balances the measured loads; *albic* also subtracts what the new pair will save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, product

import numpy as np
import pandas as pd
from page import run

import keyshift as ks
from keyshift.generators.allocation import BUSY, madsen_collocation, synthetic_cluster
from keyshift.papers import madsen2016_streams as streams
from keyshift.papers.madsen2016 import (
    OF_THE_MEAN,
    POINTS,
    PRINTED,
    SAID,
    SIZES,
    compared,
    job1,
    job2,
    job3,
    job4,
    job_table,
    replayed,
    synthetic,
)  # fmt: skip
from keyshift.papers.page import Page, best_of, cases, each


def busy(page: Page) -> None:
    """Busier and idler nodes: Real Job 2 at other loads, and with limits that do not depend on capacity."""
    periods, frames, tables = (4 if page.quick else 90), [], []
    for at, names in [(a, ("albic", PRINTED, "cola")) for a in (25, 50, 75, 100)] + [("any", (OF_THE_MEAN,))]:
        stream, model = streams.in_points(streams.flights(2, periods), BUSY if at == "any" else at)
        frames.append(replayed(stream, model, names).assign(plot=f"nodes {at} % busy at the start"))
        tables.append(job_table(frames[-1], model).assign(busy_percent=at))
    table = pd.concat(tables)
    page.table(table, "busy", table[["busy_percent", *SAID, "falls"]])
    page.draw("busy", "Real Job 2 by load.", *each(pd.concat(frames[:4]), "plot", x="period", y="load_distance", by="method"),
              columns=2, size=(5, 3))  # fmt: skip


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
