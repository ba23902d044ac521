"""Replay: what a replay found, a row for each period and method."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from keyshift.figures.comparison import write_figure
from keyshift.models.base.disk import make_folder

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from keyshift.figures.notebook_figure import Figure


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
    rows: list[Row] = pickle.loads(zlib.decompress(packed))  # what this process packed
    return rows


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
        import pandas as pd

        return pd.DataFrame(list(self.rows))

    def write(self, path: str | Path) -> Path:
        """Write the rows as one Parquet file. The same rows give the same bytes.

        Returns
        -------
        Path
        """
        from keyshift.replays.checkpoint import write_parquet

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
