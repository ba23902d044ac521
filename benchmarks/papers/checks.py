"""What a row of the registry can claim: a handful of kinds of check, each held against the tables of a run.

A series is addressed as "table; query; column; x": of the rows that the query keeps, the column at each value of `x`, the median over
the seeds. Where rows of one seed share an x the last one counts, or with "mean column", "max column" their mean or greatest. Without
`x` it is a single value. A check whose series are not in the tables does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

Tables = Mapping[str, pd.DataFrame]


def series(tables: Tables, address: str) -> pd.Series:
    """The series at an address; empty where the tables do not have it."""
    name, query, column, x = (part.strip() for part in (address + ";" * (3 - address.count(";"))).split(";"))
    frame, (way, _, of) = tables.get(name, pd.DataFrame()), column.partition(" ")
    way, column = ("last", column) if column in frame else (way, of)
    if column not in frame or (x and x not in frame):
        return pd.Series(dtype=float)
    rows = (frame.query(query, engine="python") if query else frame).dropna(subset=[column])
    seed = rows["seed"] if "seed" in rows else pd.Series(0, rows.index)
    found = rows.groupby([rows[x] if x else seed * 0, seed])[column].agg(way)
    return found.groupby(level=0).agg("median" if pd.api.types.is_numeric_dtype(found) else "last")


def value(tables: Tables, address: str) -> Any:
    """A single figure, to four digits; None where there is none."""
    found = series(tables, address)
    if found.empty:
        return None
    return found.iloc[-1] if isinstance(found.iloc[-1], str) else float(f"{float(found.iloc[-1]):.4g}")


def order(*of: pd.Series, by: float = 1.0) -> bool:
    """Each series lies below the next one at every x that both have, so many times at least (below 1: about as low, or lower)."""
    beside = [pd.concat(pair, axis=1, join="inner").to_numpy() for pair in pairwise(of)]
    return all(len(pair) > 0 and bool((by * pair[:, 0] < pair[:, 1]).all()) for pair in beside)


def trend(of: pd.Series, way: str = "rises", by: float = 1.0, slack: float = 0.05) -> bool:
    """From its first to its last x the series rises or falls, so many times at least; a step against it is a small share of the whole."""
    steps = np.diff(of if way == "rises" else -of)
    ends = sorted((of.iloc[0], of.iloc[-1])) if len(of) > 1 else (0.0, 0.0)
    return bool(steps.sum() > 0 and ends[1] >= by * ends[0] and steps.min() >= -slack * steps.sum())


def spread(of: pd.Series, low: float = 1.0, high: float = np.inf) -> bool:
    """The greatest value of the series over its least: steady is a small one."""
    return len(of) > 1 and bool(low * of.min() <= of.max() <= high * of.min())


def band(of: pd.Series, low: float = -np.inf, high: float = np.inf) -> bool:
    """Every value lies between two."""
    return len(of) > 0 and bool(of.between(low, high).all())


def factor(of: pd.Series, over: pd.Series, low: float = -np.inf, high: float = np.inf) -> bool:
    """The quotient of two series lies between two values at every x."""
    return band((of / over).dropna(), low, high)


def equal(of: pd.Series, to: Any, within: float = 1e-6) -> bool:
    """Every value is what is printed, or off by so small a share of it."""
    same = of == to if isinstance(to, str) else np.isclose(of.astype(float), to, rtol=within, atol=0.0)
    return len(of) > 0 and bool(np.all(same))


KINDS: dict[str, Callable[..., bool]] = {kind.__name__: kind for kind in (order, trend, spread, band, factor, equal)}


def holds(check: Mapping[str, Any], tables: Tables) -> bool:
    """Whether a check, as a row declares it, holds in these tables."""
    options = {name: option for name, option in check.items() if name not in ("says", "beside")}
    kind = next(name for name in options if name in KINDS)
    return KINDS[kind](
        *(series(tables, address) for address in addresses(check)), **{k: v for k, v in options.items() if k != kind}
    )


def addresses(check: Mapping[str, Any]) -> list[str]:
    """Where the series of a check are."""
    at = next(check[kind] for kind in KINDS if kind in check)
    return [at] if isinstance(at, str) else list(at)
