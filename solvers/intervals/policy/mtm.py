"""The optimal policy under a transition matrix of node counts; beyond enumeration one with a proven bound."""

from __future__ import annotations

import math
from pathlib import Path

from keyshift.models import Answer, Budget, InputError
from keyshift.models.answer import LimitReached
from keyshift.models.base.disk import only_writer
from keyshift.models.base.guards import Positive, Threads, Whole
from keyshift.models.intervals import MigrationPolicy
from keyshift.solvers.intervals import partitions
from keyshift.solvers.intervals.policy.policy_iteration import (
    MOST_STATES,
    TOLERANCE,
    PolicyIteration,
    answer_of,
    proven,
)
from keyshift.solvers.intervals.policy.potentials import better, potentials_policy
from keyshift.solvers.threads import until_limit


def solve_mtm(
    problem: MigrationPolicy,
    *,
    budget: Budget,
    seed: int = 0,
    tolerance: Positive = TOLERANCE,
    threads: Threads = 1,
    most_partitions: Whole = 12_000_000,
    most_states: Whole = MOST_STATES,
    checkpoint: str | None = None,
) -> Answer:
    """Policy iteration over all partitions of all classes: exact, to a certified interval.

    A round takes about (trie nodes of n) times (suffixes of n') steps for every pair of counts. Memory is dominated
    by the largest class. The values of all partitions and the decisions are in ``details["policy"]``, a
    `keyshift.solvers.intervals.policy.saved_policy.Policy`. Where the partitions are too many, and until the first
    round ends under a time limit, the answer is that of `potentials`: a policy over some of them, and a proven bound.

    Parameters
    ----------
    tolerance : float
        Stop when the values are certain to within this share of all the state.
    threads : int
        Next node counts of a class swept at the same time; the answer does not depend on it, memory does.
    most_partitions : int
        Enumerate no more partitions than these in all; beyond, answer as `potentials` does.
    most_states : int
        Write the policy out as an assignment only if it can visit no more partitions than this.
    checkpoint : str, optional
        A file to which the values are written after every round, and from which a killed run goes on to the same
        answer. Two runs cannot write to the same file at the same time.

    Notes
    -----
    Source: [Ding2015], section 5.2, with the corrections in `MigrationPolicy`; the sweep is
    keyshift's (`keyshift.solvers.intervals.partitions`). A time limit is checked in every sweep.
    """
    counted = {n: partitions.count_partitions(problem.starts(n), n, most_partitions) for n in problem.reachable}
    total = sum(size for size, _ in counted.values())
    needed = partitions.bytes_of(counted) + sum(20 * counted[n][0] * len(row) for n, row in problem.reachable.items())
    if total > most_partitions or needed > partitions.MOST_BYTES:
        answer = potentials_policy(problem, budget=budget, seed=seed, threads=threads, most_states=most_states)
        said = f"there are more than {most_partitions} partitions"
        if total <= most_partitions:
            said = f"sweeps over all partitions would take {needed / 1e9:.1f} GB, more than {partitions.MOST_BYTES / 1e9:.1f}"
        answer.message = answer.message or f"{said}: as 'potentials' does"
        return answer
    ahead, enumerated = None, 100_000  # partitions in a second
    if math.isfinite(budget.time_limit) and total > enumerated:
        first = budget.part(0.25, total / enumerated)
        ahead = potentials_policy(problem, budget=first, seed=seed, threads=threads, most_states=most_states)
    try:
        iteration = until_limit(budget, PolicyIteration, problem, threads)
    except LimitReached:
        said = "the time limit was reached while partitions were enumerated"
        return Answer(None, None, budget.why, said) if ahead is None else ahead
    if ahead is not None and "below" in ahead.details:
        below, tasks = ahead.details["below"], problem.workload.key_groups
        iteration.value = {n: below.below(n, c.rows, tasks) for n, c in iteration.classes.items()}
    if checkpoint is None:
        answer = answer_of_iteration(iteration, budget, tolerance, most_states)
    else:
        file = Path(checkpoint)
        if file.is_dir() or not file.absolute().parent.is_dir():
            raise InputError(f"checkpoint = {checkpoint!r} must be a file in a folder that exists")
        with only_writer(file.with_name(f".{file.name}.lock"), checkpoint):
            answer = answer_of_iteration(iteration, budget, tolerance, most_states, file)
    return answer if ahead is None else better(problem, answer, ahead)


def answer_of_iteration(
    iteration: PolicyIteration, budget: Budget, tolerance: float, most_states: int, checkpoint: Path | None = None
) -> Answer:
    """Iterate, and turn what is found into an answer."""
    problem = iteration.problem
    iteration.run(budget, tolerance, checkpoint)
    if not math.isfinite(iteration.high):
        return Answer(None, None, budget.why, "the time limit was reached before the first sweep over all pairs ended")
    answer = answer_of(problem, iteration.policy(), iteration.ruler.error + iteration.ruler.unit, most_states)
    answer.details["rounds"] = iteration.rounds
    if iteration.gap > tolerance * problem.scale:
        answer.termination = budget.why if budget.expired else "gap"
    elif answer.assignment is not None:
        answer.termination = proven(problem, answer)
    return answer
