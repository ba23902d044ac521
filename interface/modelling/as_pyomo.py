"""A program written by Pyomo's own writer, for formats that only it knows."""

from __future__ import annotations

from pathlib import Path

import pyomo.environ as pyo

from keyshift.modelling import writing
from keyshift.modelling.program import NamedProgram, distinct


def to_pyomo(program: NamedProgram) -> pyo.ConcreteModel:
    """The same program as a Pyomo model: x numbered by column, row by row."""
    p, m = program.linear, pyo.ConcreteModel(name=program.name)
    boxes = list(zip(p.column_lower.tolist(), p.column_upper.tolist(), strict=True))
    whole = p.integer.tolist()
    m.x = pyo.Var(
        range(len(boxes)), domain=lambda m, j: pyo.Integers if whole[j] else pyo.Reals, bounds=lambda m, j: boxes[j]
    )
    place = {name: j for j, name in enumerate(program.columns)}
    rows = [(pyo.quicksum(f * m.x[place[n]] for f, n in terms), low, high) for _, terms, low, high in program.terms()]
    m.row = pyo.Constraint(range(len(rows)), rule=lambda m, r: (rows[r][1], rows[r][0], rows[r][2]))
    squares = (factor * m.x[a] * m.x[b] for (a, b), factor in program.squares.items())
    costs = (c * m.x[j] for j, c in enumerate(p.cost.tolist()) if c)
    m.objective = pyo.Objective(expr=pyo.quicksum(costs) + pyo.quicksum(squares) + p.offset)
    return m


def write_nl(program: NamedProgram, path: Path) -> None:
    """Write an .nl file, with the names in .row and .col beside it."""
    model = to_pyomo(program)
    written = writing.write_nl(model, path)
    rows, columns = distinct(program.rows), distinct(program.columns)
    names = [rows[c.index()] for c in written.constraints]
    writing.write_text(path.with_suffix(".row"), [*names, *(o.local_name for o in written.objectives)])
    writing.write_text(path.with_suffix(".col"), [columns[v.index()] for v in written.variables])
