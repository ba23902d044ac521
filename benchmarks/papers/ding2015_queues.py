"""[Ding2015], figures 11 and 16, simulated."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd

import keyshift as ks
from keyshift.heuristics.intervals.baselines import consistent_hashing, storm
from keyshift.models import Budget
from keyshift.papers import ding2015 as intervals
from keyshift.papers.page import Page
from keyshift.papers.queues import BANDWIDTH, RATE, ms
from keyshift.solvers.intervals.policy.policy_iteration import PolicyIteration
from keyshift.solvers.intervals.schedule import schedule


def ding(page: Page) -> None:
    """[Ding2015], Figure 11: ten workers become eight in the seventh minute.

    64 tasks of words; SSM moves tasks live, at once or in phases of at most one task a link; Storm stops all workers, writes
    all state to a file server and reads it again. Eight workers are at 80 % of their capacity; ours: state worth 120 s of
    tuples, 10,000 tuples of it a second and node.
    """
    load, state = intervals.balanced(64, page.seed)
    w, rows, table = intervals.workload(load, state, 10), [], []
    rate = load * (0.8 * 8 * RATE / load.sum())
    kept = 120 * rate.sum() * state / state.sum()
    after, everywhere = intervals.ssm(ks.IntervalMigration(w, 8, "0.2")), storm(ks.IntervalMigration(w, 8, "0.2"))
    phases = schedule(w, after).assignments()
    reads = [np.bincount(a, kept).max() / BANDWIDTH for a in (w.current, everywhere)]
    for name, target, how in (("live, in phases", phases, ks.simulation.Migration(BANDWIDTH, kept)), ("live, at once", after, ks.simulation.Migration(BANDWIDTH, kept)),
                              ("stop and restart", everywhere, ks.simulation.Migration(seconds=sum(reads), pause="all"))):  # fmt: skip
        found = ks.simulate(
            rate * 840,
            w.current,
            [(420, target)],
            service_rate=RATE,
            nodes=10,
            window_seconds=840,
            migration=how,
            spans=14,
        )
        rows += [
            {"way": name, "minute": t / 60, "mean response time, s": latency}
            for t, latency in found.to_frame()[["seconds", "latency"]].to_numpy()
        ]
        last = target[-1] if isinstance(target, list) else target
        table.append({"way": name, "state moved, %": 100 * kept[last != w.current].sum() / kept.sum(), "held, s": found.paused, **ms(found),
                      "mean in minute 8, ms": 1e3 * found.latency[7]})  # fmt: skip
    page.table(table, "ding_11")
    page.draw("ding_11", "As Figure 11 of [Ding2015], simulated: mean response time by minute.",
              {"frame": pd.DataFrame(rows), "x": "minute", "y": "mean response time, s", "by": "way", "yscale": "log"}, size=(6, 3.8))  # fmt: skip


Steps = list[tuple[np.ndarray, np.ndarray]]
"""Migrations: the assignments before and after each."""


def compared(page: Page) -> tuple[list[int], np.ndarray, dict[str, Steps]]:
    """The counts of December, each task's share of what comes, and what every method makes of the counts."""
    first, counts = intervals.start(page)
    counts, load = counts[: 5 if page.quick else 100], first.last_load
    w, rate = intervals.workload(load, load, first.nodes), load / load.sum()  # what comes in a window is its state
    policy = PolicyIteration(
        ks.MigrationPolicy(w, intervals.transition_matrix(intervals.histories()[0]), intervals.TAU, intervals.GAMMA)
    )
    policy.run(Budget(), 1e-4)
    made = {"consistent hashing": intervals.migrations(w, counts, intervals.TAU, partial(consistent_hashing, rng=np.random.default_rng(page.seed))),
            "storm": intervals.migrations(w, counts, intervals.TAU, storm), "ssm": intervals.migrations(w, counts, intervals.TAU, intervals.ssm),
            "mtm": intervals.policy_migrations(w, counts, policy.policy()), "oms": known(w, counts)}  # fmt: skip
    return counts, rate, {method: list(steps) for method, steps in made.items()}


def known(w: ks.Workload, counts: list[int]) -> Steps:
    """The least that can move when all counts are known."""
    plan = ks.solve(ks.MigrationSequence(w, counts, intervals.TAU), "oms").assignment
    return list(pairwise([w.current, *plan]))


def ding_windows(page: Page) -> None:
    """[Ding2015], Figure 16: response time in the two minutes after a migration, by window size.

    The hundred real changes of flights in December, 8 to 16 workers, loads of words (see *Interval migration*), tau = 0.2; at
    n workers as much comes as n can serve to 80 %. The state is what comes in a window, moved live and at once; 10,000 tuples
    of it a second and node. Fluid: what waits, waits for state, or for a worker that gets more than it can serve. Milliseconds.
    """
    counts, rate, made = compared(page)
    rows = []
    for method in ("consistent hashing", "storm", "ssm", "mtm"):
        pairs = [(n, *step) for n, step in zip(counts, made[method], strict=True)]
        for window in (30, 60, 90, 120, 150):
            found = [ks.simulate(rate * (0.8 * RATE * n * 120), before, [(0, after)], service_rate=RATE, window_seconds=120, method="fluid",
                                 migration=ks.simulation.Migration(BANDWIDTH, rate * 0.8 * RATE * n * window)) for n, before, after in pairs]  # fmt: skip
            rows.append({"method": method, "window": window, "mean, ms": 1e3 * np.mean([one.latency_mean for one in found]),
                         "99 %, ms": 1e3 * np.mean([one.latency_p99 for one in found]), "held, s": np.mean([one.paused for one in found]),
                         "state moved, %": 100 * np.mean([rate[before != after].sum() for _, before, after in pairs]),
                         "fullest worker, %": 80 * np.mean([n * np.bincount(after, rate).max() for n, _, after in pairs])})  # fmt: skip
    frame = page.keep(rows, "ding_16")
    shown = frame.pivot(index="method", columns="window", values="mean, ms")
    page.table(shown.join(frame.groupby("method")[["state moved, %", "fullest worker, %"]].first()))
    page.draw("ding_16", "As Figure 16 of [Ding2015], simulated: mean response time in the two minutes after a migration.",
              {"frame": frame, "x": "window", "xlabel": "window, s", "y": "mean, ms", "by": "method", "yscale": "log"}, size=(6, 3.8))  # fmt: skip


