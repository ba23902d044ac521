"""The network of one interval migration: its dynamic program, state by state."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.intervals.labels import labelled, open_nodes, partners
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.intervals.paths.network import Network, state_sums
from keyshift.models.intervals.step.problem import IntervalMigration
from keyshift.models.workload import IntArray

FREE, TAKEN = "free", "taken"
MOST_ARCS = 1_000_000


class StepState(NamedTuple):
    """So many intervals cover the first tasks; whether the old node of the cell cut in two there is free."""

    intervals: int
    tasks: int
    node: str

    @property
    def label(self) -> str:
        """Its name in files of models."""
        return f"i{self.intervals},k{self.tasks},{self.node}"


class StepArc(NamedTuple):
    """The interval from one task up to another, and the old node's freedom at both ends."""

    interval: int
    start: int
    node_before: str
    end: int
    node_after: str

    @property
    def label(self) -> str:
        """Its name in files of models: y[i0,k0,free,k4,taken] is the first interval, of tasks 0 to 3."""
        return f"i{self.interval},k{self.start},{self.node_before},k{self.end},{self.node_after}"


class StepNetwork:
    r"""The states and arcs that a migration of one step can take.

    Positions 0..m lie between the tasks; the old intervals are cells. A state (j, x, f) says that j new intervals
    cover the tasks before x, and, where x lies inside a cell, whether its old node is still free (f) for the tasks
    beyond x. An arc is one more interval [a, b) within the load limit. Served by an old node whose cell it meets, and
    which is free, it keeps the state they have in common, else none; it moves the rest, which is its cost. Among the
    nodes that lead from one state to the same other, the arc takes the one that keeps most.

    A path from (0, 0, free) to the end is a partition into at most n' intervals with a labelling, and its length the
    state moved. Overlaps never cross, so an old node that serves an interval is one that this sweep can choose. Layers
    count the intervals: one row over all arcs in place of layers would do so too, but a flow under such a row need
    not be whole.

    Parameters
    ----------
    problem : IntervalMigration

    Raises
    ------
    InputError
        For more than `MOST_ARCS` arcs.
    """

    def __init__(self, problem: IntervalMigration) -> None:
        self.problem = problem
        w = problem.workload
        self.tasks = w.key_groups
        self.layers = min(problem.nodes_after, self.tasks)
        self.cuts = problem.old_cuts.tolist()
        self.cell = np.repeat(np.arange(len(self.cuts) - 1), np.diff(problem.old_cuts)).tolist()
        self.stays = ~w.draining[problem.old_nodes]
        self.sums, self.shift = state_sums(w.state)
        self.needed = self._needed()
        self.network = self._draw()

    def _needed(self) -> list[int]:
        """Fewest intervals from each position to the end; more than there are tasks where none suffice."""
        reach = np.searchsorted(self.problem.starts, np.arange(self.tasks + 1), side="right") - 1
        self.reach = reach.tolist()
        needed = [self.tasks + 1] * self.tasks + [0]
        for x in range(self.tasks - 1, -1, -1):
            if self.reach[x] > x:
                needed[x] = needed[self.reach[x]] + 1
        return needed

    def _draw(self) -> Network:
        """Draw what lies between source and sink, layer by layer."""
        source, sink = StepState(0, 0, FREE), "end"
        number: dict[Any, int] = {source: 0}
        arcs: list[tuple[int, Any, int, StepArc]] = []
        waiting = [source] if self.needed[0] <= self.layers else []
        for state in waiting:  # grows
            if len(arcs) > MOST_ARCS:
                raise InputError(
                    f"the network of intervals has more than the {MOST_ARCS} arcs that a statement writes out"
                )
            j, a, f = state
            for b in range(a + 1, self.reach[a] + 1):
                if j + 1 + self.needed[b] > self.layers:
                    continue
                for g, moved in self._ways(a, f, b):
                    after = StepState(j + 1, b, g)
                    if b < self.tasks and after not in number:
                        number[after] = len(number)
                        waiting.append(after)
                    arcs.append((number[state], sink if b == self.tasks else after, moved, StepArc(j, a, f, b, g)))
        number[sink] = len(number)
        return Network(
            states=list(number),
            tail=np.array([arc[0] for arc in arcs], dtype=np.int64),
            head=np.array([number[arc[1]] for arc in arcs], dtype=np.int64),
            cost=np.array([float(Fraction(arc[2], 2**self.shift)) for arc in arcs]),
            names=[arc[3] for arc in arcs],
        )

    def _common(self, a: int, b: int, cell: int) -> int:
        """State that the interval [a, b) has in common with a cell whose node may keep it."""
        if not self.stays[cell]:
            return 0
        return self.sums[min(b, self.cuts[cell + 1])] - self.sums[max(a, self.cuts[cell])]

    def _inside(self, position: int) -> bool:
        """Whether a position lies inside a cell."""
        return 0 < position < self.tasks and self.cell[position - 1] == self.cell[position]

    def _ways(self, a: int, f: str, b: int) -> list[tuple[str, int]]:
        """The states that the interval [a, b) can lead to, and the least state, in whole units, that it moves then."""
        everything = self.sums[b] - self.sums[a]
        first, last = self.cell[a], self.cell[b - 1]
        cells = range(first + (f == TAKEN), last + 1)
        if not self._inside(b):
            return [(FREE, everything - max((self._common(a, b, z) for z in cells), default=0))]
        ways = []
        if not (first == last and f == TAKEN):
            kept = max((self._common(a, b, z) for z in cells if z != last), default=0)
            ways.append((FREE, everything - kept))
            ways.append((TAKEN, everything - self._common(a, b, last)))
        else:
            ways.append((TAKEN, everything))
        return ways

    def arcs_of(self, assignment: IntArray) -> list[int]:
        """The path of a known assignment, or of a labelling of its intervals that keeps no less."""
        w, cuts = self.problem.workload, cuts_of(assignment)
        nodes = partners(w.current, cuts, self.problem.keepable_state).tolist()
        places = {name: e for e, name in enumerate(self.network.names)}
        found, f = [], FREE
        for j, (a, b) in enumerate(pairwise(cuts.tolist())):
            last = int(w.current[b - 1])
            going_on = f if self.cell[a] == self.cell[b - 1] else FREE  # the cell's node may be taken already
            g = (TAKEN if nodes[j] == last else going_on) if self._inside(b) else FREE
            found.append(places[StepArc(j, a, f, b, g)])
            f = g
        return found

    def assignment(self, arcs: Sequence[int]) -> IntArray:
        """The assignment to the intervals of a path."""
        cuts = np.array([0, *(self.network.names[e].end for e in arcs)], dtype=np.int64)  # type: ignore[attr-defined]
        return labelled(self.problem.workload.current, cuts, self.problem.keepable_state, open_nodes(self.problem))
