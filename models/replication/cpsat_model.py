"""Replicas of key groups in whole numbers for CP-SAT. The numbers are those of `ReplicatedAllocation`'s docstring."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models.base.integers import WHOLE_BITS, scaled
from keyshift.models.replication.problem import ReplicatedAllocation
from keyshift.models.workload import IntArray

ROUNDING = 1e-12
"""Relative rounding of a float sum of shares."""


class ReplicationCpSat:
    """(1)-(8), with shares of load per unit of capacity as whole numbers; `bound` takes off what that can round.

    Parameters
    ----------
    problem : ReplicatedAllocation
    most : float, optional
        A largest load that is known: a copy that alone has more on a node is not placed there.

    Attributes
    ----------
    model : ortools.sat.python.cp_model.CpModel
        Variables ``z[key group,copies]``, ``x[key group,copies,node]`` and ``largest``.
    """

    def __init__(self, problem: ReplicatedAllocation, most: float = math.inf) -> None:
        self.problem, w = problem, problem.workload
        self.model = cp_model.CpModel()
        self.numbers = range(1, problem.most_copies + 1)
        self.nodes, self.key_groups = np.flatnonzero(problem.slots).tolist(), range(w.key_groups)
        share = problem.shares_of(problem.most_copies)[..., self.nodes]
        self.fits = share <= most * (1 + ROUNDING)
        self.share = scaled(np.where(self.fits, share, 0.0).ravel(), WHOLE_BITS)
        self.whole = self.share.values.reshape(share.shape).tolist()
        self.variables()
        self.copies_of_each()
        self.node_loads()
        self.copies_in_all()
        self.copies_of_a_node()
        self.migrations()
        self.model.minimize(self.largest)

    def variables(self) -> None:
        """z, x, which exists only for nodes with room - that is (8) -, and L."""
        new = self.model.new_bool_var
        self.z = {(k, c): new(f"z[k{k},c{c}]") for k in self.key_groups for c in self.numbers}
        self.x = {
            (k, c, i): new(f"x[k{k},c{c},n{i}]") for k, c in self.z for at, i in enumerate(self.nodes)
            if self.fits[k, c - 1, at]
        }  # fmt: skip
        self.largest = self.model.new_int_var(0, sum(max(map(max, row)) for row in self.whole), "largest")

    def copies_of_each(self) -> None:
        """(1) to (3) A key group has one number of copies, and as many copies on different nodes."""
        for k in self.key_groups:
            self.model.add_exactly_one(self.z[k, c] for c in self.numbers)
        for (k, c), z in self.z.items():
            places = [self.x[k, c, i] for i in self.nodes if (k, c, i) in self.x]
            self.model.add(sum(places) == c * z)
            for x in places:
                self.model.add_implication(x, z)

    def node_loads(self) -> None:
        """(4) No node's load per unit of capacity exceeds the largest."""
        for at, i in enumerate(self.nodes):
            terms = [self.whole[k][c - 1][at] * self.x[k, c, i] for k, c in self.z if (k, c, i) in self.x]
            self.model.add(sum(terms) <= self.largest).with_name(f"node_load[n{i}]")

    def copies_in_all(self) -> None:
        """(5) There are at most so many copies."""
        self.model.add(sum(c * z for (_, c), z in self.z.items()) <= self.problem.copies).with_name("copies")

    def copies_of_a_node(self) -> None:
        """(6) A node holds at most so many copies."""
        for i in self.nodes:
            here = sum(self.x[k, c, i] for k, c in self.z if (k, c, i) in self.x)
            self.model.add(here <= int(self.problem.slots[i])).with_name(f"at_most[n{i}]")

    def migrations(self) -> None:
        """(7) At most so many copies are where none is now."""
        if self.problem.max_migrations is not None:
            new = sum(x for (k, _, i), x in self.x.items() if not self.problem.held[k, i])
            self.model.add(new <= self.problem.max_migrations).with_name("max_migrations")

    def set_start(self, assignment: IntArray) -> None:
        """Hint a known assignment."""
        count = assignment.sum(axis=1)
        self.model.clear_hints()
        for (k, c), z in self.z.items():
            self.model.add_hint(z, bool(count[k] == c))
        for (k, c, i), x in self.x.items():
            self.model.add_hint(x, bool(count[k] == c and assignment[k, i]))

    def assignment(self, value: Callable[[Any], int]) -> IntArray:
        """Read the nodes of each key group's copies through ``value``, a function from a variable to its value."""
        made = np.zeros(self.problem.held.shape, dtype=np.int64)
        for (k, _, i), x in self.x.items():
            made[k, i] |= value(x)
        return made

    def bound(self, integer_bound: float) -> float:
        """Turn a proven bound on the integer objective into a safe one on the largest load."""
        least = self.share.lower(math.ceil(integer_bound - 1e-6), terms=len(self.key_groups))
        return max(0.0, least * (1 - ROUNDING * len(self.key_groups)))
