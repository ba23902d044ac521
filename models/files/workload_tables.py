"""The Parquet tables of a workload's directory; `keyshift.models.files.workload` says what lies in it."""

from __future__ import annotations

import re
import shutil
import tempfile
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from keyshift.models.errors import InputError
from keyshift.models.files.schema import Count, FileFormat, FileModel, FileName, Finite, Whole
from keyshift.models.files.tables import Columns, read_table
from keyshift.models.files.writing import only_writer, reason, write_file
from keyshift.models.guards import numbered
from keyshift.models.workload import Workload

if TYPE_CHECKING:
    import scipy.sparse as sp

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


class WorkloadManifest(FileFormat, kind="keyshift-workload", newest=4, legacy="keyshift_workload"):
    """``workload.json`` of a directory of tables."""

    key_groups: Count
    nodes: Count
    windows: Count
    tables: Annotated[
        dict[str, TableAccount] | None, Field(description="key_groups, nodes, load and, where there is any, traffic")
    ] = None


def _tables_of(w: Workload) -> dict[str, dict[str, Any]]:
    labels, names = _column(w.keys), _column(w.node_names)
    key_groups: dict[str, Any] = {"key_group": np.arange(w.key_groups), "state": w.state, "current": w.current}
    optional = {"operator": w.operator, "home": w.home, "key": labels}
    key_groups |= {name: values for name, values in optional.items() if values is not None}
    key_groups |= {_RESOURCE + name: use for name, use in w.resources.items()}
    key_groups |= {_GROUP + name: _column(column) for name, column in w.groups.items()}
    window, key_group = np.nonzero(w.load)
    tables: dict[str, dict[str, Any]] = {
        "key_groups": key_groups,
        "nodes": {"node": np.arange(w.nodes), "capacity": w.capacity, "draining": w.draining},
        "load": {"window": window, "key_group": key_group, "load": w.load[window, key_group]},
    }
    if names is not None:
        tables["nodes"]["name"] = names
    tables["nodes"] |= {_DOMAIN + name: _column(column) for name, column in w.domains.items()}
    if w.traffic is not None:
        tables["traffic"] = traffic_columns(w)
    return tables


def version_of(w: Workload) -> dict[str, Any]:
    """The version that the data need: 4 with labels of key groups or nodes, 3 with a traffic for each window."""
    return {"version": 4 if w.groups or w.domains else 3 if w.earlier_traffic else 2}


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


def create_tables(workload: Workload, target: Path) -> None:
    """A new directory, put in its place when it is whole."""
    try:
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.absolute().parent))
    except OSError as error:
        raise InputError(f"{target} cannot be written ({reason(error)})") from None
    try:
        _write_tables(workload, scratch, "")
        scratch.chmod(0o755)
        scratch.rename(target)
    except OSError as error:
        raise InputError(f"{target} cannot be written ({reason(error)})") from None
    except InputError as error:
        raise InputError(str(error).replace(str(scratch), str(target))) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def replace_tables(workload: Workload, target: Path) -> None:
    """New tables beside the old ones; then the manifest, in one step; then the old ones go."""
    if not (target / MANIFEST).is_file():
        raise InputError(f"{target} exists and is not a workload: it is not overwritten")
    WorkloadManifest.read(target / MANIFEST)  # somebody else's file of that name stays
    with only_writer(target, str(target)):
        kept = _write_tables(workload, target, f"-{uuid.uuid4().hex[:8]}")
        for file in target.iterdir():
            if _OURS.fullmatch(file.name) and file.name not in kept:
                file.unlink(missing_ok=True)


def _write_tables(workload: Workload, folder: Path, mark: str) -> set[str]:
    """Write tables and manifest; return the tables' names. What cannot be finished leaves nothing."""
    from keyshift.models.files.arrow import pa, pq

    accounts: dict[str, dict[str, Any]] = {}
    try:
        for name, columns in _tables_of(workload).items():
            file = f"{name}{mark}.parquet"
            rows = len(next(iter(columns.values())))
            accounts[name] = {"file": file, "rows": rows, "columns": list(columns), "sums": _sums(columns)}
            fill = partial(pq.write_table, pa.table(columns), write_page_checksum=True)
            write_file(folder / file, fill)
        about = {"key_groups": workload.key_groups, "nodes": workload.nodes, "windows": workload.windows}
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
        found = float(np.sum(columns[name]))
        if not abs(found - expected) <= 1e-9 * max(abs(found), abs(expected)):
            raise InputError(
                f"{file}: the column {name!r} sums to {found:g}, {MANIFEST} says {expected:g}: the table was changed or "
                f"damaged (if the change is meant, delete its sums from {MANIFEST})"
            )


def sparse(src: np.ndarray, dst: np.ndarray, tuples: np.ndarray, key_groups: int) -> sp.csr_array:
    """Traffic as a matrix; `InputError` for an end that is not a key group."""
    import scipy.sparse as sp

    for name, side in (("src", src), ("dst", dst)):
        numbered(f"traffic.{name}", side, key_groups, "key group")
    return sp.csr_array((tuples, (src, dst)), shape=(key_groups, key_groups), dtype=np.float64)
