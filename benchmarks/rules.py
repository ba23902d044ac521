"""What rules cost the default: answers under racks, counts and capacities, their gaps and seconds, beside the same without rules.

The last part is a cluster as one meets it: 40 brokers in three racks, 50,000 replicas of 3,000 topics, two dead brokers and disks that
are 85 % full.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pandas as pd
from page import Page, run

import keyshift as ks
from keyshift.rules import Apart, Count, Never, Pinned, Rule

SIZES = ((20, 400), (40, 800), (60, 1_200), (200, 10_000))
RACKS, REPLICAS = 4, 3


def replicated(rng: np.random.Generator, nodes: int, key_groups: int, racks: int = RACKS) -> ks.Workload:
    """Replicas of partitions, each on a rack of its own; loads log-normal, alike within a partition; disk goes with load."""
    partitions = key_groups // REPLICAS
    load = np.repeat(rng.lognormal(0, 0.7, partitions), REPLICAS) * rng.uniform(0.8, 1.2, partitions * REPLICAS)
    rack = np.arange(nodes) % racks
    current = np.empty(load.size, dtype=np.int64)
    for g in range(partitions):
        for j, r in enumerate(rng.choice(racks, REPLICAS, replace=False)):
            current[g * REPLICAS + j] = rng.choice(np.flatnonzero(rack == r))
    disk = load * rng.uniform(0.5, 1.5, load.size)
    return ks.Workload(
        load=load,
        state=disk,
        current=current,
        nodes=nodes,
        resources={"disk": disk},
        groups={"partition": np.repeat(np.arange(partitions), REPLICAS)},
        domains={"rack": [f"r{r}" for r in rack]},
    )


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
        for seed in range(page.given.seed, page.given.seed + (1 if page.quick else 5)):
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


def cluster(page: Page) -> None:
    """A cluster with two dead brokers.

    40 brokers in three racks, replicas of a partition in different racks, disks 85 % full, at most 10 % more replicas a broker
    than the mean, up to a tenth of all replicas moved.
    """
    rng = np.random.default_rng([page.given.seed, 40])
    topics = 300 if page.quick else 3_000
    w = replicated(rng, 40, 5_000 if page.quick else 50_000, racks=3)
    topic = np.repeat(rng.integers(0, topics, w.key_groups // REPLICAS), REPLICAS)
    w = w.replace(groups={**w.groups, "topic": topic}, draining=np.isin(np.arange(40), (7, 21)))
    disk = w.resources["disk"]
    room = float(disk.sum() / 38 / 0.85)
    most = int(1.1 * w.key_groups / 38)
    rules = [Never(None, [7, 21]), Apart(by="partition", domain="rack"), Count(at_most=most)]
    problem = ks.KeyGroupAllocation(w, resource_capacity={"disk": room}, rules=rules, max_migrations=w.key_groups // 10)
    began = time.process_time()
    answer = ks.solve(problem, time_limit=4 * page.given.seconds)
    seconds = time.process_time() - began
    if answer.assignment is None:
        page.say(f"No answer within {4 * page.given.seconds:g} s: {answer.message}")
        return
    report = problem.check(answer.assignment)
    held = np.bincount(answer.assignment, disk, 40)
    page.table(
        pd.DataFrame(
            [
                {
                    "replicas": w.key_groups,
                    "broken rules": len(report.violations),
                    "distance %": 100 * answer.objective / problem.scale,
                    "bound %": 100 * (answer.bound or 0) / problem.scale,
                    "replicas moved": report.metrics["migrations"],
                    "disk moved %": 100 * report.metrics["state_moved"] / float(disk.sum()),
                    "fullest disk %": 100 * float(held.max()) / room,
                    "seconds": seconds,
                }
            ]
        ).round(4),
        "cluster",
    )


if __name__ == "__main__":
    run(
        "rules",
        "What rules cost",
        __doc__,
        [sizes, cluster],
        seed={"type": int, "default": 0},
        seconds={"type": float, "default": 10.0},
    )
