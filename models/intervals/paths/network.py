"""The networks of interval migration: arcs in topological order, one source, one sink."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.integers import whole_numbers
from keyshift.models.intervals.labels import labelled, open_nodes, partners
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.intervals.policy.dense import Cuts, all_partitions, number_of_partitions, require_few, state_kept
from keyshift.models.intervals.sequence.problem import MigrationSequence
from keyshift.models.intervals.step.problem import IntervalMigration
from keyshift.models.workload import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Network:
    """An acyclic network.

    Attributes
    ----------
    states : list
        Names of its nodes: the first is the source, the last the sink.
    tail, head : ndarray of int
        The ends of each arc, as places in `states`.
    cost : ndarray
        State moved along each arc, in units of state.
    names : list
        Names of the arcs.
    """

    states: Sequence[Hashable]
    tail: IntArray
    head: IntArray
    cost: FloatArray
    names: Sequence[Hashable]

    @cached_property
    def unit(self) -> float:
        """A power of two near the largest cost, 1 without any: costs in it suit a solver's tolerances."""
        most = float(self.cost.max(initial=0.0))
        return math.ldexp(1.0, math.frexp(most)[1]) if most > 0 else 1.0

    @cached_property
    def leaving(self) -> list[list[int]]:
        """The arcs out of each state."""
        return _by_state(self.tail, len(self.states))

    @cached_property
    def entering(self) -> list[list[int]]:
        """The arcs into each state."""
        return _by_state(self.head, len(self.states))

    def path(self, flow: FloatArray) -> list[int]:
        """The arcs of a path from source to sink that a flow of one unit uses: at each state, where most goes."""
        found, at = [], 0
        while at != len(self.states) - 1:
            found.append(max(self.leaving[at], key=lambda e: flow[e]))
            at = int(self.head[found[-1]])
        return found


def _by_state(ends: IntArray, states: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(states)]
    for arc, state in enumerate(ends.tolist()):
        found[state].append(arc)
    return found


def state_sums(state: FloatArray) -> tuple[list[int], int]:
    """Prefix sums of state sizes as whole numbers, exact, and the shift that makes floats of them again."""
    whole, shift = whole_numbers(np.asarray(state))
    return list(accumulate((int(s) for s in whole), initial=0)), shift


def one_path(flow: FloatArray) -> bool:
    """Whether a flow of one unit goes along one path alone, up to a solver's tolerances."""
    return bool((np.abs(flow - np.rint(flow)) <= 1e-6).all())


def named(name: object) -> str:
    """The name of a state or an arc, for files of models: i2,k5,free, or the positions of cuts."""
    label = getattr(name, "label", None)
    if label is not None:
        return str(label)
    return str(name) if isinstance(name, str | int) else "_".join(named(part) for part in name)  # type: ignore[attr-defined]


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


class SequenceNetwork:
    r"""The partitions that a sequence of migrations can lead through.

    A state is a partition after a step, an arc leads to one after the next and costs :math:`c(P, P')`, the least
    state that must move between them. A path is a sequence of partitions, and its length the state moved.

    The positions of `StepNetwork` do not chain: its costs are data because the old cells are. In a sequence, what an
    interval of step t keeps depends on the cuts of step t - 1, which are decided as well. The cost is then a product
    of two paths' flows; made linear, it couples the two networks by rows under which flows need not be whole. A state
    that remembers the cuts of both steps up to a position is exact, and grows by a factor of about m n' a step. So the
    network here is that of the paper's recursion (Figure 8) over partitions written out: for small instances.

    Parameters
    ----------
    problem : MigrationSequence
    strengthened : bool, default True
        Where the count stays, the partition does, which is optimal as c is a metric - unless a rule says otherwise.

    Raises
    ------
    InputError
        For more pairs of partitions than a statement can hold.
    """

    def __init__(self, problem: MigrationSequence, strengthened: bool = True) -> None:
        self.problem, self.strengthened = problem, strengthened
        w = problem.workload
        self.total = float(w.state.sum())
        self.known: dict[int, list[Cuts]] = {}
        self.keepable = np.where(w.draining[w.current], 0.0, w.state)
        self.network = self._draw()

    def _partitions(self, nodes: int) -> list[Cuts]:
        if nodes not in self.known:
            self.known[nodes] = list(all_partitions(self.problem.prefix.starts(self.problem.limit(nodes)), nodes))
        return self.known[nodes]

    def _stays(self, t: int) -> bool:
        """Whether the partition of a step is taken to be that of the step before."""
        return self.strengthened and t > 1 and self.problem.counts[t - 1] == self.problem.counts[t - 2]

    def _draw(self) -> Network:
        """Draw a layer for every step; the last partitions lead to the sink for nothing."""
        problem = self.problem
        sizes = [number_of_partitions(problem.prefix.starts(problem.limit(n)), n) for n in problem.counts]
        require_few(sum(a * b for a, b in pairwise([1, *sizes])))
        now = tuple(cuts_of(self.problem.workload.current).tolist())
        states: list[object] = [(0, now)]
        before, first = [now], 0
        tail: list[int] = []
        head: list[int] = []
        cost: list[float] = []
        for t, nodes in enumerate(self.problem.counts, start=1):
            state = self.keepable if t == 1 else self.problem.workload.state
            stays = self._stays(t)
            after = self._partitions(nodes)
            for i, p in enumerate(before):
                for j, q in enumerate(after):
                    if not stays or i == j:
                        tail.append(first + i)
                        head.append(len(states) + j)
                        cost.append(0.0 if stays else max(0.0, self.total - state_kept(p, q, state)))
            first = len(states)
            states += [(t, q) for q in after]
            before = after
        sink = len(states)
        tail += range(first, sink)
        head += [sink] * len(before)
        cost += [0.0] * len(before)
        states.append("end")
        return Network(
            states=states,  # type: ignore[arg-type]
            tail=np.array(tail, dtype=np.int64),
            head=np.array(head, dtype=np.int64),
            cost=np.array(cost),
            names=[(states[a], states[b]) for a, b in zip(tail, head, strict=True)],
        )

    def arcs_of(self, assignment: IntArray) -> list[int]:
        """The path of a known assignment; where it moves without need, of the partition that stays."""
        places = {
            ends: e for e, ends in enumerate(zip(self.network.tail.tolist(), self.network.head.tolist(), strict=True))
        }
        number = {state: v for v, state in enumerate(self.network.states)}
        found, at = [], 0
        cuts = cuts_of(self.problem.workload.current)
        for t, row in enumerate(assignment, start=1):
            if not self._stays(t):
                cuts = cuts_of(row)
            after = number[t, tuple(cuts.tolist())]
            found.append(places[at, after])
            at = after
        return [*found, places[at, len(self.network.states) - 1]]

    def assignment(self, arcs: Sequence[int]) -> IntArray:
        """The assignment after each step to the partitions of a path."""
        w, rows = self.problem.workload, []
        before, state = w.current, self.keepable
        for e in list(arcs)[:-1]:
            _, cuts = self.network.states[self.network.head[e]]  # type: ignore[misc]
            before = labelled(before, np.array(cuts), state, open_nodes(self.problem))
            state = w.state
            rows.append(before)
        return np.stack(rows)


def drawn(problem: IntervalMigration | MigrationSequence, strengthened: bool = True) -> SequenceNetwork | StepNetwork:
    """A problem drawn as a network, with the way from an assignment to a path and back."""
    return SequenceNetwork(problem, strengthened) if isinstance(problem, MigrationSequence) else StepNetwork(problem)
