"""What a plan starts from: the target, the gain of each move, the phases; which moves are left out, and what stays behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from keyshift.files.problem import pose
from keyshift.models import InputError, Problem, Solution, Workload
from keyshift.models.base.figures import apart, figure
from keyshift.models.base.guards import frozen
from keyshift.models.base.lazily import pd, sp
from keyshift.models.plans.transfers import RuledWay, Way
from keyshift.models.problem import SLACK, Violation
from keyshift.models.workload import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Target:
    """A workload, the assignment to reach, shape (p,), and what is known of it."""

    workload: Workload
    target: IntArray
    method: str
    status: str
    objective: float | None
    bound: float | None
    measure: str
    may_leave: bool
    value: Callable[[IntArray], float]

    def gains(self, moving: IntArray) -> FloatArray:
        """Worth of every move in the unit of the measure, shape (e,): by how much it would rise if the move were undone.

        A gain may be negative: the move then serves another purpose, or none. Gains do not add up: two moves may be worth
        something only together.
        """
        w, measure = self.workload, _MEASURES.get(self.measure)
        if measure is not None:
            return measure(w, w.current, self.target, moving, self.may_leave)
        now, found = self.value(self.target), np.empty(moving.size)
        for position, k in enumerate(moving.tolist()):
            undone = self.target.copy()
            undone[k] = w.current[k]
            found[position] = self.value(undone) - now
        return found


def read_target(problem: Problem, solution: Any, step: int = 0, nodes_after: int | None = None) -> Target:
    """Check a solution or an assignment, and read the move to carry out from it.

    Raises
    ------
    InputError
        For a problem that moves no key groups, a solution without assignment, an assignment that breaks a rule.
    """
    workload = getattr(problem, "workload", None)
    if not isinstance(workload, Workload):
        raise InputError(f"{problem.name} places messages, not key groups with state: there is nothing to carry out")
    if isinstance(solution, Solution):
        if solution.assignment is None:
            raise InputError(f"the solution holds no assignment: {solution!r}")
        report = solution.problem.check(solution.assignment)
        assignment, found = solution.assignment, (solution.method, solution.status, solution.objective, solution.bound)
    else:
        assignment = problem.canonical(solution)
        report = problem.check(assignment)
        found = ("given", "feasible", report.objective, None)
    if not report.feasible:
        raise InputError(f"the assignment breaks a rule: {report.violations[0]}")
    workload, target = problem.reached(assignment, step, nodes_after)
    measure = problem.worth or problem.objective_name
    return Target(workload, target, *found, measure, problem.chooses_nodes, problem.objective)


# A phase of a plan: moves that may run at the same time ----------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """Moves that may run at the same time. The next phase begins when all of them have ended.

    Attributes
    ----------
    number : int
        From 0.
    moves : tuple of int
        Rows of `Plan.moves`.
    start, end : float
        Seconds from the start of the plan.
    bound : float
        No schedule of these moves is shorter, in seconds.
    load_distance : float
        After the phase, in units of load.
    """

    number: int
    moves: tuple[int, ...]
    start: float
    end: float
    bound: float
    load_distance: float

    @property
    def seconds(self) -> float:
        """How long the phase takes."""
        return self.end - self.start


# The worth of each move of a plan: by how much the objective would rise if it alone were undone ------------------------

Gains = Callable[[Workload, IntArray, IntArray, IntArray, bool], FloatArray]


def _load_distance(
    workload: Workload, current: IntArray, target: IntArray, moving: IntArray, may_leave: bool
) -> FloatArray:
    return distance_gains(Way.of(workload, current, target, may_leave), current, target, moving)


def distance_gains(way: Way, current: IntArray, target: IntArray, moving: IntArray) -> FloatArray:
    """By how much the load distance would rise if a move alone were undone, shape (e,)."""
    undone = way.distances(way.after, way.load[moving], target[moving], current[moving])
    return undone - way.distance(way.after)


def _imbalance(
    workload: Workload, current: IntArray, target: IntArray, moving: IntArray, may_leave: bool
) -> FloatArray:
    # With L the load of the target without the move undone: (L - y)^2 + (M + y)^2 - L^2 - M^2 = 2 y (M - L + y).
    kept = workload.kept
    loads = np.array([np.bincount(target, weights=row, minlength=workload.nodes) for row in workload.load])
    load = workload.load[:, moving]
    here, there = loads[:, target[moving]], loads[:, current[moving]]
    mean = (workload.load.sum(axis=1) / kept.sum())[:, None]
    lost = np.where(kept[target[moving]], (here - load - mean) ** 2 - (here - mean) ** 2, 0.0)
    won = np.where(kept[current[moving]], (there + load - mean) ** 2 - (there - mean) ** 2, 0.0)
    return (lost + won).sum(axis=0) / kept.sum()


def _remote_traffic(
    workload: Workload, current: IntArray, target: IntArray, moving: IntArray, may_leave: bool
) -> FloatArray:
    both = sp.csr_array(workload.traffic + workload.traffic.T)  # type: ignore[union-attr]
    both = both - sp.diags_array(both.diagonal())
    found = np.empty(moving.size)
    for position, k in enumerate(moving.tolist()):
        partners = slice(both.indptr[k], both.indptr[k + 1])
        ends, tuples = target[both.indices[partners]], both.data[partners]
        found[position] = tuples[ends == target[k]].sum() - tuples[ends == current[k]].sum()
    return found


_MEASURES: dict[str, Gains] = {
    "load distance": _load_distance,
    "imbalance": _imbalance,
    "remote traffic": _remote_traffic,
}


def broken_on_the_way(plan: Any, workload: Workload) -> list[Violation]:
    """Rules broken between a plan's first move and its last, beyond those it names; its problem is asked anew."""
    if not plan.parameters.get("rules") or len(plan) == 0:
        return []
    lowered = pose(plan.problem, workload, plan.parameters).lowered  # type: ignore[attr-defined]  # it has rules
    way = RuledWay.of(lowered, plan.current, plan.assignment, plan.key_group)
    worst = way.worst(np.array(phase.moves, dtype=np.int64) for phase in plan.phases)
    if worst <= plan.broken_rules * (1 + SLACK):
        return []
    found, planned = apart(worst, plan.broken_rules)
    said = f"rules are broken by {found} on the way, the plan says by {planned}"
    return [Violation("rules", said, amount=worst - plan.broken_rules)]


