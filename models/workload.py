"""The workload: loads, states and current nodes of key groups, and the nodes: the data of every problem but key splitting."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property, partial, wraps
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyshift.models.base import guards
from keyshift.models.base.labels import numbered_rows, of_key_groups, of_nodes
from keyshift.models.base.lazily import pd, sp
from keyshift.models.base.names import Names, flagged, fresh, label_columns, unique_labels
from keyshift.models.errors import InputError

# What the elements are is said here and not to the type checker: NumPy's functions return platform-dependent types.
FloatArray = NDArray[Any]
IntArray = NDArray[Any]
BoolArray = NDArray[Any]

OPTIONAL = ("groups", "domains", "units")
"""Mappings that are no argument of a workload where they are empty."""
MOST_NODES = 100_000
"""More nodes than any cluster has: a larger number is a slip, and would only fill the memory."""


def _by_name(init: Callable[..., None]) -> Callable[..., None]:
    """The same, which says what to write in place of a table, or of values without names."""

    @wraps(init)
    def named(self: Workload, *given: Any, **arguments: Any) -> None:
        if given:
            kind = type(given[0])
            instead = "each by its name, such as load="
            if hasattr(kind, "columns") or hasattr(kind, "column_names"):
                instead = "Workload.from_frame(table), which finds columns by name"
            raise InputError(f"Workload takes load, state, current and nodes, not a {kind.__name__}: write {instead}")
        init(self, **arguments)

    return named


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Workload:
    """Load, state and node of every key group, and the nodes.

    p key groups, n nodes, m windows. The arrays are copied, validated and made read-only. Data with labels - pandas objects,
    mappings - are put into one order by them: that of `keys` and `node_names`, or of the first that has labels, which then are
    the names.

    Parameters
    ----------
    load : array_like, shape (m, p) or (p,)
        Load of each key group in each window, oldest window first; >= 0, in any one unit (tuples, CPU
        seconds, percent). Problems about a single window use the last row. The columns of a DataFrame are key groups.
    state : array_like, shape (p,)
        State size of each key group, >= 0: what a migration has to move (tuples, bytes).
    current : array_like of int, shape (p,)
        Node on which each key group runs now, 0..n-1.
    nodes : int, array_like of shape (n,), or mapping of names to capacities
        Number of nodes, or their capacities (> 0). Equal nodes have capacity 1. Afterwards `nodes` is the
        number and `capacity` the array.
    draining : array_like of bool, shape (n,), or names of nodes, optional
        Nodes marked for removal. At least one node must be kept.
    traffic : sparse array or array_like, shape (p, p), or a sequence of m of them, optional
        Tuples sent from key group to key group, >= 0: one matrix, or one for each window, the oldest first. Afterwards
        `traffic` is the last window's, a `scipy.sparse.csr_array`, and `earlier_traffic` holds those before it; it is empty
        where one matrix stands for all windows.
    operator : array_like of int, shape (p,), optional
        Operator that each key group belongs to, >= 0.
    home : array_like of int, shape (p,), optional
        Node to which the hash alone would send each key group.
    resources : mapping of str to array_like of shape (p,), optional
        Use of further resources (memory, network) by each key group, >= 0.
    keys : sequence of str or int, optional
        A label for each key group, no two alike.
    node_names : sequence of str or int, optional
        A name for each node, no two alike: it comes back in plans, messages and figures.
    groups : mapping of str to sequence of str or int, each of length p, optional
        Labels of key groups that rules may name: ``{"topic": [...], "partition": [...]}``; each in order, or by name.
    domains : mapping of str to sequence of str or int, each of length n, optional
        Labels of nodes: ``{"rack": [...], "zone": [...]}``; each in order, or by name: ``{"rack": {"b1": "r1", ...}}``.
    units : mapping of str to str, optional
        Units of `load` and `state` for people: ``{"load": "messages/s", "state": "bytes"}``. Bytes are printed as KB, MB and GB.

    Raises
    ------
    InputError
        Names the field, the position and the value that are wrong.

    Examples
    --------
    >>> w = Workload(load=[4, 1, 1], state=[10, 1, 1], current=[0, 0, 1], nodes=2)
    >>> w.key_groups, w.nodes, w.windows
    (3, 2, 1)
    """

    load: FloatArray
    state: FloatArray
    current: IntArray
    nodes: int
    capacity: FloatArray
    draining: BoolArray
    traffic: sp.csr_array | None
    earlier_traffic: tuple[sp.csr_array, ...]
    operator: IntArray | None
    home: IntArray | None
    resources: Mapping[str, FloatArray]
    keys: tuple[str | int, ...] | None
    node_names: tuple[str | int, ...] | None
    groups: Mapping[str, tuple[str | int, ...]]
    domains: Mapping[str, tuple[str | int, ...]]
    units: Mapping[str, str]
    window_start: ClassVar[datetime | None] = None
    """When the window begins whose workload this is, where it was counted from a log window by window."""

    # Anything array-like goes in, read-only arrays come out: hence an __init__ of our own.
    @_by_name
    def __init__(
        self,
        *,
        load: ArrayLike,
        state: ArrayLike,
        current: ArrayLike,
        nodes: int | ArrayLike | Mapping[str | int, float],
        draining: ArrayLike | Sequence[str] | Mapping[str | int, bool] | None = None,
        traffic: Any = None,
        operator: ArrayLike | None = None,
        home: ArrayLike | None = None,
        resources: Mapping[str, ArrayLike] | None = None,
        keys: Sequence[str | int] | None = None,
        node_names: Sequence[str | int] | None = None,
        groups: Mapping[str, Sequence[str | int] | Mapping[str | int, str | int]] | None = None,
        domains: Mapping[str, Sequence[str | int] | Mapping[str | int, str | int]] | None = None,
        units: Mapping[str, str] | None = None,
    ) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        by_key_group: dict[str, Any] = {
            "load": load, "state": state, "current": current, "operator": operator, "home": home,
            "resources": resources, "groups": groups, "traffic": traffic,
        }  # fmt: skip
        given, keys = of_key_groups(by_key_group, keys)
        load, state, current, operator, home, resources, groups, traffic = given
        nodes, draining, domains, node_names = of_nodes(nodes, draining, domains, node_names)
        put("load", guards.non_negative("load", load, ndim=(1, 2)))
        p = self.load.shape[1]
        if isinstance(nodes, Mapping):
            node_names = list(nodes) if node_names is None else list(node_names)
            nodes = Names("node", node_names, len(node_names)).values("nodes", nodes, 0.0)
        put("capacity", _capacities(nodes))
        n = self.capacity.size
        put("nodes", n)
        put("state", guards.non_negative("state", state, length=p, of="key groups"))
        put("current", guards.indices("current", current, length=p, upper=n, what="node"))
        called = None if node_names is None else unique_labels("node_names", node_names, length=n, of="nodes")
        put("node_names", called)
        put("draining", guards.flags("draining", flagged("draining", draining, Names("node", called, n)), length=n))
        if self.draining.all():
            raise InputError(f"draining marks all {n} nodes: at least one node must be kept")
        by_window = () if traffic is None else guards.traffic_of_windows("traffic", traffic, p, self.windows)
        put("traffic", by_window[-1] if by_window else None)
        put("earlier_traffic", by_window[:-1])
        put("operator", None if operator is None else guards.indices("operator", operator, length=p, what="operator"))
        put("home", None if home is None else guards.indices("home", home, length=p, upper=n, what="node"))
        put("resources", guards.named("resources", resources or {}, length=p))
        put("keys", None if keys is None else unique_labels("keys", keys, length=p))
        put("groups", label_columns("groups", groups or {}, self.names_of_key_groups))
        put("domains", label_columns("domains", domains or {}, self.names_of_nodes))
        if other := sorted(set(units or {}) - {"load", "state"}):
            raise InputError(f"units: there is no unit of {other[0]!r}, only of 'load' and of 'state'")
        put("units", MappingProxyType({what: str(unit) for what, unit in sorted((units or {}).items())}))

    @cached_property
    def key_groups(self) -> int:
        """Number of key groups, p."""
        return int(self.load.shape[1])

    @cached_property
    def windows(self) -> int:
        """Number of statistic windows, m."""
        return int(self.load.shape[0])

    @cached_property
    def last_load(self) -> FloatArray:
        """Load of each key group in the last window, shape (p,)."""
        return self.load[-1]

    @property
    def window_traffic(self) -> tuple[sp.csr_array, ...]:
        """The traffic of each window, the oldest first; empty where there is none."""
        if self.traffic is None:
            return ()
        return (*self.earlier_traffic, self.traffic) if self.earlier_traffic else (self.traffic,) * self.windows

    @cached_property
    def kept(self) -> BoolArray:
        """Nodes that are not draining, shape (n,)."""
        return guards.frozen(~self.draining)

    @cached_property
    def mean_load(self) -> float:
        """Load per unit of kept capacity in the last window: with equal nodes, the mean over the kept nodes."""
        return float(self.last_load.sum() / self.capacity[self.kept].sum())

    @cached_property
    def names_of_nodes(self) -> Names:
        """The names of the nodes."""
        return Names("node", self.node_names, self.nodes)

    @cached_property
    def names_of_key_groups(self) -> Names:
        """The names of the key groups."""
        return Names("key group", self.keys, self.key_groups)

    def key(self, k: int | np.integer) -> str | int:
        """The name of key group k: its label, or its number if it has none."""
        return self.names_of_key_groups[k]

    def node(self, i: int | np.integer) -> str | int:
        """The name of node i, or its number if it has none; a new node beside named ones is called "new 1" or the like."""
        return self.names_of_nodes[i]

    def replace(self, **changes: Any) -> Workload:
        """Return a copy with some fields changed, validated again.

        If `load` gets another number of windows and `traffic` is not given, every window has the last window's traffic.
        """
        values = self.arguments()
        if self.earlier_traffic and "load" in changes and len(np.atleast_2d(changes["load"])) != self.windows:
            values["traffic"] = self.traffic
        unknown = sorted(set(changes) - set(values) - set(OPTIONAL))
        if unknown:
            raise InputError(f"a workload has no field {unknown[0]!r}; its fields are {', '.join(values)}")
        return Workload(**{**values, **changes})

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        load: Hashable | Sequence[Hashable] = None,
        state: Hashable = None,
        node: Hashable = None,
        key: Hashable | Sequence[Hashable] | None = None,
        nodes: int | Sequence[str | int] | Mapping[str | int, float] | None = None,
        home: Hashable | None = None,
        operator: Hashable | None = None,
        resources: Sequence[Hashable] = (),
        draining: Sequence[str | int] = (),
        traffic: Any = None,
        groups: Sequence[Hashable] = (),
        domains: Mapping[str, Any] | Sequence[Hashable] = (),
    ) -> Workload:
        """A workload from a table with one row for each key group.

        A column that is not named is found by its usual names: load, weight, cpu or rate; state, size or
        bytes; node, broker, worker or current; key, partition or shard, and the like. If two might be meant, or none is
        found, the message says so.

        Parameters
        ----------
        frame : DataFrame
            Of pandas, Polars, Arrow, DuckDB or anything else that narwhals reads.
        load : label or list of labels, optional
            The column of loads; or columns, one for each window, the oldest first.
        state : label or number, optional
            The column of state; or a number, the same for each key group. If its name has the word *bytes*, that is the unit.
        node : label, optional
            The column of the node that runs the key group now: names, or numbers.
        key : label or list of labels, optional
            The column of the key groups' names; of more, as in ``["topic", "partition"]``, the names are joined by
            hyphens. None takes the index of a pandas frame, where it has a name or holds names.
        nodes : int, list of names, or mapping of names to capacities, optional
            All nodes, in order: those without key groups have to be named. A number: nodes are numbered from 0, or as many
            as the table has. None takes the ones that are met, sorted.
        home, operator : label, optional
        resources : list of labels, optional
            Columns of further resources.
        draining : list of names, optional
            Nodes marked for removal.
        traffic : sparse array, or a sequence of them, optional
            As for `Workload`, in the order of the rows.
        groups : list of labels, optional
            Columns of labels that rules may name, as in ``["topic", "partition"]``.
        domains : mapping, or list of labels, optional
            Labels of the nodes by name, in the order of `nodes` or by the nodes' names: ``{"rack": {"b1": "r1", ...}}``. Or
            columns: each row says the rack of its `node`, and every node has a row.

        Raises
        ------
        InputError
            Names the column, the row and the value that are wrong.
        """
        from keyshift.models.base.frames import Table, arguments_from_table

        table, columns = Table(frame), {"home": home, "operator": operator}
        made = arguments_from_table(table, load, state, node, key, nodes, columns, resources, groups, domains)
        with table.placing():
            return cls(**made, draining=dict.fromkeys(draining, True), traffic=traffic)

    def to_frame(self) -> pd.DataFrame:
        """A table with a row for each key group: key, node, load, state and further columns.

        The further columns are home, operator, resources, groups and the domains of its node. `from_frame` reads it. A
        column of labels whose name is taken is called ``group.NAME`` or ``domain.NAME``.
        """
        columns: dict[str, Any] = {
            "key": [self.key(k) for k in range(self.key_groups)],
            "node": [self.node(i) for i in self.current],
        }
        if self.windows == 1:
            columns["load"] = self.last_load
        else:
            columns |= {f"load_{t}": row for t, row in enumerate(self.load)}
        columns["state"] = self.state
        if self.home is not None:
            columns["home"] = [self.node(i) for i in self.home]
        if self.operator is not None:
            columns["operator"] = self.operator
        columns |= self.resources
        for name, labels in self.groups.items():
            columns[name if name not in columns else f"group.{name}"] = list(labels)
        for name, labels in self.domains.items():
            columns[name if name not in columns else f"domain.{name}"] = [labels[i] for i in self.current]
        return pd.DataFrame(columns)

    def arguments(self) -> dict[str, Any]:
        """The workload's arguments, by the names of its parameters."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["nodes"] = values.pop("capacity")
        if earlier := values.pop("earlier_traffic"):
            values["traffic"] = [*earlier, self.traffic]
        labels = {name: dict(values.pop(name)) for name in OPTIONAL}
        given = {name: columns for name, columns in labels.items() if columns}
        return {**values, "resources": dict(self.resources), **given}

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuilt, not copied: arrays would come back writable, and a read-only mapping does not pickle at all.
        return partial(Workload, **self.arguments()), ()

    def __repr__(self) -> str:
        optional = ("traffic", "operator", "home", "keys", "node_names")
        extras = [name for name in optional if getattr(self, name) is not None]
        drained = f", {int(self.draining.sum())} draining" if self.draining.any() else ""
        extras += [*self.resources, *self.groups, *self.domains]
        more = f", with {', '.join(extras)}" if extras else ""
        return (
            f"Workload({self.key_groups} key groups, {self.nodes} nodes{drained}, "
            f"{self.windows} window{'s' * (self.windows != 1)}{more})"
        )


