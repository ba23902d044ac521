"""Flux ([Shah2003]), the power of two choices ([Azar1999]) and draining first, as [Madsen2016] describes and compares them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keyshift.models import Answer, Budget, metrics
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.allocation.problem import SLACK
from keyshift.models.answer import Termination
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.guards import Count, Whole
from keyshift.models.rules.lowered import RowTally
from keyshift.solvers.allocation.arrays import alike


def is_quick(problem: KeyGroupAllocation) -> bool:
    """Whether Flux, or the power of two choices, is a quick start; of more key groups "milp" begins from a better one itself."""
    return problem.workload.key_groups <= 20_000 or not alike(problem)


def flux(
    problem: KeyGroupAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    rounds: Whole | None = None,
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
        At most this many rounds; None repeats, as the paper's experiments must: they move up to 13 key groups a period on
        20 nodes (section 5.2.1), where one round moves at most 10.

    Notes
    -----
    Source: [Madsen2016], section 2.2, after [Shah2003]. Departures: a draining node may only give; a
    move that would break the migration limit, a capacity or a rule is passed over for the next smaller key group. Over k
    windows it balances their mean load.
    """
    state = Migrations(problem)
    done = 0
    while (rounds is None or done < rounds) and not budget.expired and _one_round(state):
        done += 1
    return Answer(state.assignment, termination=budget.why if budget.expired else "completed", details={"rounds": done})


class Migrations:
    """The assignment in the making, and what is left of the limits."""

    def __init__(self, problem: KeyGroupAllocation) -> None:
        self.rules = RowTally(problem.lowered, problem.workload.current)
        problem = problem.averaged()
        self.problem, self.workload = problem, problem.workload
        self.assignment = self.workload.current.copy()
        self.relative = metrics.last_node_loads(self.workload, self.assignment) / self.workload.capacity
        self.used = {
            name: np.bincount(self.assignment, problem.usage(name), self.workload.nodes)
            for name in problem.resource_capacity or {}
        }

        self.moves, self.cost = 0, 0.0
        w = self.workload
        loaded = np.lexsort((-w.last_load, w.current))  # by node, the biggest first
        loaded = loaded[w.last_load[loaded] > 0]
        self.biggest = np.split(loaded, np.searchsorted(w.current[loaded], np.arange(1, w.nodes)))

    def staying(self, i: int) -> np.ndarray:
        """The loaded key groups of node i that have not moved, the biggest first."""
        return self.biggest[i][self.assignment[self.biggest[i]] == i]

    @property
    def exhausted(self) -> bool:
        """Whether the limit on migrations (2) leaves none."""
        return self.problem.max_migrations is not None and self.moves >= self.problem.max_migrations

    def open_to(self, k: int) -> np.ndarray:
        """Where key group k, which has not moved, may go within the limits (2), capacities (7) and rules, shape (n,)."""
        p, w = self.problem, self.workload
        cost = self.cost + p.alpha * float(w.state[k])
        if self.exhausted or (p.max_migration_cost is not None and cost > p.max_migration_cost * (1 + SLACK)):
            return np.zeros(w.nodes, dtype=bool)
        may = p.space.enter[p.space.kind[k]] & self.rules.open_to(k, w.nodes)
        for name, limit in (p.resource_capacity or {}).items():
            may &= self.used[name] + p.usage(name)[k] <= np.asarray(limit) * (1 + SLACK)
        return may

    def lowers(self, some: np.ndarray | int, giver: int, taker: int) -> np.ndarray:
        """Which loaded key groups leave both nodes below what the giver carries now, if they move."""
        load, capacity = self.workload.last_load[some], self.workload.capacity[taker]
        return (load > 0) & (self.relative[taker] + load / capacity < self.relative[giver] * (1 - SLACK))

    def move(self, k: int, target: int) -> None:
        """Move a key group and keep the sums in step."""
        source, w = self.assignment[k], self.workload
        for name, used in self.used.items():
            used[source] -= self.problem.usage(name)[k]
            used[target] += self.problem.usage(name)[k]
        self.relative[source] -= w.last_load[k] / w.capacity[source]
        self.relative[target] += w.last_load[k] / w.capacity[target]
        self.assignment[k] = target
        self.rules.move(k, target)
        self.moves += 1
        self.cost += self.problem.alpha * float(w.state[k])


