"""The cluster as it is: how large its nodes are, which are to go, and where key groups run now."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keyshift.models import guards
from keyshift.models.errors import InputError
from keyshift.models.files.reading import read_text, shown
from keyshift.models.placement import placement as place

LARGEST = 64 * 2**20
"""Bytes in a file of current places."""


def read_cluster(
    operators: Sequence[str],
    key_groups: int,
    nodes: int | None,
    placement: str,
    *,
    current: Path | None = None,
    capacities: str | None = None,
    draining: str | None = None,
) -> tuple[int | None, dict[str, Any] | None]:
    """Check what is known of the cluster; returns the number of nodes, and what the manifest keeps.

    Parameters
    ----------
    current : Path, optional
        A CSV file with the columns operator, key_group, node. Key groups that it does not name are where the placement
        puts them.
    capacities : str, optional
        Numbers above 0 with commas between them, one for each node.
    draining : str, optional
        Numbers of nodes, with commas between them.

    Raises
    ------
    InputError
        With the option or the line of the file, and what is wrong.
    """
    sizes = None if capacities is None else [_number("--capacities", part) for part in capacities.split(",")]
    if sizes is not None:
        if nodes is not None and nodes != len(sizes):
            raise InputError(f"--capacities names {len(sizes)} nodes, --nodes {nodes}")
        if min(sizes) <= 0:
            raise InputError(f"--capacities {capacities}: a capacity must be above 0")
        nodes = len(sizes)
    if nodes is None:
        if current is not None or draining is not None:
            raise InputError("--current and --draining need --nodes or --capacities")
        return None, None
    guards.whole("--nodes", nodes, least=1)
    leaving = [] if draining is None else [_whole("--draining", part, nodes) for part in draining.split(",")]
    if len(set(leaving)) >= nodes:
        raise InputError(f"--draining {draining}: at least one node must stay")
    places = None if current is None else _places(current, operators, key_groups, nodes, placement)
    found = {"capacities": sizes, "draining": sorted(set(leaving)) or None, "current": places}
    kept = {name: value for name, value in found.items() if value is not None}
    return nodes, kept or None


def _places(file: Path, operators: Sequence[str], key_groups: int, nodes: int, placement: str) -> list[int]:
    made = place(placement, key_groups, nodes).tolist() * len(operators)
    seen: set[int] = set()
    try:
        rows = csv.DictReader(io.StringIO(read_text(file, LARGEST), newline=""))
        if set(rows.fieldnames or ()) != {"operator", "key_group", "node"}:
            raise InputError(f"{file} needs a header line with the columns operator, key_group, node")
        for row in rows:
            where = f"{file}, line {rows.line_num}"
            if row["operator"] not in operators:
                raise InputError(f"{where}: there is no operator {shown(row['operator'])}")
            index = operators.index(row["operator"]) * key_groups + _whole(
                f"{where}: key_group", row["key_group"], key_groups
            )
            if index in seen:
                raise InputError(f"{where}: the key group is named twice")
            seen.add(index)
            made[index] = _whole(f"{where}: node", row["node"], nodes)
    except csv.Error as error:
        raise InputError(f"{file} cannot be read ({error})") from None
    return made


def _whole(what: str, text: Any, below: int) -> int:
    stripped = str(text).strip()
    if not stripped.isdecimal() or not stripped.isascii() or len(stripped) > 9 or int(stripped) >= below:
        raise InputError(f"{what} = {text!r} must be a whole number from 0 to {below - 1}")
    return int(stripped)


def _number(what: str, text: str) -> float:
    try:
        value = guards.real(what, float(text), optional=False)
    except ValueError:
        raise InputError(f"{what}: {text!r} is not a number") from None
    assert value is not None
    return value
