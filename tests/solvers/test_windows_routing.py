"""Mixed routing over several windows and scenarios, held against brute force and against one window."""

from __future__ import annotations

import numpy as np
import pytest
from draws import rest_slow
from instances.routing import random_problem
from over_windows import agree, loads_near, same_answers, windows_of, with_older_windows

import keyshift as ks


def over_windows(rng: np.random.Generator, p: int, n: int) -> ks.MixedRouting:
    """A random instance over 1 to 4 windows or scenarios, with the options of one window on or off."""
    one = random_problem(rng, p, n)
    loads = loads_near(rng, one)
    if rng.random() < 0.1:
        loads[rng.integers(len(loads))] *= rng.choice([1e-9, 1e12])
    return windows_of(rng, one, loads, theta_max=float(rng.choice([0.1, 0.5, 1.0, 2.0])))


@pytest.mark.parametrize("seed", range(30))
def test_every_method_agrees_with_brute_force(seed):
    rng = np.random.default_rng([23, seed])
    agree(over_windows(rng, int(rng.integers(1, 6)), int(rng.integers(1, 4))))


@pytest.mark.slow
def test_every_method_agrees_with_brute_force_on_hundreds():
    rng = np.random.default_rng(29)
    answered = [agree(over_windows(rng, int(rng.integers(1, 7)), int(rng.integers(1, 4)))) for _ in range(400)]
    assert sum(answered) > 100


@pytest.mark.parametrize("seed", rest_slow(6, range(12)))
def test_one_window_is_the_last_window_bit_for_bit(seed):
    rng = np.random.default_rng([31, seed])
    one = random_problem(rng, 6, 3)
    same_answers(one, with_older_windows(rng, one))


def test_every_window_is_kept_where_one_alone_would_move_less():
    w = ks.Workload(
        load=[[1, 1, 4, 2], [3, 1, 2, 2]], state=[1, 1, 9, 2], current=[0, 0, 1, 1], home=[0, 0, 1, 1], nodes=2
    )
    last = ks.solve(ks.MixedRouting(w, theta_max=0.0))
    both = ks.solve(ks.MixedRouting(w, theta_max=0.0, windows=2))
    assert last.objective == 0
    assert both.status == "infeasible" or both.objective > 0
    assert ks.MixedRouting(w, theta_max=0.0, windows=2).check(last.assignment).violations[0].rule == "theta_max"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"windows": 2}, "windows = 2: the workload has 1"),
        ({"windows": 1, "scenarios": [[1.0, 2.0]]}, "scenarios has 2 entries, expected 1"),
        ({"scenarios": [[float("nan")]]}, "must be finite"),
    ],
)
def test_bad_windows_are_refused_in_a_sentence(options, said):
    w = ks.Workload(load=[4], state=[1], current=[0], home=[0], nodes=2)
    with pytest.raises(ks.InputError) as error:
        ks.MixedRouting(w, **options)
    assert said in str(error.value)
