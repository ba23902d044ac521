"""A migration policy that is computed once, saved, loaded, and asked in microseconds.

A file is one ``.npz`` archive of arrays, and a header in JSON.

=======================  ==============================================================================================
``about``                a JSON text: format, version, classes, low, high, discount, unit
``prefix``               prefix sums of the state in whole units, shape (tasks + 1,)
``starts_<n>``           for the class of n nodes: leftmost start of an interval for every end, shape (tasks + 1,)
``first_<n>``            first trie node of every cut, shape (tasks + 1,)
``parent_<n>``           parent of every trie node
``rows_<n>``             inner cuts of every partition, shape (partitions, n)
``value_<n>``            value of every partition
``choice_<n>_<after>``   for every partition of class n the partition of class `after` to move to
=======================  ==============================================================================================
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from keyshift.models.base.disk import parse_json, read_archive, write_archive
from keyshift.models.base.schema import Count, FileFormat, Finite, Positive, Whole, object_of
from keyshift.models.errors import InputError, naming
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


# Migration policies on disk: one ``.npz`` archive of arrays, and a header in JSON -------------------------------------


_CHOICE = re.compile(r"choice_([0-9]{1,9})_([0-9]{1,9})")


class PolicyHeader(FileFormat, kind="keyshift-policy", newest=2):
    """The header ``about`` of a migration policy."""

    classes: Annotated[list[Count], Field(min_length=1, description="Node counts")]
    low: Annotated[Finite, Field(description="The optimal values lie in [value + low, value + high]")]
    high: Finite
    discount: Annotated[float, Field(ge=0, lt=1)]
    unit: Annotated[Positive, Field(description="State that one whole unit stands for")]


class ProgressHeader(FileFormat, kind="keyshift-policy-progress"):
    """The header ``about`` of a policy iteration under way, beside an array ``value_<n>`` for each class."""

    problem: Annotated[str, Field(description="SHA-256 of what the values depend on")]
    values: Annotated[str, Field(description="SHA-256 of the values")]
    rounds: Whole
    stalled: Whole
    least: Annotated[float, Field(description="Narrowest certified interval so far")]


def write_policy(path: str | Path, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write header and arrays in one step."""
    _write(path, PolicyHeader, about, arrays)


def read_policy(path: str | Path) -> tuple[PolicyHeader, dict[str, np.ndarray]]:
    """Header and arrays of a policy, which fit together.

    Raises
    ------
    InputError
        With the file, and the array that is missing, of another type or shape, or that points nowhere.
    """
    try:
        content, held = _opened(path)
    except InputError as error:
        raise InputError(f"{path} holds no migration policy ({str(error).removeprefix(f'{path} ')})") from None
    if type(content.get("format")) is int and content["format"] == 1:  # version 0.1 had a number only
        content = {**content, **PolicyHeader.stamp()}
    header = PolicyHeader.of(content, str(path))
    with naming(path):
        _refuse_torn(header, held)
    return header, held


def _write(
    path: str | Path, kind: type[FileFormat], about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    header = np.array(json.dumps({**kind.stamp(), **about}, allow_nan=False))
    write_archive(path, {**arrays, "about": header})


def _opened(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header of an archive, and its other arrays."""
    held = read_archive(path)
    about = held.pop("about", None)
    if about is None or about.dtype.kind != "U" or about.ndim:
        raise InputError(f"{path} has no header")
    return object_of(parse_json(str(about), str(path)), str(path)), held


def write_progress(
    path: str | Path, problem: str, values: Mapping[int, np.ndarray], rounds: int, stalled: int, least: float
) -> None:
    """Write the values between two rounds of policy iteration, in one step."""
    about = {"problem": problem, "values": _digest(values), "rounds": rounds, "stalled": stalled, "least": least}
    _write(path, ProgressHeader, about, {f"value_{n}": value for n, value in values.items()})


def read_progress(
    path: str | Path, problem: str, sizes: Mapping[int, int]
) -> tuple[ProgressHeader, dict[int, np.ndarray]]:
    """The values between two rounds; `InputError` if they are torn, or belong to another problem."""
    content, held = _opened(path)
    header = ProgressHeader.of(content, str(path))
    if header.problem != problem:
        raise InputError(f"{path} holds the policy iteration of another problem")
    values = {n: held.get(f"value_{n}") for n in sizes}
    fits = all(v is not None and v.dtype == float and v.shape == (sizes[n],) for n, v in values.items())
    read = {n: np.array(v) for n, v in values.items() if v is not None}
    if not fits or _digest(read) != header.values:
        raise InputError(f"{path} is damaged: its values are not those that were written")
    return header, read


def _digest(values: Mapping[int, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for n, value in sorted(values.items()):
        digest.update(f"{n}:{value.size}:".encode() + np.ascontiguousarray(value, dtype=np.float64).tobytes())
    return digest.hexdigest()


def _refuse_torn(header: PolicyHeader, held: Mapping[str, np.ndarray]) -> None:
    """Every array is there, of its type and shape, and points into those that it is about."""
    if not header.low <= header.high or len(set(header.classes)) < len(header.classes):
        raise InputError("low is above high, or a class is named twice")
    tasks = _whole(held, "prefix", 1).size - 1
    if tasks < 1 or (np.diff(held["prefix"]) < 0).any() or held["prefix"][0] != 0:
        raise InputError("prefix does not rise from 0")
    sizes = {n: _class(held, n, tasks) for n in header.classes}
    parts = ("starts", "first", "parent", "rows", "value")
    known = {"prefix", *(f"{part}_{n}" for part in parts for n in header.classes)}
    for name in sorted(set(held) - known):
        match = _CHOICE.fullmatch(name)
        n, after = map(int, match.groups()) if match else (0, 0)
        if n not in sizes or after not in sizes:
            raise InputError(f"{name!r:.60} names a class that is not there")
        _within(name, _whole(held, name, 1, sizes[n]), 0, sizes[after] - 1)


def _class(held: Mapping[str, np.ndarray], n: int, tasks: int) -> int:
    """Check the arrays of one class; the number of its partitions."""
    starts, first = (_whole(held, f"{part}_{n}", 1, tasks + 1) for part in ("starts", "first"))
    _within(f"starts_{n}", starts, 0, tasks)
    parent, rows = _whole(held, f"parent_{n}", 1), _whole(held, f"rows_{n}", 2)
    _within(f"first_{n}", first, 0, parent.size)
    _within(f"parent_{n}", parent, 0, parent.size - 1)
    _within(f"rows_{n}", rows, 0, tasks)
    if rows.shape[1] != n or not rows.shape[0]:
        raise InputError(f"rows_{n} has shape {rows.shape}, expected (partitions, {n})")
    value = held.get(f"value_{n}")
    if value is None or value.dtype.kind != "f" or value.shape != rows.shape[:1] or not np.isfinite(value).all():
        raise InputError(f"value_{n} must hold {rows.shape[0]} finite numbers")
    return int(rows.shape[0])


def _whole(held: Mapping[str, np.ndarray], name: str, ndim: int, size: int | None = None) -> np.ndarray:
    found = held.get(name)
    if found is None or found.dtype.kind not in "iu" or found.ndim != ndim or (size is not None and found.size != size):
        raise InputError(f"{name} must be an array of whole numbers{'' if size is None else f', shape ({size},)'}")
    return found


def _within(name: str, values: np.ndarray, least: int, most: int) -> None:
    if values.size and not (int(values.min()) >= least and int(values.max()) <= most):
        raise InputError(f"{name} must lie in {least} to {most}")
