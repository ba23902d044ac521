"""A real Storm 2.8: throughput, latency, moves of state and killed workers, each beside what `ks.simulate` said before.

``make storm`` starts ZooKeeper, Nimbus, two supervisors and four workers, eight tasks of a keyed operator and four spouts, runs
every setting, and ends them. A tuple takes its task a fixed time, by sleeping: the settings are carried by a machine of two cores.
Each row is kept as soon as it is measured, and a second start goes on behind the rows that are there.

Groupings: *fields* and *shuffle* (not load-aware) and *pkg* (`PartialKeyGrouping`) are Storm's; *table* is a plan of keyshift that
engines/storm carries out, *split* one that gives hot keys several tasks. The simulation serves the very tuples that Storm gets.
Latency is the time from when a tuple is due until it has been served. *cores* are Storm's share of the machine while it ran.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))  # the other benchmarks' own modules

import page as _page  # noqa: F401  where the data is
from bench import KEYS, Bench, latencies, numbers, ratio
from cluster import Storm, alone, running
from kills import kills
from mixed_routing import routing, throughput_of_tables
from results import Kept, write
from streams import GROUPS, HASH, TASKS, Live, Stream, Table, drawn, groups_of, predicted, zipf

import keyshift as ks
from keyshift.cli import main as main_of_shell
from keyshift.plans.saved import read_plan

GROUPINGS = ("fields", "shuffle", "pkg", "table", "split")


# [Nasir2015], Figure 10 --------------------------------------------------------------------------------------------------


def throughput(bench: Bench, run: int) -> None:
    """As fast as 400 tuples that are not acknowledged yet allow; the first three seconds do not count."""
    kept, seconds, warm, pending = Kept(bench.out, "throughput"), 6 if bench.quick else 10, 3, 400
    for skew in (1.0, 1.4):
        for us in (5_000, 10_000):
            for grouping in GROUPINGS:
                setting = {"skew": skew, "service": us / 1000, "grouping": grouping, "run": run}
                if kept.has(**setting):
                    continue
                way, table = bench.route(grouping, skew)
                rate = 1.3 * TASKS * 1e6 / us
                stream = drawn([(seconds, rate, zipf(KEYS, skew))], seed=run)
                closed = stream._replace(due=np.arange(stream.due.size) / rate)
                nodes = bench.live.sent(stream, grouping, table)
                said = predicted(closed, nodes, us, queue=pending, spans=seconds).to_frame()
                made, share = bench.measured(lambda s=stream, w=way, u=us: bench.live.run(s, w, u, pending=pending))
                counted = made[(made["end"] >= warm) & (made["end"] < seconds)]
                expected, got = nodes[numbers(stream, made)], made["task"].to_numpy()
                kept.add({**setting, "predicted": said["done"].iloc[warm:].mean(), "measured": len(counted) / (seconds - warm),
                          "ratio predicted": ratio(expected), "ratio measured": ratio(got),
                          "latency ms": 1e3 * (counted["acked"] - counted["emitted"]).mean(), **share})  # fmt: skip


def latency(bench: Bench, run: int) -> None:
    """Poisson arrivals at 30, 45 and 60 % of what all tasks together can serve; and at 5 %, which shows what Storm itself takes."""
    kept, seconds, us, skew = Kept(bench.out, "latency"), 6 if bench.quick else 12, 20_000, 1.0
    loads = {0.05: ("shuffle",), 0.3: GROUPINGS[:4], 0.45: (*GROUPINGS[:4], "pkg, used"), 0.6: GROUPINGS[:4]}
    for load, groupings in loads.items():
        for grouping in groupings:
            setting = {"load": load, "grouping": grouping, "run": run}
            if kept.has(**setting):
                continue
            way, table = bench.route(grouping, skew)
            stream = drawn([(seconds, load * TASKS * 1e6 / us, zipf(KEYS, skew))], seed=100 + run)
            nodes = bench.live.sent(stream, grouping, table)
            said = predicted(stream, nodes, us)
            middle = np.median(latencies(stream, nodes, us))
            made, share = bench.measured(lambda s=stream, w=way: bench.live.run(s, w, us))
            took = 1e3 * (made["end"] - made["due"])
            kept.add({**setting, "median predicted": 1e3 * middle, "median measured": took.median(),
                      "mean predicted": 1e3 * said.latency_mean, "mean measured": took.mean(),
                      "p99 predicted": 1e3 * said.latency_p99, "p99 measured": took.quantile(0.99),
                      "until sent": 1e3 * (made["emitted"] - made["due"]).median(),
                      "until begun": 1e3 * (made["begin"] - made["due"]).median(),
                      "until acknowledged": 1e3 * (made["acked"] - made["due"]).median(),
                      "ratio predicted": ratio(nodes), "ratio measured": ratio(made["task"].to_numpy()), **share})  # fmt: skip


# [Ding2015], Figure 11 ---------------------------------------------------------------------------------------------------


def moving(bench: Bench, run: int) -> None:
    """Two of eight tasks are emptied at 12 s: at once, in phases, or by Storm's own rebalance, which restarts workers.

    2,000 keys of 4 KiB of state, which leaves a task at 200,000 bytes a second; 55 % of what eight tasks can serve.
    """
    kept, series = Kept(bench.out, "moving"), Kept(bench.out, "seconds")
    keys, us, pad, pace, when, seconds = 2_000, 10_000, 4_096, 200_000, 12, 36
    shares, rate = zipf(keys, 0.5), 0.55 * TASKS * 1e6 / us
    by_group = np.bincount(groups_of(keys), shares, GROUPS)
    state = np.bincount(groups_of(keys), minlength=GROUPS) * (pad + 24.0)
    draining = np.arange(TASKS) >= 6
    w = ks.Workload(load=by_group * rate, state=state, current=HASH.groups, nodes=TASKS, draining=draining)
    answer = ks.solve(
        ks.KeyGroupAllocation(w, max_migrations=int(draining[HASH.groups].sum()) + 4), time_limit=5, seed=0
    )
    stream = drawn([(seconds, rate, shares)], seed=300 + run)
    every = Stream(np.arange(keys) / 2000, np.arange(keys), np.arange(keys) % 4, 1.0)
    for way, most in (("at once", None), ("in phases", 8)):
        if kept.has(way=way, run=run):
            continue
        plan = answer.plan(bandwidth=pace, phase_moves=most, parallel=1)
        tables = [Table(nodes, {}) for nodes in plan.assignments()]
        if any((bench.live.table.groups != HASH.groups).tolist()) or bench.live.table.entries:
            bench.live.switch(HASH)
        bench.live.run(every, "default", 100, pad=pad)
        spans = seconds
        how = ks.simulation.Migration(bandwidth=pace, state=state)
        said = ks.simulate((stream.due, groups_of(keys)[stream.keys]), HASH.groups, [(when, np.array(plan.assignments()))],
                           service_rate=1e6 / us, nodes=TASKS, migration=how, spans=spans)  # fmt: skip
        timed = ks.simulate(
            (stream.due, groups_of(keys)[stream.keys]),
            HASH.groups,
            [(when, plan)],
            service_rate=1e6 / us,
            nodes=TASKS,
            spans=spans,
        )
        moved: list[float] = []

        def act(tables: list[Table] = tables, moved: list[float] = moved) -> pd.DataFrame:
            start = bench.live.begin(stream, "default", us, pad=pad, pace=pace)
            time.sleep(start + when - time.monotonic())
            moved.append(bench.live.switch(*tables))
            return bench.live.finish(start, stream)

        made, share = bench.measured(act)
        took, due = made["end"] - made["due"], made["due"]
        during = (due >= when) & (due < when + 15)
        theirs, times = (one.to_frame().iloc[when : when + 15] for one in (said, timed))
        plan_seconds = float(sum(np.maximum(np.bincount(plan.source[plan.phase == p], state[plan.key_group[plan.phase == p]], TASKS).max(), 0)
                                 for p in range(len(tables))) / pace)  # fmt: skip
        kept.add({"way": way, "run": run, "phases": len(tables), "groups moved": len(plan), "state MB": state[plan.key_group].sum() / 1e6,
                  "seconds predicted": plan_seconds, "seconds measured": moved[0],
                  "mean before": 1e3 * took[(due > 3) & (due < when)].mean(),
                  "mean in 15 s predicted": 1e3 * float(np.average(theirs["latency"], weights=theirs["arrived"])), "mean in 15 s by the plan's times": 1e3 * float(np.average(times["latency"], weights=times["arrived"])),
                  "mean in 15 s measured": 1e3 * took[during].mean(),
                  "largest predicted": 1e3 * said.latency_max, "largest measured": 1e3 * took.max(), **share})  # fmt: skip
        each = took.groupby(due.astype(int)).mean()
        series.add(*({"way": way, "run": run, "second": t, "predicted ms": 1e3 * said.to_frame()["latency"].iloc[t],
                      "by the plan's times ms": 1e3 * timed.to_frame()["latency"].iloc[t], "measured ms": 1e3 * each.get(t, np.nan)}
                     for t in range(seconds)))  # fmt: skip


def restarting(bench: Bench, run: int) -> None:
    """The same stream while Storm's own ``rebalance`` takes one of four workers away, and all state that was in memory."""
    kept = Kept(bench.out, "moving")
    if kept.has(way="storm rebalance", run=run):
        return
    keys, us, when, seconds = 2_000, 10_000, 12, 45
    stream = drawn([(seconds, 0.55 * TASKS * 1e6 / us, zipf(keys, 0.5))], seed=300 + run)
    began: list[float] = []

    def act() -> pd.DataFrame:
        start = bench.live.begin(stream, "default", us)
        time.sleep(start + when - time.monotonic())
        bench.live.storm.ask("rebalance", "workers=3")
        began.append(time.monotonic() - start)
        return bench.live.finish(start, stream, 240)

    made, share = bench.measured(act)
    first = made.sort_values("end").drop_duplicates(["source", "seq"])
    took, due = first["end"] - first["due"], first["due"]
    ends = np.sort(made["end"].to_numpy())
    silent = float(np.diff(ends[ends > began[0] - 1]).max())
    during = (due >= when) & (due < when + 15)
    kept.add({"way": "storm rebalance", "run": run, "phases": 0, "groups moved": 0, "state MB": 0.0, "seconds measured": silent,
              "mean before": 1e3 * took[(due > 3) & (due < when)].mean(), "mean in 15 s measured": 1e3 * took[during].mean(),
              "largest measured": 1e3 * took.max(), "served twice": len(made) - len(first), "service ms": share["service ms"]})  # fmt: skip


