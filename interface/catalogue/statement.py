"""The catalogue's entry of a declarative statement."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from keyshift.models import Problem
from keyshift.models.lazily import NamesCode, load

Language = Literal["pyomo", "cp-sat", "mathopt"]


@dataclass(frozen=True)
class Statement(NamesCode):
    """One way to write a problem down as variables, constraints and an objective.

    The class that `code` names is made from the problem, by its classmethod ``of`` where it has one. Where it takes
    ``strengthened``, that is whether it may assume what some optimum keeps, but not every answer - interchangeable
    nodes in order, a limit from a known answer, variables fixed or held from one side -, which is wrong as soon as
    somebody adds a rule. It has

    * ``model``: the ConcreteModel, CpModel or mathopt.Model itself;
    * ``set_start(assignment)`` (Pyomo, CP-SAT) or ``hint(assignment)`` (MathOpt, a `SolutionHint`), where it answers;
    * ``assignment(...)``: the answer from the variables' values - Pyomo's own, through a function from a variable to its
      value (CP-SAT), from a mapping of variables to values (MathOpt);
    * ``bound(proven)``: a proven bound on the model's objective as one on the problem's; None where it bounds nothing, or
      no such method;
    * ``forbid(assignment)``, where tolerances or rounding may let in what the check refuses;
    * in Pyomo ``letters`` ({component: one letter for each part of its index}), and ``label(component, index)`` where a
      letter does not do: they make the names in files (`keyshift.modelling.pyomo_door`).

    Attributes
    ----------
    kind : str
        The name that `keyshift.model` knows it by; the plain one is that of its language.
    language : {"pyomo", "cp-sat", "mathopt"}
    code : str
        ``"module:class"``.
    summary : str
        One sentence: what its variables are, or how it differs from the plain statement.
    source : str
        Where its numbers are: the problem's docstring, with the paper's name in brackets.
    integer : bool
        Whether it has whole variables; without, it is its own linear relaxation.
    exact : bool
        Whether its optimum is the problem's. If not, it bounds the problem's from below, and has no assignment.
    reader : str, optional
        ``"module:function"``, called as ``function(statement, budget)`` with the solved statement: makes the `Answer`
        where that takes more than reading variables.
    """

    CODE = ("code", "reader")

    kind: str
    language: Language
    code: Any
    summary: str
    source: str
    integer: bool = True
    exact: bool = True
    reader: Any = None

    def build(self, problem: Problem, strengthened: bool = True) -> Any:
        """The statement of a problem: an object of the class that `code` names."""
        cls = load(self.code)
        make: Callable[..., Any] = getattr(cls, "of", cls)
        if "strengthened" in inspect.signature(make).parameters:
            return make(problem, strengthened=strengthened)
        return make(problem)
