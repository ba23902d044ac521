"""Reading a stream of workloads, one for each period, from what lies on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.files.statistics import (
    DRIVER_ROWS,
    MANIFEST,
    assemble,
    joined,
    read_block,
    read_manifest,
    rows_between,
    windows_of,
)
from keyshift.models.files.workload import read_workload
from keyshift.models.guards import whole
from keyshift.models.workload import MOST_NODES, Workload


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
    operators = manifest["topology"]["operators"]
    reach = max(operator.get("windows", 1) for operator in operators)
    load, traffic = (_Recent(source, manifest, table) for table in ("load", "traffic"))
    for number in sorted(load.run_of):
        yield assemble(
            load.rows(number - reach + 1, number),
            traffic.rows(number, number) if manifest["topology"]["edges"] else None,
            span=(number, number),
            key_groups=manifest["key_groups"],
            operators=operators,
            nodes=nodes,
            placement=placement or manifest.get("placement") or "ranges",
        )


class _Recent:
    """A table of statistics, read a folder at a time as its windows are asked for; those asked for no more are let go."""

    def __init__(self, source: Path, manifest: dict[str, Any], table: str) -> None:
        self.source, self.manifest, self.table = source, manifest, table
        self.run_of = windows_of(manifest)
        self.numbers = np.array(sorted(self.run_of), dtype=np.int64)
        self.held: dict[tuple[str, int], dict[str, np.ndarray]] = {}

    def rows(self, first: int, end: int) -> dict[str, np.ndarray]:
        """The rows of the windows from first to end."""
        here = self.numbers[slice(*np.searchsorted(self.numbers, [first, end + 1]))].tolist()
        runs = self.manifest["runs"]
        folders = dict.fromkeys((run, n // runs[run].get("block", 1)) for n in here for run in [self.run_of[n]])
        if folders.keys() - self.held.keys():  # of what came before, hold the rows that are still asked for
            self.held = {
                folder: {name: values.copy() for name, values in rows_between(part, first, end).items()}
                for folder, part in self.held.items()
            }
        self.held = {folder: self.held.get(folder) or self._read(*folder) for folder in folders}
        return joined(self.table, [rows_between(part, first, end) for part in self.held.values()])

    def _read(self, run: str, block: int) -> dict[str, np.ndarray]:
        part = read_block(self.source, self.manifest, self.table, run, block, DRIVER_ROWS)
        windows, at = np.unique(part["window"], return_inverse=True)
        ours = np.array([self.run_of.get(number) == run for number in windows.tolist()], dtype=bool)
        return part if ours.all() else {name: values[ours[at]] for name, values in part.items()}
