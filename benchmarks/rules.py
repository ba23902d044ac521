"""What rules cost the default: answers under racks, counts and capacities, their gaps and seconds, beside the same without rules.

The last part is a cluster as one meets it: 40 brokers in three racks, 50,000 replicas of 3,000 topics, two dead brokers and disks that
are 85 % full.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from cruise_control_goals import BALANCE, MARGIN, goals, most_of_topic
from page import run
from rebalancer import FORMULAS, ask

import keyshift as ks
from keyshift.engines.kafka import made_of, replica_rules
from keyshift.engines.kafka_files import Partition
from keyshift.engines.kafka_replicas import Shares, lists_of, members_of, traffic
from keyshift.generators.allocation import replicated, synthetic_workload
from keyshift.papers.page import Page
from keyshift.rules import Apart, Count, Moves, Never, Pinned, Rule, Spread, Together, Use

SIZES = ((20, 400), (40, 800), (60, 1_200), (200, 10_000))


def ladder(w: ks.Workload, rng: np.random.Generator) -> Iterator[tuple[str, list[Rule]]]:
    """More and more rules."""
    count = Count(at_most=int(np.bincount(w.current, minlength=w.nodes).max()))
    yield "none", []
    yield "apart by node", [Apart(by="partition")]
    yield "racks and counts", [Apart(by="partition", domain="rack"), count]
    pins = Pinned(sorted(rng.choice(w.key_groups, w.key_groups // 5, replace=False).tolist()))
    yield "racks, counts, a fifth pinned", [Apart(by="partition", domain="rack"), count, pins]


def sizes(page: Page) -> None:
    """The price of rules, size by size.

    Up to 5 % of the key groups may move; disks are 30 % larger than the mean. Means over the seeds; distance and bound in percent
    of the mean load.
    """
    rows = []
    for nodes, key_groups in SIZES[: 2 if page.quick else None]:
        for seed in range(page.given.seed, page.given.seed + (1 if page.quick else page.given.seeds)):
            rng = np.random.default_rng([seed, nodes])
            w = replicated(rng, nodes, key_groups)
            room = float(
                max(1.3 * w.resources["disk"].sum() / nodes, np.bincount(w.current, w.resources["disk"]).max())
            )
            for name, rules in ladder(w, rng):
                problem = ks.KeyGroupAllocation(
                    w, max_migrations=w.key_groups // 20, resource_capacity={"disk": room}, rules=rules
                )
                began = time.process_time()
                answer = ks.solve(problem, time_limit=page.given.seconds, gap=0)
                rows.append(
                    {
                        "size": f"{nodes}/{w.key_groups}",
                        "rules": name,
                        "distance %": 100 * answer.objective / problem.scale,
                        "bound %": 100 * answer.bound / problem.scale,
                        "seconds": time.process_time() - began,
                    }
                )
                assert not problem.check(answer.assignment).violations
    frame = pd.DataFrame(rows)
    page.keep(frame, "sizes")
    page.table(frame.groupby(["size", "rules"], sort=False).mean().round(4).reset_index())


def beside(page: Page) -> None:
    """Beside Meta's Rebalancer, CP-SAT and HiGHS, with rules.

    Replicas of a partition in different racks (and so on different nodes), counts, disks 30 % larger than the mean, at most 5 % of the
    key groups moved; the same seconds for all. Rebalancer 1.0.4 runs its local search with single moves and swaps, once for each of
    its four formulas of balance, of which the best counts; all answers are valued by our check. Statements are given to CP-SAT
    and HiGHS up to 1,000 key groups. Distance and bound in percent of the mean load, means over the seeds.
    """
    rows = []
    for nodes, key_groups in SIZES[: 1 if page.quick else None]:
        for seed in range(page.given.seed, page.given.seed + (1 if page.quick else page.given.seeds)):
            _, problem = next(ks.family("replicas-allocation", nodes=nodes, key_groups=key_groups, seed=seed))
            w = problem.workload
            label = {"size": f"{nodes}/{w.key_groups}", "seed": seed}
            answer = ks.solve(problem, time_limit=page.given.seconds, gap=0)
            bound = answer.bound or 0
            rows.append({**label, "method": "keyshift", **valued(problem, answer.assignment, bound)})
            for method in ("cp-sat", "highs") if key_groups <= 1_000 else ():
                other = ks.solve(problem, method, time_limit=page.given.seconds, gap=0)
                rows.append({**label, "method": method, **valued(problem, other.assignment, bound)})
            if page.given.rebalancer:
                theirs = [
                    rebalanced(problem, page.given.rebalancer, formula, page.given.seconds) for formula in FORMULAS
                ]
                kept = [at for at in theirs if problem.check(at).feasible]
                best = min(kept, key=problem.objective, default=theirs[0])
                rows.append({**label, "method": "rebalancer", **valued(problem, best, bound)})
            page.keep(rows, "beside")
    frame = pd.DataFrame(rows)
    page.table(frame.groupby(["size", "method"], sort=False).mean().drop(columns="seed").round(4).reset_index())


def scattered(w: ks.Workload, rng: np.random.Generator) -> list[Rule]:
    """300 pairs of key groups apart and 1,000 pairs of key group and node closed, all of which today's placement keeps."""
    k, other = rng.integers(w.key_groups, size=(2, 4_000))
    apart = np.unique(np.sort([k, other], axis=0)[:, w.current[k] != w.current[other]], axis=1)
    node = rng.integers(w.nodes, size=k.size)
    closed = np.unique(np.array([node, k])[:, w.current[k] != node], axis=1)
    closed = closed[:, np.sort(rng.choice(closed.shape[1], 1_000, replace=False))]
    return [
        *(Apart(pair.tolist()) for pair in apart[:, rng.choice(apart.shape[1], 300, replace=False)].T),
        *(Never(closed[1, closed[0] == i].tolist(), [int(i)]) for i in np.unique(closed[0])),
    ]


