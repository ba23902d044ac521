"""The cheapest cover by subsets: against every choice of a set for each node."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from draws import draws

from keyshift.models import Budget
from keyshift.solvers.subsets import FittingSets, cheapest_cover, extend


@draws(60, 600)
def test_the_cheapest_of_all_choices(count):
    rng, found = np.random.default_rng(1), 0
    for _ in range(count):
        p, n, most_moves = int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(0, 4))
        sets = []
        for _ in range(n):
            bits = np.flatnonzero(rng.random(2**p) < 0.7)
            sets.append(FittingSets(bits, rng.random(bits.size), rng.integers(0, 3, bits.size)))
        costs = [
            sum(float(one.cost[c]) for one, c in zip(sets, choice, strict=True))
            for choice in itertools.product(*(range(one.bits.size) for one in sets))
            if sum(int(one.bits[c]) for one, c in zip(sets, choice, strict=True)) == 2**p - 1
            and _apart([int(one.bits[c]) for one, c in zip(sets, choice, strict=True)])
            and sum(int(one.moves[c]) for one, c in zip(sets, choice, strict=True)) <= most_moves
        ]
        answered, chosen = cheapest_cover(sets, 2**p, 2.0, most_moves, math.inf, Budget())
        assert answered
        able = [cost for cost in costs if cost <= 2.0]
        assert (chosen is None) == (not able)
        if chosen is not None:
            found += 1
            at = [int(np.flatnonzero(one.bits == bits)[0]) for one, bits in zip(sets, chosen, strict=True)]
            assert _apart(chosen)
            assert sum(chosen) == 2**p - 1
            assert sum(one.moves[i] for one, i in zip(sets, at, strict=True)) <= most_moves
            assert sum(one.cost[i] for one, i in zip(sets, at, strict=True)) == pytest.approx(min(able))
    assert found > 0.3 * count


def _apart(bits: list[int]) -> bool:
    """Whether no key group is in two sets."""
    return all(a & b == 0 for a, b in itertools.combinations(bits, 2))


def test_the_kernel_is_every_pair():
    rng = np.random.default_rng(8)
    for _ in range(50):
        size = 2 ** int(rng.integers(2, 8))
        before = np.where(rng.random(size) < 0.5, rng.integers(0, 6, size), np.inf)
        bits = np.flatnonzero(rng.random(size) < rng.random())
        cost, table, after = rng.integers(0, 4, bits.size).astype(float), *np.full((2, size), np.inf)
        table[bits] = cost
        extend(before, bits, cost, table, 5.0, after, math.inf)
        expected = np.full(size, np.inf)
        for held in range(size):
            for some, more in zip(bits, cost, strict=True):
                if held & some == 0 and before[held] + more <= 5:
                    expected[held | some] = min(expected[held | some], before[held] + more)
        assert np.array_equal(after, expected)
