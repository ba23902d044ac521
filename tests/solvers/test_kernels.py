"""Every kernel that a method calls, twice: compiled, and as the Python that it is written in."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from instances import BATTERIES, MODULES

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.models.base import compiling
from keyshift.models.base.compiling import Kernel

DRAWN = {module.NAME: module.random_problem for module in MODULES}
CALLS = 12
"""Of each kernel, by each method."""
LOOPS = 30_000
"""Calls of more iterations than that are left to the compiled code."""


FEW_KERNELS = ("movement-within-limits", "replicated-allocation")
"""Their one kernel is the annealing, which has a test of its own."""


@pytest.fixture
def compared(monkeypatch) -> Counter[str]:
    """By kernel, how often both ways said the same; where they do not, the call fails."""
    seen: Counter[str] = Counter()

    def twice(kernel, *given):
        given += kernel._defaults[len(given) - kernel._parameters :] if len(given) < kernel._parameters else ()
        name = f"{kernel.py_func.__module__}.{kernel.__name__}"
        before = compiling._kept(given) if seen[name] < CALLS else None
        if before is None:
            return kernel.dispatcher(*given)
        compiling._LEFT[:] = bytes(LOOPS)
        try:
            with np.errstate(all="ignore"):
                plain = compiling._plain(kernel.plain(*given))
        except IndexError:  # no iterations are left
            plain = None
        left = [np.copy(array) for array, _ in before if isinstance(array, np.ndarray)]
        ended = len(compiling._LEFT) > 0
        compiling._restore(before)
        made = kernel.dispatcher(*given)
        if ended:
            seen[name] += 1
            same(name, plain, made)
            for one, other in zip(left, (array for array, _ in before if isinstance(array, np.ndarray)), strict=True):
                same(name, one, other)
        return made

    monkeypatch.setattr(Kernel, "__call__", twice)
    return seen


def same(name, plain, made) -> None:
    if isinstance(plain, tuple):
        assert len(plain) == len(made), name
        for one, other in zip(plain, made, strict=True):
            same(name, one, other)
    elif plain is None:
        assert made is None, name
    else:
        np.testing.assert_array_equal(plain, made, err_msg=name)  # to the last bit: the same seed, the same answer


@pytest.mark.parametrize("name", FORMULATIONS)
def test_kernels_say_the_same_compiled_and_not(name, compared):
    drawn = DRAWN[name](np.random.default_rng(8), 6, 3)
    for problem in (BATTERIES[name]()["ties"], drawn):
        for method in FORMULATIONS[name].methods:
            ks.solve(problem, method.name, effort=0.05, seed=1)
    assert compared or name in FEW_KERNELS
