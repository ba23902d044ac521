"""The linear relaxation of mixed routing by HiGHS, with a million keys too: `PooledKeys`, as matrices."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.guards import Whole
from keyshift.models.routing.compact import CompactKeys, compact
from keyshift.models.routing.problem import MixedRouting
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers import highs
from keyshift.solvers.checked import within
from keyshift.solvers.routing.rounding import on_grid
from keyshift.solvers.routing.statement import lp_bound
from keyshift.solvers.safe_bounds import LinearProgram, LinearRows

MOST_CLASSES = 1_000_000
"""A million different keys on 40 nodes take HiGHS half a minute."""


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
    # Relative, for the rounding of the states to units: a program's least cost moves by no more than its costs do.
    least = 0.0 if bound is None else max(0.0, bound) * (1 - 1e-12) * keys.problem.scale
    details = {"classes": keys.size, "exact": keys.exact}
    return Answer(None, on_grid(problem, least), "completed" if ended == "optimal" else ended, details=details)


def _stated(problem: MixedRouting, most_classes: int) -> tuple[PooledKeys, LinearProgram]:
    keys = PooledKeys(problem, most_classes)
    return keys, linear_program(keys)


def linear_program(keys: PooledKeys) -> LinearProgram:
    """(1')-(6) as matrices. Columns: e of all classes, a of those with a home to go to, w of the kept nodes."""
    problem, w = keys.problem, keys.problem.workload
    may_stay, nodes, size = w.kept[keys.current], np.flatnonzero(w.kept), keys.size
    home = np.flatnonzero((keys.current != keys.home) & w.kept[keys.home])
    columns = size + home.size + nodes.size
    e, a, taken = np.arange(size), size + np.arange(home.size), size + home.size + np.arange(nodes.size)
    both = np.concatenate([e, a])
    of_class = np.concatenate([e, home])
    # Twice the slack of the check, whose own sums are rounded.
    upper = (problem.upper + 2 * problem.slack)[nodes] / keys.mean
    lower = np.maximum(problem.lower - 2 * problem.slack, 0.0)[nodes] / keys.mean
    rows = LinearRows(columns)
    left = np.flatnonzero(~may_stay | np.isin(e, home))
    place = np.full(size, -1)
    place[left] = np.arange(left.size)
    held = place[of_class] >= 0
    count = keys.count[left]
    rows.add(place[of_class[held]], both[held], np.ones(held.sum()), np.where(may_stay[left], -np.inf, count), count)
    at_node = np.full(w.nodes, -1)
    at_node[nodes] = np.arange(nodes.size)
    leaving = at_node[keys.current[of_class]]
    stays = leaving >= 0
    staying = np.bincount(keys.current[may_stay], (keys.load * keys.count)[may_stay], w.nodes)[nodes]
    rows.add(
        np.concatenate([leaving[stays], at_node[keys.home[home]], np.arange(nodes.size)]),
        np.concatenate([both[stays], a, taken]),
        np.concatenate([-keys.load[of_class[stays]], keys.load[home], np.ones(nodes.size)]),
        np.where(lower > 0, lower - staying, -np.inf),
        upper - staying,
    )
    if problem.table_limit < w.key_groups:
        strays = (keys.current != keys.home) & may_stay
        entries = np.concatenate([np.ones(size), np.zeros(home.size)]) - strays[of_class]
        room = problem.table_limit - float(keys.count[strays].sum())
        rows.add(np.zeros(both.size, dtype=np.int64), both, entries, np.array([-np.inf]), np.array([room]))
    pool, none = np.concatenate([e, taken]), np.zeros(1)
    rows.add(np.zeros(pool.size, dtype=np.int64), pool, np.concatenate([keys.load, -np.ones(nodes.size)]), none, none)
    return LinearProgram(
        cost=np.concatenate([keys.state[of_class], np.zeros(nodes.size)]),
        offset=0.0,
        matrix=rows.matrix(),
        row_lower=np.concatenate(rows.lower),
        row_upper=np.concatenate(rows.upper),
        column_lower=np.zeros(columns),
        column_upper=np.concatenate([keys.count[of_class], upper]),
        integer=np.zeros(columns, dtype=bool),
    )


# The linear relaxation of `MixedRouting` in one size for any number of nodes: keys that stay, go home, or go elsewhere.

FINEST, COARSEST = 2.0**-10, 2.0**6
"""Width, in powers of two, of the first and the last grouping that is tried."""


class PooledKeys:
    r"""The data of the relaxation, loads in units of the mean node load and states in units of all the state.

    A class of keys that leaves both its node and its home has no reason to prefer one other node: its share elsewhere
    goes into a pool, from which load, divisible now, flows to the nodes. Variables, with :math:`F_t, h_t, c_t, S_t,
    m_t` as in `MixedRouting`: :math:`a_t`, the keys of class t that go home from elsewhere; :math:`e_t`, those that go
    to the pool; the rest stays; :math:`w_d`, the load that node d takes from the pool.

    .. math::

        \min \; \sum_t S_t (a_t + e_t) \quad \text{subject to}

        (1') \quad & a_t + e_t \le m_t, \text{ with equality where } F_t \text{ drains}       && \text{for every } t \\
        (2'), (3') \quad & B_d \le \sum_{F_t = d} c_t (m_t - a_t - e_t) + \sum_{h_t = d} c_t a_t + w_d \le U_d
                                                                                              && \text{for every kept } d \\
        (4') \quad & \sum_{F_t \ne h_t} (m_t - a_t - e_t) + \sum_t e_t \le A_{max} \\
        (5') \quad & a_t = 0 \text{ where } h_t = F_t \text{ or } h_t \text{ drains}, \;\; w_d = 0 \text{ where d drains} \\
        (6) \quad & \sum_t c_t e_t = \sum_d w_d

    Exactly the value of (1)-(5) with real x: put what leaves both nodes into the pool, and a solution of the one is one
    of the other; and the pool's load can be dealt out to the nodes as w says, at the cost and the entries that were
    charged, or at less where a key comes to its own node or home. 2 columns a class and 1 a node in place of n a class.

    Where there are more classes than `most`, keys of about the same load and state are one class more: it has their
    load, the least state that any of them has for its load, and as many entries as its load needs of its heaviest. Any
    solution, read with these, moves no more state and needs no more entries: a relaxation still, no longer exact.

    Parameters
    ----------
    problem : MixedRouting
    most : int
        Classes of keys.

    Attributes
    ----------
    exact : bool
        Whether nothing was grouped that is not alike.
    """

    def __init__(self, problem: MixedRouting, most: int) -> None:
        self.problem = problem = problem.averaged()
        self.mean = problem.workload.mean_load or 1.0
        keys = compact(problem.workload)
        self.exact = keys.size <= most
        self.current, self.home = keys.current, keys.home
        self.load, self.state = keys.load / self.mean, keys.state / problem.scale
        self.count: FloatArray = keys.count.astype(np.float64)
        if not self.exact:
            self._group(keys, most)

    def _group(self, keys: CompactKeys, most: int) -> None:
        """Merge records of about the same load and state until there are few enough."""
        width = FINEST
        while True:
            code = np.stack([keys.current, keys.home, _rung(self.load, width), _rung(self.state, width)])
            _, group = np.unique(code, axis=1, return_inverse=True)
            group = group.reshape(-1)
            size = int(group.max()) + 1
            if size <= most or width >= COARSEST:
                break
            width *= 2
        weight = np.bincount(group, self.load * self.count, size)
        heaviest, cheapest = np.zeros(size), np.full(size, np.inf)
        np.maximum.at(heaviest, group, self.load)
        loaded = heaviest > 0  # all of a group, or none: 0 has a rung of its own
        with np.errstate(divide="ignore", invalid="ignore"):
            np.minimum.at(cheapest, group, np.where(self.load > 0, self.state / self.load, self.state))
        # Slightly less, because these sums and quotients are rounded.
        rounded = 1 - 2.0**-40
        first = np.unique(group, return_index=True)[1]
        self.count = np.where(loaded, weight / np.where(loaded, heaviest, 1.0), np.bincount(group, self.count, size))
        self.state = np.where(loaded, cheapest * heaviest, cheapest) * rounded
        self.load, self.current, self.home = heaviest, self.current[first], self.home[first]

    @property
    def size(self) -> int:
        """Number of classes."""
        return int(self.count.size)


def _rung(values: FloatArray, width: float) -> IntArray:
    """Numbers of about the same size, to a factor of 2**width, have the same rung; 0 has its own."""
    with np.errstate(divide="ignore"):
        rungs = np.floor(np.log2(np.where(values > 0, values, 1.0)) / width)
        return np.where(values > 0, rungs, -(2**40)).astype(np.int64)
