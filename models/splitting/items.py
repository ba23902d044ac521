"""Like items counted together: the aggregation that makes a million keys a small problem."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from keyshift.models.base.integers import scaled
from keyshift.models.splitting import hashing
from keyshift.models.splitting.data import Histogram, KeyStream, parts
from keyshift.models.splitting.hashing import candidates
from keyshift.models.splitting.stream import room_for_assignment
from keyshift.models.workload import FloatArray, IntArray


def candidate_sets(
    keys: IntArray, workers: int, choices: int | None, hash_seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The different candidate sets, and which one each key has.

    Returns
    -------
    options : ndarray, shape (sets, most candidates)
        Workers in increasing order, -1 fills up.
    number : ndarray, shape (keys,)
    """
    if choices is None:
        return np.arange(workers)[None, :], np.zeros(keys.size, dtype=np.int64)
    rows = np.sort(candidates(keys, workers, choices, hash_seed), axis=1)
    repeats = np.zeros(rows.shape, dtype=bool)
    repeats[:, 1:] = rows[:, 1:] == rows[:, :-1]
    rows[repeats] = workers  # no further candidate: to the end
    rows.sort(axis=1)
    rows = rows[:, : int((rows < workers).sum(axis=1).max())]
    if (workers + 1) ** rows.shape[1] < 2**62:  # one number stands for a set, and sorts faster
        code = rows.astype(np.int64) @ (workers + 1) ** np.arange(rows.shape[1] - 1, -1, -1)
        _, first, number = np.unique(code, return_index=True, return_inverse=True)
        options = rows[first]
    else:
        options, number = np.unique(rows, axis=0, return_inverse=True)
    return np.where(options == workers, -1, options), number.reshape(-1)


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of like items, with the same candidates and weight, on workers of some speeds.

    Attributes
    ----------
    speeds : ndarray, shape (W,)
    options : ndarray of int, shape (groups, most candidates)
        Candidates of each group, in increasing order, -1 fills up.
    count : ndarray of int, shape (groups,)
        Items in each group, > 0.
    weight : ndarray, shape (groups,)
        Weight of one item.
    """

    speeds: FloatArray
    options: IntArray
    count: IntArray
    weight: FloatArray

    @property
    def total(self) -> FloatArray:
        """Weight of each group, shape (groups,)."""
        return self.count * self.weight

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Every group with every one of its candidates: group and position in `options`, shape (pairs,) each."""
        group, at = np.nonzero(self.options >= 0)
        return group, at

    def inside(self, workers: np.ndarray) -> np.ndarray:
        """Which groups have all their candidates among some workers (a mask), shape (groups,) bool."""
        return np.asarray((workers[self.options] | (self.options < 0)).all(axis=1))

    @property
    def interchangeable_workers(self) -> bool:
        """Whether every item may go to any worker, and all are as fast."""
        anywhere = self.options.shape[1] == self.speeds.size and bool((self.options >= 0).all())
        return anywhere and bool((self.speeds == self.speeds[0]).all())

    @property
    def heaviest_load(self) -> float:
        """The largest load, over all items, that one item brings to the fastest of its candidates."""
        fastest = np.where(self.options >= 0, self.speeds[self.options], 0.0).max(axis=1)
        return float((self.weight / fastest).max(initial=0.0))

    def next_possible_load(self, bound: float) -> float:
        """The bound, rounded up to a load that can occur: on some worker, a multiple of what divides all weights.

        Decimal weights that are multiples of a unit but for rounding count as multiples, less what that adds up to over all.
        """
        weights = scaled(np.unique(self.weight), bits=52).coarsest()
        error_bound = 0 if weights.exact else Fraction(weights.error) * int(self.count.sum())
        if weights.total == 0 or 4 * error_bound * weights.scale > 1 or not math.isfinite(bound):
            return bound
        possible = []
        for speed in np.unique(self.speeds):
            whole = math.ceil((Fraction(bound) * Fraction(float(speed)) - error_bound) * weights.scale)
            possible.append((whole / weights.scale - error_bound) / Fraction(float(speed)))
        return max(bound, float(min(possible)))

    @property
    def most_load(self) -> float:
        """The largest load, over all workers, of one that gets everything it may get."""
        group, at = self.pairs
        most = np.bincount(self.options[group, at], weights=self.total[group], minlength=self.speeds.size)
        return float((most / self.speeds).max(initial=0.0))

    def filled(self, unit: float) -> FloatArray:
        """Units of load that an item of each group adds at each of its options, 0 where that is next to nothing."""
        made = np.where(self.options >= 0, self.weight[:, None] / self.speeds[self.options] / unit, 0.0)
        # A group that fills at most this share of a unit is left out: that only relaxes a model, and keeps it in one scale.
        made[made * self.count[:, None] < 1e-10] = 0.0
        return np.asarray(made)

    def dealt(self) -> IntArray:
        """Every group in equal parts on all its options, the rest dealt out in turns: a feasible share."""
        width = (self.options >= 0).sum(axis=1)[:, None]
        rest = self.count[:, None] % width
        turn = (np.arange(self.options.shape[1]) - np.cumsum(rest)[:, None]) % width
        return np.where(self.options >= 0, self.count[:, None] // width + (turn < rest), 0)

    def loads(self, share: np.ndarray) -> FloatArray:
        """Load of each worker under numbers of items, per unit of speed, shape (W,)."""
        group, at = self.pairs
        weights = share[group, at] * self.weight[group]
        load = np.bincount(self.options[group, at], weights=weights, minlength=self.speeds.size)
        return load / self.speeds


@dataclass(frozen=True, eq=False)
class Items(Groups):
    """The groups of a problem's messages, or of its keys where they stay in one place.

    Attributes
    ----------
    problem : KeyStream
    whole_keys : bool
        Whether an item is a key with all its messages.
    """

    problem: KeyStream
    whole_keys: bool
    _group_of_key: IntArray
    _weights: FloatArray
    _code: IntArray

    @classmethod
    def of(cls, problem: KeyStream, each: bool = False) -> Items:
        """The items to place: messages, or keys where each must stay in one place; with `each`, no two keys in one group."""
        return cls.of_keys(problem, each) if problem.one_place else cls.of_messages(problem, each)

    @staticmethod
    def _candidates(problem: KeyStream, each: bool) -> tuple[Histogram, np.ndarray, np.ndarray]:
        """The keys, candidate sets, and which one each key has: a set of its own with `each`."""
        known = problem.histogram
        options, number = candidate_sets(known.keys, problem.workers, problem.choices, problem.hash_seed)
        return (known, options[number], np.arange(number.size)) if each else (known, options, number)

    @classmethod
    def of_messages(cls, problem: KeyStream, each: bool = False) -> Items:
        """The messages of a stream, for keys that may be split."""
        known, options, set_of_key = cls._candidates(problem, each)
        if problem.weights is None:
            count = np.bincount(set_of_key, weights=known.messages, minlength=len(options)).astype(np.int64)
            one, every = np.ones(len(options)), np.arange(len(options))
            return cls(problem.speeds, options, count, one, problem, False, set_of_key, one[:1], every)
        weights = np.unique(problem.weights)
        code, count = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for _, keys, weight in parts(problem):
            codes = set_of_key[problem.index.find(keys)] * weights.size + np.searchsorted(weights, np.asarray(weight))
            more, many = np.unique(codes, return_counts=True)
            code, where = np.unique(np.concatenate([code, more]), return_inverse=True)
            count = np.bincount(where, weights=np.concatenate([count, many])).astype(np.int64)
        sets, which = np.divmod(code, weights.size)
        return cls(problem.speeds, options[sets], count, weights[which], problem, False, set_of_key, weights, code)

    @classmethod
    def of_keys(cls, problem: KeyStream, each: bool = False) -> Items:
        """The keys of a stream, each in one place."""
        known, options, set_of_key = cls._candidates(problem, each)
        weights, which = np.unique(known.weight, return_inverse=True)
        codes = set_of_key * weights.size + which.reshape(-1)
        code, group_of_key, count = np.unique(codes, return_inverse=True, return_counts=True)
        sets, which = np.divmod(code, weights.size)
        group_of_key = group_of_key.reshape(-1)
        return cls(problem.speeds, options[sets], count, weights[which], problem, True, group_of_key, weights, code)

    def _groups(self, keys: IntArray, weights: FloatArray | None) -> IntArray:
        """The group of each message."""
        of_key = self._group_of_key[self.problem.index.find(keys)]
        if weights is None:
            return of_key
        return np.searchsorted(self._code, of_key * self._weights.size + np.searchsorted(self._weights, weights))

    def assignment(self, share: IntArray) -> np.ndarray:
        """Turn numbers of items - of each group on each option - into the worker of each message.

        A group's messages are dealt in arrival order so that its workers fill up evenly.
        """
        given, seen = np.zeros_like(share), np.zeros(len(share), dtype=np.int64)
        made = room_for_assignment(self.problem.stream)
        if self.whole_keys:
            place_of = np.empty(self._group_of_key.size, dtype=np.int32)
            hashing.spread(self._group_of_key, self.options, share, given, seen, place_of)
        for where, keys, weights in parts(self.problem):
            if self.whole_keys:
                made[where] = place_of[self.problem.index.find(keys)]
            else:
                hashing.spread(self._groups(keys, weights), self.options, share, given, seen, made[where])
        return made

    def completed(self, share: IntArray) -> IntArray:
        """Rounded numbers of items; what a group lacks, or has too many of, is corrected where it has most."""
        made = share.copy()
        made[np.arange(len(made)), made.argmax(axis=1)] += self.count - made.sum(axis=1)
        return made

    def share(self, assignment: np.ndarray) -> IntArray:
        """Numbers of items of each group on each option in a feasible assignment: the reverse of `assignment`."""
        wide = self.options.shape[1]
        share = np.zeros(self.options.size, dtype=np.int64)
        place_of = np.full(self._group_of_key.size, -1, dtype=np.int64)
        for where, keys, weights in parts(self.problem):
            if self.whole_keys:
                place_of[self.problem.index.find(keys)] = assignment[where]
                continue
            groups = self._groups(keys, weights)
            at = (self.options[groups] == np.asarray(assignment[where])[:, None]).argmax(axis=1)
            share += np.bincount(groups * wide + at, minlength=share.size)
        if self.whole_keys:
            at = (self.options[self._group_of_key] == place_of[:, None]).argmax(axis=1)
            share += np.bincount(self._group_of_key * wide + at, minlength=share.size)
        return share.reshape(-1, wide)
