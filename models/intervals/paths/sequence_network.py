"""The network of a known sequence of interval migrations: a layer of partitions for every step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from keyshift.models.intervals.labels import labelled, open_nodes
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.intervals.paths.network import Network
from keyshift.models.intervals.policy.dense import Cuts, all_partitions, number_of_partitions, require_few, state_kept
from keyshift.models.intervals.sequence.problem import MigrationSequence
from keyshift.models.workload import IntArray


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
