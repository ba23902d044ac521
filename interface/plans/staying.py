"""What an answer leaves on nodes that drain, by name, and why."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np

from keyshift.models.problem import Problem, Violation
from keyshift.models.workload import IntArray, Workload

OF_ALL = ("max_migrations", "max_migration_cost", "max_state_moved")
"""Limits on all moves together: whichever node a key group would go to, they are the same."""


def staying(problem: Problem, assignment: IntArray | None) -> tuple[str, ...]:
    """One sentence for each draining node and each reason why key groups stay on it; none for an answer in steps.

    A reason is what breaks if that key group alone moves as well, on the kept node where least breaks.
    """
    w = getattr(problem, "workload", None)
    if not isinstance(w, Workload) or problem.in_steps or assignment is None or assignment.shape != w.current.shape:
        return ()
    said = []
    for i in np.flatnonzero(w.draining).tolist():
        here = np.flatnonzero(assignment == i)
        here = here[np.argsort(-w.last_load[here], kind="stable")]
        reasons: dict[str, list[int]] = {}
        for k in here[:100].tolist():
            reasons.setdefault(_reason(problem, w, assignment, k), []).append(k)
        if here.size > 100:
            reasons["why is known of the 100 of most load alone"] = here[100:].tolist()
        said += [f"node {w.node(i)} drains, but keeps {_names(w, ks)}: {reason}" for reason, ks in reasons.items()]
    return tuple(said)


def _names(w: Workload, key_groups: Sequence[int]) -> str:
    many = f"{len(key_groups)} key groups, " if len(key_groups) > 1 else "key group "
    named = ", ".join(str(w.key(k)) for k in key_groups[:20])
    return many + named + (f" and {len(key_groups) - 20} more" if len(key_groups) > 20 else "")


def _reason(problem: Problem, w: Workload, assignment: IntArray, k: int) -> str:
    """Why one key group stays: the limit that its move would break, or that nothing asks for the move."""
    moved, dearer, least, said = assignment.copy(), "", list[Violation](), set[str]()
    for j in np.flatnonzero(w.kept).tolist():
        moved[k] = j
        broken = problem.violations(moved)
        if not broken:
            dearer = _dearer(problem, assignment, moved)
            if dearer:
                continue
            return _unasked(problem)
        rules = {violation.rule for violation in broken}
        if rules <= set(OF_ALL):
            limits = " and ".join(f"{rule} {getattr(problem, rule):g}" for rule in sorted(rules))
            return f"one move more would exceed {limits}"
        said.add(broken[0].message)
        if not least or len(broken) < len(least):
            least, node = broken, w.node(j)
    if dearer:
        return f"the {dearer}, which comes before in the priorities, would rise"
    where = "" if len(said) == 1 else f" on node {node}, where least is in the way"
    return f"no node takes it:{where}{',' * bool(where)} {least[0].message}"


def _dearer(problem: Problem, assignment: IntArray, moved: IntArray) -> str:
    """The measure that comes before those of draining nodes and that a move raises; nothing if there is none."""
    stages = tuple(getattr(problem, "stages", ()))
    for name in takewhile(lambda name: not name.startswith("draining"), stages if _drains(stages) else ()):
        before, after = (problem.measured(name, a) for a in (assignment, moved))  # type: ignore[attr-defined]  # it has stages
        if after > before + problem.tie(name, before):  # type: ignore[attr-defined]
            return str(name).replace("_", " ")
    return ""


def _unasked(problem: Problem) -> str:
    """The reason why a move that breaks nothing was not made."""
    stages = tuple(getattr(problem, "stages", ()))
    if _drains(stages):
        return "no limit is in the way, but the search has not moved it"
    if "draining_key_groups" not in getattr(problem, "measures", ()):
        return f"no limit is in the way, but the {problem.objective_name} does not ask for it"
    names = ",".join(("draining_key_groups", *stages, "migrations"))
    return (
        f"no limit is in the way, but the {problem.objective_name} does not ask for it; the priorities {names} move it"
    )


def _drains(stages: Sequence[str]) -> bool:
    return any(name.startswith("draining") for name in stages)