# [Madsen2016], Figure 6 --------------------------------------------------------------------------------------------------


def allocation(bench: Bench, run: int) -> None:
    """Six periods of six seconds; between two of them ten hot keys change places. A new plan from each period's counts."""
    kept, us, periods, length, rate = Kept(bench.out, "allocation"), 10_000, 6, 6, 440.0
    rng, law, parts = np.random.default_rng(run), zipf(KEYS, 0.8), []
    law = rng.permutation(law)
    for _ in range(periods):
        parts.append((length, rate, law.copy()))
        hot, other = rng.choice(np.argsort(-law)[:200], 10, replace=False), rng.choice(KEYS, 10, replace=False)
        law[hot], law[other] = law[other], law[hot].copy()
        law /= law.sum()
    stream = drawn(parts, seed=400 + run, even=True)
    group = groups_of(KEYS)
    for method in ("fields", "pkg", "flux", "milp"):
        if kept.has(method=method, run=run):
            continue
        tables, now, planned = [HASH], HASH.groups, method in ("flux", "milp")
        for t in range(1, periods):
            if planned:
                inside = (stream.due >= (t - 1) * length) & (stream.due < t * length)
                loads = np.bincount(group[stream.keys[inside]], minlength=GROUPS).astype(float)
                w = ks.Workload(load=loads, state=np.ones(GROUPS), current=now, nodes=TASKS)
                now = ks.solve(ks.KeyGroupAllocation(w, max_migrations=13), method, time_limit=3, seed=0).assignment
            tables.append(Table(now, {}))
        if (planned and any((bench.live.table.groups != HASH.groups).tolist())) or bench.live.table.entries:
            bench.live.switch(HASH)
        way = "default" if planned else bench.live.fresh() if method == "pkg" else method

        def act(way: str = way, tables: list[Table] = tables, planned: bool = planned) -> pd.DataFrame:
            start = bench.live.begin(stream, way, us)
            for t in range(1, periods if planned else 0):
                time.sleep(max(0.0, start + t * length - time.monotonic()))
                bench.live.switch(tables[t], wait=None)
            return bench.live.finish(start, stream)

        made, share = bench.measured(act)
        through = bench.live.sent(stream, method if not planned else "table", HASH)
        for t in range(periods):
            inside, there = (
                made["due"].between(t * length, (t + 1) * length),
                (stream.due >= t * length) & (stream.due < (t + 1) * length),
            )
            nodes = tables[t].groups[group[stream.keys[there]]] if planned else through[there]
            kept.add({"method": method, "run": run, "period": t, "distance predicted": distance(nodes),
                      "distance measured": distance(made["task"].to_numpy()[inside]), **share})  # fmt: skip