WITHIN = (1, 10, 100, 1000, 5000)
"""Milliseconds."""


def distribution(page: Page) -> None:
    """[Ding2015], Figure 16(b): how response times are distributed in the two minutes after a migration, at a window of 90 s.

    Second by second over all migrations: what share of the results comes, in the mean of its second, within so many milliseconds.
    """
    counts, rate, made = compared(page)
    rows = []
    for method in ("consistent hashing", "storm", "ssm", "mtm"):
        took = [
            ks.simulate(rate * (0.8 * RATE * n * 120), before, [(0, after)], service_rate=RATE, window_seconds=120, method="fluid", spans=120,
                        migration=ks.simulation.Migration(BANDWIDTH, rate * 0.8 * RATE * n * 90))
            for n, (before, after) in zip(counts, made[method], strict=True)
        ]  # fmt: skip
        latency, arrived = (np.concatenate([getattr(one, of) for one in took]) for of in ("latency", "arrived"))
        some = arrived > 0
        shares = {
            f"within {t} ms, %": 100 * arrived[some][1e3 * latency[some] <= t].sum() / arrived.sum() for t in WITHIN
        }
        rows.append({"method": method, **shares, "largest, ms": 1e3 * max(one.latency_max for one in took)})
    page.table(rows, "distribution")


def ding_waiting(page: Page) -> None:
    """Why MTM is not ahead of SSM in Figure 16.

    The same migrations at a window of 90 s, with OMS, which knows all counts in advance. Waiting grows with the SQUARE of what one worker
    receives: of the waiting time of a migration, the sum over the workers of (state received)^2 / (1 - load after it) explains the share
    below, the state moved less. MTM has promised the least state on average over the chain that it knows, and keeps it: it
    moves less when nodes go, and pays with more, on fewer workers, when five nodes or more come at once, which is
    rare. Those few decide the mean response time; in most migrations MTM's is lower or the same, and its median is.
    """
    counts, rate, made = compared(page)
    rows = []
    for method in ("ssm", "mtm", "oms"):
        for i, (n, (before, after)) in enumerate(zip(counts, made[method], strict=True)):
            moved = before != after
            took = ks.simulate(rate * (0.8 * RATE * n * 120), before, [(0, after)], service_rate=RATE, window_seconds=120, method="fluid",
                               migration=ks.simulation.Migration(BANDWIDTH, rate * 0.8 * RATE * n * 90))  # fmt: skip
            load = 0.8 * n * np.bincount(after, rate)
            got = n * np.bincount(after[moved], rate[moved], load.size)
            rows.append({"migration": i, "method": method, "more": n - np.unique(before).size, "state moved, %": 100 * rate[moved].sum(),
                         "mean, ms": 1e3 * took.latency_mean, "squares": (got**2 / np.maximum(1 - load, 0.03)).sum()})  # fmt: skip
    frame = pd.DataFrame(rows)
    kind = pd.cut(frame["more"], [-99, 0, 4, 99], labels=["fewer nodes", "1 to 4 more", "5 or more"])
    columns = {"all": frame.index >= 0, **{name: kind == name for name in kind.cat.categories}}
    found = {name: frame[at].groupby("method") for name, at in columns.items()}
    page.table([{"method": method, "median, ms": found["all"]["mean, ms"].median()[method],
                 **{f"{what}, {unit}": groups[of].mean()[method] for what, groups in found.items()
                    for unit, of in (("ms", "mean, ms"), ("moved, %", "state moved, %")) if method in groups.groups}}
                for method in ("ssm", "mtm", "oms")], "ding_waiting")  # fmt: skip
    waits = frame.pivot(index="migration", columns="method", values="mean, ms")
    ahead, equal = ((waits["mtm"] - waits["ssm"] < -1e-9).sum(), np.isclose(waits["mtm"], waits["ssm"]).sum())
    share = {of: frame["mean, ms"].corr(frame[of]) ** 2 for of in ("squares", "state moved, %")}
    difference = waits["mtm"] - waits["ssm"]
    error = difference.std() / np.sqrt(len(difference))
    page.say(f"MTM's mean is lower in {ahead} of {len(waits)} migrations, the same in {equal}; the difference of the means is {difference.mean():.1f} ms, its",
             f"standard error {error:.1f} ms. Explained of the variance of waiting: by the squares {share['squares']:.0%}, by the state moved {share['state moved, %']:.0%}.")  # fmt: skip
