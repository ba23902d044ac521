"""From a problem with measures to its placement program: every limit is said here, once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from keyshift.models.objectives import Prioritised
from keyshift.models.rules.lowered import Lowered, MoveBudget, Rooms
from keyshift.models.rules.ruled import BROKEN, MergedItems
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.rows import RowFamily, entries
from keyshift.solvers.search.program import UNLIMITED, Aim, Placing

CUTS = ("remote_traffic", "total_load")


class Posed:
    """A problem's placement program, with earlier measures kept.

    A measure that is linear is a row, kept ones below their values; load distances are bands, a sum of deviations one around the
    middle of those of `start`; traffic has a most of its own (`Aim.most_cut`).

    Parameters
    ----------
    problem : Prioritised
    kept : mapping of str to float
        The most that each earlier measure may be.
    goal : str, optional
        The measure that is minimised; by default the problem's first.
    start : ndarray, optional
        Rules that give way are broken by no more than here, where that is kept.
    guided : bool
        Whether key groups are drawn by the deviations of nodes.
    """

    def __init__(
        self, problem: Prioritised, kept: Mapping[str, float] | None = None, goal: str | None = None,
        start: IntArray | None = None, guided: bool = False,
    ) -> None:  # fmt: skip
        w, it = problem.workload, problem.searched()
        self.problem, self.workload, self.goal = problem, w, goal or problem.stages[0]
        self.capacity, k = float(w.capacity[w.kept].sum()), len(it.load)
        self.unit = float(it.load.sum()) / (self.capacity * k) or 1.0
        worth = None
        if self.goal == "state_moved" and kept is None:  # load that is too much is priced by what it costs to move it
            worth = w.state / (float(w.state.max(initial=0.0)) or 1.0)
            self.unit = load_unit(it.load, worth)
        self.load, self.per_tuple = it.load, it.per_tuple
        by_window = np.zeros(1) if it.pairs is None else it.pairs[2].sum(axis=1)
        self.traffic = float(it.shares @ by_window if by_window.size == k else by_window[0]) or 1.0
        most = dict(it.most)
        for name, limit in (kept or {}).items():
            most[name] = min(limit, most.get(name, limit))
        if most.pop(BROKEN, None) is not None:
            problem = problem.elastic_at(start)  # type: ignore[arg-type]  # what keeps rules has a start
        self.most_cut = min([UNLIMITED, *(self._share(name, most.pop(name)) for name in CUTS if name in most)])
        moves, lowered = most.pop("migrations", None), getattr(problem, "lowered", Lowered(w.current))
        mean = np.array([np.full(k, 1 / self.capacity), np.zeros(k)])
        if it.mean is not None:
            it = it._replace(mean=it.mean / self.unit)
            mean = np.array([np.zeros(k), it.mean])
        bands = self._bands(it.bands, mean, most.pop("load_distance", None), most.pop("deviation_sum", None), start)
        rows = []
        forms = [self.linear(name, limit) for name, limit in most.items()]
        if lowered.merged and moves is not None:  # of an item several key groups move
            forms.append(self.linear("migrations", moves))
            items, anywhere = MergedItems.of(lowered), np.ones(w.nodes, dtype=bool)
            moves = items.budget(np.ones(w.key_groups), anywhere, moves).most
        for form in forms:
            if isinstance(form, Lowered):
                both = {"rooms": (*lowered.rooms, *form.rooms), "budgets": (*lowered.budgets, *form.budgets)}
                lowered = replace(lowered, **both)
            else:
                rows += form
        pairs = None if it.pairs is None else (*it.pairs[:2], it.pairs[2] / self.traffic)
        self.placing = Placing(
            it._replace(
                load=it.load / self.unit, bands=bands, pairs=pairs, per_tuple=it.per_tuple * self.traffic / self.unit
            ),
            lowered, w.capacity, draining=w.draining, rows=rows,
            goals=() if self.goal in (*CUTS, "load_distance", "deviation_sum") else self.linear(self.goal, 0.0),
            max_moves=None if moves is None else math.floor(moves + 1e-9), worth=worth, guided=guided,
        )  # fmt: skip

    def aim(self, start: IntArray, doublings: int = 2) -> tuple[Aim, float]:
        """What is minimised from an assignment on, and its value there in the search's units."""
        value, apart = self.problem.measured(self.goal, start), self.placing.program.graph.weight.sum(axis=1) / 2
        if self.goal in CUTS:
            return Aim(cut=1.0, apart=apart), self._share(self.goal, value)
        if self.goal in ("load_distance", "deviation_sum"):
            sides, centre = self.problem.metrics(start), 0.0
            if self.goal == "deviation_sum":
                value, centre = value / 2, (sides["upper_deviation"] - sides["lower_deviation"]) / 2 / self.unit
            far = max(value / self.unit, 1e-9)
            return Aim(doublings, far, centre, most_cut=self.most_cut, apart=apart), far
        heaviest = {"state_moved": self.workload.state, "draining_load": self.workload.last_load}.get(
            self.goal, np.ones(1)
        )
        return Aim(goal=1.0, most_cut=self.most_cut, apart=apart), value / (float(heaviest.max(initial=0.0)) or 1.0)

    def linear(self, measure: str, most: float) -> Lowered | list[RowFamily]:
        """A measure that is linear as forms or rows that keep it below a value."""
        w = self.workload
        every, ones = np.arange(w.key_groups), np.ones(w.key_groups)
        if measure == BROKEN:
            stated: Lowered = self.problem.stated
            return replace(stated, rooms=(*stated.rooms, *(self._gathered(some, stated) for some in stated.merged)))
        if measure == "table_size":
            home: Any = w.current if w.home is None else w.home
            return list(entries(home, w.nodes, most))
        if measure in ("migrations", "state_moved"):
            cost = ones if measure == "migrations" else w.state
            return Lowered(w.current, budgets=(MoveBudget(every, cost, np.ones(w.nodes, dtype=bool), most),))
        weights = w.last_load if measure == "draining_load" else ones
        limit = np.zeros(1), np.array([most])
        return Lowered(w.current, rooms=(Rooms(every, weights, np.where(w.draining, 0, -1), *limit),))

    def _gathered(self, members: IntArray, stated: Lowered) -> Rooms:
        """A room of zero on every node but the one, among those open to them, where most of these key groups are.

        The search brings them together there and considers no other node for them.
        """
        here = np.bincount(self.workload.current[members], minlength=self.workload.nodes)
        if stated.closed is not None:
            here = np.where(stated.closed[members].any(axis=0), -1, here)
        domain = np.where(np.arange(here.size) == here.argmax(), -1, 0)
        return Rooms(members, np.ones(members.size), domain, np.zeros(1), np.zeros(1))

    def _bands(
        self, given: FloatArray | None, mean: FloatArray, far: float | None, sides: float | None, start: IntArray | None
    ) -> FloatArray | None:
        """The problem's bands, and those of a load distance and a sum of deviations that are kept."""
        if given is None and far is None and sides is None:
            return None
        w, k = self.workload, mean.shape[1]
        made = np.zeros((4, k, w.nodes))
        made[1], made[3] = np.inf, -np.inf
        if given is not None:
            made[:] = given
            made[[1, 3]] /= self.unit
        between = [] if far is None else [(-far / self.unit, far / self.unit)]
        if sides is not None and start is not None:
            deviations = self.problem.metrics(start)
            upper = (sides + deviations["upper_deviation"] - deviations["lower_deviation"]) / 2
            between.append(((upper - sides) / self.unit, upper / self.unit))
        if between:
            low, high = max(low for low, _ in between), min(high for _, high in between)
            made = _narrower(made, mean, w.capacity, np.where(w.kept, low, -np.inf) - 1e-13, high + 1e-13)
        return made

    def _share(self, measure: str, value: float) -> float:
        """Traffic between nodes as a share of all, less what is within items."""
        if measure == "remote_traffic":
            return value / self.traffic
        cost = self.per_tuple * self.traffic
        return (value - (float(self.load.sum()) - cost)) / cost if cost > 0 else UNLIMITED


def _narrower(bands: FloatArray, mean: FloatArray, capacity: FloatArray, low: FloatArray, high: float) -> FloatArray:
    """Bands that keep deviations between two values, too, where these are the narrower ones."""
    made = bands.copy()
    share, rest = mean[0][:, None] * capacity, mean[1][:, None] * capacity
    total = 1.0 / max(float(mean[0].max()), 1e-300) if mean[0].any() else 0.0
    tighter = share * total + rest + high * capacity < bands[0] * total + bands[1]
    made[0], made[1] = np.where(tighter, share, made[0]), np.where(tighter, rest + high * capacity, made[1])
    tighter = share * total + rest + low * capacity > bands[2] * total + bands[3]
    made[2], made[3] = np.where(tighter, share, made[2]), np.where(tighter, rest + low * capacity, made[3])
    return made


def load_unit(load: FloatArray, worth: FloatArray) -> float:
    """The unit of loads in which one too much costs what it costs to move the median key group of so much."""
    mean = load.mean(axis=0)
    some = (worth > 0) & (mean > 0)
    return float(np.median(mean[some] / worth[some])) if some.any() else float(mean.mean()) or 1.0
