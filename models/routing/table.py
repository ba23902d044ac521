"""The routing table that an engine loads to route a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models.base import guards
from keyshift.models.base.labels import aligned, ordered
from keyshift.models.errors import InputError, naming
from keyshift.models.problem import read_assignment
from keyshift.models.workload import IntArray, Workload


@dataclass(frozen=True)
class TableChange:
    """The update that turns one table into another: entries to put (new or redirected) and keys to drop.

    Attributes
    ----------
    keys, nodes : ndarray of int
        Entries to put, by ascending key.
    dropped : ndarray of int
        Keys whose entry goes, ascending.
    """

    keys: IntArray
    nodes: IntArray
    dropped: IntArray

    @property
    def size(self) -> int:
        """Number of edits."""
        return int(self.keys.size + self.dropped.size)


class RoutingTable:
    """The exceptions to a hash: keys (positions in the workload) in ascending order, with the node of each.

    Look-up is ``table node if the key has an entry, else the hash``, and is vectorised: O(q log size) for q keys.

    Parameters
    ----------
    keys : array_like of int, shape (size,)
        Keys with an entry, no two alike; any order.
    nodes : array_like of int, shape (size,)
        The node of each.

    Raises
    ------
    InputError
        For a key named twice, a negative number, or arrays of two lengths.

    Examples
    --------
    >>> table = RoutingTable([7, 2], [1, 0])
    >>> table.lookup([2, 3, 7], home=[1, 1, 0]).tolist()
    [0, 1, 1]
    """

    def __init__(self, keys: ArrayLike, nodes: ArrayLike) -> None:
        both = aligned({"keys": keys, "nodes": nodes}, what="")[0]
        keys, nodes = both.get("keys", keys), both.get("nodes", nodes)
        given = guards.indices("keys", keys, length=np.size(keys), what="key")
        node = guards.indices("nodes", nodes, length=given.size, what="node")
        order = np.argsort(given, kind="stable")
        self.keys = guards.frozen(given[order])
        self.nodes = guards.frozen(node[order])
        if (twice := np.flatnonzero(self.keys[1:] == self.keys[:-1])).size:
            raise InputError(f"keys names key {self.keys[twice[0]]} twice")

    @classmethod
    def of(cls, problem: Any, assignment: Any = None) -> RoutingTable:
        """The table for an assignment of a problem or a workload, by default the current one: keys not on their hash's node."""
        w: Workload = getattr(problem, "workload", problem)
        if w.home is None:
            raise InputError("the workload has no home: a routing table needs the node that each key hashes to")
        given = getattr(assignment, "assignment", assignment)
        nodes = w.current if given is None else read_assignment(given, w.key_groups, w.nodes, w.keys)
        keys = np.flatnonzero(nodes != w.home)
        return cls(keys, nodes[keys])

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(self.keys.size)

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RoutingTable):
            return NotImplemented
        return bool(np.array_equal(self.keys, other.keys) and np.array_equal(self.nodes, other.nodes))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RoutingTable({self.size} entries)"

    def lookup(self, keys: ArrayLike, home: ArrayLike) -> IntArray:
        """Node of each key: its entry, or else its hash.

        Parameters
        ----------
        keys : array_like of int, shape (q,)
        home : array_like of int, shape (q,)
            The hash of each of these keys.
        """
        both = aligned({"keys": keys, "home": home}, what="")[0]
        asked = np.asarray(both.get("keys", keys), dtype=np.int64)
        found = np.array(both.get("home", home), dtype=np.int64)
        if found.shape != asked.shape:
            raise InputError(f"home has shape {found.shape}, expected {asked.shape}: one node for each key asked for")
        if self.size:
            at = np.minimum(np.searchsorted(self.keys, asked), self.size - 1)
            listed = self.keys[at] == asked
            found[listed] = self.nodes[at[listed]]
        return found

    def assignment(self, home: ArrayLike) -> IntArray:
        """Node of every key 0..p-1, given the hash of each, shape (p,)."""
        return self.lookup(np.arange(np.size(home)), ordered("home", home, None, np.size(home), "keys"))

    def diff(self, previous: RoutingTable) -> TableChange:
        """The edits that turn the previous table into this one."""
        known = np.isin(self.keys, previous.keys, assume_unique=True)
        same = known.copy()
        same[known] = self.nodes[known] == previous.nodes[np.searchsorted(previous.keys, self.keys[known])]
        dropped = np.setdiff1d(previous.keys, self.keys, assume_unique=True)
        return TableChange(self.keys[~same], self.nodes[~same], dropped)

    def apply(self, change: TableChange) -> RoutingTable:
        """The table with some edits applied: ``previous.apply(new.diff(previous)) == new``."""
        stays = ~np.isin(self.keys, np.concatenate([change.dropped, change.keys]))
        return RoutingTable(
            np.concatenate([self.keys[stays], change.keys]), np.concatenate([self.nodes[stays], change.nodes])
        )

    def migrations(self, previous: RoutingTable, home: ArrayLike) -> IntArray:
        """Keys whose state moves when this table replaces the previous one: the paper's Delta(F, F'), ascending."""
        hashed = np.asarray(ordered("home", home, None, np.size(home), "keys"), dtype=np.int64)
        touched = np.union1d(self.keys, previous.keys)
        before, after = previous.lookup(touched, hashed[touched]), self.lookup(touched, hashed[touched])
        return touched[before != after]

    # Files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, labels: Sequence[str | int] | None = None) -> None:
        """Write the table: Parquet (columns key, node), or JSON for a name that ends in .json.

        Parameters
        ----------
        path : str or Path
        labels : sequence, optional
            Labels of ALL keys (`workload.keys`); a further column, for people.
        """
        from keyshift.models.routing.table_file import write_table

        named = None if labels is None else [labels[k] for k in self.keys]
        write_table(path, self.keys.tolist(), self.nodes.tolist(), named)

    @classmethod
    def load(cls, path: str | Path) -> RoutingTable:
        """Read what `save` wrote.

        Raises
        ------
        InputError
            Names the file, and what is missing, has the wrong type or is named twice.
        """
        from keyshift.models.routing.table_file import read_table

        with naming(path):
            return cls(*read_table(path))
