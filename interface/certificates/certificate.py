"""`ks.certify`: a solution's certificate, checked by `verify.py` before it is returned."""

from __future__ import annotations

import json
import math
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from keyshift.certificates import Proven, verify
from keyshift.certificates.allocation import prove_allocation, prove_collocation
from keyshift.certificates.prices import prove_by_prices
from keyshift.models import Budget, InputError, Problem, Solution
from keyshift.models.answer import TIME_LIMIT, LimitReached
from keyshift.models.base.disk import write_text
from keyshift.models.base.figures import figure
from keyshift.models.base.guards import real
from keyshift.models.errors import refusing
from keyshift.models.mclb.problem import Core
from keyshift.models.objectives import OverWindows, Prioritised
from keyshift.models.records import text
from keyshift.models.workload import FloatArray
from keyshift.solvers.intervals.ssm import lagrangian
from keyshift.solvers.mclb.sdp import RISE, SemidefiniteDual, climb, semidefinite_dual
from keyshift.solving import WORD, interruptible

# Proofs for minimum-cost load balancing: a matrix without negative eigenvalues as a product of whole numbers, and vectors.


def prove_balance(
    problem: Any, case: Any, solution: Solution, value: Fraction | None, budget: Budget, seconds: float
) -> Proven:
    """The better of the bound by windows and the semidefinite one, rounded."""
    if value is None:
        return Proven(None, {"kind": "forced"}) if case.free < 0 else Proven()  # or rules have it
    core, unit = problem.core, case.units[0] ** 2 / case.left
    best = Proven(min(value, case.by_windows() * unit), {"kind": "windows"})
    # Rows of the matrix at most: its products take minutes beyond.
    if core.nodes == 1 or core.load.shape[0] + core.nodes > 400 or best.bound == value:
        return best
    dual = semidefinite_dual(core, float(value) * core.nodes, merged=False)
    deque(climb(dual, budget.part(1.0, seconds), rise=0.02 * RISE), maxlen=0)  # what it ends with proves the bound
    for shifted in (True, False):
        proof = _factored(core, case, dual, shifted)
        bound = case.semidefinite(proof) * unit
        if bound > (best.bound or 0):
            best = Proven(min(value, bound), proof)
    return best


def _factored(core: Core, case: Any, dual: SemidefiniteDual, shifted: bool) -> dict[str, Any]:
    """The dual matrix without its negative eigenvalues as a product of a lower triangle with itself, in whole numbers."""
    scale = dual.unit / float(case.units[0]) ** 2  # to whole units of load, squared
    factor = _lower_factor(dual.matrix() * scale, shifted)
    # Entries of the factor are rounded to so many bits of the largest.
    step = 2.0 ** (math.frexp(float(np.abs(factor).max()) or 1.0)[1] - 30)
    per = scale / step**2
    # Vectors of a price below this are left out.
    vectors = [
        [x, cut.members.tolist(), cut.counts.tolist()]
        for cut, y in zip(dual.cuts, dual.of_cuts, strict=True)
        if y > 1e-9 and (x := round(float(y) * per)) > 0
    ]
    rows = [[round(float(x) / step) for x in row[: k + 1]] for k, row in enumerate(factor)]
    return {
        "kind": "semidefinite", "anchors": [int(core.names[a]) for a in dual.anchors],
        "price": text(dual.price * per * float(case.unit) / dual.mean_state),
        "triangles": [], "vectors": vectors, "unit": text(Fraction(step) ** 2), "factor": rows,
    }  # fmt: skip


def _lower_factor(matrix: FloatArray, shifted: bool) -> FloatArray:
    """A lower triangle; its product with itself is the matrix, all eigenvalues raised alike, or the negative ones put to 0.

    What is added is worth little on the diagonal, while anywhere else it counts at its worst.
    """
    values, vectors = np.linalg.eigh(matrix)
    values = values - min(values[0], 0.0) if shifted else np.maximum(values, 0.0)
    upper = np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0.0))).T)[1]
    return np.asarray(upper).T


# Proofs for contiguous intervals: values of all partitions that no step improves on, or a price for each interval -------


