"""Scenarios of loads in a file, one row a scenario and one column a key group."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.workload import FloatArray


def read_scenarios(path: str | Path) -> FloatArray:
    """Read scenarios from a .csv, .json or .npy file.

    Parameters
    ----------
    path : path
        A .csv has numbers alone, no header; a .json is a list of lists.

    Returns
    -------
    ndarray, shape (k, p)

    Raises
    ------
    InputError
        If there is no such file, or it holds anything but a table of numbers.
    """
    path = Path(path)
    readers = {".csv": _csv, ".json": _json, ".npy": _npy}
    if path.suffix not in readers:
        raise InputError(f"{path}: scenarios are a .csv, .json or .npy file")
    try:
        made = np.atleast_2d(np.asarray(readers[path.suffix](path), dtype=np.float64))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except (ValueError, TypeError, RecursionError, EOFError) as error:
        raise InputError(f"{path}: not a table of numbers: {' '.join(str(error).split())[:100]}") from None
    if made.ndim != 2 or made.size == 0:
        raise InputError(f"{path}: not a table of numbers, with a row for each scenario")
    return made


def _csv(path: Path) -> object:
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    return [[float(number) for number in line.split(",")] for line in lines]


def _json(path: Path) -> object:
    return json.loads(path.read_text())


def _npy(path: Path) -> object:
    return np.load(path, allow_pickle=False)
