"""[Ding2015]: figures 12 to 15 and 17 and Table 3 on word-count loads and hourly flights, and the sizes that are reached.

Loads and states: the words of `count_1w.txt` hashed to m tasks, the load of a task the count of its words, its state their number; without
the file a flattened Zipf law of 100,000 words. The hash is the first under which every count from 8 to 16 nodes is feasible at tau = 0.2.
Node counts: hourly departures of 2013 scaled to 8..16; the transition matrix counts the real changes of January to November, the 100
consecutive migrations are the first of December. Costs are mean shares of all the state; gamma = 0.8; CPU times of one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

import keyshift as ks
from keyshift.generators.mclb import read_counts
from keyshift.generators.real import data_file, flights
from keyshift.heuristics.intervals.baselines import consistent_hashing, nodes_alive, redist, storm
from keyshift.models import Budget
from keyshift.models.base.compiling import COMPILING
from keyshift.models.errors import InputError
from keyshift.models.intervals.partition import Prefix, cuts_of
from keyshift.models.intervals.policy.transitions import node_counts, transition_matrix
from keyshift.papers.page import Page, best_of, by_method, studied
from keyshift.solvers.intervals.band_kernels import band_cuts, weights
from keyshift.solvers.intervals.owners import Owners
from keyshift.solvers.intervals.policy.policy_iteration import PolicyIteration, census
from keyshift.solvers.intervals.printed import ssm_repaired
from keyshift.solvers.intervals.sequence.oms import solve_oms
from keyshift.solvers.intervals.ssm import keepable, solve_ssm

LOW, HIGH, TASKS, TAU, GAMMA = 8, 16, 64, "0.2", 0.8
MOST_PARTITIONS = 900_000


@cache
def words() -> np.ndarray:
    try:
        return read_counts(data_file("count_1w.txt"))[1]
    except InputError:
        return np.rint(1e9 / np.arange(20, 100_020))


def balanced(tasks: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Loads and states under a hash for which every node count is feasible: the first one of the seed."""
    for salt in range(1000 * seed, 1000 * seed + 1000):
        task = np.random.default_rng(salt).integers(0, tasks, words().size)
        prefix = Prefix(load := np.bincount(task, words(), tasks))
        if all(prefix.conflict(Fraction(TAU), n, range(tasks)) is None for n in range(LOW, HIGH + 1)):
            return load, np.bincount(task, minlength=tasks).astype(float)
    raise InputError(f"no hash of 1000 makes m = {tasks} feasible at tau = {TAU}")


@cache
def histories() -> tuple[list[int], list[int]]:
    """Node counts of January to November, and of December."""
    hourly = flights().groupby("ts").size().asfreq("h", fill_value=0)
    counts, past = node_counts(hourly.to_numpy(), LOW, HIGH).tolist(), int((hourly.index < "2013-12-01").sum())
    return counts[:past], counts[past:]


def workload(load: np.ndarray, state: np.ndarray, nodes: int) -> ks.Workload:
    """Start from a feasible partition into so many nodes: single-step migration from one node that has it all."""
    one = ks.Workload(load=load, state=state, current=np.zeros(load.size), nodes=1)
    start = ssm(ks.IntervalMigration(one, nodes, TAU))
    return ks.Workload(load=load, state=state, current=np.unique(start, return_inverse=True)[1], nodes=nodes)


def ssm(problem: ks.IntervalMigration) -> np.ndarray:
    return solve_ssm(problem, budget=Budget()).assignment


Made = Iterator[tuple[np.ndarray, np.ndarray]]
"""Migrations: the assignments before and after each."""


def mean_cost(w: ks.Workload, made: Made) -> float:
    """Mean state moved by a migration, as a share of all the state."""
    return float(np.mean([w.state[after != before].sum() for before, after in made]) / w.state.sum())


