"""Migration transition matrices from history (paper 5, sections 5.2 and 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyshift.models import arrays
from keyshift.models.errors import InputError

if TYPE_CHECKING:
    from keyshift.spark_stats.statistics import Stats


def node_counts(arrivals: ArrayLike, least: int, most: int) -> NDArray[np.int64]:
    """Scale arrivals per window linearly into least..most nodes: the quietest window gets `least`, the busiest `most`.

    Rounded half up. Paper 5 says "normalized into the range of [8, 16]", and no more; a constant series gets `least`.
    """
    counts = arrays.non_negative("arrivals", arrivals)
    arrays.whole("least", least, least=1, optional=False)
    arrays.whole("most", most, least=least, optional=False)
    span = float(counts.max() - counts.min())
    share = (counts - counts.min()) / span if span else np.zeros_like(counts)
    return np.floor(least + share * (most - least) + 0.5).astype(np.int64)


def transition_matrix(
    counts: ArrayLike, *, smoothing: float = 0.0, changes_only: bool = True
) -> dict[int, dict[int, float]]:
    """Probabilities of going from n to n' nodes, {n: {n': probability}}, counted over consecutive windows.

    Parameters
    ----------
    counts : array_like of int, shape (m,)
        Node counts of consecutive windows, m >= 2.
    smoothing : float, default 0
        Added to the count of every transition between node counts that occur (Laplace). Without it, transitions never
        seen have probability 0.
    changes_only : bool, default True
        Count only windows between which the number changes: paper 5 calls no other a migration. Then no smoothing goes
        to staying either.

    A node count from which nothing was seen, as the last one may be, stays where it is with probability 1.
    """
    series = np.asarray(counts)
    if series.ndim != 1 or series.size < 2:
        raise InputError(f"counts has shape {series.shape}: transitions need at least two windows in a row")
    smoothing = arrays.real("smoothing", smoothing, optional=False) or 0.0
    known = sorted({int(n) for n in series})
    seen = {n: {after: smoothing * (not changes_only or after != n) for after in known} for n in known}
    for before, after in zip(series[:-1].tolist(), series[1:].tolist(), strict=True):
        if not changes_only or before != after:
            seen[before][after] += 1.0
    made = {}
    for n, row in seen.items():
        total = sum(row.values())
        made[n] = {after: value / total for after, value in row.items() if value} if total else {n: 1.0}
    return made


def transitions_of(stats: Stats, least: int, most: int, *, smoothing: float = 0.0) -> dict[int, dict[int, float]]:
    """Return the transition matrix of a log's arrivals per window; windows in which nothing came count as such."""
    first, last = stats.span
    arrivals = np.zeros(last - first + 1)
    for window, tuples in stats.arrived.collect():
        arrivals[window - first] = tuples
    return transition_matrix(node_counts(arrivals, least, most), smoothing=smoothing)
