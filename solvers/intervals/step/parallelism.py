"""Which parallelism, and which ranges: single-step migration to every candidate count."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from keyshift.models import Budget, Workload
from keyshift.models.intervals import IntervalMigration
from keyshift.models.intervals.exact_arithmetic import decimal_above
from keyshift.solvers.intervals.step.ssm import solve_ssm

if TYPE_CHECKING:
    import pandas as pd


def parallelism_options(
    workload: Workload, counts: Iterable[int], tau: Any, node_load: float | None = None
) -> pd.DataFrame:
    """What each parallelism costs and carries, one row for each candidate.

    Parameters
    ----------
    workload : Workload
    counts : iterable of int
        Candidate numbers of nodes.
    tau : float, int, str or Fraction
        Load tolerance over the mean.
    node_load : float, optional
        What a node can process: a candidate whose most loaded node exceeds it is marked as too small.

    Returns
    -------
    DataFrame
        ``nodes``, ``feasible``, ``state_moved``, ``max_load``, ``large_enough``, ``smallest_tau``, and ``assignment``
        (None where infeasible), cheapest acceptable candidate first.
    """
    import pandas as pd

    rows = []
    for n in counts:
        problem = IntervalMigration(workload, n, tau)
        feasible = not problem.conflicts()
        assignment = solve_ssm(problem, budget=Budget()).assignment if feasible else None
        figures = {} if assignment is None else problem.metrics(assignment)
        load = figures.get("max_load")
        rows.append(
            {
                "nodes": problem.nodes_after,
                "feasible": feasible,
                "large_enough": feasible and (node_load is None or (load or 0.0) <= node_load),
                "state_moved": figures.get("state_moved"),
                "max_load": load,
                "smallest_tau": float(decimal_above(problem.smallest_tau).split()[0]),
                "assignment": assignment,
            }
        )
    table = pd.DataFrame(rows)
    return table.sort_values(["large_enough", "state_moved", "nodes"], ascending=[False, True, True], ignore_index=True)
