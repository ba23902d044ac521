"""Replay: what a replay found, a row for each period and method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Replay:
    """The results of a replay: one row for each period and method.

    Attributes
    ----------
    rows : tuple of dict
        period, method, load_distance, load_distance_percent, theta, imbalance, load_index, load_index_same_input,
        total_load, remote_traffic, collocation_factor, table_size, migrations, state_moved, oscillations, nodes, draining,
        objective, bound, fallback ("": as planned), replanned; with several resources, the one that was balanced.

        With a forecast, their values are those on the window that came. Then there are also planned_load_distance,
        planned_load_distance_percent, planned_theta, planned_imbalance and planned_remote_traffic, what the plan promised on
        the forecast; the same after ``knew_``, of the plan that knew; and regret, the problem's measure less that of the
        plan that knew.
    seconds : tuple of dict
        period, method, seconds: apart from the rows, because no two runs take the same time.
    interrupted : bool
        Whether Ctrl-C ended it early; the period under way is not counted.
    """

    rows: tuple[dict[str, Any], ...]
    seconds: tuple[dict[str, Any], ...] = ()
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
