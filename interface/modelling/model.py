"""An open declarative model, whatever language it is written in."""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from keyshift.catalogue.method import Statement
from keyshift.modelling.additions import Row, start_by_search
from keyshift.modelling.program import by_own_names, parse_solution
from keyshift.models import Answer, Budget, InputError, Problem, Solution
from keyshift.models.answer import Termination
from keyshift.models.base.disk import MOST_JSON, read_text
from keyshift.models.base.guards import real, whole
from keyshift.models.base.lazily import load
from keyshift.models.errors import BoundError, refusing
from keyshift.models.workload import Workload
from keyshift.solving import MOST_SEED, interruptible, read_start


@dataclass
class Run:
    """The outcome of a solver's run on a model.

    Attributes
    ----------
    solver : str
    found : bool
        Whether it left values from which an assignment can be read.
    proven : float or None
        A bound on the model's objective, which minimises.
    termination : str
    safe : bool
        Whether the bound holds whatever the solver's tolerances; else it is the solver's word.
    details : dict
    """

    solver: str
    found: bool
    proven: float | None
    termination: Termination
    safe: bool = False
    details: dict[str, Any] = field(default_factory=dict)


class Model(ABC):
    """A declarative model of a problem, which can be read, changed, written to a file and solved.

    `keyshift.model` makes it. Whatever is added to `native` stays in force in `relax`, `write` and `solve`.

    Attributes
    ----------
    problem : Problem
    kind : str
        One of ``keyshift.statements(problem)``.
    about : Statement
        The catalogue's entry: what its variables are, where its numbers are explained.
    statement : object
        The statement itself: one method for each family of constraints.
    native : ConcreteModel, CpModel or mathopt.Model
        The model in its own language.
    relaxed : bool
        Whether whole variables have become continuous.
    strengthened : bool
        Whether it excludes some feasible answers, but not all optima. Nothing may be added to such a model.
    """

    suffixes: ClassVar[tuple[str, ...]]
    _symbol: ClassVar[re.Pattern[str]] = re.compile(r"(?<=[\[,])([kn])(\d+)(?=[\],])")

    def __init__(self, problem: Problem, about: Statement, strengthened: bool = False, **options: Any) -> None:
        self.problem, self.about, self.strengthened, self.options = problem, about, strengthened, options
        self.statement = about.build(problem, strengthened, **options)
        self.native: Any = self.statement.model
        w: Any = getattr(problem, "workload", None)
        named = isinstance(w, Workload) and (w.keys is not None or w.node_names is not None)
        self._symbols = {"k": w.names_of_key_groups.symbols, "n": w.names_of_nodes.symbols} if named else {}
        self._whole = False
        self.relaxed = False
        self._known: np.ndarray | None = None
        self._searched = False
        self._taken: np.ndarray | None = None
        self._cuts: list[np.ndarray] = []

    @property
    def kind(self) -> str:
        """The model's kind, as given to `keyshift.model`."""
        return self.about.kind

    def name_in_files(self, name: str) -> str:
        """The name of a variable or constraint in the workload's terms: x[kg-0003,node01] for x[k3,n1]."""
        return self._symbol.sub(lambda found: self._symbols[found[1]][int(found[2])], name) if self._symbols else name

    # What a caller does with it ---------------------------------------------------------------------------------

    def start(self, assignment: Any) -> Self:
        """Set a warm start: an assignment that keeps the problem's rules, or a `Solution`.

        Returns
        -------
        Model
            Itself.

        Raises
        ------
        InputError
            If the assignment breaks a rule.
        """
        self._require_answers("a start")
        known = read_start(self.problem, assignment)
        if known is not None:
            self._set_start(known)
            self._known = known
        return self

    def relax(self) -> Self:
        """The linear relaxation: a copy in which whole variables are continuous, additions included.

        Its `solve` gives a bound and no assignment, and in ``details`` the rows' multipliers (``duals``), the
        ``reduced_costs`` and the ``values`` of the variables, by their names.

        Raises
        ------
        InputError
            For CP-SAT, which has whole numbers only.
        """
        made = copy.copy(self)
        made.native = self._relaxed()
        made.relaxed, made._known = True, None
        return made

    def write(self, path: str | Path) -> Path:
        """Write the model to a file, in the format that its ending names.

        Parameters
        ----------
        path : str or Path
            .mps, .lp, .nl (with its .row and .col) for Pyomo and MathOpt; .pb and .txt for CP-SAT.

        Returns
        -------
        Path
        """
        target = Path(path)
        if target.suffix not in self.suffixes:
            raise InputError(f"{target}: a model of kind {self.kind!r} is written as {', '.join(self.suffixes)}")
        if not target.parent.is_dir():
            raise InputError(f"{target}: there is no folder {target.parent}")
        self._write(target)
        return target

    def read(self, path: str | Path) -> Solution:
        """Read what a solver answered to a file that `write` wrote.

        Parameters
        ----------
        path : str or Path
            The solution file of HiGHS (``highs x.mps --solution_file x.sol``), SCIP (``write solution x.sol``), CBC or
            Gurobi. Variables that it leaves out are 0.

        Returns
        -------
        Solution
            Checked and valued again, like every answer. It has no bound, because such files do not contain one; but where
            the variables are values of a policy's partitions, the policy that is best for them has one.

        Raises
        ------
        InputError
            For a file that is not a solution, or one of another model.
        """
        source = Path(path)
        solver, values = parse_solution(read_text(source, MOST_JSON), source)
        if ".mps" not in self.suffixes:
            raise InputError(f"a model of kind {self.kind!r} is not written as .mps: say which kind was")
        own = by_own_names(self.names(), values, source)
        answer = Answer(self.assignment(own)) if self.about.reader is None else self._by_reader(own)
        return Solution.of(self.problem, f"model:{self.kind}/{solver} file", answer, 0.0)

    def solve(self, solver: str | None = None, time_limit: float | None = None, seed: int = 0) -> Solution:
        """Solve the model as it stands, and answer the problem.

        Parameters
        ----------
        solver : str, optional
            Any that the language finds on this machine: "highs" and "scip" are there, "cp-sat" for models whose variables
            are all whole, "glop" and "pdlp" for relaxations; a name that is not says which are. None takes the one that fits.
        time_limit : float, optional
            Seconds.
        seed : int, default 0

        Returns
        -------
        Solution
            Checked and valued again, like every answer. ``details["bound_from"]`` says who proved the bound. If
            the model is not the one that the problem states - its numbers are compared with those of a fresh one - no
            bound is claimed for the problem, so that the status is "feasible" at most. Where something was only added
            - rows, variables without a cost, variables fixed or their limits narrowed -,
            ``details["bound_with_additions"]`` holds for every assignment that keeps the problem's rules and the
            additions; where the objective was changed, a row taken away or widened, or the model is `strengthened`,
            nothing is said. With additions to an integer model keyshift's own search finds the start, unless `start` has
            been called: rows that a rule could say are kept by it, and ``message`` names these rules. An answer that
            breaks the problem's own rules is in `Solution.offered`, with `Solution.violations`.

        Raises
        ------
        InputError
            For a solver that is not installed, or that does not accept such a model.
        """
        limit = real("time_limit", time_limit)
        budget = Budget(limit)
        seed = whole("seed", seed, most=MOST_SEED, optional=False)
        self._taken = None
        with interruptible(budget.interrupt):
            standing, fresh = self._standing()
            searched, said = None, ""
            if standing == "added" and self._reads and self._known is None:
                searched, said = start_by_search(self, self._added_rows(fresh), budget, seed)
            run = self._run_settled(solver, budget, seed, standing)
            answer = self._better(self._answer(run, standing, budget), searched)
            answer.message += said
            rounds = 0
            # How often an answer of a changed integer model that breaks the problem's rules is cut off before it
            # is offered.
            while self._refused(answer) and (standing == "stated" or (standing == "added" and rounds < 200)):
                rounds += 1
                if standing == "stated":
                    run = self._again(answer.assignment, solver, budget, seed)
                else:  # limits are widened where they round, with additions too
                    self.statement.forbid(answer.assignment)
                    run = self._run(solver, budget, seed)
                answer = self._answer(run, standing, budget)
        name = f"model:{self.kind}/{run.solver}" + (" relaxed" if self.relaxed else "")
        try:
            return Solution.of(self.problem, name, answer, budget.seconds)
        except BoundError:
            if run.safe:
                raise
            answer.bound = None
            answer.details["bound_from"] = f"{run.solver}'s word, which its own answer disproves: dropped"
            return Solution.of(self.problem, name, answer, budget.seconds)

    def _better(self, answer: Answer, searched: np.ndarray | None) -> Answer:
        """The answer, or in its place the start from our own search where the solver has nothing as good."""
        if searched is None or answer.termination == "infeasible":
            return answer
        worse = answer.assignment is None or (
            self.problem.objective(self.problem.canonical(answer.assignment))
            > self.problem.objective(self.problem.canonical(searched)) + self.problem.tolerance
        )
        if worse and not self.problem.violations(searched):
            answer.assignment = searched
            answer.details["answer_from"] = "keyshift's search, which kept what was added"
            self._take(searched)
        return answer

    def as_stated(self) -> bool:
        """Whether the model is unchanged: its numbers are those of a newly built one."""
        return self._standing()[0] == "stated"

    def assignment(self, values: Any = None) -> np.ndarray:
        """Read the assignment from a solved model, whichever solver solved it; it is read, not checked: see `keyshift.check`.

        Parameters
        ----------
        values : optional
            None reads what `solve` found last, and in Pyomo the variables' own values. Of CP-SAT, the `CpSolver` that
            solved `native`; of MathOpt, its `SolveResult`; of any kind, {name: value} as files have it.
        """
        self._require_answers("an assignment")
        said = "the values are no solution's: whole variables have whole values within their bounds"
        with refusing(said, ValueError, OverflowError):
            return self.problem.canonical(self._read(values))

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all variables, as files have them."""

    def set_values(self, values: dict[str, float]) -> None:
        """Give the variables values by their names; in Pyomo, whose variables hold them."""
        raise InputError(f"a model of kind {self.kind!r} keeps no values")

    @abstractmethod
    def algebra(self, every: bool = False) -> str:
        """The model in readable form, in lines of 80 columns: the first rows of each family, or `every` row."""

    @property
    @abstractmethod
    def size(self) -> str:
        """How many variables and constraints it has, in words."""

    def __repr__(self) -> str:
        what = " relaxed" if self.relaxed else ""
        return f"Model({self.problem.name} in {self.kind}{what}: {self.size}; {self.about.summary.rstrip('.')})"

    # What each language does its own way ------------------------------------------------------------------------

    @abstractmethod
    def _relaxed(self) -> Any: ...
    @abstractmethod
    def _write(self, path: Path) -> None: ...
    @abstractmethod
    def _run(self, solver: str | None, budget: Budget, seed: int) -> Run: ...
    @abstractmethod
    def _read(self, values: Any) -> np.ndarray: ...
    @abstractmethod
    def _fingerprint(self) -> str: ...
    @abstractmethod
    def _extends(self, fresh: Self) -> bool: ...
    @abstractmethod
    def _added_rows(self, fresh: Self) -> list[Row]: ...
    @abstractmethod
    def _near(self, fixed: Mapping[str, float], budget: Budget, seed: int) -> np.ndarray | None:
        """Solve with some variables fixed; an answer is held as the start for the next run."""

    def _set_start(self, assignment: np.ndarray) -> None:
        self.statement.set_start(assignment)

    def _settled(self) -> bool:
        """Whether the variables that are whole by themselves still are."""
        return True

    # What all share ---------------------------------------------------------------------------------------------

    def _fresh(self) -> Self:
        """The model that the problem states, built anew."""
        made = type(self)(self.problem, self.about, self.strengthened, **self.options)
        return made.relax() if self.relaxed else made

    def _standing(self) -> tuple[Literal["stated", "added", "changed"], Self]:
        """Whether the model is the one that the problem states, that one with additions, or another; beside it the stated one."""
        fresh = self._fresh()
        try:
            if self._fingerprint() == fresh._fingerprint():
                return "stated", fresh
            return ("added" if self._extends(fresh) and not self.strengthened else "changed"), fresh
        except InputError:  # what no matrix holds has been added
            return "changed", fresh

    def _run_settled(self, solver: str | None, budget: Budget, seed: int, standing: str) -> Run:
        """Run it; once more with whole variables, where these are whole by themselves only until rows are added."""
        run = self._run(solver, budget, seed)
        settled = standing == "stated" or not run.found or not self._reads or self._settled()
        if settled or not hasattr(self.statement, "whole_family"):
            return run
        self._whole = True
        try:
            return self._run("highs", budget, seed)
        finally:
            self._whole = False

    def _again(self, refused: np.ndarray | None, solver: str | None, budget: Budget, seed: int) -> Run:
        """Run a fresh model without the assignments that tolerances or rounding let in; the model itself stays."""
        assert refused is not None
        self._cuts = [*self._cuts, refused]
        fresh = self._fresh()
        for assignment in self._cuts:
            fresh.statement.forbid(assignment)
        if self._known is not None:
            fresh._set_start(self._known)
        run = fresh._run(solver, budget, seed)
        if run.found:
            self._take(fresh._read(None))
        return run

    def _take(self, assignment: np.ndarray) -> None:
        """Hold an assignment that another model found."""
        self._taken = assignment

    def _refused(self, answer: Answer) -> bool:
        """Whether tolerances let in what the check refuses, and the statement can cut it off."""
        if answer.assignment is None or answer.termination not in ("optimal", "gap"):
            return False
        return hasattr(self.statement, "forbid") and bool(self.problem.violations(answer.assignment))

    @property
    def _reads(self) -> bool:
        """Whether a solver's values are an assignment."""
        return self.about.exact and not self.relaxed and self.about.reader is None

    def _answer(self, run: Run, standing: str, budget: Budget) -> Answer:
        stated = standing == "stated"
        details = dict(run.details)
        bound = None
        if run.proven is not None and np.isfinite(run.proven) and hasattr(self.statement, "bound"):
            bound = self.statement.bound(run.proven)
        if bound is not None and not run.safe:
            # This share of the problem's scale is taken off a bound that rests on a solver's word alone.
            bound -= 2.5e-7 * self.problem.scale
        message = "" if stated else "the model was changed: no bound is claimed for the problem"
        if run.termination == "infeasible":
            if stated:
                said = f"{run.solver} says that no assignment meets all limits"
                return Answer(None, termination="infeasible", message=said, details=details)
            said = f"{run.solver} finds the changed model infeasible, which says nothing of the problem"
            return Answer(None, termination="completed", message=said, details=details)
        if self.about.reader is not None and run.found and not self.relaxed:
            answer: Answer = load(self.about.reader)(self.statement, budget)
            answer.message, answer.details = message, {**details, **answer.details, "bound_from": "the values, checked"}
            if not stated:
                answer.bound, answer.termination = None, "completed"
                answer.message += ", and its variables are values: the policy that is best for them keeps no rule"
            return answer
        if bound is not None:
            whose = f"{run.solver}, made safe" if run.safe else f"{run.solver}'s word"
            if stated:
                details["bound_from"] = whose
            elif standing == "added":
                details["bound_with_additions"] = bound
        reads = run.found and self._reads
        ended: Termination = run.termination
        if not self._reads:
            ended = "completed" if ended == "optimal" else ended
        if reads and not stated and not self._settled():
            reads, ended = False, "completed" if ended == "optimal" else ended
            message += "; its answer is a mixture of assignments, of which none need keep what was added"
        found = self._read(None) if reads else None
        return Answer(found, bound if stated else None, ended, message, details)

    def _by_reader(self, values: dict[str, float]) -> Answer:
        """What the statement's own reader makes of values, which here decide by what they are worth."""
        assert self.about.reader is not None
        self.set_values(values)
        return load(self.about.reader)(self.statement, Budget())

    def _require_answers(self, what: str) -> None:
        if not self._reads:
            raise InputError(f"a model of kind {self.kind!r}{' relaxed' * self.relaxed} has no variables for {what}")

    def _require_known(self, values: Iterable[str], known: Container[str]) -> None:
        for name in values:
            if name not in known:
                raise InputError(f"the model has no variable {name}")
