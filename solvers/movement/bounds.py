"""What the limits force, node by node: a bound on the state moved that takes no solver."""

from __future__ import annotations

import math

import numpy as np

from keyshift.models.movement.problem import SLACK, MovementWithinLimits
from keyshift.models.workload import FloatArray, IntArray

DOUBT = 1e-12
"""Relative rounding taken off a sum of floats."""


def forced_movement(problem: MovementWithinLimits) -> float:
    """The most that a window shows: state that must leave nodes, or that must come to them. O(p log p) for each window.

    What a node has above u must leave it, at the least state for each load, a part of a key group counted as a part; all
    must leave a draining node, and as many others as are not used. What nodes lack of v must come, from anywhere.
    """
    w = problem.workload
    held = np.bincount(w.current, w.state, problem.node_limit)
    unused = int(problem.open_nodes.sum()) - problem.nodes_after
    best = 0.0
    for row in problem.load:
        loads = np.bincount(w.current, row, problem.node_limit)
        slack = 2 * SLACK * problem.upper + 4 * (row.size + 4) * 2.0**-53 * (loads + problem.upper)
        above, lacking = loads - problem.upper - slack, problem.lower - slack - loads
        leaves = np.where(problem.open_nodes, 0.0, held)
        for i in np.flatnonzero(problem.open_nodes & (above > 0)):
            on_it = np.flatnonzero(w.current == i)
            leaves[i] = least_state(row[on_it], w.state[on_it], float(above[i]))
        emptied = np.sort(np.maximum(held - leaves, 0.0)[problem.open_nodes])[: max(unused, 0)]
        lacking = np.sort(np.maximum(lacking[problem.open_nodes], 0.0))[: problem.nodes_after]
        need = math.fsum(lacking) * (1 - DOUBT) - 4 * row.size * 2.0**-53 * float(row.sum())
        comes = least_state(row, w.state, need) if problem.lower > 0 else 0.0
        best = max(best, math.fsum([*leaves, *emptied]), comes)
    return best * (1 - DOUBT * (w.key_groups + 4))


def least_state(load: FloatArray, state: FloatArray, need: float) -> float:
    """The least state that has so much load, the last key group taken in part."""
    if need <= 0:
        return 0.0
    some: IntArray = np.flatnonzero(load > 0)
    with np.errstate(over="ignore"):
        order = some[np.argsort(state[some] / load[some], kind="stable")]
    reached = np.cumsum(load[order])
    last = int(np.searchsorted(reached, need))
    whole = math.fsum(state[order[:last]])
    if last == order.size:
        return whole
    part = (need - (reached[last - 1] if last else 0.0)) / load[order[last]]
    return whole + max(0.0, part) * float(state[order[last]])