def _capacities(nodes: int | ArrayLike) -> FloatArray:
    """Capacities from a node count (all 1) or from an array of capacities (all > 0)."""
    if isinstance(nodes, bool | np.bool_):
        raise InputError(f"nodes = {nodes}: give a number of nodes or an array of capacities")
    if isinstance(nodes, int | np.integer):
        if nodes < 1:
            raise InputError(f"nodes = {nodes}: at least one node is needed")
        if nodes > MOST_NODES:
            said = f"nodes = {nodes if nodes < 10**40 else 'a number of many digits'}: at most {MOST_NODES:,}"
            raise InputError(said)
        return guards.frozen(np.ones(int(nodes)))
    if np.ndim(nodes) == 0:  # a float, a string: neither a count nor a list of capacities
        raise InputError(f"nodes = {nodes!r}: give a number of nodes or an array of capacities")
    return guards.positive("nodes", nodes, "capacity")


def grown(workload: Workload, nodes: int) -> Workload:
    """The workload with nodes added, each as large as the largest there is; never fewer."""
    new = nodes - workload.nodes
    if new <= 0:
        return workload
    names = workload.node_names
    if names is not None:
        names = (*names, *fresh(names, new))
    # A new node is in no known rack: it is in one of its own.
    domains = {name: (*labels, *fresh(labels, new)) for name, labels in workload.domains.items()}
    return workload.replace(
        domains=domains,
        nodes=np.concatenate([workload.capacity, np.full(new, workload.capacity.max())]),
        draining=np.concatenate([workload.draining, np.zeros(new, dtype=bool)]),
        node_names=names,
    )


