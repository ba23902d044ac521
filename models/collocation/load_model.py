"""The load that remote traffic puts on nodes, which collocation saves."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from keyshift.models.base import guards
from keyshift.models.base.labels import ordered
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


@dataclass(frozen=True)
class LoadModel:
    r"""The load of a key group: processing, serialising what it sends to other nodes, deserialising what it gets from them.

    With processing load :math:`y_k` (the workload's last window) and traffic :math:`t_{kl}` (tuples from k to l),
    under an assignment a

    .. math:: load_k(a) = y_k + \sum_{l:\, a_l \ne a_k} (ser \cdot t_{kl} + des \cdot t_{lk}).

    Summed over a node, every pair that the node holds whole saves (ser + des) times its traffic; so

    .. math:: load_i(a) = \sum_{k:\, a_k = i} Y_k - (ser + des) \sum_{\{k, l\} \subseteq i} t_{\{k,l\}},

    where :math:`Y_k` is the load of k were all its traffic remote and :math:`t_{\{k,l\}} = t_{kl} + t_{lk}`. Traffic
    of a key group with itself never leaves its node and costs nothing.

    Parameters
    ----------
    serialisation, deserialisation : float, default 0
        Load that one remote tuple costs its sender and its receiver, in load units per tuple, >= 0.

    Raises
    ------
    InputError
        For a negative or non-finite cost.

    Notes
    -----
    Source: [Madsen2016], section 4.3.2 (which says that remote traffic costs (de)serialisation at both ends, and gives
    no formula).
    """

    serialisation: float = 0.0
    deserialisation: float = 0.0

    def __post_init__(self) -> None:
        for name in ("serialisation", "deserialisation"):
            object.__setattr__(self, name, guards.real(name, getattr(self, name), optional=False))

    @property
    def per_tuple(self) -> float:
        """Load of one remote tuple at both ends together."""
        return self.serialisation + self.deserialisation

    def remote_loads(self, workload: Workload) -> FloatArray:
        """Y: load of every key group if all its traffic were remote, shape (p,)."""
        return self.key_group_loads(workload, np.arange(workload.key_groups))

    def key_group_loads(self, workload: Workload, assignment: IntArray) -> FloatArray:
        """Load of every key group under an assignment, shape (p,): what a running system would measure."""
        if self.per_tuple == 0:
            return workload.last_load
        pairs = traffic_between(workload)
        away = assignment[pairs.row] != assignment[pairs.col]
        ends = pairs.row[away], pairs.col[away]
        sent, received = (np.bincount(end, pairs.data[away], workload.key_groups) for end in ends)
        return workload.last_load + self.serialisation * sent + self.deserialisation * received

    def node_loads(self, workload: Workload, assignment: IntArray) -> FloatArray:
        """Load of every node under an assignment, shape (n,)."""
        return np.bincount(assignment, self.key_group_loads(workload, assignment), workload.nodes)

    def total_load(self, workload: Workload, assignment: IntArray) -> float:
        """Load of the whole system under an assignment. The load index is this load divided by that of the start."""
        return float(self.key_group_loads(workload, assignment).sum())

    def measured(self, workload: Workload) -> Workload:
        """The workload as a running system reports it: the loads include the cost of the current remote traffic."""
        if self.per_tuple == 0:
            return workload
        last = self.key_group_loads(workload, workload.current)
        if workload.windows == 1:
            return workload.replace(load=last)
        return workload.replace(load=workload.load + (last - workload.last_load))

    @classmethod
    def for_share(cls, workload: Workload, share: float) -> LoadModel:
        """The symmetric model in which traffic makes up this share of the total load if all of it is remote.

        Parameters
        ----------
        workload : Workload
        share : float
            0 <= share < 1. [Madsen2016]'s load index of 50 % at full collocation is ``share=0.5``.
        """
        share = guards.real("share", share, optional=False)
        if share >= 1:
            raise InputError(f"share = {share:g} must be below 1: processing always costs something")
        total = float(traffic_between(workload).data.sum())
        if total == 0:
            return cls()
        cost = share / (1 - share) * float(workload.last_load.sum()) / total / 2
        return cls(cost, cost)

    @classmethod
    def fitted(cls, workload: Workload, assignment: IntArray, measured: FloatArray) -> LoadModel:
        """Retired: the model that fits measured key-group loads best, by non-negative least squares.

        Parameters
        ----------
        workload : Workload
            Its last window holds the processing loads.
        assignment : ndarray of int, shape (p,)
            Where the key groups ran when they were measured.
        measured : ndarray, shape (p,)
            The loads that were measured.
        """
        from scipy.optimize import nnls

        said = "LoadModel.fitted is retired and goes in 0.5: write LoadModel(a, b), with a, b of scipy.optimize.nnls"
        warnings.warn(said, DeprecationWarning, stacklevel=2)
        measured = ordered("measured", measured, workload.keys, workload.key_groups)
        extra = guards.non_negative("measured", measured, length=workload.key_groups, of="key groups")
        sent = cls(1.0, 0.0).key_group_loads(workload, assignment) - workload.last_load
        received = cls(0.0, 1.0).key_group_loads(workload, assignment) - workload.last_load
        costs, _ = nnls(np.column_stack([sent, received]), extra - workload.last_load)
        return cls(float(costs[0]), float(costs[1]))


def traffic_between(workload: Workload) -> sp.coo_array:
    """Traffic between different key groups."""
    if workload.traffic is None:
        said = "the workload has no traffic, which collocation needs: give it a (key groups, key groups) matrix"
        raise InputError(said)
    pairs = workload.traffic.tocoo()
    apart = pairs.row != pairs.col
    return sp.coo_array((pairs.data[apart], (pairs.row[apart], pairs.col[apart])), shape=pairs.shape)
