"""The states of a small `MigrationPolicy` in one row, now first: what the statements of its linear programs share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from keyshift.models.intervals.partition import cuts_of
from keyshift.models.intervals.policy.closing import close
from keyshift.models.intervals.policy.dense import Cuts, DensePolicyModel, number_of_partitions, require_few
from keyshift.models.intervals.policy.problem import MigrationPolicy
from keyshift.models.workload import FloatArray, IntArray

NOW = "now"
State = str | tuple[int, int]
"""`NOW`, or a node count and the place of a partition in its class."""
Branch = tuple[State, int]
"""A state and the node count that is revealed in it."""
Shares = dict[Branch, FloatArray]
"""How much of a branch each partition of the next class takes."""


class PolicyChain:
    """States, branches and costs, in units of all the state.

    Parameters
    ----------
    problem : MigrationPolicy
        Small: its partitions and their distances are written out.
    tick : callable, optional
        Called for every row of costs.

    Raises
    ------
    InputError
        For more pairs of partitions than a statement can hold.
    """

    def __init__(self, problem: MigrationPolicy, tick: Callable[[], None] = lambda: None) -> None:
        self.problem = problem
        sizes = {n: number_of_partitions(problem.starts(n), n) for n in problem.reachable}
        require_few(sum(sizes[n] * sizes[after] for n, row in problem.reachable.items() for after in row))
        self.data = DensePolicyModel(problem, tick)
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
    """Whether one decision has all of every branch, up to a solver's tolerances: a policy that throws no dice."""
    return all(float(share.sum() - share.max(initial=0.0)) <= 1e-6 for share in shares.values())


def name_of(state: State) -> str:
    """A state's name in files of models."""
    return state if isinstance(state, str) else f"n{state[0]}_p{state[1]}"
