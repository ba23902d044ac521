"""Rounds of annealing over several windows: see `kernels` for the energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from keyshift.models.tuning import Settings
from keyshift.models.workload import IntArray
from keyshift.solvers.allocation.annealing import search as one_window
from keyshift.solvers.allocation.windows.arrays import WindowInstance
from keyshift.solvers.allocation.windows.kernels import TouchedWindows, WindowData, WindowState, anneal


@dataclass(frozen=True)
class WindowSettings(Settings):
    """Tuning numbers of the search over windows.

    Attributes
    ----------
    steps : int
        Steps of a round; at most `largest` times as many where many migrations are allowed.
    many_moves, largest : float
    chunk_work : float
        Steps times windows between two looks at the clock.
    doublings : tuple of int
        P is 2 to these powers, in turns.
    heats : tuple of float
        First temperatures in turns, as shares of the energy of one window's worth; the last is `cooling` times the first.
        From the one at which everything moves a round finds what no single move leads to.
    cooling : float
    fresh_every : int
        Every so many rounds one starts from the current nodes, the others from the best assignment.
    """

    steps: int = 200_000
    many_moves: float = 20
    largest: float = 20.0
    chunk_work: float = 1e6
    doublings: tuple[int, ...] = (3, 2, 4, 3, 5)
    heats: tuple[float, ...] = (0.02, 0.05, 0.01, 1.0)
    cooling: float = 0.02
    fresh_every: int = 3


class Turn(NamedTuple):
    """Settings of a round."""

    steps: int
    doublings: int
    hot: float
    cold: float
    fresh: bool


class WindowSearch(one_window.Search):
    """Rounds of annealing; each starts from an assignment of the caller's.

    Parameters
    ----------
    instance : WindowInstance
    seed : int
    settings : WindowSettings, optional
    """

    instance: WindowInstance

    def __init__(self, instance: WindowInstance, seed: int, settings: WindowSettings | None = None) -> None:
        super().__init__(instance, seed)
        it, self.tuning = instance, settings or WindowSettings.now()
        k, planned = it.windows, it.problem.planned
        self.wide = WindowData(it.loads, it.means, np.ascontiguousarray(planned.most), planned.over == "max")
        resources = it.use.shape[0]
        self.near = TouchedWindows(
            np.empty(8, np.int64),
            np.empty((8, k)),
            np.empty((resources, 8)),
            np.empty((8, k)),
            np.empty(k),
            np.empty(8),
        )
        self.here = WindowState(np.empty((it.nodes, k)), np.empty((it.nodes, k)), np.empty(k), np.empty(it.nodes))
        self.steps_between = max(1_000, int(self.tuning.chunk_work / k))

    def turn(self, number: int) -> Turn:
        """Steps, power and temperatures of a round."""
        it = self.tuning
        size = min(it.largest, max(1.0, self.instance.max_moves / it.many_moves))
        hot = it.heats[number % len(it.heats)]
        worst = 30.0 if self.wide.worst else 1.0  # there the energy counts nodes, not distance
        return Turn(
            int(it.steps * size), it.doublings[number % len(it.doublings)], hot * worst, hot * worst * it.cooling,
            number % it.fresh_every == 0,
        )  # fmt: skip

    def level(self, assignment: IntArray) -> float:
        """The t of (8) at an assignment: 0 unless it is CVaR."""
        planned = self.instance.problem.planned
        if planned.over != "cvar":
            return 0.0
        distances = self.instance.window_distances(self.instance.window_deviations(assignment))
        return float(distances[planned.weights(distances) > 0].min())

    def improve(self, chunk: Turn, value: float, level: float) -> IntArray | None:
        """Anneal for some steps; the best assignment below `value`, in units of the mean, None when there is none."""
        it = self.instance
        value = min(value, self.data.bump)
        schedule = np.array([chunk.steps, chunk.doublings, chunk.hot, chunk.cold], dtype=np.float64)
        found = anneal(
            self.rng, schedule, self.best_moves, value, level, self.edit, self.near, self.data, self.state, self.wide,
            self.here,
        )  # fmt: skip
        if found >= value:
            return None
        count = self.best_moves[0, -1]
        assignment = it.current.copy()
        assignment[self.best_moves[0, :count]] = self.best_moves[1, :count]
        return assignment
