"""A real Redis Cluster: a plan's predictions against what its masters count, an hour of drift, and runs that are killed.

``make redis`` starts six masters of Debian's redis-server (``apt-get install redis-server``), fills them with keys - half of them
alone in their slot, half in families that share a hash tag - and lets clients ask by a Zipf law. Loads are GETs that a master answered
(``INFO commandstats``), never what we sent. Ends with 1 if a prediction fails, a key is lost or a slot stays open.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import redis

sys.path.append(str(Path(__file__).parents[1]))  # the other benchmarks' own modules

from cluster import client, fill, memory, owners, running, served, spread, still_open
from page import run
from redis.crc import key_slot

import keyshift as ks
from keyshift.engines.redis import read_workload
from keyshift.engines.redis_moving import execute
from keyshift.papers.page import Page

MASTERS = 6
FAMILY = 1_250
FAILED: list[str] = []
Drawn = tuple[list[str], np.ndarray]


def drawn(seed: int, count: int) -> Drawn:
    """Keys and the probability that each is asked for: half are single, half in families with one hash tag."""
    rng = np.random.default_rng(seed)
    keys = [f"user:{i}" for i in range(count // 2)]
    keys += [f"{{cart:{i // FAMILY}}}:{i}" for i in range(count - len(keys))]
    chance = np.arange(1, count + 1.0) ** -1.0
    return keys, rng.permutation(chance / chance.sum())


def asked(names: list[str], keys: list[str], sequence: np.ndarray) -> np.ndarray:
    """GETs that each master answers when a sequence of keys is asked for."""
    before = served(names)
    spread(names, [("GET", keys[i]) for i in sequence])
    return served(names) - before


def counts(keys: list[str], sequence: np.ndarray) -> dict[str, float]:
    """How often each key was asked for, as an application would count."""
    often = np.bincount(sequence, minlength=len(keys))
    return {keys[i]: float(often[i]) for i in np.flatnonzero(often)}


def demand(holds: bool, otherwise: str) -> None:
    """Note what fails; the page is written nevertheless."""
    if not holds:
        FAILED.append(otherwise)


def distance(loads: np.ndarray) -> float:
    """Load distance, in percent of the mean."""
    return float(100 * np.abs(loads - loads.mean()).max() / loads.mean())


# Predicted and measured -------------------------------------------------------------------------------------------------


def predictions(page: Page) -> None:
    """Predicted and measured.

    One sequence of GETs is counted by key; the plan is made from the counts and carried out, and the same sequence is asked
    again: every master must answer exactly what was predicted. A *new* sequence of the same law may differ as chance does:
    z is the difference in standard deviations, the largest of all masters. Bytes predicted are those of the import, which
    looks at 10,000 keys of a slot at most; bytes measured are those of the keys that were sent.
    """
    keys_in_all, requests, rows, exact = (4_000, 20_000, [], True) if page.quick else (20_000, 100_000, [], True)
    for seed in range(2 if page.quick else 10):
        keys, chance = drawn(seed, keys_in_all)
        rng = np.random.default_rng(1000 + seed)
        with running(MASTERS) as names:
            fill(names, keys, rng.lognormal(5, 1, len(keys)).clip(1, 20_000))
            sequence = rng.choice(len(keys), requests, p=chance)
            before = asked(names, keys, sequence)
            w = read_workload(names[0], counts(keys, sequence))
            s = ks.solve(ks.KeyGroupAllocation(w, max_migrations=40), time_limit=5, seed=seed)
            plan = s.plan(phase_moves=10)
            sizes = memory(names, keys)
            done = execute(plan, names[0], dry_run=False)
            after = asked(names, keys, sequence)
            fresh = asked(names, keys, rng.choice(len(keys), requests, p=chance))
            sent = memory(names, keys)
        table = ks.compare_measured(plan, {"load": after, "state_moved": done.state, "moves": done.slots})
        share = after / requests
        z = np.abs(fresh - after) / np.sqrt(2 * requests * share * (1 - share))
        same = bool((table.loc["load", "difference"] == 0).all())
        exact &= same and abs(table.loc[("state_moved", "all"), "percent"]) <= 2 and np.array_equal(sizes, sent)
        rows.append(
            {
                "seed": seed, "slots": w.key_groups, "moved": len(plan), "status": s.status,
                "distance before %": distance(before), "predicted %": distance(plan.loads_after), "measured %": distance(after),
                "to the request": "yes" if same else "no", "largest z": float(z.max()),
                "bytes predicted": plan.state_moved, "bytes measured": done.state, "seconds": done.seconds,
            }
        )  # fmt: skip
    page.table(rows, "predicted")
    page.say("", "The last seed's plan, predicted and measured:", "")
    page.table(table.reset_index(), "last")
    demand(exact, "a prediction does not hold")


# Clients meanwhile ------------------------------------------------------------------------------------------------------


def ask_on(name: str, keys: list[str], chance: np.ndarray, stop: Any, told: Any) -> None:
    """A client that asks for one key after the other, and notes when and how long each took."""
    host, _, port = name.rpartition(":")
    rng, seen = np.random.default_rng(), []
    cluster = redis.RedisCluster(host=host, port=int(port))
    while not stop.is_set():
        for i in rng.choice(len(keys), 200, p=chance):
            begun = time.monotonic()
            value = cluster.get(keys[i])
            seen.append((begun, time.monotonic() - begun, value is not None))
    told.put(seen)


def latency(page: Page) -> None:
    """A client meanwhile.

    One client asks for a key at a time, while 40 slots move at 500 keys a second. Milliseconds from the question to the
    answer, the client's own work and redirections included.
    """
    keys, chance = drawn(0, 4_000 if page.quick else 20_000)
    fork = multiprocessing.get_context("fork")
    with running(MASTERS) as names:
        fill(names, keys, np.full(len(keys), 200))
        sequence = np.random.default_rng(0).choice(len(keys), 50_000, p=chance)
        w = read_workload(names[0], counts(keys, sequence))
        plan = ks.solve(ks.KeyGroupAllocation(w, max_migrations=40), time_limit=5).plan()
        stop, told = fork.Event(), fork.Queue()
        asker = fork.Process(target=ask_on, args=(names[0], keys, chance, stop, told))
        asker.start()
        time.sleep(2)
        begun = time.monotonic()
        execute(plan, names[0], dry_run=False, keys_per_second=500)
        ended = time.monotonic()
        time.sleep(2)
        stop.set()
        seen = pd.DataFrame(told.get(timeout=30), columns=["at", "seconds", "found"])
        asker.join(30)
    when = np.select([seen["at"] < begun, seen["at"] < ended], ["before", "while"], "after")
    rows = [
        {"": part, "answers": len(of), "lost": int((~of["found"]).sum()), **{f"p{q} ms": 1e3 * of["seconds"].quantile(q / 100) for q in (50, 99)}}
        for part, of in ((part, seen[when == part]) for part in ("before", "while", "after"))
    ]  # fmt: skip
    page.table(rows, "latency")
    demand(bool(seen["found"].all()), "a client missed a key")


# An hour of drift -------------------------------------------------------------------------------------------------------


def drift(page: Page) -> None:
    """An hour of drift.

    Each minute is 10,000 GETs; between two of them, ten of the 200 hottest keys change places with others. Every policy
    knows only the minute that has passed. Load distance is that of the GETs answered in the minute that follows, in percent
    of the mean; `redis-cli --cluster rebalance` evens numbers of slots, which are even.
    """
    minutes, requests = (5, 5_000) if page.quick else (60, 10_000)
    keys, chance = drawn(7, 4_000 if page.quick else 20_000)
    policies: dict[str, Callable[[list[str], np.ndarray], int]] = {
        "no move": lambda names, sequence: 0,
        "redis-cli --cluster rebalance": rebalanced,
    }
    for most in (1, 5, 20):
        policies[f"keyshift, {most} slots a minute"] = lambda names, sequence, most=most: moved(
            names, keys, sequence, most
        )
    rows, series = [], {}
    for policy, act in policies.items():
        rng, law, found, slots = np.random.default_rng(7), chance.copy(), [], 0
        with running(MASTERS) as names:
            fill(names, keys, np.full(len(keys), 100))
            for _ in range(minutes):
                sequence = rng.choice(len(keys), requests, p=law)
                found.append(distance(asked(names, keys, sequence)))
                slots += act(names, sequence)
                hot = rng.choice(np.argsort(-law)[:200], 10, replace=False)
                other = rng.choice(len(keys), 10, replace=False)
                law[hot], law[other] = law[other], law[hot].copy()
                law /= law.sum()
            left = still_open(names)
        series[policy] = found
        rows.append(
            {
                "policy": policy,
                "mean %": np.mean(found[1:]),
                "worst %": max(found[1:]),
                "slots moved": slots,
                "open": left,
            }
        )
    page.table(rows, "drift")
    page.keep(pd.DataFrame(series), "minutes")
    long = (
        pd.DataFrame(series)
        .rename_axis("minute")
        .reset_index()
        .melt("minute", var_name="policy", value_name="load distance %")
    )
    page.draw(
        "drift", "Load distance of each minute, in percent of the mean.",
        {"frame": long, "x": "minute", "y": "load distance %", "by": "policy"}, columns=1, size=(8, 3.5),
    )  # fmt: skip
    demand(all(row["open"] == 0 for row in rows), "a slot stayed open")


def rebalanced(names: list[str], _: np.ndarray) -> int:
    """What redis-cli does about it; the slots that changed their master."""
    before = owners(names)
    subprocess.run(
        ["redis-cli", "--cluster", "rebalance", names[0], "--cluster-yes"], stdout=subprocess.DEVNULL, check=False
    )
    return int((owners(names) != before).sum())


def moved(names: list[str], keys: list[str], sequence: np.ndarray, most: int) -> int:
    """Import, plan and carry out: at most so many slots."""
    w = read_workload(names[0], counts(keys, sequence), sample=1)
    plan = ks.solve(ks.KeyGroupAllocation(w, max_migrations=most), time_limit=0.5).plan()
    return execute(plan, names[0], dry_run=False).slots


# Kills ------------------------------------------------------------------------------------------------------------------


def kills(page: Page) -> None:
    """Killed.

    Runs that carry out a plan, or its way back, get kill -9 at a random moment; then the same plan runs again. Afterwards every
    key must have its value at the master that owns its slot, every slot must be where the plan wants it, and none open.
    """
    times = 5 if page.quick else 30
    keys, chance = drawn(3, 4_000 if page.quick else 20_000)
    rng, fork, half_way, lost, left = np.random.default_rng(3), multiprocessing.get_context("fork"), 0, 0, 0
    with running(MASTERS) as names:
        spread(names, [("SET", key, f"value of {key}") for key in keys])
        sequence = rng.choice(len(keys), 50_000, p=chance)
        w = read_workload(names[0], counts(keys, sequence))
        there = ks.solve(ks.KeyGroupAllocation(w, max_migrations=60), time_limit=5).plan()
        for j in range(times):
            plan = there if j % 2 == 0 else there.undo()
            runner = fork.Process(
                target=execute, args=(plan, names[j % MASTERS]), kwargs={"dry_run": False, "batch": 7}
            )
            runner.start()
            time.sleep(float(rng.uniform(0.01, 0.25)))
            if runner.pid is not None and runner.is_alive():
                os.kill(runner.pid, signal.SIGKILL)
            runner.join()
            half_way += still_open(names) > 0
            done = execute(plan, names[0], dry_run=False)
            left += still_open(names)
            owner = owners(names)
            reached = [owner[int(str(k).removeprefix("slot-"))] for k in plan.moves["key"]]
            lost += int((np.array(reached) != plan.target).sum())
            lost += missing(names, keys)
            assert done.already + done.slots == len(plan)
    page.table(
        [
            {
                "kills": times,
                "left a slot half-way": half_way,
                "keys lost or on a wrong master": lost,
                "slots open afterwards": left,
            }
        ],
        "kills",
    )
    demand(lost == 0 and left == 0, "a key was lost, or a slot stayed open")


def missing(names: list[str], keys: list[str]) -> int:
    """Keys without their value at the master that owns them."""
    owner, wrong = owners(names)[[key_slot(key.encode()) for key in keys]], 0
    for i, name in enumerate(names):
        line, mine = client(name).pipeline(transaction=False), [keys[j] for j in np.flatnonzero(owner == i)]
        for key in mine:
            line.get(key)
        wrong += sum(
            found != f"value of {key}".encode()
            for key, found in zip(mine, line.execute(raise_on_error=False), strict=True)
        )
    return wrong


if __name__ == "__main__":
    run("redis", "Redis Cluster, live", __doc__, [predictions, latency, drift, kills])
    sys.exit("; ".join(FAILED) or None)
