"""Flux (Shah et al., ICDE 2003), as paper 2 describes and compares it."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget, metrics
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.allocation.problem import SLACK


def flux(
    problem: KeyGroupAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    rounds: int | None = None,
) -> Answer:
    """Pair the most loaded node with the least loaded, the second with the second last, and move one key group each.

    The biggest key group that leaves both nodes of a pair below the more loaded one's former load moves. Rounds
    repeat until nothing moves or the migration limit is reached. No guarantee on the objective; each round takes
    O(p + n log n).

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget
    seed : int
        Unused: Flux draws no random numbers; ties go to the lower index.
    start : ndarray, optional
        Unused: Flux starts from the current nodes.
    rounds : int, optional
        At most so many rounds; None repeats. The paper's figures use one round a period.

    Notes
    -----
    Source: paper 2, section 2.2, after Shah et al., *Flux*, 2003. Departures: a draining node may only give; a
    move that would break the migration limit or a capacity is passed over for the next smaller key group.
    """
    state = _State(problem)
    done = 0
    while (rounds is None or done < rounds) and not budget.expired and _one_round(state):
        done += 1
    return Answer(state.assignment, termination=budget.why if budget.expired else "completed", details={"rounds": done})


class _State:
    """The assignment in the making, and what is left of the limits."""

    def __init__(self, problem: KeyGroupAllocation) -> None:
        self.problem, self.workload = problem, problem.workload
        self.assignment = self.workload.current.copy()
        self.relative = metrics.last_node_loads(self.workload, self.assignment) / self.workload.capacity
        self.used = {
            name: np.bincount(self.assignment, problem.usage(name), self.workload.nodes)
            for name in problem.resource_capacity or {}
        }

    def allowed(self, k: int, target: int) -> bool:
        """Whether moving key group k keeps within the migration limits (2) and capacities (7)."""
        moved = self.assignment != self.workload.current
        moved[k] = True
        p = self.problem
        if p.max_migrations is not None and moved.sum() > p.max_migrations:
            return False
        if p.max_migration_cost is not None and p.migration_cost[moved].sum() > p.max_migration_cost * (1 + SLACK):
            return False
        return all(
            self.used[name][target] + p.usage(name)[k] <= np.asarray(limit)[target] * (1 + SLACK)
            for name, limit in (p.resource_capacity or {}).items()
        )

    def move(self, k: int, target: int) -> None:
        source, w = self.assignment[k], self.workload
        for name, used in self.used.items():
            used[source] -= self.problem.usage(name)[k]
            used[target] += self.problem.usage(name)[k]
        self.relative[source] -= w.last_load[k] / w.capacity[source]
        self.relative[target] += w.last_load[k] / w.capacity[target]
        self.assignment[k] = target


def _one_round(state: _State) -> bool:
    """Treat every pair once; whether anything moved."""
    order = np.argsort(-state.relative, kind="stable")
    changed = False
    for rank in range(order.size // 2):
        giver, taker = int(order[rank]), int(order[-1 - rank])
        if not state.workload.draining[taker] and (k := _biggest_suitable(state, giver, taker)) is not None:
            state.move(k, taker)
            changed = True
    return changed


def _biggest_suitable(state: _State, giver: int, taker: int) -> int | None:
    """The biggest loaded key group whose move lowers the higher of the two nodes; a key group moves only once."""
    w = state.workload
    staying = np.flatnonzero((state.assignment == giver) & (w.current == giver) & (w.last_load > 0))
    for k in staying[np.argsort(-w.last_load[staying], kind="stable")]:
        after = state.relative[taker] + w.last_load[k] / w.capacity[taker]
        if after < state.relative[giver] * (1 - SLACK) and state.allowed(int(k), taker):
            return int(k)
    return None