def distance(tasks: np.ndarray) -> float:
    """Load distance, in percent of the mean."""
    loads = np.bincount(tasks, minlength=TASKS)
    return float(100 * np.abs(loads - loads.mean()).max() / loads.mean())


# From the topology to a plan and back ------------------------------------------------------------------------------------


def journey(bench: Bench, run: int) -> None:
    """The commands of the page *Storm*, while tuples come: what the topology counts is imported, planned and exported, carried out and undone."""
    kept, live = Kept(bench.out, "journey"), bench.live
    if kept.has(run=run):
        return
    if any((live.table.groups != HASH.groups).tolist()) or live.table.entries:
        live.switch(HASH)
    stream = drawn([(25, 300.0, zipf(KEYS, 1.0))], seed=600 + run)
    live.run(stream, "default", 10_000, pad=100)
    folder = bench.out / f"journey-{run}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(live.storm.out / "counts", folder / "counts")  # the last ten seconds that each task counted
    with contextlib.chdir(folder):
        for line in ("import storm counts --out w", "plan w --max-migrations 20 --phase-moves 10 --out plan.json",
                     "export plan.json --to storm --counts counts --out tables"):  # fmt: skip
            assert main_of_shell(line.split()) == 0
    stream = drawn([(60, 300.0, zipf(KEYS, 1.0))], seed=700 + run)
    start = live.begin(stream, "default", 10_000, pad=100)
    time.sleep(start + 12 - time.monotonic())
    plan, marks = read_plan(folder / "plan.json"), [(0.0, 12.0)]
    for name in ("plan", "undo"):
        shutil.copy(folder / "tables" / f"{name}.json", live.storm.out / "plan.tmp")
        (live.storm.out / "plan.tmp").rename(live.storm.out / "plan.json")
        live.epoch += len(plan.phases)
        live.until(lambda: live.switched(live.epoch) == TASKS, 60)
        begin = time.monotonic() - start
        time.sleep(12)
        marks.append((begin, begin + 12))
    made = live.finish(start, stream)
    loads = [plan.loads_before, plan.loads_after, plan.loads_before]
    for state, planned, (low, high) in zip(("before", "carried out", "undone"), loads, marks, strict=True):
        inside = made["due"].between(low, high)
        kept.add({"run": run, "table": state, "phases": len(plan.phases), "moves": len(plan), "ratio of the counts": float(planned.max() / planned.mean()),
                  "ratio measured": ratio(made["task"].to_numpy()[inside]), "failed tuples": int((made["tries"] > 1).sum())})  # fmt: skip


