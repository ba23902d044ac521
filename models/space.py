"""Where key groups are and where they may go: what searches, bounds and certificates know of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from keyshift.models.workload import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class MoveSpace:
    """Every key group may stay where it is, unless rules forbid it, or enter a node that is open to key groups of its kind.

    Whoever needs to know who may go where asks this, and nothing else: a rule that closes nodes to key groups is then kept
    by every search, bound and heuristic at once.

    Attributes
    ----------
    current : ndarray of int, shape (p,)
    kind : ndarray of int, shape (p,)
        Key groups of one kind may enter the same nodes.
    enter : ndarray of bool, shape (kinds, n)
        Each row is of somebody's kind.
    stay : ndarray of bool, shape (p,), or None
        Who may stay where it is; None: everybody. Searches and bounds that take it for granted work on a relaxation.
    """

    current: IntArray
    kind: IntArray
    enter: BoolArray
    stay: BoolArray | None = None

    @classmethod
    def of(cls, current: IntArray, enter: BoolArray) -> MoveSpace:
        """All key groups may enter these nodes, shape (n,)."""
        here = np.ascontiguousarray(current, dtype=np.int64)
        return cls(here, np.zeros(here.size, dtype=np.int64), np.array(enter, dtype=bool)[None])

    def closed(self, key_groups: IntArray, nodes: IntArray | slice = slice(None)) -> MoveSpace:
        """The same, but some key groups may enter some nodes - all by default - no more."""
        chosen = np.zeros(self.current.size, dtype=bool)
        chosen[key_groups] = True
        closed = self.enter.copy()
        closed[:, nodes] = False
        rows, kind = np.unique(self.kind + len(self.enter) * chosen, return_inverse=True)
        enter, alike = np.unique(np.concatenate([self.enter, closed])[rows], axis=0, return_inverse=True)
        return MoveSpace(self.current, alike.ravel()[kind].astype(np.int64), enter, self.stay)

    def without(self, closed: BoolArray) -> MoveSpace:
        """The same, but for pairs that are closed, shape (p, n): such a key group neither enters such a node nor stays there."""
        enter = self.enter[self.kind] & ~closed
        enter, kind = np.unique(enter, axis=0, return_inverse=True)
        stay = ~closed[np.arange(self.current.size), self.current]
        stay = stay if self.stay is None else stay & self.stay
        return MoveSpace(self.current, kind.ravel().astype(np.int64), enter, None if stay.all() else stay)

    @cached_property
    def open(self) -> BoolArray:
        """Nodes that somebody may enter, shape (n,)."""
        return np.asarray(self.enter.any(axis=0))

    @cached_property
    def movers(self) -> IntArray:
        """The key groups that may leave their node."""
        return np.flatnonzero(np.asarray(self.enter.any(axis=1))[self.kind])

    @cached_property
    def barred(self) -> int:
        """How many movers may not enter every node that is open."""
        barred = np.asarray((self.enter != self.open).any(axis=1))
        return int(barred[self.kind[self.movers]].sum())

    @cached_property
    def by_node(self) -> tuple[IntArray, IntArray]:
        """The movers in the order of their current node, and where each node's begin, shape (n + 1,)."""
        here = self.current[self.movers]
        counts = np.bincount(here, minlength=self.enter.shape[1])
        return self.movers[np.argsort(here, kind="stable")], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def may_enter(self, key_groups: IntArray, node: int) -> BoolArray:
        """Which of some key groups may come to a node where they are not."""
        return np.asarray(self.enter[self.kind[key_groups], node] & (self.current[key_groups] != node))

    @property
    def allowed(self) -> BoolArray:
        """Which key group may run on which node, shape (p, n)."""
        may = self.enter[self.kind]
        may[np.arange(self.current.size), self.current] = True if self.stay is None else self.stay
        return may

    @property
    def pairs(self) -> int:
        """How many pairs `allowed` has, without listing them."""
        stay = np.ones(self.current.size, dtype=bool) if self.stay is None else self.stay
        here = self.enter[self.kind, self.current]
        return int(self.enter.sum(axis=1)[self.kind].sum() + stay.sum()) - int(here.sum())
