"""A migration policy that is computed once, saved, loaded, and asked in microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.partitions import PartitionClass, matches


@dataclass(frozen=True, eq=False)
class Policy:
    """For every partition of every class and every next node count: where to go.

    Attributes
    ----------
    classes : dict of int to PartitionClass
    choice : dict of (int, int) to ndarray of int32
        For (n, n') the row of class n' to move to, for every row of class n. Pairs of probability 0 and (n, n), where
        staying is optimal, are left out.
    value : dict of int to ndarray
        For every row of class n a number such that V* lies in ``[value + low, value + high]``.
    low, high : float
        The certified interval, in units of state.
    discount : float
    prefix : ndarray of int64, shape (m + 1,)
        Prefix sums of the state in whole units of `unit`.
    unit : float
    """

    classes: dict[int, PartitionClass]
    choice: dict[tuple[int, int], np.ndarray]
    value: dict[int, FloatArray]
    low: float
    high: float
    discount: float
    prefix: IntArray
    unit: float

    def decide(self, nodes: int, cuts: IntArray, nodes_after: int) -> IntArray:
        """The cuts of the next partition.

        Parameters
        ----------
        nodes : int
            Number of nodes now.
        cuts : array_like of int
            Partition now, from 0 to m; one that the tables know takes microseconds, any other a pass over the class
            of `nodes_after`.
        nodes_after : int
            The revealed node count.

        Raises
        ------
        InputError
            If there is no class for the count.
        """
        if nodes_after not in self.classes:
            raise InputError(f"nodes_after = {nodes_after}: the policy covers {sorted(self.classes)}")
        target = self.classes[nodes_after]
        cuts = np.asarray(cuts, dtype=np.int64)
        if nodes in self.classes and (nodes == nodes_after or (nodes, nodes_after) in self.choice):
            at = self.classes[nodes].index(cuts)
            if at is not None:
                return cuts if nodes == nodes_after else target.cuts(int(self.choice[nodes, nodes_after][at]))
        return target.cuts(int(np.argmin(self.costs(cuts, nodes_after))))

    def costs(self, cuts: IntArray, nodes_after: int, prefix: IntArray | None = None) -> FloatArray:
        """State moved now plus discounted value, for every row of a class, from any partition."""
        target = self.classes[nodes_after]
        common = matches(cuts, target.rows, target.tasks, self.prefix if prefix is None else prefix)
        moved = (int(self.prefix[-1]) - common) * self.unit
        return np.asarray(moved + self.discount * self.value[nodes_after])

    def save(self, path: str | Path) -> None:
        """Write the policy to one ``.npz`` file, whole or not at all."""
        from keyshift.solvers.intervals.policy.policy_files import write_policy

        arrays: dict[str, np.ndarray] = {"prefix": self.prefix}
        for n, c in self.classes.items():
            arrays |= {f"rows_{n}": c.rows, f"parent_{n}": c.parent, f"first_{n}": c.first}
            arrays |= {f"starts_{n}": c.starts, f"value_{n}": self.value[n]}
        arrays |= {f"choice_{n}_{after}": chosen for (n, after), chosen in self.choice.items()}
        about = {"low": self.low, "high": self.high, "discount": self.discount, "unit": self.unit}
        write_policy(path, {**about, "classes": list(self.classes)}, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy that `save` wrote.

        Raises
        ------
        InputError
            If the file is not a policy, of another format, or torn: what it holds does not fit together.
        """
        from keyshift.solvers.intervals.policy.policy_files import read_policy

        about, held = read_policy(path)
        parts = ("starts", "first", "parent", "rows")
        classes = {n: PartitionClass(n, *(held[f"{part}_{n}"] for part in parts)) for n in about.classes}
        choice = {}
        for name, chosen in held.items():
            if name.startswith("choice_"):
                n, after = map(int, name.split("_")[1:])
                choice[n, after] = chosen
        values = {n: held[f"value_{n}"] for n in classes}
        return cls(classes, choice, values, about.low, about.high, about.discount, held["prefix"], about.unit)
