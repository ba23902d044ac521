"""A model in CP-SAT, opened."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from keyshift.modelling.additions import Row, rows_of
from keyshift.modelling.model import Model, Run
from keyshift.modelling.program import between, by_family, by_kind, folded, number, summed
from keyshift.models import Budget, InputError
from keyshift.models.base.disk import write_by_name
from keyshift.solvers import cpsat


class OpenedCpSat(Model):
    """`Model` for CP-SAT, which solves its models itself."""

    suffixes: ClassVar[tuple[str, ...]] = (".pb", ".txt")
    _last: Any = None
    """The `CpSolver` that found something in the last run."""

    @property
    def size(self) -> str:
        """How many variables and constraints it has, in words."""
        proto = self.native.proto
        return f"{len(proto.variables)} variables, {len(proto.constraints)} constraints"

    def _relaxed(self) -> Any:
        raise InputError("CP-SAT only has whole numbers: the linear relaxation is available for 'pyomo'")

    def _write(self, path: Path) -> None:
        named = self.native.clone() if self._symbols else self.native
        for part in (*named.proto.variables, *named.proto.constraints) if self._symbols else ():
            part.name = self.name_in_files(part.name)

        def fill(scratch: Path) -> None:
            if not named.export_to_file(str(scratch)):
                raise OSError("CP-SAT does not say why")

        write_by_name(path, fill)

    def _fingerprint(self) -> str:
        plain = self.native.clone()
        plain.clear_hints()
        return hashlib.sha256(str(plain.proto).encode()).hexdigest()

    def _extends(self, fresh: Self) -> bool:
        mine, stated = self.native.proto, fresh.native.proto
        return str(mine.objective) == str(stated.objective) and all(
            len(more) >= len(part) and all(str(a) == str(b) for a, b in zip(more, part, strict=False))
            for more, part in ((mine.variables, stated.variables), (mine.constraints, stated.constraints))
        )

    def _added_rows(self, fresh: Self) -> list[Row]:
        return rows_of(self.native.proto, len(fresh.native.proto.constraints), self._name)

    def _near(self, fixed: Mapping[str, float], budget: Budget, seed: int) -> np.ndarray | None:
        model = self.native.clone()
        for j, name in enumerate(self.names()):
            if name in fixed:
                model.add(model.get_int_var_from_proto_index(j) == int(fixed[name]))
        result = cpsat.minimise(model, budget, seed=seed)
        if not result.found:
            return None
        self.native.clear_hints()
        for j in range(len(self.native.proto.variables)):
            self.native.add_hint(at := self.native.get_int_var_from_proto_index(j), result.solver.value(at))
        return np.asarray(self.statement.assignment(result.solver.value))

    def _run(self, solver: str | None, budget: Budget, seed: int) -> Run:
        if solver not in (None, "cp-sat"):
            raise InputError(f"a model of kind {self.kind!r} is solved by cp-sat, not by {solver!r}")
        result = cpsat.minimise(self.native, budget, seed=seed)
        self._last = result.solver if result.found else None
        proven = float(result.bound) if result.termination != "infeasible" else None
        branches = {"branches": result.solver.num_branches}
        return Run("cp-sat", result.found, proven, result.termination, True, branches)

    def _read(self, values: Any) -> np.ndarray:
        if isinstance(values, dict):
            self._require_known(values, set(self.names()))
            return np.asarray(
                self.statement.assignment(lambda x: round(float(values.get(self.name_in_files(x.name), 0))))
            )
        if values is None and self._taken is not None:
            return self._taken
        solver = self._last if values is None else values
        if solver is None:
            raise InputError("this model has not been solved yet: give the CpSolver that did")
        return np.asarray(self.statement.assignment(solver.value))

    def names(self) -> list[str]:
        """The names of all variables, as files have them."""
        return [self.name_in_files(v.name) for v in self.native.proto.variables]

    def algebra(self, every: bool = False) -> str:
        """The model in readable form, in lines of 80 columns: the first rows of each family, or `every` row."""
        proto = self.native.proto
        goal = [(float(c), self._name(v)) for v, c in zip(proto.objective.vars, proto.objective.coeffs, strict=True)]
        rows = ((self.name_in_files(row.name), self._row(row)) for row in proto.constraints)
        columns = ((self.name_in_files(v.name), self._kind(*_sides(v.domain))) for v in proto.variables)
        return "\n".join(
            ["minimise", *folded("", summed(goal)), "subject to", *by_family(rows, every), "where", *by_kind(columns)]
        )

    def _name(self, index: int) -> str:
        variables = self.native.proto.variables
        return self.name_in_files(variables[index].name) if index >= 0 else f"not {self._name(-index - 1)}"

    def _row(self, row: Any) -> str:
        for kind in ("bool_or", "bool_and", "at_most_one", "exactly_one"):
            if getattr(row, f"has_{kind}")():
                inside = ", ".join(self._name(i) for i in getattr(row, kind).literals)
                condition = " and ".join(self._name(i) for i in row.enforcement_literal)
                return f"{kind}({inside})" + (f" if {condition}" if condition else "")
        if row.has_linear():
            terms = zip(row.linear.coeffs, row.linear.vars, strict=True)
            text = summed([(float(c), self._name(v)) for c, v in terms])
            return between(text, *_sides(row.linear.domain))
        return " ".join(str(row).split())

    @staticmethod
    def _kind(low: float, high: float) -> str:
        return "0 or 1" if (low, high) == (0, 1) else f"whole, between {number(low)} and {number(high)}"


def _sides(domain: Sequence[int]) -> tuple[float, float]:
    """The least and the largest value of a domain, which CP-SAT writes as large numbers where there is none."""
    low, high = domain[0], domain[len(domain) - 1]  # CP-SAT's lists answer 0 at negative places
    return (-math.inf if low < -(2**62) else low), (math.inf if high >= 2**62 else high)
