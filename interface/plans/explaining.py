"""explain: what each move is worth, which limits bind, and what a little more of each limit would gain."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keyshift.models import Budget, InputError, Problem, Solution
from keyshift.models.answer import GAP, TIME_LIMIT
from keyshift.models.base.figures import figure, quantity, signed
from keyshift.models.base.guards import real, whole
from keyshift.models.base.lazily import pd
from keyshift.models.problem import Limit
from keyshift.plans.remedying import seconds_of
from keyshift.plans.targets import Thinned, bare_moves, read_target, staying, thin
from keyshift.plans.targets import given as as_solution
from keyshift.solving import interruptible, solve


@dataclass(frozen=True, eq=False)
class Marginal:
    """The gain from a little more of one limit, by solving the problem that has it.

    Attributes
    ----------
    limit : str
    now, then : float
        The limit's value in the problem, and in the one that was solved.
    objective, bound : float or None
        Of the problem with the limit's other value.
    status : str
    at_least, at_most : float or None
        By how much the objective would fall: what the answer found already brings, and what no answer exceeds.
    drops : bool
        Whether the limit is a rule as a whole, and `then` is without it: what falls is the price of the rule.
    """

    limit: str
    now: float
    then: float
    objective: float | None
    bound: float | None
    status: str
    at_least: float
    at_most: float | None
    drops: bool = False


@dataclass(frozen=True, eq=False)
class Explanation:
    """An explanation of an answer.

    Attributes
    ----------
    problem : Problem
    solution : Solution
    moves : DataFrame
        As `Plan.moves` has them, the most valuable first, with `breaks`: the rule that undoing the move alone
        would break.
    measure : str
        What `gain` is measured in.
    binding : tuple of str
        Limits without slack.
    marginals : tuple of Marginal
    nothing : str
        One sentence about the objective without any move.
    nothing_objective : float or None
        The objective if nothing moves; None if that breaks a rule.
    thinned : Thinned or None
        With `min_gain`: the answer without the moves that gain too little, and what leaving them out costs.
    stays : tuple of str
        What draining nodes keep, and why.
    """

    problem: Problem
    solution: Solution
    moves: pd.DataFrame
    measure: str
    binding: tuple[str, ...]
    marginals: tuple[Marginal, ...]
    nothing: str
    nothing_objective: float | None
    thinned: Thinned | None = field(default=None)
    stays: tuple[str, ...] = ()

    def marginal_frame(self) -> pd.DataFrame:
        """Retired: write ``pandas.DataFrame(explanation.marginals)``."""
        said = "marginal_frame() is retired and goes in 0.5: write pandas.DataFrame(explanation.marginals)"
        warnings.warn(said, DeprecationWarning, stacklevel=2)
        return pd.DataFrame([vars(m) for m in self.marginals])

    def as_record(self) -> dict[str, Any]:
        """The explanation as plain values for JSON."""
        s = self.solution
        return {
            "problem": self.problem.name,
            "objective": s.objective,
            "bound": s.bound,
            "measure": self.measure,
            "moves": self.moves.to_dict("records"),
            "binding": list(self.binding),
            "stays": list(self.stays),
            "marginals": [vars(m) for m in self.marginals],
            "nothing": {"sentence": self.nothing, "objective": self.nothing_objective},
            "thinned": None if self.thinned is None else self.thinned.as_record(),
        }

    def __str__(self) -> str:
        moves: list[Any] = list(self.moves.itertuples())
        unit = getattr(getattr(self.problem, "workload", None), "units", {}).get("load", "")
        lines = [f"{self.problem.objective_name} {figure(self.solution.objective)}, {self.nothing}"]
        lines += [
            f"key group {m.key}: node {m.source} -> {m.target}, load {quantity(m.load, unit)}, "
            f"worth {signed(m.gain, self.problem.scale)} {self.measure}"
            + (f"; undoing it alone breaks {m.breaks}" if m.breaks else "")
            for m in moves
        ]
        lines += [*self.binding, *self.stays]
        lines += [
            f"{m.limit} {figure(m.now)} -> {figure(m.then)}: {self.problem.objective_name} {describe_marginal(m)}"
            for m in self.marginals
            if not m.drops
        ]
        lines += [f"{m.limit} {describe_marginal(m)}" for m in self.marginals if m.drops]
        return "\n".join([*lines, *([] if self.thinned is None else [str(self.thinned)])])


def explain(
    problem: Problem,
    solution: Solution | Sequence[int] | np.ndarray | None = None,
    *,
    min_gain: float | None = None,
    marginals: bool = True,
    method: str | None = None,
    time_limit: float | None = TIME_LIMIT,
    gap: float = GAP,
    seed: int = 0,
) -> Explanation:
    """Explain an answer: compute what each move is worth, and solve again to find what looser limits would bring.

    Parameters
    ----------
    problem : Problem
    solution : Solution or array_like, optional
        The answer to explain; with None the problem is solved first.
    min_gain : float, optional
        Leave out moves that gain less than this for each unit of state, and report what that costs.
    marginals : bool, default True
        Solve the problem again with one more migration, one more node, one more entry, a little more theta and so on,
        and without each rule.
    method : str, optional
        How to answer; None takes the best exact method.
    time_limit : float, optional
        Seconds, shared by everything that is solved; None: no limit.
    gap : float, default 1e-4
        As in `solve`.
    seed : int, default 0

    Returns
    -------
    Explanation

    Raises
    ------
    InputError
        For a solution without an assignment, or one that breaks a rule.
    """
    budget, seed = Budget(real("time_limit", time_limit)), whole("seed", seed, optional=False)
    with interruptible(budget.interrupt):
        answer = _answer(problem, solution, method, seconds_of(budget.part(0.4), 0.0), gap, seed)
        posed = answer.problem
        found = tuple(_marginals(posed, answer, method, budget, gap, seed)) if marginals else ()
    moves, measure = _moves(posed, answer)
    binding = () if answer.assignment is None else tuple(posed.binding(answer.assignment))
    worthwhile = None if min_gain is None else thin(posed, answer, real("min_gain", min_gain, optional=False))
    nothing, stays = _doing_nothing(posed, answer), staying(posed, answer.assignment)
    return Explanation(posed, answer, moves, measure, binding, found, *nothing, worthwhile, stays)


def _answer(problem: Problem, given: Any, method: str | None, seconds: float | None, gap: float, seed: int) -> Solution:
    if given is None:
        given = solve(problem, method, time_limit=seconds, gap=gap, seed=seed)
    if isinstance(given, Solution):
        if given.assignment is None:
            raise InputError(f"there is no assignment to explain: {given.message or given!r}; ask for remedies")
        return given
    return as_solution(problem, given)


def _moves(problem: Problem, answer: Solution) -> tuple[pd.DataFrame, str]:
    """The moves, the most valuable first, and the rule that undoing one alone breaks."""
    try:
        reached = read_target(problem, answer)
    except InputError:  # messages, not key groups: nothing moves
        return pd.DataFrame(columns=["key_group", "key", "source", "target", "load", "state", "gain", "breaks"]), ""
    table = bare_moves(answer)
    breaks, gains = [], table["gain"].tolist()
    last_alone = getattr(problem, "by_window", (problem,))[0] is problem  # a plan's own figures are of the last window
    for at, k in enumerate(table["key_group"].tolist()):
        undone = reached.target.copy()
        undone[k] = reached.workload.current[k]
        one_step = answer.assignment is not None and answer.assignment.ndim == 1
        broken = problem.violations(undone) if one_step and len(table) <= 1000 else []
        breaks.append(broken[0].rule if broken else "")
        if not last_alone:
            gains[at] = problem.objective(undone) - (answer.objective or 0.0)
    table = table.assign(breaks=breaks, gain=gains)
    return table.sort_values("gain", ascending=False, kind="stable", ignore_index=True), reached.measure


def _doing_nothing(problem: Problem, answer: Solution) -> tuple[str, float | None]:
    if problem.now is None or answer.assignment is None:
        return "doing nothing is not an answer here", None
    report = problem.check(problem.now)
    if not report.feasible:
        return f"doing nothing breaks a rule: {report.violations[0]}", None
    best = answer.objective if answer.bound is None else answer.bound
    away = report.objective - (best or 0.0)
    if away <= problem.tolerance:
        return f"doing nothing is as good: {figure(report.objective)}", report.objective
    share = f" ({figure(100 * away / abs(report.objective), 100, 3)} % of it)" if report.objective else ""
    most = "exactly" if answer.status == "optimal" else "at most"
    known = "" if answer.bound is None else f", {most} {figure(away)} above the best there is{share}"
    return f"doing nothing leaves {figure(report.objective)}{known}", report.objective


def _marginals(
    problem: Problem, answer: Solution, method: str | None, budget: Budget, gap: float, seed: int
) -> list[Marginal]:
    """Solve the problem with a little more of each limit, beginning from the answer in hand."""
    limits, found = problem.limits, []
    for position, limit in enumerate(limits):
        part = budget.part(1.0 / (len(limits) - position))
        try:
            found.append(_marginal(limit, answer, method, seconds_of(part, 0.0), gap, seed))
        except InputError:  # a value that the problem refuses: there is no more of it to be had
            continue
    return found


def _marginal(
    limit: Limit, answer: Solution, method: str | None, seconds: float | None, gap: float, seed: int
) -> Marginal:
    now = limit.value
    then = now - type(now)(limit.step) if limit.down else now + type(now)(limit.step)
    posed = limit.at(then)
    assignment, start = answer.assignment, None
    with suppress(InputError):  # another shape, as that of a policy
        if posed.check(assignment).feasible:
            start = assignment
    more = solve(posed, method, time_limit=seconds, gap=gap, seed=seed, start=start)
    held = answer.objective or 0.0
    best = more.objective if start is None or more.objective is None else min(more.objective, posed.objective(start))
    gained = 0.0 if best is None else held - best
    most = None if more.bound is None else held - more.bound
    return Marginal(limit.name, float(now), float(then), best, more.bound, more.status, gained, most, limit.drops)


def describe_marginal(m: Marginal) -> str:
    """The change of the objective in words: by how much it falls or rises, exactly or between two figures; a rule's price."""
    if m.drops and m.objective is not None:
        if m.at_most is None:
            return f"costs at least {figure(m.at_least)}"
        price = " to ".join(dict.fromkeys(map(figure, (m.at_least, m.at_most))))
        return "costs nothing" if price == "0" else f"costs {price}"
    if m.objective is None:
        return "unknown: no answer in time" if m.status != "infeasible" else "no answer at all"
    most = m.at_least if m.at_most is None else m.at_most
    if m.at_least < 0 < most:
        return f"falls by at most {figure(most)}, if at all"
    if m.at_least == most == 0:
        return "does not change"
    verb, ends = ("falls", (m.at_least, most)) if m.at_least >= 0 else ("rises", (-most, -m.at_least))
    return f"{verb} by {' to '.join(dict.fromkeys(map(figure, ends)))}"
