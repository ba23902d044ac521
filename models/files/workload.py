"""Workloads on disk: a directory of Parquet tables, or one JSON file for small ones.

A directory holds

====================  ==============================================================================
``workload.json``     format version, number of key groups, nodes and windows
``key_groups.parquet``  key_group, state, current; where given: operator, home, key, resource.<name>
``nodes.parquet``     node, capacity, draining
``load.parquet``      window, key_group, load (rows of load 0 are left out)
``traffic.parquet``   src, dst, tuples (only where the workload has traffic)
====================  ==============================================================================
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.files.statistics import MANIFEST, read_statistics
from keyshift.models.workload import Workload

if TYPE_CHECKING:
    import scipy.sparse as sp

FORMAT = 1
_RESOURCE = "resource."


def write_workload(workload: Workload, path: str | Path) -> None:
    """Write a workload, whole or not at all.

    Parameters
    ----------
    workload : Workload
    path : str or Path
        Ending in ``.json``: one file. Otherwise a directory of Parquet tables, replaced if it is a workload already.

    Raises
    ------
    InputError
        If the path exists and is something else than a workload.
    """
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise InputError(f"{target}: the folder {target.absolute().parent} does not exist")
    if target.suffix == ".json":
        _write_json(workload, target)
        return
    if target.exists() and not (target / "workload.json").is_file():
        raise InputError(f"{target} exists and is no workload: it is not overwritten")
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.absolute().parent))
    try:
        _write_tables(workload, scratch)
        scratch.chmod(0o755)
        _swap(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def read_workload(path: str | Path) -> Workload:
    """Read a workload that `write_workload` or `keyshift stats` wrote.

    Parameters
    ----------
    path : str or Path
        A ``.json`` file or a directory; also statistics, if they name their nodes (see
        `keyshift.models.files.statistics`).

    Raises
    ------
    InputError
        With the file, and the field, position and value that are wrong.
    """
    source = Path(path)
    if not source.exists():
        raise InputError(f"{source} does not exist")
    try:
        if (source / MANIFEST).is_file():
            return read_statistics(source)
        return _read_json(source) if source.is_file() else _read_tables(source)
    except InputError as error:
        raise error if str(error).startswith(str(source)) else InputError(f"{source}: {error}") from None


def _swap(scratch: Path, target: Path) -> None:
    """Put a finished directory in the target's place; what was there goes only after the new one stands."""
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.absolute().parent))
        target.rename(old / "was")
        scratch.rename(target)
        shutil.rmtree(old)
    else:
        scratch.rename(target)


# JSON -----------------------------------------------------------------------------------------------------------


def _write_json(workload: Workload, target: Path) -> None:
    w = workload
    content: dict[str, Any] = {
        "keyshift_workload": FORMAT,
        "load": w.load.tolist(),
        "state": w.state.tolist(),
        "current": w.current.tolist(),
        "nodes": w.capacity.tolist(),
    }
    if w.draining.any():
        content["draining"] = w.draining.tolist()
    if w.traffic is not None:
        pairs = w.traffic.tocoo()
        content["traffic"] = [
            list(t) for t in zip(pairs.row.tolist(), pairs.col.tolist(), pairs.data.tolist(), strict=True)
        ]
    for name in ("operator", "home"):
        if (values := getattr(w, name)) is not None:
            content[name] = values.tolist()
    if w.resources:
        content["resources"] = {name: use.tolist() for name, use in w.resources.items()}
    if w.keys is not None:
        content["keys"] = list(w.keys)
    handle, scratch = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.absolute().parent)
    with os.fdopen(handle, "w") as stream:
        json.dump(content, stream)
    Path(scratch).chmod(0o644)
    Path(scratch).replace(target)