# Where key groups are and where they may go: as searches, bounds and certificates use it ----------------------------


@dataclass(frozen=True, eq=False)
class MoveSpace:
    """Every key group may stay where it is, unless rules forbid it, or enter a node that is open to key groups of its kind.

    All code that needs the allowed pairs takes them from here: a rule that closes nodes to key groups is then kept
    by every search, bound and heuristic at once.

    Attributes
    ----------
    current : ndarray of int, shape (p,)
    kind : ndarray of int, shape (p,)
        Key groups of one kind may enter the same nodes.
    enter : ndarray of bool, shape (kinds, n)
        Each row is the kind of some key group.
    stay : ndarray of bool, shape (p,), or None
        Key groups that may stay where they are; None: all of them. Searches and bounds that ignore it work on a relaxation.
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

    @classmethod
    def within(cls, current: IntArray, nodes: BoolArray) -> MoveSpace:
        """All key groups run on these nodes, shape (n,), and nowhere else."""
        space, stay = cls.of(current, nodes), nodes[current]
        return space if stay.all() else replace(space, stay=stay)

    def closed(self, key_groups: IntArray, nodes: IntArray | slice = slice(None)) -> MoveSpace:
        """The same, but some key groups may enter some nodes - all by default - no more."""
        if not key_groups.size:
            return self
        chosen = np.zeros(self.current.size, dtype=bool)
        chosen[key_groups] = True
        closed = self.enter.copy()
        closed[:, nodes] = False
        rows, kind = np.unique(self.kind + len(self.enter) * chosen, return_inverse=True)
        enter, alike = numbered_rows(np.concatenate([self.enter, closed])[rows])
        return MoveSpace(self.current, alike[kind], enter, self.stay)

    def without(self, closed: BoolArray) -> MoveSpace:
        """The same, but for pairs that are closed, shape (p, n): such a key group neither enters such a node nor stays there."""
        enter, kind = numbered_rows(self.enter[self.kind] & ~closed)
        stay = ~closed[np.arange(self.current.size), self.current]
        stay = stay if self.stay is None else stay & self.stay
        return MoveSpace(self.current, kind, enter, None if stay.all() else stay)

    @cached_property
    def open(self) -> BoolArray:
        """Nodes that some key group may enter, shape (n,)."""
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

    def may_enter(self, key_groups: IntArray, node: int | IntArray) -> BoolArray:
        """Which of some key groups may come to a node where they are not; to one node, or each to its own."""
        return np.asarray(self.enter[self.kind[key_groups], node] & (self.current[key_groups] != node))

    @property
    def allowed(self) -> BoolArray:
        """Which key group may run on which node, shape (p, n)."""
        may = self.enter[self.kind]
        may[np.arange(self.current.size), self.current] = True if self.stay is None else self.stay
        return may

    @cached_property
    def pairs(self) -> int:
        """How many pairs `allowed` has, without listing them."""
        stay = np.ones(self.current.size, dtype=bool) if self.stay is None else self.stay
        here = self.enter[self.kind, self.current]
        return int(self.enter.sum(axis=1)[self.kind].sum() + stay.sum()) - int(here.sum())
