"""From statistics window by window to what is decided period by period: workloads to replay, node counts to expect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models.base import guards
from keyshift.models.errors import InputError
from keyshift.models.intervals.policy.transitions import node_counts, transition_matrix
from keyshift.spark_stats.facts import rows_of
from keyshift.spark_stats.failures import in_one_sentence
from keyshift.spark_stats.statistics_files import DRIVER_ROWS, LOAD_COLUMNS, assemble
from keyshift.spark_stats.tallied import Tallied

if TYPE_CHECKING:
    import pandas as pd

    from keyshift.models.workload import FloatArray, IntArray, Workload


BLOCK_ROWS = 1_000_000
"""Rows of a table that `workloads` brings to the driver at once, as far as the windows allow."""


def workloads(
    stats: Tallied,
    nodes: int | ArrayLike,
    *,
    current: ArrayLike | None = None,
    draining: Sequence[int] = (),
    placement: str = "ranges",
    traffic: str = "tuples",
    max_rows: int = DRIVER_ROWS,
) -> Iterator[Workload]:
    """Give one workload for each window from the first to the last, those in which nothing arrived included.

    Load and traffic are the window's, the state is what each operator holds at its end. The parameters are those of
    `Stats.workload`. The rows come to the driver in blocks of neighbouring windows, as the workloads are asked for:
    `max_rows` limits those of one block, and the number of windows.
    """
    if len(stats.seen) > max_rows:
        raise InputError(f"more than max_rows = {max_rows} windows: raise it, or ask for less")
    stats.span  # noqa: B018 - refuses a log without a window
    operators = [asdict(operator) for operator in stats.topology.operators]
    options: dict[str, Any] = {
        "key_groups": stats.key_groups.count, "operators": operators, "nodes": nodes, "current": current,
        "draining": draining, "placement": placement, "traffic": traffic, "max_rows": max_rows,
    }  # fmt: skip

    def block_by_block() -> Iterator[Workload]:
        from pandas import concat

        reach, earlier = max(operator.windows for operator in stats.topology.operators), None
        at_most = rows_at_most(stats).sum()
        for first, end in _blocks(stats, min(BLOCK_ROWS, max_rows)):
            with in_one_sentence():
                part = stats.between(first, end)
                added = rows_of(part.added.select(*LOAD_COLUMNS), max_rows, at_most=at_most)
                pairs = None
                if stats.topology.edges:
                    pairs = rows_of(part.pairs, max_rows, at_most=at_most).sort_values("window")
            added = added if earlier is None else concat([earlier, added])
            added = added.sort_values(["window", "operator", "key_group"])
            for window in range(first, end + 1):
                workload = assemble(
                    dict(_rows(added, window - reach + 1, window)),
                    None if pairs is None else dict(_rows(pairs, window, window)),
                    span=(window, window),
                    **options,
                )
                yield stats.windows.begun(workload, window)
            earlier = _rows(added, end - reach + 2, end)

    return block_by_block()


def _blocks(stats: Tallied, most: int) -> Iterator[tuple[int, int]]:
    """First and last windows of blocks whose tables have at most so many rows each, unless one window has more."""
    windows = stats.seen
    first, held = windows[0], 0
    for window, more in zip(windows, rows_at_most(stats).tolist(), strict=True):
        if held and held + more > most:
            yield first, window - 1
            first, held = window, 0
        held += more
    yield first, windows[-1]


def rows_at_most(stats: Tallied) -> IntArray:
    """How many rows a table can have in each window in which something arrived."""
    tuples, groups = stats.tuples[1], stats.key_groups.count
    operators, edges = len(stats.topology.operators), len(stats.topology.edges)
    return np.maximum(operators * np.minimum(tuples, groups), edges * np.minimum(tuples, groups**2))


def _rows(table: pd.DataFrame, first: int, end: int) -> pd.DataFrame:
    """The rows of some windows, of a table sorted by window."""
    return table.iloc[slice(*np.searchsorted(table["window"].to_numpy(), [first, end + 1]))]


@in_one_sentence()
def total_loads(stats: Tallied) -> FloatArray:
    """Load of all operators together in each window, from the first to the last, shape (windows,)."""
    first, end = stats.span
    rows: pd.DataFrame = rows_of(stats.added.groupBy("window").agg({"load": "sum"}), DRIVER_ROWS)
    loads = np.zeros(end - first + 1)
    loads[rows["window"].to_numpy(dtype=np.int64) - first] = rows["sum(load)"].to_numpy(dtype=float)
    return loads


def transitions(
    stats: Tallied,
    target_utilisation: float,
    *,
    node_capacity: float | None = None,
    least: int = 1,
    most: int | None = None,
    smoothing: float = 0.0,
    changes_only: bool = True,
) -> dict[int, dict[int, float]]:
    r"""Return how likely each number of nodes follows another, {n: {n': probability}}, for `MigrationPolicy`.

    A window of load L needs :math:`n = \lceil L / (u\,C) \rceil` nodes at the target utilisation u of their capacity C,
    kept within `least` and `most`; the transitions are counted over consecutive windows, see
    `keyshift.spark_stats.transition_matrix`.

    Parameters
    ----------
    target_utilisation : float
        u, in (0, 1].
    node_capacity : float, optional
        C, the load that one node can take in a window. Default: the largest load of a window divided by `most`, so that
        the busiest window needs all of them at full use; `most` must then be given.
    least, most : int
        Bounds on the number of nodes.
    smoothing, changes_only
        As for `transition_matrix`.

    Raises
    ------
    InputError
        Fewer than two windows; a utilisation outside (0, 1]; neither a capacity nor `most`.
    """
    use = guards.real("target_utilisation", target_utilisation, optional=False)
    if not 0 < use <= 1:
        raise InputError(f"target_utilisation = {use:g} must be above 0 and at most 1")
    guards.whole("least", least, least=1, optional=False)
    guards.whole("most", most, least=least)
    loads = total_loads(stats)
    if node_capacity is None:
        if most is None:
            raise InputError("transitions need node_capacity, the load that a node can carry in a window, or most")
        node_capacity = float(loads.max()) / most or 1.0
    capacity = guards.real("node_capacity", node_capacity, optional=False, above=True)
    needed = np.ceil(loads / (use * capacity) * (1 - 1e-12))
    counts = np.clip(needed, least, needed.max() if most is None else most).astype(np.int64)
    return transition_matrix(np.maximum(counts, least), smoothing=smoothing, changes_only=changes_only)


# From a log's arrivals to a migration transition matrix ([Ding2015], sections 5.2 and 6) -------------------------------


def transitions_of(stats: Tallied, least: int, most: int, *, smoothing: float = 0.0) -> dict[int, dict[int, float]]:
    """Return the transition matrix of a log's arrivals per window; windows in which nothing arrived count, too.

    See `node_counts` for `least` and `most`, the numbers of nodes, and `transition_matrix` for `smoothing`.
    """
    first, last = stats.span
    arrivals = np.zeros(last - first + 1)
    windows, tuples = stats.tuples
    arrivals[windows - first] = tuples
    return transition_matrix(node_counts(arrivals, least, most), smoothing=smoothing)