def speed(page: Page) -> None:
    """What many rules cost in time.

    40 nodes, 800 key groups, 300 `Apart` of two key groups each and 1,000 closed pairs (`Never`): the default of allocation for
    twelve rounds of few moves and three of any, with and without the rules in turns; processor seconds, the median over the seeds.
    """
    rows = []
    w = synthetic_workload(40, 800, varies=0.6, seed=page.given.seed)
    rules = scattered(w, np.random.default_rng(page.given.seed))
    for moves in (40, None):
        posed = [ks.KeyGroupAllocation(w, max_migrations=moves, rules=given) for given in ([], rules)]
        for seed in range(1 if page.quick else page.given.seeds):
            row = {"moves": "40" if moves else "any"}
            for name, problem in zip(("without", "with"), posed, strict=True):
                ks.warm_up(problem)
                if not seed:
                    ks.solve(problem, "milp", rounds=6 if moves else 2, gap=0)
                began = time.process_time()
                answer = ks.solve(problem, "milp", rounds=12 if moves else 3, gap=0, seed=seed)
                row[f"{name} rules, s"] = time.process_time() - began
                row[f"{name}, distance %"] = 100 * answer.objective / problem.scale
            rows.append(row)
    frame = pd.DataFrame(rows)
    page.keep(frame, "speed")
    middle = frame.groupby("moves", sort=False).median()
    middle["ratio"] = middle["with rules, s"] / middle["without rules, s"]
    page.table(middle.round(4).reset_index())


