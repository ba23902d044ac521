"""Checkpoints of a replay: each period is one small file, replaced in one step after every plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field

from keyshift.models import InputError, Workload
from keyshift.models.base.disk import digest, digest_of_arrays, make_folder, only_writer, read_json, reason, write_file
from keyshift.models.base.schema import FileFormat, FileModel, Finite, Whole
from keyshift.replays.planner import Cluster

if TYPE_CHECKING:
    import pandas as pd

RESULTS = "results.parquet"
_SCRATCH = re.compile(r"\.(replay\.json|period-\d{6}\.json|results\.parquet)-.*\.part")
"""Temporary files that a killed run may leave."""


class ReplayFile(FileFormat, kind="keyshift-replay", newest=2, legacy="keyshift_replay"):
    """``replay.json``: what is replayed, and how."""

    planners: list[str]
    load_model: str
    scaling: str
    seed: Whole
    time_limit: float | None
    memory: Whole
    forecast: Annotated[str, Field(description="the forecast; none where it is empty")] = ""
    regret: bool = False
    patience: str = "Patience(min_gain=0.0, horizon=1, hysteresis=0.0)"
    resource: Annotated[str, Field(description="what is balanced")] = "Balanced(name=None, capacities={})"


class RowPart(FileModel):
    """One method in one period, and its figures by their names; see `keyshift.replays.results.Replay`."""

    model_config = ConfigDict(extra="allow")

    period: Whole
    method: str
    fallback: str
    replanned: bool
    resource: str | None = None
    __pydantic_extra__: dict[str, int | Finite | None] = Field(init=False)


class PeriodFile(FileFormat, kind="keyshift-replay-period", newest=2, bare=True, verified=("rows", "clusters")):
    """``period-000012.json``: the rows of the methods that have planned, and the clusters of all."""

    statistics: Annotated[
        str, Field(description="SHA-256 of the period's workload or keys, with a forecast of two periods' workloads")
    ]
    rows: list[RowPart]
    clusters: dict[str, Cluster]
    digest: Annotated[str | None, Field(description="SHA-256 of rows and clusters; version 1 had none")] = None


@dataclass(frozen=True)
class Checkpoint:
    """A directory of ``replay.json`` (what is replayed), ``period-000012.json`` and, at the end, ``results.parquet``.

    Use it as ``with checkpoint.open():``, which keeps a second run out.

    Raises
    ------
    InputError
        If the directory holds the replay of something else, something else altogether, or another run writes to it.
    """

    folder: Path
    description: dict[str, Any]

    @contextmanager
    def open(self) -> Iterator[None]:
        """Claim the directory; it is made, or compared with what is to be replayed."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder} is a file, not a folder for checkpoints")
        from keyshift.models.base import arrow  # noqa: F401  # the results are a table: said before the first period

        make_folder(self.folder)
        with only_writer(self.folder, str(self.folder)):
            self._compare()
            yield

    def _compare(self) -> None:
        about = self.folder / "replay.json"
        try:
            held = sorted(self.folder.iterdir())
        except OSError as error:
            raise InputError(f"{self.folder} cannot be read ({reason(error)})") from None
        for file in [file for file in held if _SCRATCH.fullmatch(file.name)]:
            file.unlink(missing_ok=True)
            held.remove(file)
        if not about.exists():
            if held:
                raise InputError(f"{self.folder} is not empty and holds no replay: it is left alone")
            ReplayFile.write(about, self.description, indent=1, sort_keys=True)
            return
        theirs = ReplayFile.read(about)
        for name, mine in sorted(self.description.items()):
            if mine != getattr(theirs, name):
                said = f"{self.folder} holds a replay with another {name}: {getattr(theirs, name)}, not {mine}"
                raise InputError(said)

    def read(self, period: int, stamp: str, labels: list[str], key_groups: int) -> dict[str, Any] | None:
        """The record of a period: the rows of the methods that have planned, the clusters of all; or None.

        `stamp` is the hash of what the period was given; a stream of keys has no key groups, and no clusters.
        """
        file = self._file(period)
        if not file.exists() and not file.is_symlink():
            return None
        held = read_json(file)
        content = PeriodFile.of(held, str(file))
        if content.statistics != stamp:
            raise InputError(f"{file} belongs to other statistics than period {period} has now")
        planned = [row.method for row in content.rows]
        if planned != labels[: len(planned)] or set(content.clusters) != set(labels if key_groups else []):
            raise InputError(f"{file} holds rows of other methods than {', '.join(labels)}")
        if any(row.period != period for row in content.rows):
            raise InputError(f"{file} holds rows of another period")
        for name, cluster in content.clusters.items():
            _refuse_torn(cluster, key_groups, f"{file}: clusters.{name}")
        # In the order in which they were written: the same rows give the same bytes in the end.
        rows = [
            {name: getattr(part, name) for name in row} for part, row in zip(content.rows, held["rows"], strict=True)
        ]
        return {"rows": rows, "clusters": content.clusters}

    def write(self, period: int, stamp: str, rows: list[dict[str, Any]], clusters: Mapping[str, Cluster]) -> None:
        """Write down what is known of a period: wholly or not at all."""
        held = {name: cluster.model_dump() for name, cluster in clusters.items()}
        PeriodFile.write(self._file(period), {"statistics": stamp, "rows": rows, "clusters": held})

    def finish(self, rows: Iterable[dict[str, Any]]) -> None:
        """Write all rows as Parquet."""
        import pandas as pd

        write_parquet(pd.DataFrame(list(rows)), self.folder / RESULTS)

    def _file(self, period: int) -> Path:
        return self.folder / f"period-{period:06d}.json"


def _refuse_torn(cluster: Cluster, key_groups: int, of: str) -> None:
    """Refuse lists of other lengths, and places that are no node."""
    n = len(cluster.names)
    expected = dict.fromkeys(("capacity", "draining"), n)
    expected |= dict.fromkeys(("place", "first_place", "left", "left_at"), key_groups)
    for name, length in expected.items():
        if len(getattr(cluster, name)) != length:
            raise InputError(f"{of}.{name} has {len(getattr(cluster, name))} entries, expected {length}")
    if max(cluster.place, default=-1) >= n:
        raise InputError(f"{of}.place names node {max(cluster.place)}; there are {n}")


def fingerprints(windows: Sequence[Workload]) -> str:
    """A hash of the window that was measured and of the one on which its plan is valued, where that is another."""
    first, last = windows[0], windows[-1]
    return fingerprint(first) if first is last else digest([fingerprint(first), fingerprint(last)])


def fingerprint(workload: Workload) -> str:
    """A hash of everything that a workload holds."""
    parts: list[Any] = [workload.load, workload.state, workload.current, workload.capacity, workload.draining]
    if workload.traffic is not None:
        parts += [workload.traffic.indptr, workload.traffic.indices, workload.traffic.data]
    parts += [part for t in workload.earlier_traffic for part in (t.indptr, t.indices, t.data)]
    parts += [part for part in (workload.operator, workload.home, *workload.resources.values()) if part is not None]
    labels = repr((dict(workload.groups), dict(workload.domains))) if workload.groups or workload.domains else ""
    return digest_of_arrays(parts, labels)


def write_parquet(frame: pd.DataFrame, file: Path) -> Path:
    """Write a table as Parquet in one step."""
    from keyshift.models.base.arrow import pa, pq

    for name in ("objective", "bound"):
        if name in frame:
            frame = frame.assign(**{name: frame[name].astype("float64")})
    return write_file(file, lambda out: pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), out))
