"""Workloads on disk: a directory of Parquet tables, or one JSON file for small ones.

A directory holds

====================  ==============================================================================
``workload.json``     format and version, number of key groups, nodes and windows; of each table the file, its rows and
                      the sum of each column of numbers, which are verified when it is read
``key_groups.parquet``  key_group, state, current; where given: operator, home, key, resource.<name>, group.<name>
``nodes.parquet``     node, capacity, draining; where given: name, domain.<name>
``load.parquet``      window, key_group, load (rows of load 0 are left out)
``traffic.parquet``   src, dst, tuples (only where the workload has traffic); window, where each has its own
====================  ==============================================================================

A workload that replaces another writes tables of new names (``load-3fa95c20.parquet``); ``workload.json``, replaced in
one step, says which count. Whatever else lies in the directory stays there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, WithJsonSchema

from keyshift.models.errors import InputError
from keyshift.models.files.reading import MOST_NUMBERS, opened
from keyshift.models.files.schema import ENVELOPE, FileFormat, Labels, Wholes, naming, plain
from keyshift.models.files.workload_tables import (
    create_tables,
    read_tables,
    replace_tables,
    traffic_columns,
    traffic_of_columns,
    version_of,
)  # fmt: skip
from keyshift.models.files.writing import reason
from keyshift.models.guards import indices, whole
from keyshift.models.workload import Workload

_ONE = {"type": "array", "items": {"type": "number", "minimum": 0}}


def _rows_of(value: Any) -> Any:
    """One window may be given as a row."""
    return [value] if isinstance(value, list) and not any(isinstance(v, list) for v in value) else value


class WorkloadFile(FileFormat, kind="keyshift-workload", newest=4, legacy="keyshift_workload", bare=True):
    """A workload in one JSON file."""

    format: str = "keyshift-workload"
    version: int = 4
    load: Annotated[
        list[list[float]],
        BeforeValidator(_rows_of),
        WithJsonSchema({"anyOf": [_ONE, {"type": "array", "items": _ONE}]}),
        Field(description="Load of each key group in each window, oldest window first; or one window as a row"),
    ]
    state: Annotated[list[float], Field(description="State of each key group")]
    current: Annotated[Wholes, Field(description="Node on which each key group runs")]
    nodes: Annotated[
        list[float] | int,
        Field(description="Number of nodes, or the capacity of each", union_mode="left_to_right"),
    ]
    draining: list[bool] | None = None
    traffic: Annotated[
        list[list[float]] | None,
        Field(
            description="[source key group, target key group, tuples], the same in all windows; or, from version 3 on, "
            "[window, source key group, target key group, tuples]"
        ),
    ] = None
    operator: Wholes | None = None
    home: Wholes | None = None
    resources: Annotated[dict[str, list[float]] | None, Field(description="Further resources by name")] = None
    keys: Labels | None = None
    node_names: Labels | None = None
    groups: Annotated[
        dict[str, Labels] | None,
        Field(description="Labels of the key groups by name, such as topic, that rules may name; from version 4 on"),
    ] = None
    domains: Annotated[
        dict[str, Labels] | None,
        Field(description="Labels of the nodes by name, such as rack, that rules may name; from version 4 on"),
    ] = None


def write_workload(workload: Workload, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a workload. It is written completely or not at all.

    Parameters
    ----------
    workload : Workload
    path : str or Path
        Ending in ``.json``: one file. Otherwise a directory of Parquet tables. A workload that is there already is
        replaced; other files in its directory stay.
    overwrite : bool, default False
        Replace a ``.json`` file even if it holds something else.

    Raises
    ------
    InputError
        If the path exists and is not a workload, or cannot be written.
    """
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise InputError(f"{target}: the folder {target.absolute().parent} does not exist")
    if target.suffix == ".json":
        if not overwrite and target.exists() and not _is_ours(target):
            raise InputError(f"{target} exists and is not a workload that keyshift wrote: it is not overwritten")
        WorkloadFile.write(target, _content(workload))
    elif target.exists() or target.is_symlink():
        replace_tables(workload, target)
    else:
        create_tables(workload, target)


def read_workload(path: str | Path, *, max_numbers: int = MOST_NUMBERS, last: int | None = None) -> Workload:
    """Read a workload that `write_workload` or `keyshift stats` wrote.

    Parameters
    ----------
    path : str or Path
        A ``.json`` file or a directory; also statistics, if they name their nodes (see
        `keyshift.models.files.statistics`).
    max_numbers : int, default 33,554,432
        Rows of one table, or numbers of the load matrix, that may be read.
    last : int, optional
        Only this many windows, counted from the last: of statistics of many windows no others are read.

    Raises
    ------
    InputError
        Names the file, the field, the position and the value that are wrong.
    """
    from keyshift.models.files import statistics

    source = Path(path)
    try:
        with naming(source):
            if (source / statistics.MANIFEST).is_file():
                return statistics.read_statistics(source, last=last)
            if not source.exists():
                raise InputError(f"{source} does not exist")
            read = read_tables(source, max_numbers) if source.is_dir() else _read_json(source)
            count = whole("last", last, least=1)
            if count is None:
                return read
            traffic = list(read.window_traffic[-count:]) if read.earlier_traffic else read.traffic
            return read.replace(load=read.load[-count:], traffic=traffic)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{str(path)!r} cannot be read ({reason(error)})") from None


# JSON -----------------------------------------------------------------------------------------------------------


def _content(w: Workload) -> dict[str, Any]:
    """The workload's arguments, without those that say nothing; traffic as rows."""
    given = w.arguments() | {"draining": w.draining if w.draining.any() else None, "resources": w.resources or None}
    if w.traffic is not None:
        given["traffic"] = [list(row) for row in zip(*(c.tolist() for c in traffic_columns(w).values()), strict=True)]
    return {**version_of(w), **{name: plain(value) for name, value in given.items() if value is not None}}


def _is_ours(file: Path) -> bool:
    """Whether a file begins like those that this version, or an earlier one, writes."""
    if not file.is_file():
        return False
    with opened(file) as stream:
        head = stream.read(200).decode(errors="replace")
    return re.match(r'\s*\{\s*("format":\s*"keyshift-workload"|"keyshift_workload":)', head) is not None


def _read_json(source: Path) -> Workload:
    read = WorkloadFile.read(source)
    given = {name: value for name, value in read if name not in ENVELOPE}
    if isinstance(read.nodes, int) and read.nodes > MOST_NUMBERS:
        raise InputError(f"nodes = {read.nodes} is more than {MOST_NUMBERS:,}")
    for window, row in enumerate(read.load):
        if len(row) != len(read.load[0]):
            raise InputError(f"load[{window}] has {len(row)} entries, load[0] has {len(read.load[0])}")
    if read.traffic is not None:
        given["traffic"] = _traffic_from_rows(read.traffic, len(read.state), len(read.load))
    return Workload(**given)


def _traffic_from_rows(rows: list[list[float]], key_groups: int, windows: int) -> Any:
    names = ("window", "src", "dst") if rows and len(rows[0]) == 4 else ("src", "dst")
    for position, row in enumerate(rows):
        if len(row) != len(names) + 1:
            raise InputError(f"traffic[{position}] = {row!r:.60} must be [{', '.join(names)}, tuples]")
    *places, tuples = np.array(rows, dtype=np.float64).reshape(-1, len(names) + 1).T
    columns = {name: indices(f"traffic.{name}", v, length=len(rows)) for name, v in zip(names, places, strict=True)}
    return traffic_of_columns({**columns, "tuples": tuples}, windows, key_groups)
