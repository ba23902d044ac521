"""A fast method of our own for MCLB: greedy placement, then moves and swaps, annealed where there is room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.mclb.problem import MCLB, Core
from keyshift.models.ranges import NonNegative
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.mclb import local_search_kernels as kernels
from keyshift.solvers.mclb.bounds import window_bound
from keyshift.solvers.threads import one_blas_thread


@dataclass(frozen=True)
class PlacementSearchSettings:
    """Tuning numbers of the local search.

    Attributes
    ----------
    annealed : int
        Up to this many key groups the second-moment matrix serves the annealing; above, loads are swept instead.
    steps_for_each, longest_run : int
        Annealing steps of one run: for each key group, and at most. Between two runs the clock is looked at.
    glance : float
        The share of a run that the first, quick one has: a placement for who has no more time than that.
    small : int
        Up to this many key groups the softened runs are left out.
    softened, reheated : int
        Runs of either kind, where `effort` is 1.
    softness : tuple of float
        Where the eigenvalues are capped at first, in turn, in units of the ninth decile times 1.5.
    stages : int
        Steps in which the cap rises.
    reheats : tuple of float
        Heats from which the reheated runs cool, in turn, in units of what is left to gain for each key group.
    """

    annealed: int = 1500
    steps_for_each: int = 10_000
    longest_run: int = 2_000_000
    glance: float = 0.05
    small: int = 12
    softened: int = 9
    reheated: int = 3
    softness: tuple[float, ...] = (1.0, 3.0, 8.0)
    stages: int = 15
    reheats: tuple[float, ...] = (10.0, 3.0, 30.0)


PROHIBITIVE = 1e100
"""A price for state beyond the budget that nothing is worth."""
DEFAULTS = PlacementSearchSettings()
"""The settings of every search that is not handed others."""


def local_search(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, effort: NonNegative = 1.0
) -> Answer:
    """Moves and swaps from a greedy placement.

    No guarantee. Greedy placement takes O(p n m). Up to 1,500 key groups, simulated annealing follows on the
    uncentred second-moment matrix C = Y'Y, where a candidate costs O(1); above, sweeps of best moves, O(p n m), and
    swaps of key groups of like size, O(m) each, until neither gains.

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
    start : ndarray, optional
        A placement that the answer will not be worse than.
    effort : float, default 1
        Multiplies the number of annealing steps or swaps.

    Notes
    -----
    Without a budget the labels of the nodes are free: those that move least state are chosen (an assignment problem).
    """
    core = problem.core
    rng = np.random.default_rng(seed)
    chosen = core.relabelled(improved(core, None if start is None else core.lower(start), budget, rng, effort))
    return Answer(core.lift(chosen), termination=budget.why if budget.expired else "completed")


def improved(
    core: Core,
    start: IntArray | None,
    budget: Budget,
    rng: np.random.Generator,
    effort: float = 1.0,
    settings: PlacementSearchSettings = DEFAULTS,
) -> IntArray:
    """Search from the best of the start, the greedy placement and the current nodes."""
    load = compressed(core.load)
    chosen = _starting_point(core, load, start)
    if core.nodes == 1 or budget.expired:
        return chosen
    if load.shape[0] <= settings.annealed:
        return _annealed(core, chosen, budget, _Annealing(core, load, rng, settings), effort)
    return _swept(core, load, chosen, budget, rng, effort)


def compressed(load: FloatArray) -> FloatArray:
    """Rows with the same inner products in no more than p columns: the triangle of a QR factorisation of Y'."""
    p, m = load.shape
    if m <= p:
        return load
    triangle: FloatArray = np.linalg.qr(load.T, mode="r")  # type: ignore[assignment]  # mode "r" gives R alone
    return np.ascontiguousarray(triangle.T)


def _starting_point(core: Core, load: FloatArray, start: IntArray | None) -> IntArray:
    """The best of the start, the greedy placement by size, and the current nodes."""
    order = np.argsort(-np.square(load).sum(axis=1), kind="stable")
    candidates = [kernels.place_greedily(core.load, order, core.nodes, core.state, core.current, core.budget)]
    if (core.current >= 0).all():
        candidates.append(core.current)
    if start is not None:
        candidates.insert(0, start)
    allowed = [c for c in candidates if core.moved(c) <= core.budget]
    return min(allowed, key=core.squares).copy()


