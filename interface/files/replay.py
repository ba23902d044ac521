"""Reading a stream of workloads, one for each period, from what lies on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keyshift.files.workload import read_workload
from keyshift.models.base.guards import whole
from keyshift.models.errors import InputError
from keyshift.models.workload import MOST_NODES, Workload
from keyshift.spark_stats.statistics_files import MANIFEST, from_tables, read_manifest, tables_of, windows_of


def read_periods(path: str | Path, nodes: int | None = None, placement: str | None = None) -> Iterator[Workload]:
    """Read workloads one after the other, as `replay` takes them.

    Parameters
    ----------
    path : str or Path
        Statistics that `keyshift stats` wrote: a period for each window, with its load, state and traffic. Or a
        workload (``.json`` or directory): a period for each of its windows, all with the same state and traffic. Or a
        folder of workloads: a period for each, by name.
    nodes, placement : optional
        For statistics that name none, or to ask for others.

    Raises
    ------
    InputError
        With the file and what is wrong.
    """
    source = Path(path)
    whole("nodes", nodes, least=1, most=MOST_NODES)
    if (source / MANIFEST).is_file():
        yield from _statistics(source, nodes, placement)
    elif nodes is not None or placement is not None:
        raise InputError(f"{source} holds workloads, which name their nodes: nodes and placement are for statistics")
    elif _is_workload(source):
        read = read_workload(source)
        for row in read.load:
            yield read.replace(load=row)
    else:
        yield from map(read_workload, _members(source))


def count_periods(path: str | Path) -> int:
    """How many workloads `read_periods` will give."""
    source = Path(path)
    if (source / MANIFEST).is_file():
        return len(windows_of(read_manifest(source)))
    return read_workload(source).windows if _is_workload(source) else len(_members(source))


def _is_workload(path: Path) -> bool:
    return path.suffix == ".json" or (path / "workload.json").is_file()


def _members(source: Path) -> list[Path]:
    if not source.is_dir():
        raise InputError(f"{source} does not exist")
    found = [path for path in sorted(source.iterdir()) if _is_workload(path)]
    if not found:
        raise InputError(f"{source} holds neither statistics nor workloads")
    return found


def _statistics(source: Path, nodes: int | None, placement: str | None) -> Iterator[Workload]:
    """A workload for each window: its own load and traffic, and the state that is held at its end."""
    manifest = read_manifest(source)
    nodes = manifest.get("nodes") if nodes is None else nodes
    if nodes is None:
        raise InputError(f"{source} holds statistics that name no nodes: give their number")
    if not manifest["runs"]:
        raise InputError(f"{source} holds no window")
    tables = tables_of(source, manifest)
    for number in sorted(tables[0].run_of):
        yield from_tables(*tables, number, number, nodes, placement)