PARTS = {
    "throughput": throughput,
    "latency": latency,
    "routing": routing,
    "figures": throughput_of_tables,
    "moving": moving,
    "allocation": allocation,
    "journey": journey,
    "restarting": restarting,
}


def warmed(storm: Storm) -> Live:
    """A topology that has run compiled code, and of which the turns of its shuffling are known."""
    live, stream = Live(storm), drawn([(10, 400.0, zipf(KEYS, 0.5))], seed=9)
    storm.ahead()
    for way in ("default", "fields", "shuffle", live.fresh()):
        live.run(stream._replace(seconds=3.0), way, 2_000, pending=400)
    return live


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=[*PARTS, "kills"], default=[*PARTS, "kills"])
    parser.add_argument("--runs", type=int, default=2, help="runs of each setting, in turn")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="short runs, for a look")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    given = parser.parse_args()
    alone()
    given.out.mkdir(parents=True, exist_ok=True)
    print("load of the machine:", os.getloadavg(), flush=True)
    parts = [name for name in PARTS if name in given.parts]
    if parts:
        with running() as storm:
            bench = Bench(warmed(storm), given.out, given.runs, given.quick)
            for run in range(given.runs):
                for name in parts:
                    PARTS[name](bench, run)
                    if name == "restarting" and run + 1 < given.runs:
                        bench.live = warmed(storm)
    if "kills" in given.parts:
        kills(given.out, given.kills)
    print("load of the machine:", os.getloadavg())
    return write(given.out)


if __name__ == "__main__":
    sys.exit(main())