def one_each(w: ks.Workload, rng: np.random.Generator) -> Iterator[tuple[str, list[Rule]]]:
    """One rule of each kind, which today's placement keeps and which bind."""
    held, disk = np.bincount(w.current, minlength=w.nodes), np.bincount(w.current, w.resources["disk"], w.nodes)
    most = np.argmax(np.bincount(w.current, w.last_load, w.nodes))
    few = sorted(rng.choice(w.key_groups, w.key_groups // 3, replace=False).tolist())
    together = [Together(np.flatnonzero(w.current == i)[:2].tolist()) for i in range(w.nodes)]
    rack = w.domains["rack"][most]
    yield "none", []
    yield "Pinned: a third", [Pinned(few)]
    yield "Count: none more than today's most", [Count(at_most=int(held.max()))]
    yield "Count: as many as today", [Count(int(n), int(n), [i]) for i, n in enumerate(held)]
    yield "Use: disks 2 % larger than the fullest", [Use("disk", 1.02 * float(disk.max()))]
    yield "Apart by node", [Apart(by="partition")]
    yield "Apart by rack", [Apart(by="partition", domain="rack")]
    yield "Together: two on each node", together
    yield "Moves: one out of the fullest node", [Moves(1, out_of=[int(most)])]
    yield "Moves: one out of its rack", [Moves(1, out_of={"rack": rack})]
    yield "Moves: two in all", [Moves(2)]


def bounds(page: Page) -> None:
    """What each rule does to the bounds of allocation.

    Six nodes in three racks, 36 key groups - twelve partitions of three replicas -, four moves. Means over the seeds, in percent
    of the mean load: the answer, and how far below it the bounds end - prices (which include counts) where they do not know the rule, where
    they do, and the linear relaxation.
    """
    rows = []
    for seed in range(page.given.seed, page.given.seed + (1 if page.quick else page.given.seeds)):
        rng = np.random.default_rng([seed, 6])
        w = replicated(rng, 6, 36, racks=3)
        for name, rules in one_each(w, rng):
            problem = ks.KeyGroupAllocation(w, max_migrations=4, rules=rules)
            answer = ks.solve(problem, time_limit=page.given.seconds, gap=0)
            unaware = ks.solve(replace(problem, rules=()), "prices", time_limit=page.given.seconds)
            aware = ks.solve(problem, "prices", time_limit=page.given.seconds)
            linear = ks.solve(problem, "lp", time_limit=page.given.seconds)
            best, share = answer.objective, 100 / problem.scale
            assert max(answer.bound, aware.bound, linear.bound) <= best + problem.tolerance_of(best)
            rows.append({"rule": name, "answer %": share * best, "of them proven": float(answer.status == "optimal")})
            for bound, other in (("prices, unaware", unaware), ("prices", aware), ("linear", linear)):
                rows[-1][f"{bound}: below %"] = share * (best - other.bound)
    frame = pd.DataFrame(rows)
    page.keep(frame, "bounds")
    page.table(frame.groupby("rule", sort=False).mean().round(3).reset_index())


def valued(problem: ks.KeyGroupAllocation, at: np.ndarray | None, bound: float) -> dict[str, float]:
    """How far an answer is from the mean, from our bound, and whether it keeps the rules."""
    if at is None:
        return {"answers": 0.0}
    share = 100 / problem.scale
    return {
        "answers": 1.0,
        "kept": float(problem.check(at).feasible),
        "distance %": share * problem.objective(at),
        "gap to our bound %": share * (problem.objective(at) - bound),
        "moves": int((at != problem.workload.current).sum()),
    }


def rebalanced(problem: ks.KeyGroupAllocation, python: str, formula: str, seconds: float) -> np.ndarray:
    """Rebalancer's answer by one formula."""
    w = problem.workload
    job = {
        "load": w.last_load.tolist(), "current": w.current.tolist(), "nodes": w.nodes, "seconds": seconds,
        "max_migrations": problem.max_migrations, "formula": FORMULAS[formula], "rack": list(w.domains["rack"]),
        "partition": list(w.groups["partition"]), "disk": w.resources["disk"].tolist(),
        "count": problem.rules[1].at_most, "room": float(problem.resource_capacity["disk"][0]),
    }  # fmt: skip
    return np.array(ask(python, job)["assignment"])


def met(rng: np.random.Generator, brokers: int, topics: int, replicas: int, dead: list[int]) -> ks.Workload:
    """A cluster as one meets it: topics of all sizes, leaders that feed followers and readers, replicas in three racks."""
    partitions = -(-replicas // 3)
    share = 1 / np.arange(1, topics + 1) ** 0.7
    topic = np.concatenate([np.arange(topics), rng.choice(topics, partitions - topics, p=share / share.sum())])
    topic.sort()
    number = np.arange(partitions) - np.searchsorted(topic, topic)
    come = (rng.lognormal(0, 1, topics)[topic] * rng.lognormal(0, 0.3, partitions)).tolist()
    go = (np.array(come) * rng.integers(0, 4, topics)[topic]).tolist()
    disk = np.array(come) * rng.choice([6, 24, 72], topics)[topic]  # hours that are kept
    rack, popular = np.arange(brokers) % 3, rng.dirichlet(np.full(brokers, 20))
    placed = {}
    for t, x in zip(topic.tolist(), number.tolist(), strict=True):
        order = rng.permutation(3)
        placed[Partition(f"topic{t}", x)] = tuple(
            int(rng.choice(brokers, p=np.where(rack == r, popular, 0) / popular[rack == r].sum())) for r in order
        )
    use = {name: share.of(placed) for name, share in traffic(placed, come, go).items()}
    size = Shares(disk.tolist(), disk.tolist()).of(placed)
    return made_of(
        placed,
        range(brokers),
        load=[i + o for i, o in zip(use["network_in"], use["network_out"], strict=True)],
        state=size,
        draining=dead,
        resources={"disk": size, **use},
        domains={"rack": {b: f"r{r}" for b, r in enumerate(rack.tolist())}},
    )


def within(mean: float, share: float) -> tuple[int, int]:
    """The most and the least that are near enough to a mean."""
    return int(np.ceil((1 + share) * mean)), int(np.floor((1 - share) * mean))


def topic_rules(w: ks.Workload, alive: int) -> list[Rule]:
    """At most so many replicas of a topic on a broker, as TopicReplicaDistribution says: one rule for each number."""
    topics, counts = np.unique(np.array(w.groups["topic"]), return_counts=True)
    most = most_of_topic(counts / alive)
    return [Spread({"topic": topics[most == m].tolist()}, by="topic", at_most=int(m)) for m in np.unique(most)]


def cluster(page: Page) -> None:
    """A cluster with two dead brokers.

    40 brokers in three racks, 3,000 topics, 50,000 replicas (the leader's load: what comes, what goes to readers, what it feeds its
    followers), two dead brokers; what is left of the disks is 85 % full, and up to 95 % may be used. At most a fifth of the
    replicas may move. Rules: replicas in different racks, nothing on dead brokers, and what Cruise Control's goals for balance say,
    at their default thresholds of 10 % (9 % is what it aims at itself). Its goals are evaluated by code of our own
    (`benchmarks/cruise_control_goals.py`): how many brokers break each, before and after.
    """
    rng = np.random.default_rng([page.given.seed, 40])
    w = met(rng, 40, 300 if page.quick else 3_000, 5_000 if page.quick else 50_000, [7, 21])
    mean = {name: float(values.sum()) / w.kept.sum() for name, values in w.resources.items()}
    room = {name: mean[name] / full for name, full in (("disk", 0.85), ("network_in", 0.2), ("network_out", 0.2))}
    problem = ks.KeyGroupAllocation(
        w, resource_capacity={"disk": 0.95 * room["disk"]}, rules=stated(w, mean), max_migrations=w.key_groups // 5
    )
    began, wall = time.process_time(), time.perf_counter()
    answer = ks.solve(problem, time_limit=6 * page.given.seconds)
    seconds = {"seconds": time.perf_counter() - wall, "processor s": time.process_time() - began}
    if answer.assignment is None:
        page.say(f"No answer within {6 * page.given.seconds:g} s: {answer.message}")
        return
    found = {**figures(problem, answer), **seconds}
    held = np.bincount(answer.assignment, w.resources["disk"], w.nodes)
    found["fullest disk %"] = 100 * float(held.max()) / room["disk"]
    page.table(pd.DataFrame({"figure": found.keys(), "value": [round(x, 4) for x in found.values()]}), "cluster")
    before, after = (list(goals(w, at, room, 0.95)) for at in (w.current, answer.assignment))
    page.table(
        [
            {"goal": name, "kind": kind, "break it before": old, "after": new}
            for (name, kind, old), (_, _, new) in zip(before, after, strict=True)
        ],
        "goals",
    )


def stated(w: ks.Workload, mean: dict[str, float]) -> list[Rule]:
    """What Kafka needs, and what Cruise Control's goals for balance say."""
    alive, share = int(w.kept.sum()), BALANCE * MARGIN
    (most, least), (most_led, least_led) = (
        within(count / alive, share) for count in (w.key_groups, len(set(w.groups["partition"])))
    )
    return [
        *replica_rules(w),
        Count(most, least),
        Spread({"role": "leader"}, at_least=least_led, at_most=most_led),
        *(Use(name, (1 + share) * value) for name, value in mean.items()),
        *topic_rules(w, alive),
    ]


def figures(problem: ks.KeyGroupAllocation, answer: ks.Solution) -> dict[str, float]:
    """What an answer is worth, and what it takes to get there."""
    w = problem.workload
    members = members_of(w.keys)
    lists = [lists_of(members, at, range(w.nodes)) for at in (w.current, answer.assignment)]
    copied = np.array([len(set(lists[1][p]) - set(lists[0][p])) for p in members])
    disk = w.state[[held[0] for held in members.values()]]
    return {
        "replicas": w.key_groups,
        "on dead brokers before": int(w.draining[w.current].sum()),
        "rules broken before": len({v.rule for v in problem.check(w.current).violations}),
        "rules broken after": len(problem.check(answer.assignment).violations),
        "distance before %": 100 * problem.objective(w.current) / problem.scale,
        "distance after %": 100 * problem.objective(answer.assignment) / problem.scale,
        "bound %": 100 * (answer.bound or 0) / problem.scale,
        "key groups moved": int((answer.assignment != w.current).sum()),
        "replicas copied": int(copied.sum()),
        "disk copied %": 100 * float(copied @ disk) / float(w.state.sum()),
    }


if __name__ == "__main__":
    run(
        "rules",
        "What rules cost",
        __doc__,
        [sizes, speed, bounds, beside, cluster],
        seed={"type": int, "default": 0},
        seconds={"type": float, "default": 10.0},
        seeds={"type": int, "default": 5},
        rebalancer={"metavar": "PYTHON", "help": "a Python of 3.12 or later with rebalancer 1.0.4"},
    )
