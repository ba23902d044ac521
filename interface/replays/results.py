"""The results of a replay, a row for each period and method, and its checkpoints: small files, each replaced in one step."""

from __future__ import annotations

import pickle
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, overload

from pydantic import ConfigDict, Field

from keyshift.figures.comparison import write_figure
from keyshift.models import InputError, Workload
from keyshift.models.base.disk import digest, digest_of_arrays, make_folder, only_writer, read_json, write_file
from keyshift.models.base.lazily import pd
from keyshift.models.base.schema import FileFormat, FileModel, Finite, Whole
from keyshift.models.errors import refusing
from keyshift.replays.planner import Cluster

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from keyshift.figures.notebook_figure import Figure


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
        with refusing(f"{self.folder} cannot be read ({{reason}})", OSError):
            held = sorted(self.folder.iterdir())
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


# Replay: what a replay found, a row for each period and method --------------------------------------------------------


BLOCK = 1_000
"""Rows packed together."""

Row = dict[str, Any]


class PackedRows(Sequence[Row]):
    """Rows as dictionaries, packed by the thousand: a tenth of the memory, so that a year of minutes fits."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._packed: list[bytes] = []
        self._last: list[Row] = []
        self.extend(rows)

    def extend(self, rows: Iterable[Row]) -> None:
        """Add some at the end."""
        for row in rows:
            self._last.append(row)
            if len(self._last) == BLOCK:
                self._packed.append(zlib.compress(pickle.dumps(self._last, pickle.HIGHEST_PROTOCOL), 1))
                self._last = []

    def __len__(self) -> int:
        return BLOCK * len(self._packed) + len(self._last)

    def __iter__(self) -> Iterator[Row]:
        for packed in self._packed:
            yield from _unpacked(packed)
        yield from self._last

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, at: int | slice) -> Row | tuple[Row, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        block, place = divmod(range(len(self))[at], BLOCK)
        return (_unpacked(self._packed[block]) if block < len(self._packed) else self._last)[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # nor has a tuple of dictionaries one

    def __repr__(self) -> str:
        return f"<{len(self)} rows>"


@lru_cache(maxsize=2)
def _unpacked(packed: bytes) -> list[Row]:
    return pickle.loads(zlib.decompress(packed))  # what this process packed


@dataclass(frozen=True)
class Replay:
    """The results of a replay: one row for each period and method.

    Attributes
    ----------
    rows : sequence of dict
        period, method, load_distance, load_distance_percent, theta, imbalance, load_index, load_index_same_input,
        total_load, remote_traffic, collocation_factor, table_size, migrations, state_moved, oscillations, nodes, draining,
        objective, bound, fallback ("": as planned), replanned; with more than one resource, the one that was balanced.

        With a forecast, their values are those on the realised window. Then there are also planned_load_distance,
        planned_load_distance_percent, planned_theta, planned_imbalance and planned_remote_traffic, the values of the
        plan on the forecast; the same names with ``knew_``, for the plan made in hindsight; and regret, the problem's
        measure minus that of the plan in hindsight.
    seconds : sequence of dict
        period, method, seconds. They are separate from the rows, because they differ from run to run.
    interrupted : bool
        Whether Ctrl-C ended it early; the unfinished period is left out.
    """

    rows: Sequence[Row]
    seconds: Sequence[Row] = ()
    interrupted: bool = False

    def to_frame(self) -> pd.DataFrame:
        """The rows as a table."""
        return pd.DataFrame(list(self.rows))

    def write(self, path: str | Path) -> Path:
        """Write the rows as one Parquet file. The same rows give the same bytes.

        Returns
        -------
        Path
        """
        return write_parquet(self.to_frame(), Path(path))

    def plot(self, folder: str | Path, metrics: Sequence[str] | None = None) -> list[Path]:
        """Draw a figure for each metric, with all methods over the periods, and return the paths of the files."""
        frame, folder = self.to_frame(), Path(folder)
        make_folder(folder)
        return [
            write_figure(panels(frame, [metric]), folder / f"{metric}.png", 130) for metric in _present(frame, metrics)
        ]

    def figure(self, metrics: Sequence[str] | None = None) -> Figure:
        """All metrics in one figure, a panel each."""
        return panels(self.to_frame(), metrics)


# Figures of a replay: one metric over the periods, one line for each method --------------------------------------------

LABELS = {
    "collocation_factor": "collocation factor (share of traffic)",
    "load_distance": "load distance (units of load)",
    "load_distance_percent": "load distance (% of the mean load)",
    "load_index": "load index (% of the load at the start)",
    "load_index_same_input": "load index (% of the same input unmoved)",
    "migrations": "migrations per period (key groups)",
    "oscillations": "moves straight back per period",
    "remote_traffic": "remote traffic per period (tuples)",
    "state_moved": "state moved per period",
    "theta": "theta (excess of the busiest node)",
    "table_size": "entries of the routing table",
    "regret": "regret (less the plan in hindsight)",
    "nodes": "nodes, draining ones included",
}
DEFAULT = ("collocation_factor", "load_distance_percent", "load_index", "migrations", "oscillations")
# Okabe and Ito's colours, which colour-blind readers can tell apart; markers help on paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "x")


def panels(frame: pd.DataFrame, metrics: Sequence[str] | None = None) -> Figure:
    """All metrics in one figure, two in a row."""
    from keyshift.figures.notebook_figure import Figure

    names = _present(frame, metrics)
    rows, columns = (len(names) + 1) // 2, min(2, len(names))
    figure = Figure(figsize=(6.5, 3.9) if columns == 1 else (11, 3.1 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, metric in zip(grid, names, strict=False):
        draw(axes, frame, metric)
    for axes in grid[len(names) :]:
        axes.set_visible(False)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(6, len(labels)), fontsize=9)
    return figure


def draw(axes: Axes, frame: pd.DataFrame, metric: str) -> None:
    """One metric over the periods."""
    for number, (method, part) in enumerate(frame.groupby("method", sort=False)):
        every = max(1, len(part) // 12)
        axes.plot(
            part["period"], part[metric], label=str(method), color=COLOURS[number % len(COLOURS)], linewidth=1.5,
            marker=MARKERS[number % len(MARKERS)], markersize=4, markevery=(number % every, every),
        )  # fmt: skip
    axes.set_xlabel("period")
    axes.set_ylabel(LABELS.get(metric, metric.replace("_", " ")), fontsize=9)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _present(frame: pd.DataFrame, metrics: Sequence[str] | None) -> list[str]:
    return [name for name in (DEFAULT if metrics is None else metrics) if name in frame]
