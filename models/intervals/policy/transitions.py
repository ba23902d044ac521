"""Migration transition matrices: reading them, and estimating them from past loads (paper 5, sections 5.2 and 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models import arrays
from keyshift.models.errors import InputError

Transitions = Mapping[int, Mapping[int, float]]
"""n -> n' -> probability; rows sum to 1, zeros are left out, and every n' has a row."""

ROW_SLACK = 1e-6


def read_transitions(given: Any) -> Transitions:
    """Read ``{n: {n': probability}}`` or a DataFrame with n as index and n' as columns.

    Raises
    ------
    InputError
        For a count that is no whole number >= 1, a bad probability, a row that does not sum to 1, or a count that
        can be reached but has no row.
    """
    if hasattr(given, "iterrows"):
        given = {n: dict(row.items()) for n, row in given.iterrows()}
    if not isinstance(given, Mapping) or not given:
        raise InputError("transitions must map node counts to {node count: probability}, or be a DataFrame")
    read: dict[int, Mapping[int, float]] = {}
    for n, row in given.items():
        count = _count(f"transitions key {n!r}", n)
        if not isinstance(row, Mapping):
            raise InputError(f"transitions[{n!r}] must map node counts to probabilities, not be a {type(row).__name__}")
        read[count] = _row(count, row)
    for n, row in read.items():
        for after in row:
            if after not in read:
                raise InputError(f"transitions[{n}] leads to {after} nodes, but there is no row for {after}")
    return MappingProxyType(dict(sorted(read.items())))


def _count(name: str, value: Any) -> int:
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, str) and number.strip().isdigit():  # JSON and CSV headers know only text
        number = int(number)
    return arrays.whole(name, number, least=1, optional=False) or 0


def _row(n: int, row: Mapping[Any, Any]) -> Mapping[int, float]:
    chances = {
        _count(f"transitions[{n}] key {after!r}", after): arrays.real(f"transitions[{n}][{after}]", p, optional=False)
        for after, p in row.items()
    }
    total = sum(chances.values())  # type: ignore[arg-type]
    if abs(total - 1.0) > ROW_SLACK:
        raise InputError(f"transitions[{n}] sums to {total:g}, expected 1")
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


def node_counts(loads: Any, low: int, high: int) -> list[int]:
    """Nodes needed in each window: the total load scaled into low..high, as paper 5 does (section 6).

    Parameters
    ----------
    loads : array_like, shape (windows,), or a table
        Total load of each window, oldest first; or a pandas or Spark DataFrame like ``stats.load``, with columns
        ``window_start`` and ``load``.
    low, high : int
        Fewest and most nodes.

    Returns
    -------
    list of int
    """
    low, high = arrays.whole("low", low, least=1, optional=False) or 1, arrays.whole("high", high, optional=False) or 1
    if high < low:
        raise InputError(f"high = {high} must be at least low = {low}")
    values = arrays.non_negative("loads", _window_totals(loads))
    least, most = float(values.min()), float(values.max())
    share = (values - least) / (most - least) if most > least else np.zeros(values.size)
    return np.rint(low + share * (high - low)).astype(int).tolist()


def _window_totals(loads: Any) -> ArrayLike:
    """Total load of each window; Spark's rows are summed where they are."""
    if hasattr(loads, "toPandas"):
        loads = loads.groupBy("window_start").agg({"load": "sum"}).withColumnRenamed("sum(load)", "load").toPandas()
    if hasattr(loads, "columns"):
        missing = {"window_start", "load"}.difference(loads.columns)
        if missing:
            raise InputError(f"loads has no column {sorted(missing)[0]!r}")
        return loads.groupby("window_start")["load"].sum().sort_index().to_numpy()
    return loads  # type: ignore[no-any-return]


def estimate_transitions(counts: Sequence[int], *, diagonal: bool = True) -> Transitions:
    """Relative frequencies of the changes in a history of node counts.

    Parameters
    ----------
    counts : sequence of int
        Node counts, oldest first.
    diagonal : bool, default True
        False counts real changes only, as the paper's experiments do; its Table 4 has a diagonal.

    Notes
    -----
    A count that the history never leaves stays put with probability 1.
    """
    seen = [_count(f"counts[{t}]", n) for t, n in enumerate(counts)]
    if not seen:
        raise InputError("counts is empty")
    changes = Counter(pair for pair in pairwise(seen) if diagonal or pair[0] != pair[1])
    made: dict[int, dict[int, float]] = {}
    for n in sorted(set(seen)):
        row = {after: float(times) for (before, after), times in sorted(changes.items()) if before == n}
        total = sum(row.values())
        made[n] = {after: times / total for after, times in row.items()} if row else {n: 1.0}
    return read_transitions(made)
