"""Which records may go where: the part of the problem that a declarative model states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keyshift.models.routing.compact import CompactKeys, compact, every_key
from keyshift.models.routing.problem import MixedRouting
from keyshift.models.workload import FloatArray, IntArray


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
