"""The cheapest cover by subsets: against every choice of a set for each node."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from draws import draws

from keyshift.models import Budget
from keyshift.solvers.subsets import FittingSets, cheapest_cover, extend


@draws(500, 3000)
def test_the_cheapest_of_all_choices(count):
    """Costs that differ by little, so that fewer moves and less cost are often at odds."""
    rng, found = np.random.default_rng(1), 0
    for _ in range(count):
        p, n, most_moves = int(rng.integers(1, 5)), int(rng.integers(1, 6)), int(rng.integers(0, 5))
        cost = np.where(rng.random((n, 2**p)) < 0.8, 1 + 0.2 * rng.random((n, 2**p)), np.inf)
        moves, most = rng.integers(0, 4, (n, 2**p)) * (rng.random((n, 2**p)) < 0.6), n + 0.2
        sets = [
            FittingSets(np.flatnonzero(c < np.inf), c[c < np.inf], m[c < np.inf])
            for c, m in zip(cost, moves, strict=True)
        ]
        answered, chosen = cheapest_cover(sets, 2**p, most, most_moves, math.inf, Budget())
        assert answered
        rows, able = np.arange(n), []
        for place in itertools.product(range(n), repeat=p):
            bits = np.bincount(place, 1 << np.arange(p), n).astype(np.int64)
            if moves[rows, bits].sum() <= most_moves and cost[rows, bits].sum() <= most:
                able.append(cost[rows, bits].sum())
        assert (chosen is None) == (not able)
        if chosen is not None:
            found += 1
            assert sum(chosen) == 2**p - 1
            assert all(a & b == 0 for a, b in itertools.combinations(chosen, 2))
            assert moves[rows, chosen].sum() <= most_moves
            assert cost[rows, chosen].sum() == pytest.approx(min(able))
    assert found > 0.3 * count


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
