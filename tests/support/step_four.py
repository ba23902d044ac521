"""Step 4 of ALBIC ([Madsen2016], Algorithm 2) as a declared program: what the contraction that ALBIC solves is held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from keyshift.heuristics.collocation.albic import Demand
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.allocation.cpsat_model import AllocationCpSat
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.problem import Violation
from keyshift.models.workload import IntArray, Workload


@dataclass(frozen=True, eq=False)
class StepFour:
    r"""Balance, while sets of key groups move as one and a pair comes together.

    To (1)-(7) of `KeyGroupAllocation`, with its objective and its numbers of :math:`x_{ki}`, come, for the sets
    :math:`P_1, P_2, \dots` of step 2 and for the pair of step 3 with the sets that its ends belong to, M, and its
    node j:

    .. math::

        (12) \quad & x_{ki} = x_{li}    && \text{for neighbours } k, l \text{ in a set, and every } i \\
        (13) \quad & x_{ki} = 0         && \text{for every } k \in M \text{ and } i \ne j

    The usual way is to contract every set to one key group of all its load and cost, and to take what the pair needs
    off the limit (`keyshift.heuristics.collocation.albic`). Both have the same plans where there is one limit on
    migrations, on their cost or on their number; with both, a contracted set weighs what it takes of the tighter one,
    and this statement keeps each limit for itself.

    Attributes
    ----------
    allocation : KeyGroupAllocation
        The workload as measured, and the limits.
    sets : tuple of ndarray of int
        Key groups that move as one; disjoint.
    members : ndarray of int
        M; empty where no pair is demanded.
    node : int
        j.
    """

    allocation: KeyGroupAllocation
    sets: tuple[IntArray, ...] = ()
    members: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    node: int = -1

    def neighbours(self) -> Iterator[tuple[int, int]]:
        """The pairs of (12)."""
        for members in self.sets:
            yield from pairwise(np.sort(members).tolist())

    def violations(self, assignment: IntArray) -> list[Violation]:
        """The limits, sets and pairs that an assignment breaks."""
        return [*self.allocation.violations(assignment), *self._torn_sets(assignment), *self._missed_demand(assignment)]

    def _torn_sets(self, assignment: IntArray) -> list[Violation]:  # (12)
        w = self.allocation.workload
        return [
            Violation("sets", f"key groups {w.key(k)} and {w.key(other)} of one set are on two nodes", k)
            for k, other in self.neighbours()
            if assignment[k] != assignment[other]
        ]

    def _missed_demand(self, assignment: IntArray) -> list[Violation]:  # (13)
        w, there = self.allocation.workload, self.allocation.workload.node(self.node)
        return [
            Violation(
                "pair", f"key group {w.key(k)} is on node {w.node(assignment[k])}, it should be on node {there}", k
            )
            for k in self.members.tolist()
            if assignment[k] != self.node
        ]


def step_four(
    problem: CollocatedAllocation, measured: Workload, partitions: list[IntArray], demand: Demand | None
) -> StepFour:
    """Step 4 as a program of its own, nothing contracted: what `plan_under` solves, for its statements."""
    program = replace(problem.allocation, workload=measured)
    sets = tuple(partitions)
    return StepFour(program, sets) if demand is None else StepFour(program, sets, demand.members, demand.node)


class StepFourCpSat(AllocationCpSat):
    """(1)-(7) by `AllocationCpSat`, the demands by one method each. The numbers are those of `StepFour`."""

    def __init__(self, step: StepFour) -> None:
        super().__init__(step.allocation)
        self.step = step
        self.sets_move_as_one()
        self.pair_comes_together()

    def sets_move_as_one(self) -> None:
        """(12) Neighbours in a set run on the same node."""
        for k, other in self.step.neighbours():
            for i in range(self.workload.nodes):
                one, two = self.x.get((k, i)), self.x.get((other, i))
                if one is not None or two is not None:
                    row = (0 if one is None else one) == (0 if two is None else two)
                    self.model.add(row).with_name(f"one_set[k{k},k{other},n{i}]")

    def pair_comes_together(self) -> None:
        """(13) The demanded key groups run nowhere else than on their node."""
        demanded = set(self.step.members.tolist())
        for (k, i), x in self.x.items():
            if k in demanded and i != self.step.node:
                self.model.add(x == 0).with_name(f"pair[k{k},n{i}]")
