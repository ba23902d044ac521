r"""Makespan on identical machines, P || Cmax: whole keys, each of which may run on any of m like workers.

With loads :math:`p_1 \ge \dots \ge p_n` in whole units, the largest load C of a worker is bounded from below by

.. math::

   C &\ge \lceil \textstyle\sum_k p_k / m \rceil, \quad C \ge p_1 && (1) \\
   C &\ge \lceil \text{the } r (q + 1) \text{ least of } p_1, \dots, p_j / r \rceil
       && (2)\ j = q m + r,\ 0 < r \le m

(2) because some r workers have r (q + 1) of the j largest keys, or more [Haouari2006]. Answers come from LPT [Graham1969] and
MultiFit [Coffman1978]; then the keys of two workers, or of three, are dealt out anew as well as they can be. Bin completion with
the dominance of [Martello1990] asks whether C may be less, and raises the bound where it may not. Ours is how they take turns:
first what is cheap, then each for half as long again as the time before. All counts are of work, not of seconds.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.compiling import njit
from keyshift.models.base.integers import scaled
from keyshift.models.splitting.items import Items
from keyshift.models.workload import IntArray

Groups = list[list[int]]


DEEPEST = 200
"""Bins, and keys in one, up to which bins are completed: the recursion is as deep."""


class _TurnOverError(Exception):
    """The turn is over."""


def by_makespan(items: Items, start: np.ndarray, least: float, budget: Budget, seed: int = 0) -> Answer:
    """Items that may go to any of like workers, from an assignment and a bound that are known."""
    problem, workers, speed = items.problem, items.speeds.size, float(items.speeds[0])
    # All keys together stay below so many bits of units.
    every = scaled(np.repeat(items.weight, items.count), 40)
    units = every.values[np.concatenate([[0], np.cumsum(items.count)[:-1]])]

    def bound(whole: int) -> float:
        return max(least, math.nextafter(every.lower(whole, terms=every.values.size) / speed, 0.0))

    def value(whole: int) -> float:
        return every.upper(whole) / speed

    search = Makespan(every.values[every.values > 0].tolist() or [0], workers, _groups(items.share(start), units), seed)
    search.run(budget, lambda most, proven: budget.report(value(most), bound(proven)))
    found = items.assignment(_share(search.groups, units, items.count))
    if problem.objective(start) <= problem.objective(found):
        found = start
    proven = items.next_possible_load(bound(search.bound))
    settled = (reached := problem.objective(found)) - proven <= problem.tolerance_of(reached)
    return Answer(found, min(proven, reached), "optimal" if settled else budget.why)


def _groups(share: IntArray, units: IntArray) -> Groups:
    """The loads that each worker has."""
    weighs = units > 0
    return [np.repeat(units[weighs], held[weighs]).tolist() for held in share.T]


def _share(groups: Groups, units: IntArray, count: IntArray) -> IntArray:
    """Numbers of items of each group on each worker; those that weigh nothing go to the first."""
    share = np.zeros((units.size, len(groups)), dtype=np.int64)
    of_load: dict[int, list[int]] = {}
    for g, load in enumerate(units.tolist()):
        of_load.setdefault(load, []).append(g)
    left = count.copy()
    for i, group in enumerate(groups):
        for load in group:
            if load > 0:
                like = of_load[load]
                while left[like[-1]] == 0:
                    like.pop()
                share[like[-1], i] += 1
                left[like[-1]] -= 1
    share[:, 0] += left
    return share


def lower_bound(loads: Sequence[int], workers: int) -> int:
    """(1) and (2), of loads in decreasing order."""
    sums = np.concatenate([[0], np.cumsum(loads)])
    j = np.arange(workers + 1, len(loads) + 1)
    q, r = np.divmod(j - 1, workers)
    least = -((sums[j - (r + 1) * (q + 1)] - sums[j]) // (r + 1))
    return max(-(-int(sums[-1]) // workers), loads[0], int(least.max(initial=0)))


def longest_first(loads: Sequence[int], workers: int) -> Groups:
    """LPT: each key, the heaviest first, to the worker with least load."""
    groups: Groups = [[] for _ in range(workers)]
    least = [(0, i) for i in range(workers)]
    for load in loads:
        held, i = heapq.heappop(least)
        groups[i].append(load)
        heapq.heappush(least, (held + load, i))
    return groups


def multifit(loads: Sequence[int], workers: int, least: int, most: int) -> Groups | None:
    """MultiFit: the least C, found by halving, for which first fit needs no more workers; None if none is below `most`."""
    found = None
    while least < most:
        size = (least + most) // 2
        groups = _first_fit(loads, workers, size)
        if groups is None:
            least = size + 1
        else:
            found, most = groups, max(map(sum, groups))
    return found


def _first_fit(loads: Sequence[int], workers: int, size: int) -> Groups | None:
    groups: Groups = []
    room: list[int] = []
    for load in loads:
        i = next((i for i, left in enumerate(room) if load <= left), len(room))
        if i == workers or load > size:
            return None
        if i == len(room):
            groups.append([])
            room.append(size)
        groups[i].append(load)
        room[i] -= load
    return groups + [[] for _ in range(workers - len(groups))]


class Makespan:
    """An answer and a bound that approach each other.

    Parameters
    ----------
    loads : sequence of int
        In whole units, > 0.
    workers : int
    start : list of list of int, optional
        A known answer: the loads that each worker has.
    seed : int

    Attributes
    ----------
    groups : list of list of int
        The best answer: the loads that each worker has.
    value, bound : int
        Its largest load, and what no answer is below.
    """

    def __init__(self, loads: Sequence[int], workers: int, start: Groups | None = None, seed: int = 0) -> None:
        self.loads, self.workers = sorted(loads, reverse=True), workers
        self.bound = lower_bound(self.loads, workers)
        self.groups = longest_first(self.loads, workers) if start is None else start
        self.value = max(map(sum, self.groups))
        self.random = random.Random(seed)

    def add_solution(self, groups: Groups) -> None:
        """Take an answer if it is the best."""
        value = max(map(sum, groups))
        if value < self.value:
            self.groups, self.value = [[*group] for group in groups], value

    def run(self, budget: Budget, report: Callable[[int, int], None] = lambda value, bound: None) -> None:
        """Approach the optimum until it is proven, or the budget is used up."""
        if len(self.loads) > 100_000 or self.value == self.bound:
            return
        self.add_solution(longest_first(self.loads, self.workers))
        if len(self.loads) * self.workers <= 2_000_000:
            self.add_solution(multifit(self.loads, self.workers, self.bound, self.value) or self.groups)
        for turn in range(60):  # each half as long again as the one before; then the search ends without a proof
            if turn == 0 or self.workers < 3:
                self.deal_pairs(budget)
            if self.value == self.bound or budget.expired:
                break
            report(self.value, self.bound)
            longer = 1.5**turn
            self.complete_bins(int(4_000 * longer), budget)
            self.deal_triples(int(60 * longer), budget)

    def deal_pairs(self, budget: Budget) -> None:
        """Deal the keys of the fullest worker and of another out as evenly as possible, while that helps now and then."""
        groups = [[*group] for group in self.groups]
        held, vain = [sum(group) for group in groups], 0
        # So many vain tries for each worker show that three have to exchange.
        while self.workers > 1 and max(held) > self.bound and vain < 150 * self.workers and not budget.expired:
            full = max(range(self.workers), key=held.__getitem__)
            others = sorted((i for i in range(self.workers) if i != full), key=held.__getitem__)
            rank = 0 if vain == 0 else min(int(self.random.expovariate(6 / (6 + self.workers))), len(others) - 1)
            other = others[rank]
            kept, free = self._drawn([groups[full], groups[other]], 18)
            split = _halves(free, (held[full] + held[other]) // 2 - sum(kept[0]))
            after = [keep + more for keep, more in zip(kept, split, strict=True)]
            if max(map(sum, after)) < held[full]:
                vain = 0
                for i, group in zip((full, other), after, strict=True):
                    groups[i], held[i] = group, sum(group)
            else:
                vain += 1
        self.add_solution(groups)

    def _drawn(self, groups: Groups, most: int) -> tuple[Groups, list[int]]:
        """At most so many keys of each group, drawn, and what the groups keep."""
        kept, free = [], []
        for group in groups:
            self.random.shuffle(group)
            kept.append(group[most:])
            free += group[:most]
        self.random.shuffle(free)
        return kept, free

    def deal_triples(self, times: int, budget: Budget) -> None:
        """Deal keys of one worker above the bound and of two others out anew, so that no more is above it than before."""
        groups = [[*group] for group in self.groups]
        held = [sum(group) for group in groups]
        for _ in range(times if self.workers > 2 else 0):
            if self.value == self.bound or budget.expired:
                break
            above = [i for i, load in enumerate(held) if load > self.bound]
            if not above:
                break
            full = self.random.choice(above)
            others = [i for i in range(self.workers) if i != full]
            below = [i for i in others if held[i] < self.bound]
            second = self.random.choice(below if below and self.random.random() < 0.7 else others)
            third = self.random.choice([i for i in others if i != second])
            chosen = (full, second, third)
            kept, free = self._drawn([groups[i] for i in chosen], 4)
            fixed = np.array([sum(keep) for keep in kept])
            excess, one, two = deal_to_three(np.array(free, dtype=np.int64), fixed, self.bound)
            if excess <= sum(max(0, held[i] - self.bound) for i in chosen):
                for j, load in enumerate(free):
                    kept[0 if one >> j & 1 else 1 if two >> j & 1 else 2].append(load)
                for i, group in zip(chosen, kept, strict=True):
                    groups[i], held[i] = group, sum(group)
                self.add_solution(groups)

    def complete_bins(self, most: int, budget: Budget) -> None:
        """Ask for a smaller C: an answer that has it, or a higher bound; neither after `most` bins."""
        if self.workers > DEEPEST:
            return
        left = most
        while self.value > self.bound and left > 0 and not budget.expired:
            # By units where few are left, else by halves.
            size = self.bound if self.value - self.bound < 50 else (self.bound + self.value - 1) // 2
            packing = Packing(size, left, budget)
            try:
                groups = packing.pack(tuple(self.loads), self.workers)
            except _TurnOverError:
                return
            left = packing.left
            if groups is None:
                self.bound = size + 1
            else:
                self.add_solution(groups + [[] for _ in range(self.workers - len(groups))])


class Packing:
    """Bin completion: whether keys fit into so many bins of one size.

    Parameters
    ----------
    size : int
    most : int
        Completions to look at.
    budget : Budget
    """

    def __init__(self, size: int, most: int, budget: Budget) -> None:
        self.size, self.left, self.budget = size, most, budget
        self.failed: dict[tuple[int, ...], int] = {}

    def pack(self, loads: tuple[int, ...], bins: int) -> Groups | None:
        """Fill a bin with the heaviest key and what goes best with it, then the others; None where there is no way."""
        if len(loads) <= bins:
            return [[load] for load in loads] if not loads or loads[0] <= self.size else None
        spare = bins * self.size - sum(loads)
        if spare < 0 or loads[0] > self.size or self.failed.get(loads, -1) >= bins:
            return None
        first, others = loads[0], loads[1:]
        for completion in self._completions(others, self.size - first, spare):
            rest = list(others)
            for load in completion:
                rest.remove(load)
            packed = self.pack(tuple(rest), bins - 1)
            if packed is not None:
                return [[first, *completion], *packed]
        self.failed[loads] = bins
        return None

    def _completions(self, loads: tuple[int, ...], room: int, spare: int) -> list[tuple[int, ...]]:
        """Completions of a bin, the fullest first: without what the largest key that fits, alone, would do as well."""
        fit = loads[bisect_left(loads, -room, key=lambda load: -load) :]
        self._count()
        if not fit:
            return [()] if room <= spare else []
        if len(fit) == 1 or fit[-1] + fit[-2] > room:  # one key at most
            return [fit[:1]] if room - fit[0] <= spare else []
        found: set[tuple[int, ...]] = {fit[:1]} if room - fit[0] <= spare else set()

        def extend(begin: int, chosen: tuple[int, ...], held: int) -> None:
            self._count()
            if len(chosen) > DEEPEST:
                raise _TurnOverError
            if chosen and held >= fit[0] and room - held <= spare:
                found.add(chosen)
            for j in range(begin, len(fit)):
                if held + fit[j] <= room and (j == begin or fit[j] != fit[j - 1]):
                    extend(j + 1, (*chosen, fit[j]), held + fit[j])

        extend(0, (), 0)
        return sorted(found, key=lambda chosen: (-sum(chosen), len(chosen), chosen))

    def _count(self) -> None:
        self.left -= 1
        if self.left <= 0 or (self.left % 256 == 0 and self.budget.expired):
            raise _TurnOverError


def _halves(loads: list[int], target: int) -> tuple[list[int], list[int]]:
    """Two parts, the first with a sum near the target: row i of the table has bit s where i loads have a part of sum s."""
    # Sums of keys that are dealt out anew are told apart by so many bits.
    shift = max(0, sum(loads).bit_length() - 20)
    coarse = [load >> shift for load in loads]
    rows = [1]
    for load in coarse:
        rows.append(rows[-1] | rows[-1] << load)
    wanted = min(max(target >> shift, 0), sum(coarse))
    below = (rows[-1] & ((1 << (wanted + 1)) - 1)).bit_length() - 1
    above = rows[-1] >> wanted
    over = wanted + (above & -above).bit_length() - 1 if above else below
    at = below if wanted - below <= over - wanted else over
    parts: tuple[list[int], list[int]] = ([], [])
    for row, load, units in zip(rows[-2::-1], loads[::-1], coarse[::-1], strict=True):
        without = row >> at & 1
        parts[without].append(load)
        at -= 0 if without else units
    return parts


@njit(cache=True)
def deal_to_three(loads, fixed, most):
    """The least that three workers have above `most`, and the sets of loads, as bits, that the first and the second get."""
    every = 1 << loads.size
    sums = np.zeros(every, dtype=np.int64)
    for j in range(loads.size):
        for part in range(1 << j):
            sums[part | 1 << j] = sums[part] + loads[j]
    least, one, two = np.int64(2**62), 0, 0
    for first in range(every):
        above = max(0, fixed[0] + sums[first] - most)
        rest = every - 1 - first
        if above + max(0, fixed[1] + fixed[2] + sums[rest] - 2 * most) >= least:
            continue
        second = rest
        while True:
            excess = (
                above + max(0, fixed[1] + sums[second] - most) + max(0, fixed[2] + sums[rest] - sums[second] - most)
            )
            if excess < least:
                least, one, two = excess, first, second
            if second == 0:
                break
            second = (second - 1) & rest
    return least, one, two
