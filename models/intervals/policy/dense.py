"""All partitions and all costs of a small `MigrationPolicy`, written out: the data of its linear program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import accumulate

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.intervals.partition import cuts_of, spread
from keyshift.models.intervals.policy.problem import NOT_ASKED, MigrationPolicy
from keyshift.models.intervals.step import heaviest_matching, labelled
from keyshift.models.workload import FloatArray, IntArray

Cuts = tuple[int, ...]


def all_partitions(starts: IntArray, nodes: int) -> Iterator[Cuts]:
    """Cuts (0, ..., m) of all partitions into at most this many non-empty intervals within the limit."""
    tasks = starts.size - 1

    def before(end: int, intervals: int) -> Iterator[Cuts]:
        for start in range(int(starts[end]), end):
            if start == 0:
                yield (0,)
            elif intervals > 1:
                yield from ((*cuts, start) for cuts in before(start, intervals - 1))

    return ((*cuts, tasks) for cuts in before(tasks, nodes))


def require_few(pairs: int) -> None:
    """Refuse to write out more pairs of partitions than a statement can hold.

    Raises
    ------
    InputError
    """
    most = 200_000  # each of them a row or a column
    if pairs > most:
        raise InputError(f"{pairs} pairs of partitions are more than the {most} that a statement writes out")


def number_of_partitions(starts: IntArray, nodes: int) -> int:
    """How many partitions `all_partitions` would list, without listing them: O(m n)."""
    tasks, total = starts.size - 1, 0
    ways = [1] + [0] * tasks
    for _ in range(min(nodes, tasks)):
        sums = [0, *accumulate(ways)]
        ways = [0, *(sums[x] - sums[int(starts[x])] for x in range(1, tasks + 1))]
        total += ways[tasks]
    return total


def state_kept(old: Cuts, new: Cuts, state: FloatArray) -> float:
    """The largest state that any labelling of the new intervals with old nodes keeps, by the Hungarian method."""
    return float(heaviest_matching(old, new, state)[2].sum())


class DensePolicyModel:
    """Partitions, costs and the Bellman operator (1) of a small problem.

    Attributes
    ----------
    partitions : dict of int to list of tuple
        The cuts of all partitions of every class.
    cost : dict of (int, int) to ndarray
        c(P, P') for every pair of classes with positive probability.
    first : dict of int to ndarray
        State moved from now to every partition, for every next count with positive probability.
    """

    def __init__(self, problem: MigrationPolicy) -> None:
        self.problem = problem

        def costs(before: Cuts, after: int) -> list[float]:
            return [total - state_kept(before, q, w.state) for q in self.partitions[after]]

        w = problem.workload
        total = float(w.state.sum())
        self.partitions = {n: list(all_partitions(problem.starts(n), n)) for n in problem.reachable}
        self.cost = {
            (n, after): np.array([costs(p, after) for p in self.partitions[n]])
            for n, row in problem.reachable.items()
            for after in row
        }
        stays = np.where(w.draining[w.current], 0.0, w.state)
        now = tuple(cuts_of(w.current).tolist())
        self.first = {
            after: np.array([total - state_kept(now, q, stays) for q in self.partitions[after]])
            for after in problem.first_row
        }

    @cached_property
    def number(self) -> dict[int, dict[Cuts, int]]:
        """The place of each partition in its class."""
        return {n: {cuts: i for i, cuts in enumerate(p)} for n, p in self.partitions.items()}

    @property
    def states(self) -> int:
        """Number of partitions in all classes."""
        return sum(len(p) for p in self.partitions.values())

    def bellman(self, value: dict[int, FloatArray]) -> dict[int, FloatArray]:
        """The right-hand side of (1)."""
        gamma = self.problem.discount
        made = {}
        for n in self.partitions:
            chances = self.problem.transitions[n].items()
            least = [chance * (self.cost[n, after] + gamma * value[after]).min(axis=1) for after, chance in chances]
            made[n] = np.sum(least, axis=0)
        return made


def evaluated(data: DensePolicyModel, value: dict[int, FloatArray]) -> dict[int, FloatArray]:
    """The values of the policy that is greedy for some values, by a linear system, until it is greedy for its own."""
    if data.states > 2_000:  # the linear system is dense
        return value
    gamma = data.problem.discount
    first = dict(zip(data.partitions, np.cumsum([0, *(len(p) for p in data.partitions.values())]), strict=False))
    chosen: list[IntArray] = []
    for _ in range(20):
        costs, steps, before = np.zeros(data.states), np.zeros((data.states, data.states)), chosen
        chosen = []
        for (n, after), cost in data.cost.items():
            best = (cost + gamma * value[after]).argmin(axis=1)
            at, chance = np.arange(len(cost)), data.problem.transitions[n][after]
            costs[first[n] + at] += chance * cost[at, best]
            steps[first[n] + at, first[after] + best] += chance
            chosen.append(best)
        solved = np.linalg.solve(np.eye(data.states) - gamma * steps, costs)
        value = {n: np.asarray(solved[first[n] : first[n] + len(p)]) for n, p in data.partitions.items()}
        if before and all((a == b).all() for a, b in zip(before, chosen, strict=True)):
            break
    return value


# From decisions to the closed policy table that `MigrationPolicy` checks and values ------------------------------------

Decide = Callable[[int, IntArray, int], IntArray]
"""(nodes, cuts, next node count) -> cuts."""
Relabel = Callable[[MigrationPolicy, tuple[int, IntArray] | None, int, IntArray], IntArray]
"""(problem, (nodes, cuts) before or None for now, next node count, its cuts) -> the node of each task."""


def least_moved(problem: MigrationPolicy, before: tuple[int, IntArray] | None, after: int, cuts: IntArray) -> IntArray:
    """Label a decision's intervals so that least state moves."""
    w = problem.workload
    if before is None:
        kept, most = int(w.kept.sum()), w.nodes
        free = [*np.flatnonzero(w.kept).tolist(), *range(most, most + max(0, after - kept))]
        return labelled(w.current, cuts, np.where(w.draining[w.current], 0.0, w.state), free)
    nodes, old = before
    return labelled(spread(old, np.arange(old.size - 1)), cuts, w.state, range(max(nodes, after)))


def close(
    problem: MigrationPolicy,
    first: Callable[[int], IntArray],
    decide: Decide,
    relabel: Relabel = least_moved,
    leave: Callable[[int], bool] = lambda states: False,
) -> np.ndarray | None:
    """Follow the decisions from now through all that can happen, state by state in the order they are met.

    Parameters
    ----------
    first : callable
        Next node count -> cuts, for the first step.
    decide : callable
        Called once for every state and next count.
    relabel : callable
        Which node takes which interval.
    leave : callable
        Number of states so far -> whether to give up, with None.
    """
    w = problem.workload
    blank = np.full((len(problem.counts), w.key_groups), NOT_ASKED, dtype=np.int32)
    column = {n: j for j, n in enumerate(problem.counts)}
    states: list[tuple[int, IntArray]] = [(problem.nodes_now, cuts_of(w.current))]
    met: set[tuple[int, bytes]] = set()
    table: list[np.ndarray] = []
    while len(table) < len(states):
        if leave(len(states)):
            return None
        row, before = blank.copy(), states[len(table)]
        for after in problem.transitions[before[0]] if table else problem.first_row:
            new = decide(*before, after) if table else first(after)
            row[column[after]] = relabel(problem, before if table else None, after, new)
            key = (after, new.tobytes())
            if key not in met:
                met.add(key)
                states.append((after, new))
        table.append(row)
    return np.stack(table)


def greedy(data: DensePolicyModel, value: dict[int, FloatArray]) -> np.ndarray:
    """The closed table of the decisions that are cheapest if the partitions have some values."""
    gamma = data.problem.discount

    def cuts(after: int, cost: FloatArray) -> IntArray:
        return np.array(data.partitions[after][int(np.argmin(cost + gamma * value[after]))], dtype=np.int64)

    def decide(nodes: int, now: IntArray, after: int) -> IntArray:
        return cuts(after, data.cost[nodes, after][data.number[nodes][tuple(now.tolist())]])

    table = close(data.problem, lambda after: cuts(after, data.first[after]), decide)
    assert table is not None
    return table


# The states of a small `MigrationPolicy` in one row, now first: what the statements of its linear programs share.

NOW = "now"
State = str | tuple[int, int]
"""`NOW`, or a node count and the place of a partition in its class."""
Branch = tuple[State, int]
"""A state and the node count that is revealed in it."""
Decision = tuple[State, int, int]
Shares = dict[Branch, FloatArray]
"""How much of a branch each partition of the next class takes."""


class PolicyChain:
    """States, branches and costs, in units of all the state.

    Parameters
    ----------
    problem : MigrationPolicy
        Small: its partitions and their distances are written out.

    Raises
    ------
    InputError
        For more pairs of partitions than a statement can hold.
    """

    def __init__(self, problem: MigrationPolicy) -> None:
        self.problem = problem
        sizes = {n: number_of_partitions(problem.starts(n), n) for n in problem.reachable}
        require_few(sum(sizes[n] * sizes[after] for n, row in problem.reachable.items() for after in row))
        self.data = DensePolicyModel(problem)
        self.states: list[State] = [NOW, *((n, i) for n, p in self.data.partitions.items() for i in range(len(p)))]

    @property
    def most(self) -> float:
        """1 / (1 - gamma): the number of all steps, discounted."""
        return 1 / (1 - self.problem.discount)

    def chances(self, state: State) -> dict[int, float]:
        """Probabilities of the next node count."""
        return dict(self.problem.first_row if isinstance(state, str) else self.problem.transitions[state[0]])

    def branches(self) -> Iterator[tuple[Branch, float, list[float]]]:
        """Every branch, its probability there, and what each partition of the next class costs."""
        unit = self.problem.scale
        for state in self.states:
            for after, chance in self.chances(state).items():
                cost = self.data.first[after] if isinstance(state, str) else self.data.cost[state[0], after][state[1]]
                yield (state, after), chance, (cost / unit).tolist()

    def decisions(self) -> Iterator[tuple[Decision, float]]:
        """Every decision - a state, the count that is revealed, a partition of its class - and what it costs."""
        return (((r, after, j), c) for (r, after), _, cost in self.branches() for j, c in enumerate(cost))

    def assignment(self, shares: Shares) -> np.ndarray:
        """The policy that takes, on every branch, the partition of the largest share."""
        partitions, number = self.data.partitions, self.data.number

        def cuts(branch: Branch) -> IntArray:
            return np.array(partitions[branch[1]][int(np.argmax(shares[branch]))], dtype=np.int64)

        def decide(nodes: int, now: IntArray, after: int) -> IntArray:
            place: Cuts = tuple(now.tolist())
            return cuts(((nodes, number[nodes][place]), after))

        table = close(self.problem, lambda after: cuts((NOW, after)), decide)
        assert table is not None
        return table

    def measures(self, assignment: np.ndarray) -> tuple[dict[str, float], dict[tuple[str, int, int], float]]:
        """How often a known policy visits each state, and takes each decision there, by their names."""
        table, counts, gamma = self.problem.table(assignment), self.problem.counts, self.problem.discount
        states = assignment.shape[0]
        step = np.zeros((states, states))
        for r, j in np.argwhere(table.chance > 0):
            step[r, table.target[r, j]] += table.chance[r, j]
        often = np.linalg.solve(np.eye(states) - gamma * step.T, np.arange(states) == 0)
        names = [NOW, *(name_of(self._reached(assignment, r, j)) for r, j in table.origin[1:])]
        taken = {}
        for r, j in np.argwhere(table.chance > 0).tolist():
            _, place = self._reached(assignment, r, j)
            taken[names[r], counts[j], place] = float(often[r] * table.chance[r, j])
        return dict(zip(names, often.tolist(), strict=True)), taken

    def _reached(self, assignment: np.ndarray, r: int, j: int) -> tuple[int, int]:
        after = self.problem.counts[j]
        return after, self.data.number[after][tuple(cuts_of(assignment[r, j]).tolist())]


def one_decision_each(shares: Shares) -> bool:
    """Whether each branch has a single decision, up to a solver's tolerances: a deterministic policy."""
    return all(float(share.sum() - share.max(initial=0.0)) <= 1e-6 for share in shares.values())


def name_of(state: State) -> str:
    """A state's name in files of models."""
    return state if isinstance(state, str) else f"n{state[0]}_p{state[1]}"
