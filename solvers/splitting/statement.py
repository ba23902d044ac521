"""Key splitting and placement: by the declarative model, by a flow first, the LP bound, and the universal bound."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import Termination
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.guards import Threads
from keyshift.models.splitting import KeySplitting
from keyshift.models.splitting.items import Groups, Items
from keyshift.models.workload import IntArray
from keyshift.solvers import highs
from keyshift.solvers.checked import within
from keyshift.solvers.safe_bounds import LinearProgram
from keyshift.solvers.splitting.flow import ROUNDING, Flow, fractional_flow, whole_flow
from keyshift.solvers.splitting.makespan import by_makespan

PAIRS_PER_SECOND = 10_000
"""Variables that a model takes up in a second: one that needs longer than the time left is not begun."""


def solve_milp(
    problem: KeySplitting, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: Threads = 1
) -> Answer:
    """The integer program over groups of like items, by HiGHS, from a warm start.

    With whole keys it is makespan scheduling with restricted assignment, and the bound of the maximum flow - what
    splitting could reach - is its lower limit from the outset. Where keys may go to any of like workers, it is
    makespan on identical machines, which `makespan` answers without a solver.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another optimum from run to run.

    Notes
    -----
    The bound is HiGHS's dual bound less its error bound (`models.answer`), rounded up to a load that can occur.
    """
    least, items = 0.0, Items.of(problem)
    if problem.one_place and not budget.expired and not items.interchangeable_workers:
        messages = Items.of_messages(problem)
        least = (whole_flow if problem.weights is None else fractional_flow)(messages, budget).bound
        if start is not None and (value := problem.objective(start)) - least <= problem.tolerance_of(value):
            return Answer(start, least, "optimal")
    if start is not None and not budget.expired:  # in units of a poor start the optimum may be rounding error
        start = min(start, greedy(items), key=problem.objective)
    return search(items, start, least, budget, seed, threads)


def search(
    items: Items, start: np.ndarray | None, least: float, budget: Budget, seed: int = 0, threads: int = 1
) -> Answer:
    """Run HiGHS on the model of some items, or what is made for like workers, knowing an assignment and a lower bound."""
    problem = items.problem
    if start is None:
        start = greedy(items)
    value = problem.objective(start)
    least = max(least, items.heaviest_load * (1 - ROUNDING))
    if value - least <= problem.tolerance_of(value):
        return Answer(start, least, "optimal")
    if items.interchangeable_workers and not budget.expired:
        return by_makespan(items, start, least, budget, seed)
    if budget.expired or items.pairs[0].size > PAIRS_PER_SECOND * budget.remaining:
        said = "" if budget.expired else "the model would take longer to write down than the limit allows"
        return Answer(start, least, budget.why, said)
    with off_clock():
        from keyshift.models.splitting.pyomo_model import SplittingPyomo

    statement = within(budget, lambda: SplittingPyomo(items, least, value))
    if statement is None:
        return Answer(start, least, budget.why, "the time limit was reached while the model was written down")

    def bound(proven: float) -> float:
        return max(least, items.next_possible_load(proven * statement.unit) if math.isfinite(proven) else 0.0)

    def report(primal: float, dual: float) -> None:
        budget.report(primal * statement.unit, dual * statement.unit)

    answer = highs.solve(
        statement, budget, start, bound=bound, infeasible="a message has no candidate", seed=seed, threads=threads,
        report=report, options={"small_matrix_value": 1e-12},  # a message may weigh a billionth of another
    )  # fmt: skip
    if answer.termination == "infeasible":
        return Answer(start, least, "gap", f"{answer.message}, and errs")
    found = answer.assignment
    if found is None or value <= problem.objective(found):
        answer.assignment = start
    return answer


def lp_bound(problem: KeySplitting, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear relaxation's value, made safe: a bound, no assignment. It may divide messages, and split keys."""
    with off_clock():
        from keyshift.models.splitting.pyomo_model import SplittingPyomo

    items = Items.of_messages(problem)
    trivial = universal_bound(problem, budget=budget).bound or 0.0
    if items.pairs[0].size > PAIRS_PER_SECOND * budget.remaining:
        return Answer(None, trivial, budget.why, "the model would take longer to write down than the limit allows")

    def stated() -> tuple[LinearProgram, float]:
        statement = SplittingPyomo(items, 0.0, problem.objective(greedy(items)))
        return highs.compile_model(statement.model)[0], statement.unit

    made = within(budget, stated)
    if made is None:
        return Answer(None, trivial, budget.why, "the time limit was reached while the model was written down")
    program, unit = made
    bound, termination = highs.relaxation_bound(program, budget, seed)
    if bound is None:
        return Answer(None, trivial, budget.why)
    ended: Termination = "completed" if termination == "optimal" else budget.why
    return Answer(None, max(trivial, items.next_possible_load(max(0.0, bound * unit))), ended)


