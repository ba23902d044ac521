"""The linear relaxation of mixed routing by HiGHS, with a million keys too: `PooledKeys`, as matrices."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.ranges import Whole
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.pooled import PooledKeys
from keyshift.solvers import highs
from keyshift.solvers.checked import within
from keyshift.solvers.routing.grid import on_grid
from keyshift.solvers.routing.statement import lp_bound
from keyshift.solvers.safe_bounds import LinearProgram, LinearRows

MOST_CLASSES = 1_000_000
"""A million different keys on 40 nodes take HiGHS half a minute."""
DOUBT = 1e-12
"""Relative, for the rounding of the states to units: a program's least cost moves by no more than its costs do."""


def pooled_bound(problem: MixedRouting, *, budget: Budget, seed: int = 0, most_classes: Whole = MOST_CLASSES) -> Answer:
    """The linear relaxation stated with a pool, run by HiGHS: a bound, no assignment; fit for a million keys.

    The value of (1)-(5) without integrality exactly, up to `most_classes` different keys; beyond, keys of about the
    same load and state are one class, and the bound is a little lower. Where all states are multiples of a unit, it is
    rounded up to the next multiple.

    Parameters
    ----------
    most_classes : int, default 1,000,000
        Classes of keys in the program.

    Notes
    -----
    The bound is weak duality on HiGHS's row multipliers, whatever these are worth (`safe_bounds.dual_bound`). Its word
    that there is no solution is held against the Lagrangian dual's.
    """
    made = within(budget, lambda: _stated(problem, most_classes))
    if made is None:
        return Answer(None, 0.0, budget.why)
    keys, program = made
    bound, ended = highs.relaxation_bound(program, budget, seed)
    if ended == "infeasible":
        return lp_bound(problem, budget=budget, seed=seed)
    least = 0.0 if bound is None else keys.value(max(0.0, bound) * (1 - DOUBT))
    details = {"classes": keys.size, "exact": keys.exact}
    return Answer(None, on_grid(problem, least), "completed" if ended == "optimal" else ended, details=details)


def _stated(problem: MixedRouting, most_classes: int) -> tuple[PooledKeys, LinearProgram]:
    keys = PooledKeys(problem, most_classes)
    return keys, linear_program(keys)


def linear_program(keys: PooledKeys) -> LinearProgram:
    """(1')-(6) as matrices. Columns: e of all classes, a of those with a home to go to, w of the kept nodes."""
    home, nodes, size = keys.goes_home, keys.nodes, keys.size
    columns = size + home.size + nodes.size
    e, a, w = np.arange(size), size + np.arange(home.size), size + home.size + np.arange(nodes.size)
    both = np.concatenate([e, a])
    of_class = np.concatenate([e, home])
    rows = LinearRows(columns)
    left = np.flatnonzero(~keys.stays | np.isin(e, home))
    place = np.full(size, -1)
    place[left] = np.arange(left.size)
    held = place[of_class] >= 0
    count = keys.count[left]
    rows.add(place[of_class[held]], both[held], np.ones(held.sum()), np.where(keys.stays[left], -np.inf, count), count)
    at_node = np.full(keys.problem.workload.nodes, -1)
    at_node[nodes] = np.arange(nodes.size)
    leaving = at_node[keys.current[of_class]]
    stays = leaving >= 0
    rows.add(
        np.concatenate([leaving[stays], at_node[keys.home[home]], np.arange(nodes.size)]),
        np.concatenate([both[stays], a, w]),
        np.concatenate([-keys.load[of_class[stays]], keys.load[home], np.ones(nodes.size)]),
        np.where(keys.lower[nodes] > 0, keys.lower[nodes] - keys.staying_load[nodes], -np.inf),
        keys.upper[nodes] - keys.staying_load[nodes],
    )
    if keys.bounded_table:
        entries = np.concatenate([np.ones(size), np.zeros(home.size)]) - keys.strays[of_class]
        room = keys.problem.table_limit - keys.staying_entries
        rows.add(np.zeros(both.size, dtype=np.int64), both, entries, np.array([-np.inf]), np.array([room]))
    pool, none = np.concatenate([e, w]), np.zeros(1)
    rows.add(np.zeros(pool.size, dtype=np.int64), pool, np.concatenate([keys.load, -np.ones(nodes.size)]), none, none)
    return LinearProgram(
        cost=np.concatenate([keys.state[of_class], np.zeros(nodes.size)]),
        offset=0.0,
        matrix=rows.matrix(),
        row_lower=np.concatenate(rows.lower),
        row_upper=np.concatenate(rows.upper),
        column_lower=np.zeros(columns),
        column_upper=np.concatenate([keys.count[of_class], keys.upper[nodes]]),
        integer=np.zeros(columns, dtype=bool),
    )
