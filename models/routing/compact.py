"""Keys that are alike, as one record: the compact representation of [Fang2016], section IV, and its discretisation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keyshift.models.base.compiling import njit, sealed
from keyshift.models.errors import InputError
from keyshift.models.routing.problem import MixedRouting
from keyshift.models.workload import FloatArray, IntArray, Workload


@dataclass(frozen=True, eq=False)
class CompactKeys:
    """Records (d, h, load, state, count), and which keys each stands for.

    A plan on records is a list of *shares* (record, d', units); with it the records are the paper's 6-vectors
    (d', d, h, v_c, v_S, #). Whether a record is a single key or a class of keys alike, plans are made by the same
    code: the full key space is the special case of one key per record.

    Attributes
    ----------
    current, home : ndarray of int, shape (r,)
        d and h of each record.
    load, state : ndarray, shape (r,)
        v_c and v_S of each of its keys.
    count : ndarray of int, shape (r,)
        #, the keys that it stands for, >= 1.
    members : ndarray of int, shape (p,)
        Keys, record after record.
    """

    current: IntArray
    home: IntArray
    load: FloatArray
    state: FloatArray
    count: IntArray
    members: IntArray

    def __post_init__(self) -> None:
        for name, array in vars(self).items():
            object.__setattr__(self, name, sealed(array))

    @property
    def size(self) -> int:
        """Number of records."""
        return int(self.count.size)

    @property
    def heads(self) -> IntArray:
        """The first key of each record, shape (r,)."""
        return self.members[np.cumsum(self.count) - self.count]

    def expand(self, record: IntArray, to: IntArray, units: IntArray) -> IntArray:
        """Node of every key under a plan, shape (p,).

        Within a record, the keys take the shares in the order of their positions. (The paper takes them by psi and
        their true values; that would pick the heaviest first and bias the estimate of every node's load.)

        Parameters
        ----------
        record, to, units : ndarray of int, shape (s,)
            Shares: so many units of a record go to a node. They must add up to `count` for every record.
        """
        if not np.array_equal(np.bincount(record, weights=units, minlength=self.size), self.count):
            raise InputError("the shares of a plan do not add up to the records' counts")
        by_record = np.argsort(record, kind="stable")
        assignment = np.empty(self.members.size, dtype=np.int64)
        assignment[self.members] = np.repeat(to[by_record], units[by_record])
        return assignment


def every_key(workload: Workload) -> CompactKeys:
    """The full key space: one record for each key."""
    p = workload.key_groups
    assert workload.home is not None
    return CompactKeys(
        workload.current, workload.home, workload.last_load, workload.state, np.ones(p, dtype=np.int64), np.arange(p)
    )


def compact(
    workload: Workload,
    load: FloatArray | None = None,
    state: FloatArray | None = None,
    label: IntArray | None = None,
) -> CompactKeys:
    """Group keys alike in (current, home, load, state); records come out in ascending order of the four. O(p log p).

    Parameters
    ----------
    workload : Workload
    load, state : ndarray, shape (p,), optional
        Values to group by (discretised ones); None takes the true ones, which loses nothing.
    label : ndarray of int, shape (p,), optional
        Keys of different labels are not alike.
    """
    assert workload.home is not None
    loads, load_code = np.unique(workload.last_load if load is None else load, return_inverse=True)
    states, state_code = np.unique(workload.state if state is None else state, return_inverse=True)
    code = workload.current * workload.nodes + workload.home
    label = np.zeros_like(code) if label is None else label
    labels = int(label.max(initial=0)) + 1
    if code.max(initial=0) * loads.size * states.size * labels < 2**62:
        code = ((code * loads.size + load_code) * states.size + state_code) * labels + label
        members = np.argsort(code, kind="stable")
        changes = code[members][1:] != code[members][:-1]
    else:  # too many different values for one 64-bit code
        members = np.lexsort((label, state_code, load_code, code))
        differs = [a[members][1:] != a[members][:-1] for a in (code, load_code, state_code, label)]
        changes = np.logical_or.reduce(differs)
    first = np.flatnonzero(np.concatenate([[True], changes]))
    heads = members[first]
    return CompactKeys(
        workload.current[heads], workload.home[heads], loads[load_code[heads]], states[state_code[heads]],
        np.diff(np.append(first, members.size)), members,
    )  # fmt: skip


def with_means(keys: CompactKeys, workload: Workload) -> CompactKeys:
    """The same records, each with the mean of its keys' true loads and states in place of the values grouped by."""
    starts = np.concatenate([[0], np.cumsum(keys.count)[:-1]])
    load, state = (np.add.reduceat(v[keys.members], starts) / keys.count for v in (workload.last_load, workload.state))
    return replace(keys, load=load, state=state)


# Half-linear, half-exponential discretisation of loads and states ([Fang2016], section IV-B) --------------------------


def hlhe(values: FloatArray, degree: int, *, printed: bool = False) -> FloatArray:
    r"""Replace each value by a representative, so that the sum over all of them hardly changes.

    Representatives are :math:`sR, \dots, 2R, R, R/2, \dots, 2, 1` with :math:`s = \lfloor \max / R \rfloor`, in units
    of the smallest positive value. In descending order, each value takes one of its two neighbours (the largest
    representative <= it, and the next larger one), whichever leaves the smaller accumulated deviation; ties go to the
    smaller one. A value above the largest representative takes that one. O(p log p).

    Departures from the print: zeros (keys without load in the last window) stay zeros; and when the largest value is
    below R, so that s = 0, R itself is the first representative - as printed, everything above R/2 would become R/2.

    Parameters
    ----------
    values : ndarray, shape (p,)
    degree : int
        R, a power of two; R = 1 keeps whole numbers (in units of the smallest) as they are.
    printed : bool, default False
        The rule as printed: the larger neighbour where the accumulated deviation is positive, else the smaller one. On the
        paper's own ten values it ends at -1, where the text has 0.
    """
    if degree < 1 or degree & (degree - 1):
        raise InputError(f"the degree of discretisation R = {degree} must be a power of two")
    made = np.zeros(values.size)
    order = np.argsort(-values, kind="stable")
    order = order[: int(np.count_nonzero(values))]
    if order.size:
        unit = values[order[-1]]
        made[order] = discretise(values[order] / unit, degree, printed) * unit
    return made


def discretised(workload: Workload, degree: int, *, printed: bool = False) -> CompactKeys:
    """Records of keys alike after discretising load and state; see `hlhe`.

    Parameters
    ----------
    degree : int
        R, a power of two.
    printed : bool, default False
        Whether a record carries the representatives, chosen by the printed rule, as in the paper. HLHE keeps the sum
        over all keys right, not the sum over those that a plan moves: these are picked by their values. So by default
        (our departure) a record carries the mean of its keys' true values; node loads are then exact before the plan,
        and nearly so after it.
    """
    load, state = (hlhe(values, degree, printed=printed) for values in (workload.last_load, workload.state))
    keys = compact(workload, load, state)
    return keys if printed else with_means(keys, workload)


# The loops of the HLHE discretisation, compiled ------------------------------------------------------------------------


@njit(cache=True)
def representative(x, deviation, degree, top, printed=False):
    """The value that stands for x, in units of the smallest positive value, when values come in descending order.

    Representatives are top = s*R, ..., 2R, R, R/2, ..., 2, 1. Of the one below (or at) x and the one above it, take the
    one that leaves the smaller accumulated deviation; ties go below. Zero stays zero; nothing goes above `top`.
    """
    if x >= top:
        return top
    if x == 0.0:
        return 0.0
    if x >= degree:
        low = x // degree * degree
        high = low + degree
    else:
        low = 1.0
        while 2.0 * low <= x:
            low *= 2.0
        high = 2.0 * low
    if printed:
        return high if deviation > 0.0 else low
    return high if abs(deviation + x - high) < abs(deviation + x - low) else low


@njit(cache=True)
def discretise(values, degree, printed=False):
    """Representatives of values >= 1 given in descending order."""
    top = max(np.floor(values[0] / degree), 1.0) * degree
    made = np.empty(values.size)
    deviation = 0.0
    for i in range(values.size):
        made[i] = representative(values[i], deviation, float(degree), top, printed)
        deviation += values[i] - made[i]
    return made


# Which records may go where: the part of the problem that a declarative model states ----------------------------------


def records_of(problem: MixedRouting) -> CompactKeys:
    """Keys alike as one record, also to the rules; over windows, whose loads differ, every key is one, with its mean load."""
    if problem.planned.count > 1:
        return every_key(problem.typical())
    return compact(problem.typical(), label=problem.alike if problem.rules else None)


@dataclass(frozen=True, eq=False)
class Choices:
    """Open (record, node) pairs, and what the records with a single one contribute.

    A model needs variables only for records with two pairs or more; the others are sums.

    Attributes
    ----------
    problem : MixedRouting
    keys : CompactKeys
        All records; grouped without discretisation, so that nothing is lost.
    record, node : ndarray of int
        The pairs of records that have a choice, record by record.
    fixed, fixed_node, fixed_units : ndarray of int
        Shares of the records without one: so many keys of a record go to a node.
    """

    problem: MixedRouting
    keys: CompactKeys
    record: IntArray
    node: IntArray
    fixed: IntArray
    fixed_node: IntArray
    fixed_units: IntArray

    @classmethod
    def of(cls, problem: MixedRouting, keys: CompactKeys, record: IntArray, node: IntArray) -> Choices:
        """Sort pairs, given record by record, into those with a choice and those without."""
        options = np.bincount(record, minlength=keys.size)
        single = options[record] == 1
        fixed = record[single]
        return cls(problem, keys, record[~single], node[~single], fixed, node[single], keys.count[fixed])

    @classmethod
    def all(cls, problem: MixedRouting, each: bool = False) -> Choices:
        """Every record may go to every kept node: the whole problem; with `each`, every key is a record of its own."""
        keys = every_key(problem.typical()) if each else records_of(problem)
        kept = np.flatnonzero(problem.workload.kept)
        return cls.of(problem, keys, np.repeat(np.arange(keys.size), kept.size), np.tile(kept, keys.size))

    def by_key(self, x: Sequence[Any]) -> dict[tuple[int, int], Any]:
        """The units on pairs by node and the first key of their record, which stands for all: rules see no difference."""
        heads = self.keys.heads
        made = dict(zip(zip(heads[self.record].tolist(), self.node.tolist(), strict=True), x, strict=True))
        shares = zip(heads[self.fixed].tolist(), self.fixed_node.tolist(), self.fixed_units.tolist(), strict=True)
        for k, i, units in shares:
            made[k, i] = made.get((k, i), 0) + units
        return made

    @property
    def state_unit(self) -> float:
        """A unit near the smallest state, so that solvers do not take it for zero; otherwise all the state."""
        positive, scale = self.keys.state[self.keys.state > 0], self.problem.scale
        return float(positive.min()) if positive.size and scale < 1e9 * positive.min() else scale

    @property
    def moves(self) -> np.ndarray:
        """Whether a pair is a migration, by pair."""
        return np.asarray(self.node != self.keys.current[self.record])

    @property
    def excepts(self) -> np.ndarray:
        """Whether a pair needs a table entry, by pair."""
        return np.asarray(self.node != self.keys.home[self.record])

    def windows(self) -> Iterator[tuple[str, MixedRouting, FloatArray]]:
        """Each window's letter, empty where there is one; the problem in it alone; the load of each record's keys."""
        each = self.problem.by_window
        loads = [self.keys.load] if len(each) == 1 else self.problem.planned.load[:, self.keys.heads]
        for s, (window, load) in enumerate(zip(each, loads, strict=True)):
            yield "" if len(each) == 1 else f"s{s}", window, load

    def fixed_load(self, load: FloatArray) -> FloatArray:
        """The load that records without a choice put on each node, shape (n,)."""
        weight = load[self.fixed] * self.fixed_units
        return np.bincount(self.fixed_node, weights=weight, minlength=self.problem.workload.nodes)

    @property
    def fixed_entries(self) -> int:
        """Table entries of the records without a choice."""
        return int(self.fixed_units[self.fixed_node != self.keys.home[self.fixed]].sum())

    def fixed_moved(self, state: np.ndarray) -> np.ndarray:
        """State that the records without a choice move, given that of each record's keys, one term a share."""
        moved = self.fixed_node != self.keys.current[self.fixed]
        return np.asarray((state[self.fixed] * self.fixed_units)[moved])

    def units(self, assignment: IntArray) -> IntArray | None:
        """Units on each pair under an assignment; None if it uses other pairs."""
        n = self.problem.workload.nodes
        of_key = np.repeat(np.arange(self.keys.size), self.keys.count)
        cell = of_key * n + assignment[self.keys.members]
        used, amount = np.unique(cell, return_counts=True)
        filled = dict(zip(used.tolist(), amount.tolist(), strict=True))
        units = np.array([filled.get(c, 0) for c in (self.record * n + self.node).tolist()], dtype=np.int64)
        fixed = sum(filled.get(c, 0) for c in (self.fixed * n + self.fixed_node).tolist())
        return units if units.sum() + fixed == assignment.size else None

    def assignment(self, units: IntArray) -> IntArray:
        """The assignment that belongs to the units on each pair, shape (p,)."""
        return self.keys.expand(
            np.concatenate([self.record, self.fixed]),
            np.concatenate([self.node, self.fixed_node]),
            np.concatenate([units, self.fixed_units]),
        )
