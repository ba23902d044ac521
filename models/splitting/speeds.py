"""Workers' speeds, as the problems and the partitioners take them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models import guards
from keyshift.models.errors import InputError
from keyshift.models.workload import FloatArray


def read_speeds(workers: int | ArrayLike) -> FloatArray:
    """Speeds from a number of workers (all 1) or from an array of speeds (all > 0)."""
    if np.ndim(workers) == 0:
        number = guards.whole("workers", workers, least=1, optional=False)
        return guards.frozen(np.ones(number))
    speeds = guards.non_negative("workers", workers)
    if (speeds == 0).any():
        raise InputError(f"workers[{int(np.argmin(speeds))}] = 0: a speed must be above 0")
    return speeds
