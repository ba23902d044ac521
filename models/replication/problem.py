"""How many copies of each key group there are, and on which nodes, so that the largest node load is small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from keyshift.models.base import guards
from keyshift.models.errors import InputError
from keyshift.models.problem import Limit, Problem, Violation, read_assignment
from keyshift.models.workload import FloatArray, IntArray, Workload

MOST_CELLS = 200_000_000
"""Copies are a table of key groups by nodes, of so many cells at most: a byte each."""


@dataclass(frozen=True, eq=False)
class ReplicatedAllocation(Problem):
    r"""Copy hot key groups to several nodes, which share their load evenly, so that the largest node load is small.

    Sets and data: key groups k with load :math:`l_k` (the last window) and state :math:`s_k`, nodes i with capacity
    :math:`v_i`, and whether k has a copy on i now, :math:`h_{ki}`; numbers of copies c = 1..C, with C the number of nodes
    that do not drain or, if fewer, the copies that one key group can have when all others have one.

    Variables: :math:`z_{kc} \in \{0, 1\}`, whether k has c copies; :math:`x_{kci} \in \{0, 1\}`, whether one of c copies of k
    is on i; and the largest load :math:`L \ge 0`.

    .. math::

        \min L \quad \text{subject to}

        (1) \quad & \sum_c z_{kc} = 1                                          && \text{for every } k \\
        (2) \quad & \sum_i x_{kci} = c\, z_{kc}                                && \text{for every } k, c \\
        (3) \quad & x_{kci} \le z_{kc}                                         && \text{for every } k, c, i \\
        (4) \quad & \tfrac{1}{v_i} \sum_{k,c} \tfrac{l_k}{c} x_{kci} \le L     && \text{for every } i \\
        (5) \quad & \sum_{k,c} c\, z_{kc} \le \text{copies} \\
        (6) \quad & \sum_{k,c} x_{kci} \le \text{at\_most}                     && \text{for every } i \\
        (7) \quad & \sum_{k,c,i} (1 - h_{ki})\, x_{kci} \le \text{max\_migrations} \\
        (8) \quad & x_{kci} = 0                                                && \text{for a draining } i

    `objective` is L, in load units per unit of capacity.

    Parameters
    ----------
    workload : Workload
        p key groups on n nodes.
    copies : int
        The most copies of all key groups together; each has one or more, so with fewer than p there is no answer.
    at_most : int, optional
        The most copies that one node holds.
    max_migrations : int, optional
        The most copies on nodes that hold no copy of that key group now.
    held : array_like of bool, shape (p, n), optional
        Which nodes hold copies now. By default every key group has one copy, on its current node.

    Raises
    ------
    InputError
        Names the field and the value that are wrong.

    Notes
    -----
    An assignment has shape (p, n): 1 where a node holds a copy, 0 elsewhere. A node of each key group, shape (p,), is read
    as one copy each.

    Source: the model is ours. It is the load balancing of expert parallelism, where experts are key groups, GPUs are nodes
    and hot experts are replicated ([DeepSeek2024]); data-parallel stream operators with replicated state read the same.
    """

    name: ClassVar[str] = "replicated-allocation"
    objective_name: ClassVar[str] = "largest node load"
    worth: ClassVar[str] = "load distance"
    replayed: ClassVar[bool] = False
    ruleless: ClassVar[str] = "a rule speaks of the one node of a key group, and here it has several"

    workload: Workload
    copies: int
    at_most: int | None = None
    max_migrations: int | None = None
    held: Any = None

    def __post_init__(self) -> None:
        self._require_workload()
        w = self.workload
        if (cells := w.key_groups * w.nodes) > MOST_CELLS:
            table = f"{w.key_groups:,} key groups by {w.nodes:,} nodes"
            raise InputError(f"copies are a table: {table} are {cells:,} cells, more than {MOST_CELLS:,}")
        copies = guards.whole("copies", self.copies, optional=False)
        self._put("copies", min(copies, w.key_groups * w.nodes))
        self._put("at_most", guards.whole("at_most", self.at_most, least=1))
        self._put("max_migrations", guards.whole("max_migrations", self.max_migrations))
        place = w.current if self.held is None else self.held
        self._put("held", guards.frozen(read_copies("held", place, w, w.nodes).astype(bool)))

    # Data of the formulation ------------------------------------------------------------------------------------

    @property
    def load(self) -> FloatArray:
        """Loads of the last window, shape (p,)."""
        return self.workload.last_load

    @property
    def slots(self) -> IntArray:
        """The most copies that each node may hold, shape (n,): (6) and (8)."""
        most = self.workload.key_groups if self.at_most is None else self.at_most
        return np.where(self.workload.draining, 0, min(most, self.workload.key_groups))

    @property
    def most_copies(self) -> int:
        """C, the most copies of one key group."""
        spare = min(self.copies, int(self.slots.sum())) - self.workload.key_groups
        return max(1, min(int(self.workload.kept.sum()), spare + 1))

    def shares_of(self, most: int) -> FloatArray:
        """Load per unit of capacity of one of c copies on a node, c = 1..most, shape (p, most, n)."""
        shares = self.load[:, None, None] / np.arange(1, most + 1)[:, None] / self.workload.capacity
        return np.asarray(shares)

    def cells(self, assignment: np.ndarray) -> tuple[IntArray, IntArray]:
        """Key group and node of every copy, by key group; few cells of the table hold one."""
        given = assignment.view(bool) if assignment.dtype == np.int8 else assignment  # without another table
        return np.divmod(np.flatnonzero(given), self.workload.nodes)

    def node_loads(self, assignment: np.ndarray) -> FloatArray:
        """Load of every node per unit of capacity, shape (n,)."""
        return self._loads_of(*self.cells(assignment))

    def _loads_of(self, which: IntArray, place: IntArray) -> FloatArray:
        w = self.workload
        share = self.load / np.maximum(np.bincount(which, minlength=w.key_groups), 1)
        return np.bincount(place, share[which], w.nodes) / w.capacity

    # What every problem answers ---------------------------------------------------------------------------------

    @property
    def scale(self) -> float:
        """The mean load of the nodes that do not drain (1 when nothing has load)."""
        return float(self.load.sum()) / float(self.workload.capacity[self.workload.kept].sum() or 1.0) or 1.0

    def canonical(self, assignment: Any) -> np.ndarray:
        return read_copies("assignment", assignment, self.workload, self.workload.nodes)

    def objective(self, assignment: np.ndarray) -> float:
        return float(self.node_loads(assignment).max())

    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        which, place = self.cells(assignment)
        new, largest = ~self.held[which, place], self._loads_of(which, place)
        return {
            "largest_load": float(largest.max()),
            "load_distance": float(np.abs(largest[self.workload.kept] - self.scale).max()),
            "copies": float(which.size),
            "migrations": float(new.sum()),
            "state_moved": float(self.workload.state[which[new]].sum()),
        }

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        w, found, (which, place) = self.workload, list[Violation](), self.cells(assignment)
        for k in np.flatnonzero(np.bincount(which, minlength=w.key_groups) == 0):  # (1)
            found.append(Violation("one_copy", f"key group {w.key(k)} has no copy", int(k), 1.0))
        if (more := which.size - self.copies) > 0:  # (5)
            found.append(
                Violation("copies", f"there are {self.copies + more} copies, at most {self.copies}", amount=more)
            )
        here = np.bincount(place, minlength=w.nodes)
        for i in np.flatnonzero(here > self.slots):  # (6), (8)
            most = int(self.slots[i])
            rule, why = ("draining", "and drains") if w.draining[i] else ("at_most", f"at most {most} may be there")
            said = f"node {w.node(i)} holds {here[i]} copies, {why}"
            found.append(Violation(rule, said, int(i), float(here[i] - most)))
        new = int((~self.held[which, place]).sum())
        if self.max_migrations is not None and new > self.max_migrations:  # (7)
            said = f"{new} copies are new on their nodes, at most {self.max_migrations} may be"
            found.append(Violation("max_migrations", said, amount=float(new - self.max_migrations)))
        return found

    def conflicts(self) -> list[str]:
        room, p = int(self.slots.sum()), self.workload.key_groups
        leave = int((~(self.held & self.workload.kept)).all(1).sum())
        found = [f"{p} key groups need a copy each, and there may be {self.copies}"] if self.copies < p else []
        if room < p:
            found.append(f"{p} key groups need a copy each, and the nodes have room for {room}")
        if self.max_migrations is not None and leave > self.max_migrations:
            found.append(
                f"{leave} key groups have no copy on a node that stays, and at most {self.max_migrations} copies may be new"
            )
        return found

    @property
    def limits(self) -> list[Limit]:
        p, n = self.held.shape
        made = [Limit.of(self, "copies", whole=True, ends=p * n)]
        if self.at_most is not None:
            made.append(Limit.of(self, "at_most", whole=True, ends=max(p, self.at_most)))
        if self.max_migrations is not None:
            made.append(Limit.of(self, "max_migrations", whole=True, ends=max(p * n, self.max_migrations)))
        return [*made, self.more_nodes(held=lambda new: np.pad(self.held, ((0, 0), (0, max(0, new)))))]

    def binding(self, assignment: np.ndarray) -> list[str]:
        which, place = self.cells(assignment)
        used = {"copies": which.size, "at_most": int(np.bincount(place).max())}
        used["max_migrations"] = int((~self.held[which, place]).sum())
        return [f"{name} = {value} is used up" for name, value in used.items() if value == getattr(self, name)]

    def columns(self, assignment: np.ndarray) -> dict[str, list[Any]]:
        """How many copies each key group has, and on which nodes, for `Solution.to_frame`."""
        names = [[self.workload.node(int(i)) for i in np.flatnonzero(row)] for row in assignment]
        return {"copies": [len(nodes) for nodes in names], "targets": names}

    @property
    def now(self) -> np.ndarray:
        """The copies that there are."""
        return np.asarray(self.held, dtype=np.int8)

    # Plans and periods ------------------------------------------------------------------------------------------

    def reached(
        self, assignment: np.ndarray, step: int = 0, nodes_after: int | None = None
    ) -> tuple[Workload, IntArray]:
        """A workload of copies, each a key group with its share of the load, and the node of each after the change.

        A copy on a node that holds one now stays. A new one comes from a copy that goes, or else is taken from one that stays.
        """
        w, now = self.workload, assignment.astype(bool)
        which, place = np.nonzero(now)
        source = place.copy()
        for k in np.unique(which[~self.held[which, place]]):
            rows = np.flatnonzero(which == k)
            new = rows[~self.held[k, place[rows]]]
            origins = [*np.flatnonzero(self.held[k] & ~now[k]), *np.flatnonzero(self.held[k] & now[k])]
            source[new] = [origins[j % len(origins)] for j in range(new.size)]
        turn = np.arange(which.size) - np.searchsorted(which, which)
        keys = [str(w.key(k)) if t == 0 else f"{w.key(k)} (copy {t + 1})" for k, t in zip(which, turn, strict=True)]
        count = now.sum(axis=1)[which]
        copied = Workload(
            load=w.load[:, which] / count, state=w.state[which], current=source, nodes=w.capacity, keys=keys,
            node_names=w.node_names, draining=w.draining, domains=dict(w.domains),
        )  # fmt: skip
        return copied, place.astype(np.int64)

    def after(self, answer: Any, window: Workload) -> Self:
        """The problem of the next period: its copies are where an answer put them."""
        held = self.canonical(getattr(answer, "assignment", answer))
        here = window.replace(
            current=held.argmax(axis=1), nodes=self.workload.capacity, draining=self.workload.draining
        )
        return self.changed(workload=here, held=held)


def read_copies(name: str, given: Any, workload: Workload, nodes: int) -> np.ndarray:
    """Which nodes hold copies, shape (p, n), as fresh int8, 0 and 1; from a node each, one copy each."""
    p = workload.key_groups
    array = np.asarray(given)
    if array.ndim != 2:
        place = read_assignment(given, p, nodes, workload.keys)
        made = np.zeros((p, nodes), dtype=np.int8)
        made[np.arange(p), place] = 1
        return made
    if array.shape != (p, nodes):
        raise InputError(f"{name} has shape {array.shape}, expected ({p}, {nodes}): 1 where a node holds a copy")
    kind = array.dtype.kind
    if kind not in "biu" or array.min() < 0 or array.max() > 1:  # whole numbers are looked at without another table
        right = (array == 0) | (array == 1) if kind in "biuf" else np.zeros(array.shape, dtype=bool)
        if right.all():
            return array.astype(np.int8, order="C")
        at = tuple(np.argwhere(~right)[0])
        raise InputError(f"{name}[{at[0]}, {at[1]}] = {array[at]!r}: 1 where a node holds a copy, 0 elsewhere")
    return array.astype(np.int8, order="C")