def prove_intervals(
    problem: Any, case: Any, solution: Solution, value: Fraction | None, budget: Budget, seconds: float
) -> Proven:
    """A value vector over all partitions and one sweep; where they are too many, prices for direct steps from now."""
    if value is None:
        return Proven(None, {"kind": "filled"})
    price = prices_of(problem, case, budget)
    by_price = {"kind": "prices", "prices": [[m, x] for m, x in price.items()]}
    least = {m: max(0, case.least_moved(case.modes[m][0], x)) for m, x in price.items()}
    bound = max(least.values()) if case.chain else sum(p * least[m] for m, p in case.modes[0][1])
    found = Proven(min(value, bound * case.unit), by_price)
    if found.bound == value:
        return found
    try:
        partitions = case.reached(value / case.unit)
        verify.need(sum(len(partitions[m]) * len(partitions[to]) for m, to in case.arcs()) <= verify.MOST_CELLS, "")
        left = budget.part(1.0, seconds)
        values = _exact(case, partitions, value / case.unit, left) if case.chain else _optimal(case, partitions, left)
    except (verify.Refused, LimitReached):
        return found
    bound = case.after_a_sweep(partitions, values, value / case.unit) * case.unit
    if case.chain and bound < value:  # less is proven only of paths within reach
        return found
    return Proven(min(value, bound), {"kind": "values", "values": values}) if bound > (found.bound or 0) else found


def prices_of(problem: Any, case: Any, budget: Budget) -> dict[int, int]:
    """For each mode that a direct step may lead to, the price of an interval that says most about it."""
    modes = range(1, len(case.modes)) if case.chain else [m for m, _ in case.modes[0][1]]
    first = {case.modes[m][0]: m for m in reversed(modes)}
    found = {m: lagrangian(problem.first_step(n), budget=budget.part(1.0, 60.0)) for n, m in first.items()}
    return {m: round(Fraction(each.details.get("price", 0)) / case.unit) for m, each in found.items()}


def _exact(case: Any, partitions: list[list[Any]], reach: Fraction, budget: Budget) -> list[list[int | str]]:
    """State that still moves in a chain, from its end to its beginning; where nothing is within reach, as much as that."""
    values: list[list[Any]] = [[0] * len(found) for found in partitions]
    for mode in reversed(range(len(partitions))):
        for to, _ in case.modes[mode][1]:
            ahead = list(zip(partitions[to], values[to], strict=True))
            if (mode, to) not in case.arcs():
                values[mode] = values[to]
                continue
            for at, old in enumerate(partitions[mode]):
                budget.tick()
                values[mode][at] = min((_cost(case, old, new, mode) + v for new, v in ahead), default=reach)
    return [[text(v) for v in row] for row in values]


