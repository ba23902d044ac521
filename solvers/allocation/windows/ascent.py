r"""Subgradient ascent on the bound over several windows: good weights at a few milliseconds a step.

L of `keyshift.solvers.allocation.windows.bound` is concave in its weights, and the deviations after the moves that attain it
are a supergradient. It does not converge, but which weights are not 0 tells the linear program its rows: that then ends
within seconds. Steps have Polyak's length for a level a little above the best value, directions are averaged, and the
weights are brought back among those that (8) allows by projection onto balls of the 1-norm [Duchi2008].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyshift.models.tuning import Settings
from keyshift.models.workload import FloatArray
from keyshift.solvers.allocation.windows.arrays import WindowInstance

INSIDE = 1 - 1e-12


@dataclass(frozen=True)
class AscentSettings(Settings):
    """Tuning numbers of the ascent.

    Attributes
    ----------
    steps : int
        At most.
    share : float
        How far above the best value the level lies at first, as a share of the value where nothing moves.
    patience : int
        After so many steps without a better value the level comes half as near, and the ascent goes back to the best weights.
    least : float
        It ends when the level is nearer than this share of the best value.
    old : float
        The share of the old direction in the next.
    """

    steps: int = 1200
    share: float = 0.1
    patience: int = 60
    least: float = 1e-5
    old: float = 0.9


def ascend(
    instance: WindowInstance,
    priced: Callable[[FloatArray], tuple[float, FloatArray]],
    weights: FloatArray,
    expired: Callable[[], bool],
    settings: AscentSettings | None = None,
) -> tuple[float, FloatArray]:
    """The best bound on the way, and its weights.

    Parameters
    ----------
    instance : WindowInstance
    priced : function
        From signed weights (n, k) to the bound that they prove and the deviations that attain it.
    weights : ndarray, shape (n, k)
        Where it begins.
    expired : function
        Whether the time is up.
    """
    tuned, here = settings or AscentSettings.now(), allowed(weights, instance)
    best, at = priced(here)
    best_weights, direction = here, at
    away = tuned.share * max(best, float(np.abs(at).max()), 1e-9)
    since = 0
    for _ in range(tuned.steps):
        if expired() or away <= tuned.least * max(best, 1e-9):
            break
        here = allowed(here + away * direction / max(float((direction * direction).sum()), 1e-30), instance)
        value, at = priced(here)
        direction = tuned.old * direction + (1 - tuned.old) * at
        since += 1
        if value > best:
            since = 0 if value > best + 0.05 * away else since
            best, best_weights = value, here
        if since >= tuned.patience:
            away, since, here = away / 2, 0, best_weights
            direction = priced(here)[1]
    return best, best_weights


def allowed(weights: FloatArray, instance: WindowInstance) -> FloatArray:
    """Weights near these that (8) allows: their sizes sum to a window's largest weight at most, and to 1 in all."""
    planned = instance.problem.planned
    weights = np.where(instance.draining[:, None], np.maximum(weights, 0.0), weights)
    weights = shrunk(weights, planned.most)
    if planned.over != "mean":
        weights = shrunk(weights.reshape(-1, 1), np.ones(1)).reshape(weights.shape)
    return weights * INSIDE


def shrunk(columns: FloatArray, radius: FloatArray) -> FloatArray:
    """Every column projected onto the ball of its radius in the 1-norm."""
    size = np.abs(columns)
    falling = -np.sort(-size, axis=0)
    over = (np.cumsum(falling, axis=0) - radius) / np.arange(1, len(size) + 1)[:, None]
    last = np.maximum((falling > over).sum(axis=0) - 1, 0)
    cut = np.maximum(over[last, np.arange(size.shape[1])], 0.0)
    return np.sign(columns) * np.maximum(size - np.where(size.sum(axis=0) > radius, cut, 0.0), 0.0)
