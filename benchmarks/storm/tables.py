"""The tables of the live runs, made by keyshift's solvers from the loads of keys."""

from __future__ import annotations

import numpy as np
from streams import GROUPS, TASKS, Table, groups_of

import keyshift as ks


def allocation_plan(shares: np.ndarray, table: Table) -> Table:
    """Key groups to tasks, by the least load distance."""
    w = ks.Workload(load=np.bincount(groups_of(shares.size), shares, GROUPS) * 1e6, state=np.ones(GROUPS), current=table.groups, nodes=TASKS)  # fmt: skip
    return Table(ks.solve(ks.KeyGroupAllocation(w, max_migrations=GROUPS), time_limit=5, seed=0).assignment, {})


def copies_plan(shares: np.ndarray) -> Table:
    """Hot keys, those above a third of a task's fair share, to one or several tasks, and the key groups of all others.

    Each hot key gets so many copies that none is above a third of a fair share, by `ReplicatedAllocation`.
    """
    part = 1 / (3 * TASKS)
    hot = np.flatnonzero(shares > part)
    rest = shares.copy()
    rest[hot] = 0
    loads = np.concatenate([np.bincount(groups_of(shares.size), rest, GROUPS), shares[hot]]) * 1e6
    more = int(sum(min(TASKS, np.ceil(share / part)) - 1 for share in shares[hot]))
    w = ks.Workload(load=loads, state=np.ones(loads.size), current=np.arange(loads.size) % TASKS, nodes=TASKS)
    s = ks.solve(ks.ReplicatedAllocation(w, copies=loads.size + more), time_limit=10, seed=0)
    on = [np.flatnonzero(row).tolist() for row in s.assignment]
    groups = np.array([tasks[0] for tasks in on[:GROUPS]])
    assert all(len(tasks) == 1 for tasks in on[:GROUPS])
    return Table(groups, {f"k{k}": tasks for k, tasks in zip(hot.tolist(), on[GROUPS:], strict=True)})