def _read_json(source: Path) -> Workload:
    try:
        content = json.loads(source.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{source} is no JSON ({error})") from None
    if not isinstance(content, dict):
        raise InputError(f"{source} must hold one JSON object with load, state, current and nodes")
    if content.pop("keyshift_workload", FORMAT) != FORMAT:
        raise InputError(f"{source} has another format than {FORMAT}, which this version reads")
    known = {"load", "state", "current", "nodes", "draining", "traffic", "operator", "home", "resources", "keys"}
    if unknown := sorted(set(content) - known):
        raise InputError(f"{source} has a field {unknown[0]!r}; a workload has {', '.join(sorted(known))}")
    for name in ("load", "state", "current", "nodes"):
        if name not in content:
            raise InputError(f"{source} lacks the field {name!r}")
    if content.get("traffic") is not None:
        content["traffic"] = _traffic_from_triples(content["traffic"], len(np.atleast_1d(content["state"])))
    return Workload(**content)


def _traffic_from_triples(triples: Any, key_groups: int) -> sp.csr_array:
    for position, triple in enumerate(triples if isinstance(triples, list) else [triples]):
        if not isinstance(triple, list) or len(triple) != 3:
            raise InputError(f"traffic[{position}] = {triple!r} must be [src, dst, tuples]")
    src, dst, tuples = (np.array(column) for column in zip(*triples, strict=True)) if triples else ([], [], [])
    return _sparse(src, dst, tuples, key_groups)


def _sparse(src: Any, dst: Any, tuples: Any, key_groups: int) -> sp.csr_array:
    import scipy.sparse as sp

    for name, side in (("src", np.asarray(src)), ("dst", np.asarray(dst))):
        wrong = (side < 0) | (side >= key_groups)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(
                f"traffic.{name}[{at}] = {side[at]} is no key group: they are numbered 0 to {key_groups - 1}"
            )
    return sp.csr_array((tuples, (src, dst)), shape=(key_groups, key_groups), dtype=np.float64)


# Parquet --------------------------------------------------------------------------------------------------------


def _write_tables(workload: Workload, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    w = workload
    key_groups: dict[str, Any] = {"key_group": np.arange(w.key_groups), "state": w.state, "current": w.current}
    optional = {"operator": w.operator, "home": w.home, "key": None if w.keys is None else [str(k) for k in w.keys]}
    key_groups |= {name: values for name, values in optional.items() if values is not None}
    key_groups |= {_RESOURCE + name: use for name, use in w.resources.items()}
    window, key_group = np.nonzero(w.load)
    tables: dict[str, dict[str, Any]] = {
        "key_groups": key_groups,
        "nodes": {"node": np.arange(w.nodes), "capacity": w.capacity, "draining": w.draining},
        "load": {"window": window, "key_group": key_group, "load": w.load[window, key_group]},
    }
    if w.traffic is not None:
        pairs = w.traffic.tocoo()
        tables["traffic"] = {"src": pairs.row, "dst": pairs.col, "tuples": pairs.data}
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    about = {"keyshift_workload": FORMAT, "key_groups": w.key_groups, "nodes": w.nodes, "windows": w.windows}
    (folder / "workload.json").write_text(json.dumps(about) + "\n")


def _read_tables(source: Path) -> Workload:
    about_file = source / "workload.json"
    if not about_file.is_file():
        raise InputError(f"{source} is no workload: it has no workload.json")
    try:
        about = json.loads(about_file.read_text())
        p, m = int(about["key_groups"]), int(about["windows"])
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{about_file} is damaged: it must name key_groups, nodes and windows") from None
    if about.get("keyshift_workload") != FORMAT:
        raise InputError(f"{source} has another format than {FORMAT}, which this version reads")
    groups = _read_table(source / "key_groups.parquet", ("key_group", "state", "current"), "key_group", p)
    nodes = _read_table(source / "nodes.parquet", ("node", "capacity", "draining"), "node", int(about["nodes"]))
    load = _read_table(source / "load.parquet", ("window", "key_group", "load"))
    dense = np.zeros((m, p))
    for name, upper in (("window", m), ("key_group", p)):
        wrong = (load[name] < 0) | (load[name] >= upper)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(f"load.parquet: {name}[{at}] = {load[name][at]}, expected 0 to {upper - 1}")
    dense[load["window"], load["key_group"]] = load["load"]
    traffic = None
    if (source / "traffic.parquet").is_file():
        pairs = _read_table(source / "traffic.parquet", ("src", "dst", "tuples"))
        traffic = _sparse(pairs["src"], pairs["dst"], pairs["tuples"], p)
    return Workload(
        load=dense,
        state=groups["state"],
        current=groups["current"],
        nodes=nodes["capacity"],
        draining=nodes["draining"],
        traffic=traffic,
        operator=groups.get("operator"),
        home=groups.get("home"),
        resources={n.removeprefix(_RESOURCE): v for n, v in groups.items() if n.startswith(_RESOURCE)},
        keys=None if "key" not in groups else groups["key"].tolist(),
    )


def _read_table(
    path: Path, columns: tuple[str, ...], index: str | None = None, length: int | None = None
) -> dict[str, np.ndarray]:
    """The columns of a table as arrays; with an index, its rows in the order of that column, each number once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise InputError(f"{path} is missing")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError):
        raise InputError(f"{path} is no readable Parquet file") from None
    for name in columns:
        if name not in table.column_names:
            raise InputError(f"{path} lacks the column {name!r}")
        if table[name].null_count:
            raise InputError(f"{path} has a null in the column {name!r}")
    arrays = {name: table[name].to_numpy() for name in table.column_names}
    if index is None:
        return arrays
    if not np.array_equal(np.sort(arrays[index]), np.arange(length or 0)):
        raise InputError(f"{path} must hold each {index} from 0 to {(length or 0) - 1} exactly once")
    order = np.argsort(arrays[index])
    return {name: values[order] for name, values in arrays.items()}
