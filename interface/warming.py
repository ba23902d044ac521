"""warm_up: compile ahead what methods will need, for images, for CI, before a talk."""

from __future__ import annotations

from keyshift.catalogue import FORMULATIONS, find_method
from keyshift.models import InputError, Problem
from keyshift.models.compiling import COMPILING


def warm_up(problem: Problem | str | None = None) -> float:
    """Compile ahead, and keep what is compiled for the processes to come.

    Nothing needs it: kernels compile when an instance is large enough to want them, once for a machine, and no time limit
    runs meanwhile. It spares the first user of an image, or the first job of a pipeline, the wait.

    Parameters
    ----------
    problem : Problem or str, optional
        A problem: what its default method calls. The name of one, such as ``"mixed-routing"``: what all its methods call.
        None: everything, some minutes.

    Returns
    -------
    float
        Seconds that compiling took; 0 where all was there.
    """
    if isinstance(problem, Problem):
        default = find_method(problem, None)
        methods = [default, *(find_method(problem, name) for name in default.starts)]
    elif problem is None:
        methods = [method for formulation in FORMULATIONS.values() for method in formulation.methods]
    elif problem in FORMULATIONS:
        methods = [*FORMULATIONS[problem].methods]
    else:
        raise InputError(f"problem {problem!r}: choose one of {', '.join(FORMULATIONS)}")
    before = COMPILING.anew
    for method in methods:
        method.compile_ahead()
    return COMPILING.anew - before
