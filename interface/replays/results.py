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

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


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
        planned_load_distance_percent, planned_theta, planned_imbalance and planned_remote_traffic, what the plan promised on
        the forecast; the same after ``knew_``, of the plan made in hindsight; and regret, the problem's measure less that of the
        plan in hindsight.
    seconds : sequence of dict
        period, method, seconds: apart from the rows, because no two runs take the same time.
    interrupted : bool
        Whether Ctrl-C ended it early; the period under way is not counted.
    """

    rows: Sequence[Row]
    seconds: Sequence[Row] = ()
    interrupted: bool = False

    def to_frame(self) -> pd.DataFrame:
        """The rows as a table."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))

    def write(self, path: str | Path) -> Path:
        """Write the rows as one Parquet file: the same rows give the same bytes.

        Returns
        -------
        Path
        """
        from keyshift.replays.checkpoint import write_parquet

        return write_parquet(self.to_frame(), Path(path))

    def plot(self, folder: str | Path, metrics: Sequence[str] | None = None) -> list[Path]:
        """Draw one figure for each metric over the periods, all methods in it; the paths written."""
        from keyshift.figures.replay import metric_figures

        return metric_figures(self.to_frame(), Path(folder), metrics)

    def figure(self, metrics: Sequence[str] | None = None) -> Figure:
        """All metrics in one figure, a panel each."""
        from keyshift.figures.replay import panels

        return panels(self.to_frame(), metrics)
