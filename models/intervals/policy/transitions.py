"""Migration transition matrices: reading them, and estimating them from past loads ([Ding2015], sections 5.2 and 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyshift.models.base import guards
from keyshift.models.base.figures import apart
from keyshift.models.base.labels import in_time
from keyshift.models.errors import InputError
from keyshift.models.intervals.partition import read_count
from keyshift.models.workload import FloatArray

Transitions = Mapping[int, Mapping[int, float]]
"""n -> n' -> probability; rows sum to 1, zeros are left out, and every n' has a row."""


def read_transitions(given: Any) -> Transitions:
    """Read ``{n: {n': probability}}`` or a DataFrame with n as index and n' as columns.

    Raises
    ------
    InputError
        For a count that is not a whole number >= 1, a bad probability, a row that does not sum to 1, or a count that
        can be reached but has no row.
    """
    if hasattr(given, "iterrows"):
        given = {n: dict(row.items()) for n, row in given.iterrows()}
    if not isinstance(given, Mapping) or not given:
        raise InputError("transitions must map node counts to {node count: probability}, or be a DataFrame")
    read: dict[int, Mapping[int, float]] = {}
    for n, row in given.items():
        count = read_count(f"transitions key {n!r}", n)
        if not isinstance(row, Mapping):
            raise InputError(f"transitions[{n!r}] must map node counts to probabilities, not be a {type(row).__name__}")
        read[count] = _row(count, row)
    for n, row in read.items():
        for after in row:
            if after not in read:
                raise InputError(f"transitions[{n}] leads to {after} nodes, but there is no row for {after}")
    return MappingProxyType(dict(sorted(read.items())))


def _row(n: int, row: Mapping[Any, Any]) -> Mapping[int, float]:
    chances = {}
    for after, p in row.items():
        count = read_count(f"transitions[{n}] key {after!r}", after)
        chances[count] = guards.real(f"transitions[{n}][{after}]", p, optional=False)
    total = float(sum(chances.values()))  # type: ignore[arg-type]
    if abs(total - 1.0) > 1e-6:
        raise InputError(f"transitions[{n}] sums to {apart(total, 1)[0]}, expected 1")
    if abs(total - 1.0) <= 1e-12:
        total = 1.0  # only rounding: a row that was rescaled once comes back from a file as it was
    return MappingProxyType({after: p / total for after, p in sorted(chances.items()) if p})


def renormalised(transitions: Any, counts: Iterable[int]) -> Transitions:
    """The matrix over some of its counts only, each row rescaled; a row that loses everything stays put."""
    chosen = set(counts)
    made = {}
    for n, row in read_transitions(transitions).items():
        if n in chosen:
            left = {after: p for after, p in row.items() if after in chosen}
            total = sum(left.values())
            made[n] = {after: p / total for after, p in left.items()} if total > 0 else {n: 1.0}
    return read_transitions(made)


def node_counts(arrivals: Any, least: int, most: int) -> NDArray[np.int64]:
    """The nodes needed in each window: the arrivals, scaled linearly to least..most and rounded half up.

    The window with the fewest arrivals gets `least`, the one with the most gets `most`; a constant series gets `least`.
    [Ding2015] only says "normalized into the range of [8, 16]" (section 6).

    Parameters
    ----------
    arrivals : array_like, shape (windows,), or a table
        Tuples or load of each window, oldest first; or a pandas or Spark DataFrame like ``stats.load``, with columns
        ``window_start`` and ``load``.
    least, most : int
        Fewest and most nodes.

    Returns
    -------
    ndarray of int, shape (windows,)
    """
    counts = guards.non_negative("arrivals", _window_totals(arrivals))
    guards.whole("least", least, least=1, optional=False)
    guards.whole("most", most, least=least, optional=False)
    span = float(counts.max() - counts.min())
    share = (counts - counts.min()) / span if span else np.zeros_like(counts)
    return np.floor(least + share * (most - least) + 0.5).astype(np.int64)


def _window_totals(arrivals: Any) -> ArrayLike:
    """Total load of each window; Spark's rows are summed where they are."""
    if hasattr(arrivals, "toPandas"):
        arrivals = (
            arrivals.groupBy("window_start").agg({"load": "sum"}).withColumnRenamed("sum(load)", "load").toPandas()
        )
    if hasattr(arrivals, "columns"):
        missing = {"window_start", "load"}.difference(arrivals.columns)
        if missing:
            raise InputError(f"arrivals has no column {sorted(missing)[0]!r}")
        return arrivals.groupby("window_start")["load"].sum().sort_index().to_numpy()
    return in_time("arrivals", arrivals)  # type: ignore[no-any-return]


def transition_matrix(
    counts: ArrayLike, *, smoothing: float = 0.0, changes_only: bool = True
) -> dict[int, dict[int, float]]:
    """Probabilities of going from n to n' nodes, {n: {n': probability}}, counted over consecutive windows.

    Parameters
    ----------
    counts : array_like of int, shape (m,)
        Node counts of consecutive windows, oldest first, m >= 2.
    smoothing : float, default 0
        Added to the count of every transition between node counts that occur (Laplace). Without it, transitions never
        seen have probability 0.
    changes_only : bool, default True
        Count only transitions to another number: [Ding2015] calls nothing else a migration, and its experiments have no
        others, although its Table 4 has a diagonal. Then staying gets no smoothing either.

    Notes
    -----
    A node count without an observed transition, for example the last one, stays with probability 1.
    """
    given = np.asarray(in_time("counts", counts))
    if given.ndim != 1 or given.size < 2:
        raise InputError(f"counts has shape {given.shape}: transitions need at least two windows in a row")
    series = [read_count(f"counts[{t}]", n) for t, n in enumerate(given.tolist())]
    smoothing = guards.real("smoothing", smoothing, optional=False)
    known = sorted(set(series))
    seen = {n: {after: smoothing * (not changes_only or after != n) for after in known} for n in known}
    for before, after in pairwise(series):
        if not changes_only or before != after:
            seen[before][after] += 1.0
    made = {}
    for n, row in seen.items():
        total = sum(row.values())
        made[n] = {after: value / total for after, value in row.items() if value} if total else {n: 1.0}
    return made


# How far values are from the optimal ones, read off one application of the Bellman operator --------------------------


def macqueen_interval(changes: Iterable[FloatArray], discount: float) -> tuple[float, float]:
    r"""Bounds on V* - TV from the changes TV - V, wherever V is from.

    With every row of the matrix summing to 1, V* lies between
    :math:`TV + \tfrac{\gamma}{1 - \gamma} \min(TV - V)` and :math:`TV + \tfrac{\gamma}{1 - \gamma} \max(TV - V)`.

    Parameters
    ----------
    changes : iterable of ndarray
        TV - V, in any number of parts.
    discount : float
        :math:`\gamma < 1`.

    Notes
    -----
    Source: MacQueen, "A modified dynamic programming method for Markovian decision problems", J. Math. Anal. Appl.,
    1966; Puterman, *Markov Decision Processes*, 1994, section 6.6.
    """
    parts = list(changes)
    lever = discount / (1 - discount)
    return lever * min(float(part.min()) for part in parts), lever * max(float(part.max()) for part in parts)
