"""Aggregation over the windows in Pyomo: the minimum over t in `keyshift.models.objectives`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyshift.models.objectives import PlannedWindows
from keyshift.models.pyomo import pyo
from keyshift.models.workload import FloatArray


def combine(m: pyo.ConcreteModel, it: PlannedWindows, values: Sequence[Any], most: FloatArray) -> Any:
    """Add t and, for CVaR, what each value is above it, with their rows; the combined value. Of one window it is its own.

    Parameters
    ----------
    m : ConcreteModel
    it : PlannedWindows
    values : sequence of expressions, one for each window
    most : ndarray, shape (k,)
        What no value exceeds.
    """
    windows, weights = range(it.count), it.most.tolist()
    if it.count == 1:
        return values[0]
    if it.over == "mean":
        return pyo.quicksum(weights[s] * values[s] for s in windows)
    m.t = pyo.Var(domain=pyo.NonNegativeReals)  # no upper bound: with one, presolve of HiGHS 1.13 proves wrong optima
    if it.over == "max":
        m.worst = pyo.Constraint(windows, rule=lambda m, s: values[s] <= m.t)
        return 1.0 * m.t
    m.excess = pyo.Var(windows, bounds=lambda m, s: (0, float(most[s])))
    m.above = pyo.Constraint(windows, rule=lambda m, s: values[s] <= m.t + m.excess[s])
    return m.t + pyo.quicksum(weights[s] * m.excess[s] for s in windows)


def start_combined(m: pyo.ConcreteModel, it: PlannedWindows, values: FloatArray) -> None:
    """Give t and the excesses what they are at known values."""
    if it.over == "mean" or it.count == 1:
        return
    level = float(values[it.weights(values) > 0].min()) if it.over == "cvar" else float(values.max())
    m.t.set_value(level, skip_validation=True)
    for s, value in enumerate(values.tolist() if it.over == "cvar" else ()):
        m.excess[s].set_value(max(0.0, value - level), skip_validation=True)