def _optimal(case: Any, partitions: list[list[Any]], budget: Budget) -> list[list[int | str]]:
    """The optimal values of all partitions by value iteration, a little lowered."""
    between = {(m, to): _costs(case, partitions[m], partitions[to], m, budget) for m, to in case.arcs()}
    values = [np.zeros(len(found)) for found in partitions]
    gamma, most = float(case.discount), float(max(1, case.sums_of_state[-1]))
    for _ in range(100_000):
        ahead = {way: (cost + gamma * values[way[1]]).min(axis=1) for way, cost in between.items()}
        after = [
            sum((float(p) * ahead[m, to] for to, p in row), np.zeros(len(values[m])))
            for m, (_, row) in enumerate(case.modes)
        ]
        change = max(float(np.abs(a - v).max()) for a, v in zip(after, values, strict=True))
        values = after
        if change <= 1e-10 * most * (1 - gamma) or budget.expired:  # from below, they are a bound at any time
            break
    grid = _grid(case)
    error_bound = 4 * grid / (1 - case.discount)
    return [[text(max(Fraction(0), (Fraction(float(v)) - error_bound) // grid * grid)) for v in row] for row in values]


def _cost(case: Any, old: Any, new: Any, mode: int) -> int:
    """The state that moves from one partition to another, in the checker's whole units."""
    return case.sums_of_state[-1] - verify.kept_together(old, new, case.sums_of_state if mode else case.keep)


def _costs(case: Any, old: list[Any], new: list[Any], mode: int, budget: Budget) -> FloatArray:
    costs = np.empty((len(old), len(new)))
    for at, before in enumerate(old):
        budget.tick()
        costs[at] = [float(_cost(case, before, after, mode)) for after in new]
    return costs


def _grid(case: Any) -> Fraction:
    """The step of rounded values, in whole units of state."""
    # Values of policies are rounded to so many bits: their error is less than 1e-13 of all the state.
    return Fraction(2 ** max(1, case.sums_of_state[-1]).bit_length(), 2**44)


def values_of(problem: Any, case: Any, solution: Solution, rows: list[Any]) -> list[int | str]:
    """Values of the states of an answer: of a policy a little above the true ones, so that none is below one step."""
    if case.discount == 1:
        return _values_of_chain(case, rows)
    table = problem.table(solution.assignment)
    known = table.chance > 0
    at, _ = np.nonzero(known)
    size = table.expected.size
    step = sp.csc_array((table.chance[known], (at, table.target[known])), shape=(size, size))
    exact = splu(sp.eye_array(size, format="csc") - problem.discount * step).solve(table.expected)
    grid = _grid(case) * case.unit
    error_bound = 4 * grid / (1 - case.discount)
    costly, before = table.expected > 0, np.zeros(size, dtype=bool)
    while (costly != before).any():  # where nothing ever moves, the value is 0 and no more
        costly, before = costly | (step @ costly > 0), costly
    paid = zip(exact[: len(rows)], costly[: len(rows)], strict=True)
    return [text(-((-Fraction(float(v)) - error_bound) // grid) * grid) if some else 0 for v, some in paid]


def _values_of_chain(case: Any, rows: list[list[list[int]]]) -> list[int | str]:
    """State that still moves from each decision on, exactly."""
    before, moved = case.current, []
    for (decided,) in rows[:-1]:
        moved.append(sum(s for s, q, i in zip(case.state, before, decided, strict=True) if q != i))
        number = {i: at for at, i in enumerate(dict.fromkeys(decided))}
        before = [number[i] for i in decided]
    return [text(sum(moved[t:]) * case.unit) for t in range(len(rows))]


# Certificates ----------------------------------------------------------------------------------------------------------

Prover = Callable[[Any, Any, Solution, Fraction | None, Budget, float], Proven]
PROVERS: dict[type, Prover] = {
    verify.SplittingCase: prove_by_prices,
    verify.MovedCase: prove_by_prices,
    verify.AllocationCase: prove_allocation,
    verify.BalanceCase: prove_balance,
    verify.IntervalsCase: prove_intervals,
    verify.CollocationCase: prove_collocation,
}
"""The proofs that there are for an instance as the checker reads it."""


@dataclass(frozen=True)
class Certificate:
    """A file with everything needed to check an answer without keyshift: instance, assignment, claim and proof, in exact numbers.

    Attributes
    ----------
    record : dict
        The certificate as its file holds it.
    proven : str
        The verdict of `verify.py`, in one sentence.
    value, bound : Fraction or None
        The objective of the assignment, exactly, and the highest bound that the certificate proves.
    claimed : float or None
        The bound that the solution claims.
    complete : bool
        Whether the certificate proves everything that the solution claims. If not, the rest relies on the solver.
    """

    record: dict[str, Any] = field(repr=False)
    proven: str
    value: Fraction | None
    bound: Fraction | None
    claimed: float | None
    complete: bool

    @property
    def word(self) -> str:
        """Claims that rely on the solver alone; empty if there are none."""
        return str(self.record["solvers_word"] or "")

    def save(self, path: str | Path) -> None:
        """Write the certificate as one JSON file.

        Raises
        ------
        InputError
            If the file cannot be written there.
        """
        write_text(path, json.dumps(self.record, separators=(",", ":")) + "\n")

    def __str__(self) -> str:
        return f"proven: {self.proven}" + (f"; {self.word}" if self.word else "")


def certify(
    solution: Solution, path: str | Path | None = None, *, time_limit: float = TIME_LIMIT, seconds: float | None = None
) -> Certificate:
    """Write a solution's instance, assignment, claim and proof to a file that `verify.py` checks without keyshift.

    A new proof of the claim is searched for: prices and branches, a price on intervals, tables of values, a matrix
    without negative eigenvalues. What is found within `time_limit` is checked by `verify.py` itself, and
    ``solution.details["proof"]`` then says what proves the bound.

    Parameters
    ----------
    solution : Solution
        With an assignment, or infeasible.
    path : str or Path, optional
        Where to write the certificate.
    time_limit : float, default 60
        Seconds for the search for a proof. If they are not enough, the certificate has the highest bound that it
        proves, and `word` says what relies on the solver.
    seconds : float, optional
        Retired: as `time_limit` was called until 0.2.

    Returns
    -------
    Certificate

    Raises
    ------
    InputError
        If there is nothing to certify: no assignment and no proof that there is none.
    """
    if seconds is not None:
        said = "certify(seconds=...) is retired and goes in 0.5: write time_limit=..."
        warnings.warn(said, DeprecationWarning, stacklevel=2)
        time_limit = seconds
    limit = real("time_limit", time_limit, optional=False)
    problem = solution.problem
    if solution.assignment is None and solution.status != "infeasible":
        raise InputError(f"there is nothing to certify: {solution!r}")
    if isinstance(problem, Prioritised) and problem.stages[0] != problem.own_measure:
        raise InputError(f"certificates are about {problem.own_measure}, this problem puts {problem.stages[0]} first")
    if isinstance(problem, OverWindows) and problem.by_window[0] is not problem:
        raise InputError("certificates only support the last window of loads, and this problem plans for others")
    budget = Budget()
    with interruptible(budget.interrupt):
        instance = problem.record()
        case, assignment, value = _read(solution, instance)
        found = prove(problem, case, solution, value, budget, limit)
        record = _record(solution, instance, assignment, value, found)
        made = _checked(record, solution, value, found)
        if path is not None:
            made.save(path)
        return made


def _read(solution: Solution, instance: dict[str, Any]) -> tuple[Any, Any, Fraction | None]:
    """The checker's own reading of instance and assignment, and the value that it finds."""
    problem = solution.problem
    with refusing("a certificate cannot hold this instance: {reason}", verify.Refused):
        case: Any = verify.CASES[problem.name](instance)
    if solution.assignment is None:
        return case, None, None
    assignment = problem.recorded(solution.assignment)
    if isinstance(case, verify.IntervalsCase):
        assignment = {"table": assignment, "values": values_of(problem, case, solution, assignment)}
    with refusing("the assignment keeps the rules only within rounding errors: {reason}", verify.Refused):
        return case, assignment, case.value(assignment)


def prove(
    problem: Problem, case: Any, solution: Solution, value: Fraction | None, budget: Budget, seconds: float
) -> Proven:
    """The best proof: of the value as a bound, else of the solution's bound, else of the highest bound found.

    Parameters
    ----------
    problem : Problem
    case : object
        The checker's own reading of the instance.
    solution : Solution
    value : Fraction or None
        Of the assignment; None to prove that there is none.
    budget : Budget
        Ends with an interruption alone.
    seconds : float
        For the search.
    """
    if value == 0:
        return Proven(value, {"kind": "none"})
    found = PROVERS[type(case)](problem, case, solution, value, budget, seconds)
    if (value is None and found.proof is None) or (value is not None and found.bound != value):
        by_trial = Proven() if budget.interrupted else _by_trial(case, value)
        return by_trial if by_trial.proof is not None else found
    return found


def _by_trial(case: Any, value: Fraction | None) -> Proven:
    """Where there are few assignments, all of them are tried; the answer may not be the best of them."""
    if not isinstance(case, verify.PlacedCase) or isinstance(case, verify.IntervalsCase):
        return Proven()
    try:
        case.try_all(value)
    except verify.Refused:
        return Proven()
    return Proven(value, {"kind": "all"})


def _record(
    solution: Solution, instance: dict[str, Any], assignment: Any, value: Fraction | None, found: Proven
) -> dict[str, Any]:
    claim = {
        "value": None if value is None else text(value),
        "bound": None if found.bound is None else text(found.bound),
        "infeasible": value is None,
    }
    return {
        "format": "keyshift-certificate", "version": 1, "problem": solution.problem.name, "solvers_word": None,
        "claim": claim, "proof": found.proof, "assignment": assignment, "instance": instance,
    }  # fmt: skip


def _checked(record: dict[str, Any], solution: Solution, value: Fraction | None, found: Proven) -> Certificate:
    """Let the checker read the record, and say what it does not prove."""
    word = None
    if value is None and found.proof is None:
        word = f"{WORD}: no assignment keeps every rule ({solution.message})"
    elif value is not None and not complete(solution, value, found.bound):
        word = f"{WORD}: no assignment has less than {figure(solution.bound)}"
    record["solvers_word"] = word
    kind = f"certificate ({found.proof['kind']})" if found.proof else ""
    solution.details["proof"] = kind if word is None else f"{kind}; {word}" if found.bound else word
    if value is None and found.proof is None:
        return Certificate(record, "nothing", None, None, None, False)
    return Certificate(record, verify.verified(record), value, found.bound, solution.bound, word is None)


def complete(solution: Solution, value: Fraction, bound: Fraction | None) -> bool:
    """Whether a bound is as good as the solution's, up to what the problem calls the same."""
    if solution.bound is None or solution.bound <= 0:
        return True
    same = max(solution.problem.tolerance_of(float(value)), 1e-9 * float(value))
    return bound is not None and bound >= Fraction(solution.bound) - Fraction(same)
