"""Keys that are alike, as one record: the compact representation of [Fang2016], section IV."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from keyshift.models.base.compiling import sealed
from keyshift.models.errors import InputError
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
