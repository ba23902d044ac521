r"""Annealed search over lists of moves: how "milp" finds most of its answers.

The largest deviation alone says nothing about which step helps; :math:`\sum_i |dev_i|^4` does. An assignment is a list
of moves (key group, node), and a step edits one or two of them: two exchange their nodes; another key group of the same
node leaves instead; a move starts or ends elsewhere; a node is put between the ends of a move, or taken out from there.
Half of the key groups that a step draws are those whose load comes nearest to the difference wanted. A step is taken
when the sum does not rise, or with a probability that falls as the search cools. No guarantee on the objective; a step
takes O(log p).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.workload import IntArray
from keyshift.solvers.allocation.annealing import kernels
from keyshift.solvers.allocation.arrays import Instance

STEPS = 300_000
"""Steps of the first round, and of all on small instances."""
MOVES, LONGEST = 40, 100.0
"""With more moves than so many, rounds grow as their number to the power of 3/2; at most so many times."""
CHUNK = 20_000
"""Steps between two looks at the clock, and as many as four times the key groups."""


def generator(seed: int, stream: int) -> np.ndarray:
    """State of a kernel's random generator, shape (1,): one for each seed and stream."""
    return np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64) | np.uint64(1)


class Round(NamedTuple):
    """What a round of annealing is to do; `fresh` ones start from the current assignment, the others from the best assignment."""

    steps: int
    hot: float
    cold: float
    doublings: int
    fresh: bool


class Search:
    """Rounds of annealing; each starts from an assignment of the caller's.

    Parameters
    ----------
    instance : Instance
    seed : int
    """

    def __init__(self, instance: Instance, seed: int) -> None:
        self.instance, self.seed = instance, seed
        it = instance
        self.order = np.lexsort((it.load, it.current)).astype(np.int64)
        self.bump = 1.0 + it.distance(it.current)
        self.chunk = CHUNK + 4 * it.key_groups
        self.best_moves = np.full((2, it.max_moves + 1), -1, np.int64)

    polish = Round(STEPS // 3, 0.3, 0.03, 2, False)
    """The round that improves an assignment without leaving its neighbourhood."""

    def schedule(self, turn: int) -> Round:
        """Steps and temperatures of a round.

        Many short rounds from the current assignment find more than one long one, and fourth powers and squares find
        different things.
        Large instances need long rounds. There short and cold ones, each twice as long, improve the given start first,
        so that a short time limit is served too; later every third round continues from the best.
        """
        size = min(LONGEST, max(1.0, (self.instance.max_moves / MOVES) ** 1.5))
        short = 2.0 ** min(turn, 30) < size
        steps = int(STEPS * (2.0**turn if short else size * (1.0 + turn / 60)))
        if short or (size > 1 and turn % 3 == 2):
            return Round(steps, 0.1, 0.01, 1, False) if turn % 2 == 0 else Round(steps, 0.3, 0.03, 2, False)
        return Round(steps, 3.0, 0.1, 2, True) if turn % 2 == 0 else Round(steps, 1.0, 0.1, 1, True)

    def begin(self, start: IntArray, stream: int) -> None:
        """Start a round from an assignment within the migration limits; capacities may be broken, to be mended."""
        it = self.instance
        self.rng = generator(self.seed, stream)
        away = np.flatnonzero(start != it.current)
        if away.size > it.max_moves:
            raise ValueError(f"{away.size} key groups have moved, the limit is {it.max_moves}")
        dev, used = it.deviations(it.current), it.used(it.current)
        moves, role = np.full((4, it.max_moves + 1), -1, np.int64), np.full(it.key_groups, -1, np.int64)
        first, tally = np.full(it.nodes, -1, np.int64), np.zeros(2)
        for x, k in enumerate(away):
            kernels.put(
                x, k, start[k], it.load, it.weight, it.current, it.use, it.cost, moves, role, first, dev, used, tally
            )
        tally[0] = away.size
        self.state = (moves, role, first, dev, used, np.zeros(it.nodes), tally)

    def run(self, steps: int, hot: float, cold: float, value: float, doublings: int = 2) -> IntArray | None:
        """Anneal for some steps.

        Parameters
        ----------
        steps : int
        hot, cold : float
            Temperature first and last, in units of one node at the best distance.
        value : float
            Load distance to beat, in units of the mean; `inf` takes the first assignment within all capacities.
        doublings : int, default 2
            The exponent is 2 to this power.

        Returns
        -------
        ndarray or None
            The best assignment found, None when none is below `value`.
        """
        it = self.instance
        value = min(value, self.bump)
        found = kernels.anneal(
            self.rng, steps, doublings, hot, cold, self.best_moves, value, self.bump,
            it.load, it.weight, it.mean, it.draining, it.open_to_all, it.current, it.use, it.room, it.cost,
            self.order, it.by_node[1], it.max_moves, it.max_cost, *self.state,
        )  # fmt: skip
        if found >= value:
            return None
        count = self.best_moves[0, -1]
        assignment = it.current.copy()
        assignment[self.best_moves[0, :count]] = self.best_moves[1, :count]
        return assignment