def greedy(items: Items) -> np.ndarray:
    """Items one by one to the least loaded of their options, or groups in equal parts where items are many."""
    many = int(items.count.sum()) > 100_000
    return items.assignment(items.dealt() if many else rounded(items, np.zeros(items.options.shape)))


def universal_bound(problem: KeySplitting, *, budget: Budget, seed: int = 0) -> Answer:
    r"""The bound that no hashing escapes: :math:`\max(p_1 m / d, m / W)`, whatever the candidates.

    With whole keys d = 1, and it is the max(p1 m, m / W) of [Nasir2015]. With speeds, a key can do no better than the d
    fastest workers, all keys together no better than all. With weights, a message weighs on one worker.
    """
    known, speeds = problem.histogram, np.sort(problem.speeds)[::-1]
    spread = problem.workers if problem.choices is None else min(problem.choices, problem.workers)
    spread = 1 if problem.one_place else spread
    heaviest = 1.0 if problem.weights is None else float(problem.weights.max())
    parts = (
        math.fsum(known.weight) / math.fsum(speeds),
        float(known.weight.max()) / math.fsum(speeds[:spread]),
        heaviest / float(speeds[0]),
    )
    bound = max(parts) * (1 - ROUNDING)
    return Answer(None, float(math.ceil(bound)) if problem.counts else bound)


# From a flow, or from nothing, to whole items on workers: quick, and no more than a start ------------------------------


def rounded(items: Groups, divided: np.ndarray) -> IntArray:
    """Whole items near a flow of weight: rounded down, and the rest - heaviest first - where least is loaded."""
    weight = np.where(items.weight > 0, items.weight, 1.0)[:, None]
    share = np.minimum(np.floor(divided / weight * (1 + ROUNDING)), items.count[:, None]).astype(np.int64)
    excess = np.maximum(share.cumsum(axis=1) - items.count[:, None], 0)
    share = np.maximum(share - excess, 0)
    speeds = items.speeds
    loads = items.loads(share) * speeds
    rest = items.count - share.sum(axis=1)
    for g in np.argsort(-items.weight, kind="stable"):
        options = items.options[g][items.options[g] >= 0]
        for _ in range(int(rest[g])):
            at = int(np.argmin((loads[options] + items.weight[g]) / speeds[options]))
            share[g, at] += 1
            loads[options[at]] += items.weight[g]
    return share


# Splitting exactly: a maximum flow first, whole messages from it, and the integer program for what gap is left -------


def solve_flow(
    problem: KeySplitting, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: Threads = 1
) -> Answer:
    """The least possible largest load with splitting: exact, by maximum flow.

    Where messages weigh differently, a flow may divide a message; the divided ones are placed greedily, and what gap
    is left is closed by the integer program of "milp".

    Parameters
    ----------
    threads : int, default 1
        For the integer program.

    Notes
    -----
    At most one maximum flow for every set of workers that ever binds, in practice two to five, each on a network
    of as many nodes as there are groups of like messages. Ours: the paper has no optimum.
    """
    items = Items.of_messages(problem)
    if (items.weight == items.weight[0]).all():
        flow = whole_flow(items, budget) if items.weight[0] > 0 else _weightless(items)
        share = flow.share
    else:
        flow = fractional_flow(items, budget)
        flow = replace(flow, bound=items.next_possible_load(flow.bound))
        share = None if flow.share is None else rounded(items, flow.share)
    details = {"rounds": flow.rounds, "binding_workers": int(flow.binding.sum())}
    if share is None:
        known = items.assignment(items.dealt()) if start is None else start
        return Answer(known, flow.bound, budget.why, details=details)
    found = items.assignment(share)
    if start is not None and problem.objective(start) < problem.objective(found):
        found = start
    if (value := problem.objective(found)) - flow.bound <= problem.tolerance_of(value):
        return Answer(found, flow.bound, "optimal", details=details)
    answer = search(items, found, flow.bound, budget, seed, threads)
    answer.details.update(details)
    return answer


def _weightless(items: Groups) -> Flow:
    """Nothing weighs anything: every message to its first candidate."""
    share = np.zeros(items.options.shape, dtype=np.int64)
    share[:, 0] = items.count
    return Flow(0.0, share, np.ones(items.speeds.size, dtype=bool), 0)
