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
import uuid
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, WithJsonSchema

from keyshift.files.table import is_table, workload_of_table
from keyshift.models.base.disk import MOST_NUMBERS, only_writer, opened, write_file, write_folder
from keyshift.models.base.guards import indices, numbered, whole
from keyshift.models.base.lazily import sp
from keyshift.models.base.schema import (
    ENVELOPE,
    Count,
    FileFormat,
    FileModel,
    FileName,
    Finite,
    Labels,
    Whole,
    Wholes,
    plain,
)
from keyshift.models.base.tables import Columns, expect_sum, read_table
from keyshift.models.errors import InputError, naming, refusing
from keyshift.models.workload import Workload

_ONE = {"type": "array", "items": {"type": "number", "minimum": 0}}


def _rows_of(value: Any) -> Any:
    """One window may be given as a row."""
    return [value] if isinstance(value, list) and not any(isinstance(v, list) for v in value) else value


Units = Annotated[
    dict[Literal["load", "state"], str] | None, Field(description="Units of load and state; from version 5 on")
]


class WorkloadFile(FileFormat, kind="keyshift-workload", newest=5, legacy="keyshift_workload", bare=True):
    """A workload in one JSON file."""

    format: str = "keyshift-workload"
    version: int = 5
    load: Annotated[
        list[list[float]],
        BeforeValidator(_rows_of),
        WithJsonSchema({"anyOf": [_ONE, {"type": "array", "items": _ONE}]}),
        Field(description="Load of each key group in each window, oldest window first; or one window as a row"),
    ]
    state: Annotated[list[float], Field(description="State of each key group")]
    current: Annotated[Wholes, Field(description="Node on which each key group runs")]
    nodes: Annotated[
        list[float] | int, Field(description="Number of nodes, or the capacity of each", union_mode="left_to_right")
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
    units: Units = None


def write_workload(workload: Workload, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a workload. It is written completely or not at all.

    Parameters
    ----------
    workload : Workload
    path : str or Path
        A name that ends in ``.json`` is one file, any other a directory of Parquet tables. An existing workload is
        replaced; other files in its directory stay.
    overwrite : bool, default False
        Replace a ``.json`` file even if it is not a workload.

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
        write_folder(target, lambda folder: _write_tables(workload, folder, ""))


def read_workload(
    path: str | Path, *, max_numbers: int = MOST_NUMBERS, last: int | None = None, **columns: Any
) -> Workload:
    """Read a workload that `write_workload` or `keyshift stats` wrote, or a table with a row for each key group.

    Parameters
    ----------
    path : str or Path
        A ``.json`` file or a directory; also statistics, if they name their nodes (see
        `keyshift.spark_stats.statistics_files`); or a table: ``.csv``, ``.tsv`` or ``.parquet``.
    max_numbers : int, default 33,554,432
        Rows of one table, or numbers of the load matrix, that may be read.
    last : int, optional
        Read only this many of the last windows.
    **columns
        Of a table, as for `Workload.from_frame`: ``nodes=40``, ``load="cpu"``. Columns with usual names are found.

    Raises
    ------
    InputError
        Names the file, the field, the position and the value that are wrong.
    """
    from keyshift.spark_stats import statistics_files as statistics

    source = Path(path)
    with refusing(f"{str(path)!r} cannot be read ({{reason}})", OSError, ValueError), naming(source):
        if (source / statistics.MANIFEST).is_file():
            return statistics.read_statistics(source, last=last)
        if not source.exists():
            raise InputError(f"{source} does not exist")
        if columns and not is_table(source):
            raise InputError(f"{', '.join(columns)}: only a table has columns to name, and this is none")
        if is_table(source):
            read = workload_of_table(source, **columns)
        else:
            read = read_tables(source, max_numbers) if source.is_dir() else _read_json(source)
        count = whole("last", last, least=1)
        if count is None:
            return read
        traffic = list(read.window_traffic[-count:]) if read.earlier_traffic else read.traffic
        return read.replace(load=read.load[-count:], traffic=traffic)


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


# The Parquet tables of a workload's directory -----------------------------------------------------------------------------


MANIFEST = "workload.json"
_RESOURCE, _GROUP, _DOMAIN = "resource.", "group.", "domain."
_OURS = re.compile(r"(key_groups|nodes|load|traffic)(-[0-9a-f]{8})?\.parquet")

TABLES = {
    "key_groups": Columns(
        {"key_group": "whole", "state": "number", "current": "whole"},
        {"operator": "whole", "home": "whole", "key": "label"},
        {_RESOURCE: "number", _GROUP: "label"},
    ),
    "nodes": Columns(
        {"node": "whole", "capacity": "number", "draining": "flag"}, {"name": "label"}, {_DOMAIN: "label"}
    ),
    "load": Columns({"window": "whole", "key_group": "whole", "load": "number"}),
    "traffic": Columns({"src": "whole", "dst": "whole", "tuples": "number"}, {"window": "whole"}),
}


class TableAccount(FileModel):
    """A table, as a manifest describes it."""

    file: FileName
    rows: Whole | None = None
    columns: list[str] | None = None
    sums: dict[str, Finite] | None = None


class WorkloadManifest(FileFormat, kind="keyshift-workload", newest=5, legacy="keyshift_workload"):
    """``workload.json`` of a directory of tables."""

    key_groups: Count
    nodes: Count
    windows: Count
    tables: Annotated[
        dict[str, TableAccount] | None, Field(description="key_groups, nodes, load and, where there is any, traffic")
    ] = None
    units: Units = None


def _tables_of(w: Workload) -> dict[str, dict[str, Any]]:
    window, key_group = np.nonzero(w.load)
    tables: dict[str, dict[str, Any]] = {
        "key_groups": {
            "key_group": np.arange(w.key_groups), "state": w.state, "current": w.current, "operator": w.operator,
            "home": w.home, "key": _column(w.keys), **{_RESOURCE + name: use for name, use in w.resources.items()},
            **{_GROUP + name: _column(labels) for name, labels in w.groups.items()},
        },
        "nodes": {
            "node": np.arange(w.nodes), "capacity": w.capacity, "draining": w.draining, "name": _column(w.node_names),
            **{_DOMAIN + name: _column(labels) for name, labels in w.domains.items()},
        },
        "load": {"window": window, "key_group": key_group, "load": w.load[window, key_group]},
        "traffic": {} if w.traffic is None else traffic_columns(w),
    }  # fmt: skip
    given = {name: {c: v for c, v in columns.items() if v is not None} for name, columns in tables.items()}
    return {name: columns for name, columns in given.items() if columns}


def version_of(w: Workload) -> dict[str, Any]:
    """The lowest file version that can hold the data: 5 for units, 4 for labels, 3 for traffic by window."""
    return {"version": 5 if w.units else 4 if w.groups or w.domains else 3 if w.earlier_traffic else 2}


def traffic_columns(w: Workload) -> dict[str, np.ndarray]:
    """The traffic as columns, with the window where each has its own."""
    parts = [pairs.tocoo() for pairs in (w.window_traffic if w.earlier_traffic else w.window_traffic[-1:])]
    columns = {
        "window": np.repeat(np.arange(len(parts)), [part.nnz for part in parts]),
        "src": np.concatenate([part.row for part in parts]),
        "dst": np.concatenate([part.col for part in parts]),
        "tuples": np.concatenate([part.data for part in parts]),
    }
    return columns if w.earlier_traffic else {name: columns[name] for name in ("src", "dst", "tuples")}


def traffic_of_columns(columns: dict[str, np.ndarray], windows: int, key_groups: int) -> Any:
    """Traffic from the columns that `traffic_columns` wrote: a matrix, or a list of one for each window."""
    if "window" not in columns:
        return sparse(columns["src"], columns["dst"], columns["tuples"], key_groups)
    number = columns["window"]
    numbered("traffic.window", number, windows, "window")
    parts = ({name: values[number == s] for name, values in columns.items()} for s in range(windows))
    return [sparse(part["src"], part["dst"], part["tuples"], key_groups) for part in parts]


def _column(labels: tuple[str | int, ...] | None) -> list[str] | list[int] | None:
    """Labels as one column: numbers where all are, else texts."""
    if labels is None:
        return None
    if all(isinstance(label, int) and abs(label) < 2**63 for label in labels):
        return [int(label) for label in labels]
    return [str(label) for label in labels]


def replace_tables(workload: Workload, target: Path) -> None:
    """New tables beside the old ones; then the manifest, in one step; then the old ones go."""
    if not (target / MANIFEST).is_file():
        raise InputError(f"{target} exists and is not a workload: it is not overwritten")
    WorkloadManifest.read(target / MANIFEST)  # a file of that name that is not ours stays
    with only_writer(target, str(target)):
        kept = _write_tables(workload, target, f"-{uuid.uuid4().hex[:8]}")
        for file in target.iterdir():
            if _OURS.fullmatch(file.name) and file.name not in kept:
                file.unlink(missing_ok=True)


def _write_tables(workload: Workload, folder: Path, mark: str) -> set[str]:
    """Write tables and manifest; return the tables' names. What cannot be finished leaves nothing."""
    from keyshift.models.base.arrow import pa, pq

    accounts: dict[str, dict[str, Any]] = {}
    try:
        for name, columns in _tables_of(workload).items():
            file = f"{name}{mark}.parquet"
            rows = len(next(iter(columns.values())))
            accounts[name] = {"file": file, "rows": rows, "columns": list(columns), "sums": _sums(columns)}
            fill = partial(pq.write_table, pa.table(columns), write_page_checksum=True)
            write_file(folder / file, fill)
        about = {name: getattr(workload, name) for name in ("key_groups", "nodes", "windows")}
        about |= {"units": dict(workload.units)} if workload.units else {}
        WorkloadManifest.write(folder / MANIFEST, {**version_of(workload), **about, "tables": accounts}, indent=1)
    except BaseException:
        for account in accounts.values():
            (folder / account["file"]).unlink(missing_ok=True)
        raise
    return {account["file"] for account in accounts.values()}


def _sums(columns: dict[str, Any]) -> dict[str, float]:
    """The sum of each column of measured numbers."""
    return {name: float(np.sum(v)) for name, v in columns.items() if isinstance(v, np.ndarray) and v.dtype.kind == "f"}


def read_tables(source: Path, most: int) -> Workload:
    """The workload of a directory; `most` numbers are allowed in one table, or in the matrix of loads."""
    if not (source / MANIFEST).is_file():
        raise InputError(f"{source} is not a workload: it has no {MANIFEST}")
    about = WorkloadManifest.read(source / MANIFEST)
    p, m = about.key_groups, about.windows
    if max(p * m, p, about.nodes) > most:
        raise InputError(
            f"{source} declares {m:,} windows of {p:,} key groups on {about.nodes:,} nodes: more than {most:,} numbers; "
            "read_workload(..., max_numbers=...) allows more"
        )
    read = {name: _table(source, about, name, most) for name in TABLES}
    groups, nodes, load, pairs = (read[name] for name in TABLES)
    _in_order(source, "key_groups", groups, "key_group", p)
    _in_order(source, "nodes", nodes, "node", about.nodes)
    made = Workload(
        load=_dense(load, m, p),
        state=groups["state"],
        current=groups["current"],
        nodes=nodes["capacity"],
        draining=nodes["draining"],
        traffic=traffic_of_columns(pairs, m, p) if pairs else None,
        operator=groups.get("operator"),
        home=groups.get("home"),
        resources=_beginning(_RESOURCE, groups),
        keys=None if "key" not in groups else groups["key"].tolist(),
        node_names=None if "name" not in nodes else nodes["name"].tolist(),
        groups={name: column.tolist() for name, column in _beginning(_GROUP, groups).items()},
        domains={name: column.tolist() for name, column in _beginning(_DOMAIN, nodes).items()},
        units=about.units,
    )
    for name, account in (about.tables or {}).items():
        for column in account.columns or ():  # an optional one would not be missed
            if column not in read[name]:
                raise InputError(f"{source / account.file} lacks the column {column!r}")
        _verify_sums(source / account.file, read[name], account.sums or {})
    return made


def _beginning(prefix: str, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns whose names begin so, without it."""
    return {name.removeprefix(prefix): values for name, values in columns.items() if name.startswith(prefix)}


def _table(source: Path, about: WorkloadManifest, name: str, most: int) -> dict[str, np.ndarray]:
    """One of the tables; empty for traffic that the workload does not have."""
    rows = {"key_groups": about.key_groups, "nodes": about.nodes}.get(name)
    if about.tables is None:  # version 1 named no tables: its files have fixed names
        file = source / f"{name}.parquet"
        if name == "traffic" and not (file.is_symlink() or file.exists()):
            return {}
    else:
        account = about.tables.get(name)
        if unknown := set(about.tables) - set(TABLES):
            raise InputError(f"{source / MANIFEST} names a table {sorted(unknown)[0]!r}; there are {', '.join(TABLES)}")
        if account is None and name == "traffic":
            return {}
        if account is None:
            raise InputError(f"{source / MANIFEST} names no table {name!r}")
        file = source / account.file
        if rows is not None and account.rows not in (None, rows):
            raise InputError(f"{source / MANIFEST}: {name} has {account.rows} rows, but there are {rows} {name}")
        rows = account.rows if rows is None else rows
    if not file.is_file():
        raise InputError(f"{file} is missing")
    return read_table(file, TABLES[name], rows=rows, most_rows=most)


def _in_order(source: Path, table: str, columns: dict[str, np.ndarray], index: str, length: int) -> None:
    """Sort a table's rows by the number of what each describes; every number must be there once."""
    order = np.argsort(columns[index], kind="stable")
    if not np.array_equal(columns[index][order], np.arange(length)):
        raise InputError(f"{source / table}.parquet must hold each {index} from 0 to {length - 1} exactly once")
    columns.update({name: values[order] for name, values in columns.items()})


def _dense(load: dict[str, np.ndarray], windows: int, key_groups: int) -> np.ndarray:
    numbered("load.window", load["window"], windows, "window")
    numbered("load.key_group", load["key_group"], key_groups, "key group")
    place = load["window"] * key_groups + load["key_group"]
    _, first = np.unique(place, return_index=True)
    if first.size < place.size:
        at = int(np.setdiff1d(np.arange(place.size), first)[0])
        raise InputError(
            f"load.parquet: row {at} gives window {load['window'][at]}, key group {load['key_group'][at]} a second load"
        )
    dense = np.zeros(windows * key_groups)
    dense[place] = load["load"]
    return dense.reshape(windows, key_groups)


def _verify_sums(file: Path, columns: dict[str, np.ndarray], sums: dict[str, float]) -> None:
    for name, expected in sums.items():
        if name not in columns:
            raise InputError(f"{file} lacks the column {name!r}")
        why = f"the table was changed or damaged (if the change is meant, delete its sums from {MANIFEST})"
        expect_sum(f"{file}: the column {name!r}", float(np.sum(columns[name])), expected, MANIFEST, why)


def sparse(src: np.ndarray, dst: np.ndarray, tuples: np.ndarray, key_groups: int) -> sp.csr_array:
    """Traffic as a matrix; `InputError` for an end that is not a key group."""
    for name, side in (("src", src), ("dst", dst)):
        numbered(f"traffic.{name}", side, key_groups, "key group")
    return sp.csr_array((tuples, (src, dst)), shape=(key_groups, key_groups), dtype=np.float64)
