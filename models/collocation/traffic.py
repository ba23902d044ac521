"""Traffic between key groups: its pairs, and what a tuple costs by the labels in which two nodes differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from keyshift.models.base import guards
from keyshift.models.base.names import by_text, shortened
from keyshift.models.errors import InputError
from keyshift.models.workload import FloatArray, IntArray, Workload


@dataclass(frozen=True)
class Pairs:
    """Unordered pairs of different key groups that exchange traffic: ``first < second``, tuples both ways together."""

    first: IntArray
    second: IntArray
    traffic: FloatArray

    def __len__(self) -> int:
        return int(self.traffic.size)

    @classmethod
    def of(cls, traffic: sp.csr_array) -> Self:
        """The pairs of a matrix, in lexicographic order."""
        both = sp.csr_array(traffic + traffic.T)
        both.sort_indices()
        row = np.repeat(np.arange(both.shape[0]), np.diff(both.indptr))
        once = both.indices > row
        return cls(row[once], both.indices[once].astype(np.int64), both.data[once])

    def under(self, matrices: Sequence[sp.csr_array]) -> FloatArray:
        """The tuples of each pair by other matrices, shape (matrices, pairs); no matrix is this one's own."""
        if not matrices or not len(self):
            return np.tile(self.traffic, (max(1, len(matrices)), 1))
        return np.array([sp.csr_array(traffic + traffic.T)[self.first, self.second] for traffic in matrices])


class Levels(NamedTuple):
    """What a tuple costs between nodes: (17) of `CollocatedAllocation`, the cheapest label first.

    The blocks of a level are the nodes that share its label and those of all dearer levels: each lies within one of the next.
    """

    cost: FloatArray
    """Of two nodes that differ in this label and in no dearer one, increasing, shape (levels,)."""
    block: IntArray
    """The first node of each node's block, shape (levels, n)."""

    @property
    def step(self) -> FloatArray:
        """By how much each level costs more than the one before."""
        return np.diff(self.cost, prepend=0.0)

    def between(self, one: IntArray, other: IntArray) -> FloatArray:
        """The cost of a tuple between nodes."""
        made = np.zeros(np.broadcast_shapes(one.shape, other.shape))
        for cost, block in zip(self.cost, self.block, strict=True):
            made[block[one] != block[other]] = cost
        return made

    def weighed(self, traffic: FloatArray) -> FloatArray:
        """Traffic of pairs, in the last axis, times each level's step: all pairs of the first level, then of the second."""
        return np.concatenate([step * traffic for step in self.step], axis=-1)

    def gathered(self, nodes: Sequence[Sequence[int]]) -> list[list[dict[int, list[int]]]]:
        """For each level, the nodes that are open to each key group by their blocks."""
        made: list[list[dict[int, list[int]]]] = [[{} for _ in nodes] for _ in self.block]
        for of_level, block in zip(made, self.block.tolist(), strict=True):
            for blocks, some in zip(of_level, nodes, strict=True):
                for i in some:
                    blocks.setdefault(block[i], []).append(i)
        return made


def read_costs(costs: Any, workload: Workload) -> dict[str, float]:
    """Costs by label, the cheapest first; `InputError` for what is no label of nodes, and for a wider one that costs less."""
    if not isinstance(costs, Mapping) or not costs:
        raise InputError(f"costs = {costs!r:.60} must map labels of nodes to costs, such as {{'node': 1, 'rack': 3}}")
    given = zip(by_text("costs", costs), costs.values(), strict=True)
    read = {name: guards.real(f"costs[{name!r}]", cost, optional=False) for name, cost in given}
    labels = _labels(workload)
    if unknown := next((name for name in read if name not in labels), None):
        raise InputError(f"costs: the workload has no domain {unknown!r:.60}; it has {shortened([*labels])}")
    for wide in read:
        for narrow in read:
            finer = len({*zip(labels[narrow], labels[wide], strict=True)}) == len({*labels[narrow]})
            if finer and len({*labels[wide]}) < len({*labels[narrow]}) and read[wide] < read[narrow]:
                said = f"less than between {narrow}s, {read[narrow]:g}, of which each lies within one {wide}"
                raise InputError(f"costs: a tuple between {wide}s may not cost {read[wide]:g}, {said}")
    if not any(read.values()):
        raise InputError("costs: one of them must be above 0")
    return dict(sorted(read.items(), key=lambda entry: entry[1]))


def levels_of(costs: Mapping[str, float] | None, workload: Workload) -> Levels:
    """The levels of costs as `read_costs` returns them; without, every tuple between nodes costs 1."""
    nodes = np.arange(workload.nodes)
    if costs is None:
        return Levels(np.ones(1), nodes[None])
    labels, cost, blocks, last = _labels(workload), [], [], 0.0
    for at, value in enumerate(costs.values()):
        if value > last:
            same = list(zip(*(labels[wider] for wider in [*costs][at:]), strict=True))
            first = {label: i for i, label in reversed([*enumerate(same)])}
            cost.append(value)
            blocks.append([first[label] for label in same])
            last = value
    return Levels(np.array(cost), np.array(blocks, dtype=np.int64))


def _labels(workload: Workload) -> dict[str, Sequence[Any]]:
    return {"node": range(workload.nodes), **workload.domains}
