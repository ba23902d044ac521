"""From a log's arrivals to a migration transition matrix ([Ding2015], sections 5.2 and 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keyshift.models.intervals.policy.transitions import node_counts, transition_matrix

if TYPE_CHECKING:
    from keyshift.spark_stats.statistics import Stats


def transitions_of(stats: Stats, least: int, most: int, *, smoothing: float = 0.0) -> dict[int, dict[int, float]]:
    """Return the transition matrix of a log's arrivals per window; windows in which nothing arrived count as such.

    See `node_counts` for `least` and `most`, the numbers of nodes, and `transition_matrix` for `smoothing`.
    """
    first, last = stats.span
    arrivals = np.zeros(last - first + 1)
    windows, tuples = stats.tuples
    arrivals[windows - first] = tuples
    return transition_matrix(node_counts(arrivals, least, most), smoothing=smoothing)