def migrations(w: ks.Workload, counts: list[int], tau: str, step: Callable[[ks.IntervalMigration], np.ndarray]) -> Made:
    """Those of a strategy that sees one step."""
    now = w
    for n in counts:
        contiguous = cuts_of(now.current).size - 1 == np.unique(now.current).size
        after = step(ks.IntervalMigration(now, n, tau) if contiguous else loose(now, n, tau))
        yield now.current, after
        names, number = np.unique(after, return_inverse=True)
        now = ks.Workload(load=w.load, state=w.state, current=number, nodes=max(n, names.size))


def loose(w: ks.Workload, nodes_after: int, tau: str) -> Any:
    """What the baselines read of a problem, for assignments that are not in intervals."""
    prefix = Prefix(w.last_load)
    limit, nodes = prefix.limit(Fraction(tau), nodes_after), max(w.nodes, nodes_after)
    return SimpleNamespace(workload=w, nodes_after=nodes_after, prefix=prefix, limit=limit, places=nodes)


def policy_migrations(w: ks.Workload, counts: list[int], policy: object) -> Made:
    """Those of a policy that knows the transition matrix."""
    prefix, owners, n = weights(w.state).prefix, Owners(w.current, list(range(w.nodes)), w.nodes), w.nodes
    for after in counts:
        before = owners.assignment
        cuts = policy.decide(n, cuts_of(before), after)  # type: ignore[attr-defined]
        yield before, owners.migrate(cuts, after, prefix)
        n = after


def milliseconds(work: Callable[[], object], repeat: int = 1) -> float:
    """CPU time of this thread, compiled and warm, the least of some runs: the machine may be shared."""
    with COMPILING.at_once():
        return 1e3 * best_of(repeat + 1, work)[1]


def band(problem: ks.IntervalMigration, traced: bool = True) -> Callable[[], object]:
    return partial(band_cuts, problem.starts, problem.old_cuts, keepable(problem).prefix, problem.nodes_after, traced)


def policy_row(w: ks.Workload, counts: list[int], tau: str, gamma: float) -> dict[str, float]:
    """MTM: what it costs, and what its precomputation takes."""
    problem = ks.MigrationPolicy(w, transition_matrix(histories()[0]), tau, gamma)
    size = sum(census(problem).values())
    if size > MOST_PARTITIONS:  # beyond enumeration: values that are sums over intervals, and a bound on the optimum
        s = ks.solve(problem, "potentials", effort=5)
        per_step = (1 - gamma) / problem.scale
        ours = (
            {"potentials, a step": s.objective * per_step, "least, a step": s.bound * per_step} if s.objective else {}
        )
        return {"partitions": size, **ours, "precompute, s": s.seconds}
    iteration = PolicyIteration(problem)
    took = best_of(1, iteration.run, Budget(), 1e-7)[1]
    return {"mtm": mean_cost(w, policy_migrations(w, counts, iteration.policy())), "partitions": size, "rounds": iteration.rounds,
            "precompute, s": took, "gap over state": iteration.gap / problem.scale}  # fmt: skip


