"""No time limit is spent on compiling: methods name what compiles their kernels, and after it nothing is compiled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from compiled import compiled, reaches_kernels
from instances import BATTERIES

from keyshift.catalogue import FORMULATIONS, find_method
from keyshift.solving import solve


def with_kernels(name: str) -> list[str]:
    """The methods of a formulation that reach compiled functions."""
    return [m.name for m in FORMULATIONS[name].methods if reaches_kernels(m.code)]


@pytest.mark.parametrize("name", FORMULATIONS)
def test_a_method_with_kernels_names_what_compiles_them(name):
    named = {m.name for m in FORMULATIONS[name].methods if m.warm_up is not None}
    assert (
        set(with_kernels(name)) - {"cola"} <= named
    )  # which shares a module with what calls Flux; that one shares drain_first's


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "interval-migration" else pytest.mark.slow) for name in FORMULATIONS],
)
def test_nothing_is_compiled_while_a_warmed_up_method_runs(name):
    # In a process of its own: in this one, other tests have compiled what a preparation may lack.
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=False, env=path)
    assert run.returncode == 0, run.stderr


def solve_warmed_up(name: str) -> None:
    """Solve the battery with every method of a formulation, after its preparation, and name the kernels compiled."""
    problems, prepared = BATTERIES[name](), False
    for method in with_kernels(name):
        chosen = find_method(problems["ties"], method)
        for used in (chosen, *(find_method(problems["ties"], start) for start in chosen.starts)):
            used.compile_ahead()
        before = compiled()
        prepared |= any(before.values())
        for problem in problems.values():
            solve(problem, method, time_limit=10.0)
        late = [kernel for kernel, signatures in compiled().items() if signatures > before.get(kernel, 0)]
        assert not late, f"{method} compiles {late} within its time"
    assert prepared, f"preparing the methods of {name} compiles nothing"


if __name__ == "__main__":
    solve_warmed_up(sys.argv[1])