def _one_round(state: Migrations) -> bool:
    """Treat every pair once; whether anything moved."""
    order = np.argsort(-state.relative, kind="stable")
    changed = False
    for rank in range(order.size // 2):
        giver, taker = int(order[rank]), int(order[-1 - rank])
        if not state.workload.draining[taker] and (k := _biggest_suitable(state, giver, taker)) is not None:
            state.move(k, taker)
            changed = True
    return changed


def _biggest_suitable(state: Migrations, giver: int, taker: int) -> int | None:
    """The biggest loaded key group whose move lowers the higher of the two nodes; a key group moves only once."""
    staying = state.staying(giver)
    for k in staying[state.lowers(staying, giver, taker)]:
        if state.open_to(int(k))[taker]:
            return int(k)
    return None


# The power of two choices ([Azar1999]) -------------------------------------------------------------------------------


def potc(
    problem: KeyGroupAllocation, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, choices: Count = 2
) -> Answer:
    """Give every key group its node and another one, hashed, and let it take the less loaded.

    Key groups come in random order. One whose move lowers the higher of its two nodes moves, as long as the
    limits last. No guarantee on the objective; O(p * choices).

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget
    seed : int
        Of the hashes and of the order.
    start : ndarray, optional
        Unused: it starts from the current nodes.
    choices : int, default 2
        Nodes to choose from, the current one included.

    Notes
    -----
    Source: [Azar1999]; compared with in [Madsen2016], section 5.2.1. Departures from the
    paper: there every key is split over both its nodes and merged again, whatever that costs; here a key group
    stays whole, one of the two nodes is where it is now, and the migration limits and rules hold. Over k windows a load is
    their mean.
    """
    state = Migrations(problem)
    rng = np.random.default_rng(seed)
    open_nodes = np.flatnonzero(problem.workload.kept)
    hashed = open_nodes[rng.integers(0, open_nodes.size, (problem.workload.key_groups, max(0, choices - 1)))]
    for at, k in enumerate(rng.permutation(problem.workload.key_groups)):
        if state.exhausted:
            break
        if at % 256 == 0 and budget.expired:
            return Answer(state.assignment, termination=budget.why)
        source = int(problem.workload.current[k])
        others = [int(i) for i in hashed[k] if i != source]
        if others:
            target = min(others, key=lambda i: (state.relative[i], i))
            if state.lowers(int(k), source, target) and state.open_to(int(k))[target]:
                state.move(int(k), target)
    return Answer(state.assignment, termination="completed", details={"moves": state.moves})


# The non-integrated scale-in that [Madsen2016] compares with: drain the nodes first, balance afterwards ---------------


def drain_first(
    problem: KeyGroupAllocation, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None
) -> Answer:
    """Spend the migration limit on emptying the draining nodes, and only what is left on balance.

    The key groups of the draining nodes go, the most loaded first, each to the kept node that carries least, of those
    that limits and rules leave open to it. When all of them are gone, "milp" balances with what the limits still allow; where
    rules count moves nothing does, since it would begin to count anew. No guarantee on the objective.

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget
    seed : int
        For the second step.
    start : ndarray, optional
        Unused: it starts from the current nodes.

    Notes
    -----
    Source: [Madsen2016], section 5.1, "a non-integrated approach, which first performs scale-in as an independent process
    and then tries to move the key groups from the to-be-removed nodes to the other nodes evenly".
    """
    w, state = problem.workload, Migrations(problem)
    leaving = np.flatnonzero(w.draining[w.current])
    drained = 0
    for at, k in enumerate(leaving[np.lexsort((leaving, -state.workload.last_load[leaving]))].tolist()):
        if state.exhausted or (at % 256 == 0 and budget.expired):  # a look counts as work
            break
        may = state.open_to(k) & w.kept
        if may.any():
            state.move(k, int(np.argmin(np.where(may, state.relative, np.inf))))
            drained += 1
    details = {"drained": drained, "left": int(leaving.size) - drained}
    if details["left"] or budget.expired or problem.lowered.budgets:
        return Answer(state.assignment, termination=_ended(budget), details=details)
    balanced = _balanced(problem, state, budget, seed)
    return Answer(balanced, termination=_ended(budget), details=details)


def _ended(budget: Budget) -> Termination:
    return budget.why if budget.expired else "completed"


def _balanced(problem: KeyGroupAllocation, state: Migrations, budget: Budget, seed: int) -> np.ndarray:
    """Balance from the drained assignment with the moves and the cost that are left."""
    with off_clock():
        from keyshift.solvers.allocation.portfolio import solve_milp

    moves, cost = problem.max_migrations, problem.max_migration_cost
    rest = replace(
        problem,
        workload=problem.workload.replace(current=state.assignment),
        max_migrations=None if moves is None else moves - state.moves,
        max_migration_cost=None if cost is None else max(0.0, cost - state.cost),
    )
    most = np.inf if np.isfinite(budget.remaining) else 10.0
    limited = budget.part(1.0, most, scale=rest.scale, silent=True)  # bounds of the rest are none of the problem
    found = solve_milp(rest, budget=limited, seed=seed).assignment
    return state.assignment if found is None else found