def patterns(
    tasks: int, seed: int = 0, tweets: int = 20_000, frequent: int = 50
) -> tuple[np.ndarray, np.ndarray, float]:
    """Loads and states of the detector of frequent patterns (Figure 10), a window's worth; and what share of its tuples comes back to it.

    A tweet is six words drawn by their frequency; its patterns are its words and pairs of words, each counted once as the tweet comes and
    once as it leaves the window. The loop: each frequent pair is fed back to the tasks of its two words, to suppress them, each time that it
    is counted. Spark counts this log by a topology with that loop. The state of a task is its number of counters; patterns are hashed to tasks.
    """
    from keyshift.spark_stats import Operator, Topology, collect, local_session

    rng = np.random.default_rng(seed)
    share = words()[:20_000] / words()[:20_000].sum()
    rows = np.sort(rng.choice(share.size, (tweets, 6), p=share), axis=1)
    first, second = np.triu_indices(6, 1)
    pairs = (1 + rows[:, first]) * share.size + rows[
        :, second
    ]  # a word has its number, a pair a number behind all words
    tweet = np.arange(tweets)[:, None]
    log = pd.DataFrame({"tweet": np.tile(tweet, 21).ravel(), "pattern": np.hstack([rows, pairs]).ravel()})
    log = log[log["pattern"] % share.size != log["pattern"] // share.size - 1]  # a word twice is no pair
    log["new"] = ~log.duplicated("pattern")
    often = log["pattern"].map(log["pattern"].value_counts()).gt(frequent) & (log["pattern"] >= share.size)
    pair = log.loc[often, "pattern"].to_numpy()
    back = pd.DataFrame(
        {
            "pattern": np.concatenate([pair // share.size - 1, pair % share.size]),
            "sender": np.tile(pair, 2),
            "new": False,
        }
    )
    topology = Topology(
        [
            Operator("generator", "tweet", filter="sender is null"),
            Operator("detector", "pattern", cost="2", state="int(new)"),
        ],
        [("generator", "detector"), ("detector", "detector", "sender")],
    )
    with local_session("patterns") as spark:
        whole = pd.concat([log, back], ignore_index=True).astype({"tweet": "Int64", "sender": "Int64"})
        with collect(spark.createDataFrame(whole), topology, key_groups=tasks) as stats:
            assert not stats.rejected_counts()
            keys = stats.keys("detector").frame.toPandas().sort_values("key", ignore_index=True)
            sent = (
                stats.traffic.groupBy("src_operator").sum("tuples").toPandas().set_index("src_operator")["sum(tuples)"]
            )
    for salt in range(1000 * seed, 1000 * seed + 1000):
        task = np.random.default_rng(salt).integers(0, tasks, len(keys))
        prefix = Prefix(load := np.bincount(task, keys["load"], tasks))
        if all(prefix.conflict(Fraction(TAU), n, range(tasks)) is None for n in range(LOW, HIGH + 1)):
            return load, np.bincount(task, keys["state"], tasks), sent.get("detector", 0) / sent.sum()
    raise InputError(f"no hash of 1000 makes m = {tasks} feasible at tau = {TAU}")


def ring(problem: ks.IntervalMigration, seed: int = 0, points: int = 64) -> np.ndarray:
    """Consistent hashing as [Karger1997] has it: each node at so many points of a ring, each task at the next one after its own."""
    alive, m = nodes_alive(problem), problem.workload.key_groups
    at = np.concatenate([np.random.default_rng([1, int(node), seed]).random(points) for node in alive])
    order = np.argsort(at)
    place = np.searchsorted(at[order], np.random.default_rng([2, seed]).random(m)) % at.size
    return alive[order[place] // points]


def start(page: Page, tasks: int | None = None) -> tuple[ks.Workload, list[int]]:
    """The tasks at the start of December - a quick run has 48, of fewer partitions -, and the real changes that follow."""
    series = np.array(histories()[1])
    counts = series[np.flatnonzero(np.diff(series, prepend=-1))][: 21 if page.quick else 101].tolist()
    return workload(*balanced(tasks or (48 if page.quick else TASKS), page.seed), counts[0]), counts[1:]


def by_tau(page: Page) -> None:
    """Figures 12 and 14: the tolerance tau."""
    (w, counts), rows = start(page), []
    for tau in (TAU,) if page.quick else (TAU, "0.21", "0.22", "0.25", "0.3", "0.4", "0.5"):
        hashes = [
            partial(consistent_hashing, rng=np.random.default_rng([page.seed, s]))
            for s in range(3 if page.quick else 20)
        ]
        costs = {name: mean_cost(w, migrations(w, counts, tau, step)) for name, step in (("ssm", ssm), ("storm", storm), ("redist", redist))}  # fmt: skip
        rows.append({"tau": float(tau), **costs, "consistent hashing": np.mean([mean_cost(w, migrations(w, counts, tau, step)) for step in hashes]),
                     **policy_row(w, counts, tau, GAMMA)})  # fmt: skip
    rows = pd.DataFrame(rows).assign(**{"ssm over mtm": lambda f: f["ssm"] / f["mtm"]})
    frame, cost, ticks = page.table(rows, "by_tau"), "state moved, % of all", [3, 5, 10, 20, 50]
    long = frame.melt("tau", ["storm", "redist", "consistent hashing", "ssm", "mtm"], "strategy", cost)
    page.draw("by_tau", "As Figures 12 and 14.",
              {"frame": long.assign(**{cost: 100 * long[cost]}), "x": "tau", "y": cost, "by": "strategy", "yscale": "log",
               "title": "Figure 12: cost of a migration", "yticks": ticks, "yticklabels": ticks},
              {"frame": frame.dropna(subset="mtm"), "x": "tau", "y": "precompute, s", "title": "Figure 14: precomputation of MTM"}, size=(4.3, 3.6))  # fmt: skip


def times_by_tau(page: Page) -> None:
    """Figure 13: SSM's time by the tolerance, as printed and repaired, and ours by bands: the first migration, least of some runs."""
    (w, counts), rows = start(page), []
    for tau in (TAU, "0.5") if page.quick else (TAU, "0.25", "0.3", "0.4", "0.5"):
        problem = ks.IntervalMigration(w, counts[0], tau)
        printed = milliseconds(partial(ssm_repaired, problem, budget=Budget()), 20)
        rows.append({"tau": float(tau), "Figure 7, repaired, ms": printed, "band, ms": milliseconds(band(problem), 50)})
    frame = page.table(rows, "times_by_tau").melt("tau", var_name="program", value_name="ms")
    page.draw(
        "times_by_tau",
        "As Figure 13.",
        {"frame": frame, "x": "tau", "y": "ms", "by": "program", "yscale": "log"},
        size=(4.3, 3.6),
    )


def frequent_patterns(page: Page) -> None:
    """Figures 10 and 12: the second application, sliding-window frequent patterns, by the tolerance; and the word count beside it.

    *ring* is consistent hashing with 64 points a node; its fullest node exceeds every tolerance, as that of the even *consistent hashing* does.
    """
    (w, counts), rows = start(page), []
    for application, (load, state, back) in (
        ("word count", (w.last_load, w.state, 0.0)),
        ("frequent patterns", patterns(w.key_groups, page.seed)),
    ):
        first = workload(load, state, w.nodes)
        for tau in (TAU, "0.5") if page.quick else (TAU, "0.3", "0.4", "0.5"):
            steps = {"ssm": ssm, "storm": storm, "redist": redist, "ring": partial(ring, seed=page.seed),
                     "consistent hashing": partial(consistent_hashing, rng=np.random.default_rng(page.seed))}  # fmt: skip
            costs = {name: mean_cost(first, migrations(first, counts, tau, step)) for name, step in steps.items()}
            full = np.mean([n * np.bincount(after, load).max() / load.sum() for n, (_, after) in zip(
                counts, migrations(first, counts, tau, steps["ring"]), strict=True)])  # fmt: skip
            most = policy_row(first, counts, tau, GAMMA) if tau == TAU else {}
            rows.append({"application": application, "tau": float(tau), **costs, "mtm": most.get("mtm"),
                         "heaviest task over the mean": float(load.max() / load.mean()), "comes back, %": 100 * back, "ring, fullest over the mean": full})  # fmt: skip
    frame = pd.DataFrame(rows)
    at_first = frame.groupby("application")["ssm"].transform("first")
    page.table(frame.assign(**{"ssm over that at 0.2": frame["ssm"] / at_first}), "frequent_patterns")


def by_tasks(page: Page) -> None:
    """Figure 15: the number of tasks."""
    rows = []
    for m in (64, 128) if page.quick else (64, 128, 256, 512, 1024, 2048, 4096):
        w, counts = start(page, m)
        problem = ks.IntervalMigration(w, counts[0], TAU)
        slow = milliseconds(partial(ssm_repaired, problem, budget=Budget())) if m <= 1024 else np.nan
        rows.append({"m": m, "band, ms": milliseconds(band(problem), 50), "Figure 7, repaired, ms": slow,
                     "ssm": mean_cost(w, migrations(w, counts, TAU, ssm))})  # fmt: skip
    frame = page.table(rows, "by_tasks")
    times = frame.melt("m", ["band, ms", "Figure 7, repaired, ms"], "program", "ms")
    page.draw("by_tasks", "As Figure 15.",
              {"frame": times, "x": "m", "y": "ms", "by": "program", "xscale": "log", "yscale": "log", "title": "time of SSM"},
              {"frame": frame, "x": "m", "y": "ssm", "xscale": "log", "ylabel": "share of the state moved", "title": "cost of SSM",
               "ylim": (0, None)}, size=(4.5, 3.4))  # fmt: skip


def by_gamma(page: Page) -> None:
    """Figure 17: the discount."""
    w, counts = start(page)
    gammas = (0.0, 0.2) if page.quick else (0.0, 0.4, 0.8, 0.95)
    single = mean_cost(w, migrations(w, counts, TAU, ssm))
    frame = page.table([{"gamma": g, "ssm": single, **policy_row(w, counts, TAU, g)} for g in gammas], "by_gamma")
    page.draw("by_gamma", "As Figure 17: MTM's cost (share of the state moved), and its precomputation, over the discount.",
              *({"frame": frame, "x": "gamma", "y": y} for y in ("mtm", "precompute, s")), size=(4.5, 3.2))  # fmt: skip


def known_sequences(page: Page) -> None:
    """Known sequences: OMS against repeated SSM."""
    rng, walk = np.random.default_rng(1), [12]
    while len(walk) < (11 if page.quick else 101):
        if LOW <= (n := walk[-1] + int(rng.choice([-2, -1, 1, 2]))) <= HIGH:
            walk.append(n)
    uniform = rng.integers(50, 151, TASKS).astype(float)
    table3 = ks.Workload(load=np.ones(20), state=np.ones(20), current=np.repeat([0, 1], [13, 7]), nodes=2)
    drawn = [({"instance": name, "steps": len(counts), "state": w.state.sum()}, ks.MigrationSequence(w, counts, tau))
             for name, w, counts, tau in (
        ("Table 3", table3, [3, 4], "0.4"), ("words, flights", *start(page), TAU),
        ("uniform 50-150, steps of 1 and 2", workload(uniform, uniform, walk[0]), walk[1:], TAU))]  # fmt: skip
    frame, took = (
        studied(drawn, ["oms", "ssm"]),
        [best_of(1, solve_oms, problem, budget=Budget())[1] for _, problem in drawn],
    )
    of = by_method(frame.assign(mean=frame["objective"] / frame["steps"] / frame["state"]), "instance", "steps")
    oms, greedy = of["oms"], of["ssm"]
    page.table({"oms": oms["mean"], "ssm": greedy["mean"], "oms, total": oms["objective"], "ssm, total": greedy["objective"],
                "saved": 1 - oms["objective"] / greedy["objective"], "oms, s": took, "proven": oms["status"] == "optimal"},
               "known_sequences")  # fmt: skip


def sizes(page: Page) -> None:
    """Sizes, milliseconds."""
    rng, rows = np.random.default_rng(0), []
    cases = [(64, 8, 16, "0.4"), (1000, 32, 40, "0.2"), (10_000, 100, 120, "0.2"), (100_000, 1000, 1200, "0.2"),
             (100_000, 1200, 1000, "0.2"), (100_000, 100_000, 100, "0.2")]  # fmt: skip
    for m, n, after, tau in cases[: 3 if page.quick else None]:
        load = rng.integers(50, 151, m)
        sums = np.concatenate(([0], np.cumsum(load)))
        current = np.minimum(sums[:-1] * n // sums[-1], n - 1) if n < m else np.arange(m)
        w = ks.Workload(load=load, state=rng.integers(1, 1000, m), current=current, nodes=n)
        problem, repeat = ks.IntervalMigration(w, after, tau), 500 if m == 64 else 5 if m < 100_000 else 1
        anew = partial(lambda *step: ks.solve(ks.IntervalMigration(*step)), w, after, tau)  # with what a problem remembers  # fmt: skip
        rows.append({"m": m, "n": n, "n after": after, "tau": float(tau), "value only": milliseconds(band(problem, False), repeat),
                     "with the partition": milliseconds(band(problem), repeat), "solve": milliseconds(anew, repeat),
                     "lagrangian": milliseconds(partial(ks.solve, problem, "lagrangian"))})  # fmt: skip
    page.table(rows, "sizes")


def table_3(page: Page) -> None:
    """Table 3: 20 unit tasks, 13 and 7 on two nodes, then three nodes, then four; tau = 0.4."""
    w = ks.Workload(load=np.ones(20), state=np.ones(20), current=np.repeat([0, 1], [13, 7]), nodes=2)
    found = {method: ks.solve(ks.MigrationSequence(w, [3, 4], "0.4"), method) for method in ("oms", "ssm")}
    page.table([{"method": method, "moved": s.objective, "status": s.status, **{
        f"tasks, step {step + 1}": " ".join(map(str, np.bincount(at)[np.bincount(at) > 0])) for step, at in enumerate(s.assignment)}}
        for method, s in found.items()], "table_3")  # fmt: skip


def appendix_a(page: Page) -> None:
    """Appendix A: twelve tasks, two of them of twice the load, on two nodes, and one node more.

    On two nodes six tasks each: five light and a heavy one. Consistent hashing, which counts tasks, draws anew where they lie: in how many
    of its draws one node has both heavy ones; and what moves when the third node comes, the mean of 1,000 draws.
    """
    load = np.array([1.0] * 5 + [2.0, 2.0] + [1.0] * 5)
    w = ks.Workload(load=load, state=np.ones(12), current=np.repeat([0, 1], 6), nodes=2)
    problem, rng = ks.IntervalMigration(w, 3, "0.1"), np.random.default_rng(page.seed)
    draws = [rng.permutation(np.repeat([0, 1], 6)) for _ in range(1000)]
    both = [bool(at[5] == at[6]) for at in draws]
    after = {"ssm": [ssm(problem)], "consistent hashing": [consistent_hashing(problem, rng) for _ in draws]}
    page.table([{"method": method, "tasks moved": np.mean([(at != w.current).sum() for at in made]),
                 "fullest": np.mean([np.bincount(at, load).max() for at in made]),
                 "both on one, %": 100 * np.mean(both) if method != "ssm" else 0.0} for method, made in after.items()], "appendix_a")  # fmt: skip


def table_4(page: Page) -> None:
    """Table 4: how likely a sequence of node counts is."""
    matrix = pd.DataFrame([[0.3, 0.6, 0.1], [0.3, 0.4, 0.3], [0.1, 0.5, 0.4]], index=[2, 3, 4], columns=[2, 3, 4])
    page.table([{"sequence": ", ".join(map(str, counts)), "probability": np.prod([matrix.loc[step] for step in pairwise(counts)])}
                for counts in product((2, 3, 4), repeat=3)], "table_4")  # fmt: skip


def printed(page: Page) -> None:
    """Lemmas 4.1 to 4.5 and Figure 7: how often the program as printed is wrong, on small instances drawn at random."""
    rng, rows = np.random.default_rng(page.seed), []
    for _ in range(300 if page.quick else 2_000):
        m, n, after = int(rng.integers(1, 9)), int(rng.integers(1, 6)), int(rng.integers(1, 6))
        current = np.unique(np.sort(rng.integers(0, n, m)), return_inverse=True)[1]
        w = ks.Workload(
            load=rng.integers(1, 21, m), state=rng.integers(1, 10, m), current=current, nodes=int(current.max()) + 1
        )
        problem = ks.IntervalMigration(w, after, str(rng.choice(["0.1", "0.2", "0.4", "1"])))
        least, said = (ks.solve(problem, method) for method in ("ssm", "ssm-printed"))
        if least.objective is not None:
            wrong = (
                "no answer" if said.objective is None else "moves more" if said.objective > least.objective else "right"
            )
            rows.append({"as printed": wrong})
    counts = pd.DataFrame(rows)["as printed"].value_counts()
    page.table([{"feasible": len(rows), **{what: int(counts.get(what, 0)) for what in ("right", "moves more", "no answer")},
                 "wrong, %": 100 * (1 - counts.get("right", 0) / len(rows))}], "printed")  # fmt: skip