def _annealed(core: Core, chosen: IntArray, budget: Budget, annealing: _Annealing, effort: float) -> IntArray:
    """One long cooling from a heat at which everything moves, then softened runs, then reheats from the best so far."""
    settings = annealing.settings
    best, value = chosen, core.squares(chosen)
    if annealing.typical == 0.0:
        return chosen
    softened = round(effort * settings.softened) if chosen.size > settings.small else 0
    plan = ["glance", "cool", *["soften"] * softened, *["reheat"] * max(1, round(effort * settings.reheated))]
    for number, kind in enumerate(plan, start=-1):
        rest = max(value - annealing.floor, 1e-9 * value) / chosen.size
        if rest == 0.0 or budget.expired:
            break
        annealing.price = PROHIBITIVE if number % 2 else annealing.fair_price
        if kind in ("glance", "cool"):
            share = settings.glance if kind == "glance" else 1.0
            found = annealing.run(best, annealing.moment, 2.0 * annealing.typical, 0.1 * rest, share)
        elif kind == "reheat":
            heat = settings.reheats[number % len(settings.reheats)]
            found = annealing.run(best, annealing.moment, heat * rest, 0.2 * rest)
        else:
            found = annealing.softened(best, settings.softness[number % len(settings.softness)], budget)
        if (now := core.squares(found)) < value and core.moved(found) <= core.budget:
            best, value = found, now
            budget.report(objective=value / core.nodes, note="local search")
    return best


class _Annealing:
    """Simulated annealing on the second-moment matrix, as it is or softened."""

    def __init__(
        self, core: Core, load: FloatArray, rng: np.random.Generator, settings: PlacementSearchSettings = DEFAULTS
    ) -> None:
        self.core, self.rng, self.settings = core, rng, settings
        with one_blas_thread():
            self.moment = load @ load.T
            self.typical = 2.0 * float(np.diag(self.moment).mean())
            self.floor = window_bound(core.load.T, core.nodes)
            self.values, self.vectors = np.linalg.eigh(self.moment)
        most_moved = max(min(core.budget, float(core.state.sum())), float(core.state.mean())) or 1.0
        gained = core.squares(np.maximum(core.current, 0)) - self.floor
        self.price = self.fair_price = max(0.0, gained) / most_moved
        self.steps = min(settings.steps_for_each * load.shape[0], settings.longest_run)

    def run(self, start: IntArray, moment: FloatArray, hot: float, cold: float, share: float = 1.0) -> IntArray:
        """Cool from one heat to another."""
        core = self.core
        found, _ = kernels.anneal(
            moment, start, core.nodes, core.state, core.current, core.budget, self.price, hot, min(cold, hot / 2),
            max(1, int(self.steps * share)), self.rng,
        )  # fmt: skip
        return found

    def softened(self, start: IntArray, softness: float, budget: Budget) -> IntArray:
        """Cool while the few large eigenvalues of the second moment, capped at first, come back.

        Those few, the mean load above all, dwarf the rest: at a heat where the others are still to be arranged, hardly
        any swap keeps the means level, and a plain annealing freezes with the others in disorder. Capped, they let the
        fluctuations be arranged first; as the cap rises, the small key groups level the means.
        """
        positive = self.values[self.values > 1e-9 * self.values[-1]]
        cap = 1.5 * softness * float(np.quantile(positive, 0.9))
        rest = 0.5 * float(np.minimum(positive, cap).sum()) / start.size
        rise = max(1.0, float(self.values[-1]) / cap)
        found, stages = start, self.settings.stages
        for stage in range(stages + 1):
            done = stage / stages
            limit = cap * rise ** min(1.0, done / 0.8)
            whole = limit >= 0.999 * self.values[-1]
            moment = self.moment if whole else (self.vectors * np.minimum(self.values, limit)) @ self.vectors.T
            heats = [0.4 * rest * 0.1 ** (d / stages) for d in (stage, stage + 1)]
            found = self.run(found, moment, heats[0], heats[1], share=1.0 / stages)
            if budget.expired:
                break
        return found


def _swept(
    core: Core, load: FloatArray, chosen: IntArray, budget: Budget, rng: np.random.Generator, effort: float
) -> IntArray:
    """Sweeps of moves and swaps of neighbours in size, while they gain more than a thousandth."""
    chosen = chosen.copy()
    sums = np.zeros((core.nodes, load.shape[1]))
    np.add.at(sums, chosen, load)
    ranked = np.argsort(-load.sum(axis=1), kind="stable")
    spent, value = core.moved(chosen), core.squares(chosen)
    p = chosen.size
    idle = 0
    while not budget.expired and idle < 3:
        fall, spent = kernels.descend(
            load, chosen, sums, core.state, core.current, spent, core.budget, rng.permutation(p)
        )
        for reach in (p // 2, 200, 20):
            if budget.expired:
                break
            gained, spent = kernels.swap_alike(
                load, chosen, sums, core.state, core.current, spent, core.budget, ranked, reach,
                int(effort * 10 * p), rng,
            )  # fmt: skip
            fall += gained
        idle = idle + 1 if fall <= 1e-3 * value else 0
        value -= fall
        budget.report(objective=max(value, 0.0) / core.nodes, note="local search")
    return chosen