# The moves without a schedule ----------------------------------------------------------------------------------------


class BareMove(NamedTuple):
    """A move without a time."""

    key_group: int
    key: str | int
    source: str | int
    target: str | int
    load: float
    state: float
    gain: float


def bare_moves(solution: Solution) -> pd.DataFrame:
    """The moves of an answer without a schedule, the most valuable first: key, source, target, load, state, gain."""
    return pd.DataFrame(list_moves(solution), columns=list(BareMove._fields))


def list_moves(solution: Solution) -> list[BareMove]:
    """The same without pandas, which takes longer to load than most answers."""
    reached = read_target(solution.problem, solution)
    w, target = reached.workload, reached.target
    moving = np.flatnonzero(w.current != target)
    worth = reached.gains(moving)
    order = sorted(zip(moving.tolist(), worth.tolist(), strict=True), key=lambda move: (-move[1], move[0]))
    return [
        BareMove(k, w.key(k), w.node(w.current[k]), w.node(target[k]), float(w.last_load[k]), float(w.state[k]), gain)
        for k, gain in order
    ]


# Dropping moves that are not worth their state, and saying what that costs ---------------------------------------------


@dataclass(frozen=True, eq=False)
class Thinned:
    """An answer without the moves that are not worth their state.

    Attributes
    ----------
    solution : Solution
        What is left, checked.
    dropped : tuple of int
        Key groups that stay after all, in the order in which they were dropped.
    cost : float
        By how much the objective rose: exactly, as both were computed from their assignments.
    above_best : float or None
        The most by which the objective lies above that of any answer; None without a bound.
    state_saved : float
    """

    solution: Solution
    dropped: tuple[int, ...]
    cost: float
    above_best: float | None
    state_saved: float

    def __str__(self) -> str:
        name = self.solution.problem.objective_name
        best = "" if self.above_best is None else f", at most {figure(self.above_best)} above the best there is"
        return (
            f"{len(self.dropped)} moves dropped: {figure(self.state_saved)} of state stays where it is, "
            f"the {name} rises by {figure(self.cost)}{best}"
        )

    def as_record(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "dropped": list(self.dropped), "cost": self.cost, "above_best": self.above_best,
            "state_saved": self.state_saved, "objective": self.solution.objective,
        }  # fmt: skip


def thin(problem: Problem, answer: Any, min_gain: float) -> Thinned:
    """Drop moves that gain less than `min_gain` for each unit of state, the least useful first, as long as no rule breaks.

    The worth of a move is by how much the objective rises without it, and is computed anew after every drop: moves
    that are worth something only together are kept together. O(e^2) evaluations of the objective for e moves.

    Raises
    ------
    InputError
        For a problem whose answer is not one node for each key group.
    """
    if not isinstance(answer, Solution):
        answer = given(problem, answer)
    workload = getattr(problem, "workload", None)
    chosen = answer.assignment
    if workload is None or chosen is None or chosen.ndim != 1:
        raise InputError(f"{problem.name} has no moves that could be dropped one by one")
    now, value, dropped = chosen.copy(), problem.objective(chosen), []
    while True:
        moving = np.flatnonzero(now != workload.current).tolist()
        worth = {k: gain for k in moving if (gain := _worth(problem, now, k, value)) is not None}
        least, k = min(
            ((gain / max(float(workload.state[k]), 1e-300), k) for k, gain in worth.items()), default=(np.inf, -1)
        )
        if least >= min_gain:
            break
        now[k] = workload.current[k]
        value = problem.objective(now)
        dropped.append(k)
    report = problem.check(now)
    before = problem.objective(chosen)
    left = replace(
        answer, assignment=frozen(now), objective=report.objective, metrics=report.metrics,
        status="optimal" if answer.bound is not None and report.objective - answer.bound <= problem.tolerance else "feasible",
    )  # fmt: skip
    above = None if answer.bound is None else max(0.0, report.objective - answer.bound)
    return Thinned(left, tuple(dropped), report.objective - before, above, float(workload.state[dropped].sum()))


def given(problem: Problem, assignment: Any) -> Solution:
    """An assignment as a solution: checked, and with nothing proven.

    Raises
    ------
    InputError
        If it breaks a rule.
    """
    report = problem.check(assignment)
    if not report.feasible:
        raise InputError(f"the assignment breaks a rule: {report.violations[0]}")
    chosen = frozen(problem.canonical(assignment))
    return Solution(problem, "given", "feasible", "completed", chosen, report.objective, None, 0.0, report.metrics)


def _worth(problem: Problem, now: IntArray, k: int, value: float) -> float | None:
    """By how much the objective rises if a move is undone; None where that breaks a rule."""
    undone = now.copy()
    undone[k] = problem.workload.current[k]  # type: ignore[attr-defined]  # `thin` has looked
    if problem.violations(undone):
        return None
    return problem.objective(undone) - value


# What an answer leaves on nodes that drain, by name, and why ----------------------------------------------------------


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
