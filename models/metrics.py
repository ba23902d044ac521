"""Figures of an assignment, computed from the assignment alone. Shapes: p key groups, n nodes, m windows."""

from __future__ import annotations

import numpy as np

from keyshift.models.base.lazily import sp
from keyshift.models.errors import InputError
from keyshift.models.workload import FloatArray, IntArray, Workload


def node_loads(workload: Workload, assignment: IntArray) -> FloatArray:
    """Load of every node in every window, shape (m, n)."""
    return np.array(
        [np.bincount(assignment, weights=row, minlength=workload.nodes) for row in workload.load], dtype=float
    )


def last_node_loads(workload: Workload, assignment: IntArray) -> FloatArray:
    """Load of every node in the last window, shape (n,)."""
    return np.bincount(assignment, weights=workload.last_load, minlength=workload.nodes).astype(np.float64, copy=False)


def deviations(workload: Workload, assignment: IntArray, mean: float | None = None) -> FloatArray:
    """Load per unit of capacity, less the mean, for every node in the last window, shape (n,)."""
    relative = last_node_loads(workload, assignment) / workload.capacity
    return relative - (workload.mean_load if mean is None else mean)


def load_distance(workload: Workload, assignment: IntArray, mean: float | None = None) -> float:
    """Largest deviation from the mean: either way on kept nodes, upwards only on draining ones ([Madsen2016], sec. 4.3.1)."""
    deviation = deviations(workload, assignment, mean)
    over_draining = deviation[workload.draining].max(initial=0.0)
    return float(max(np.abs(deviation[workload.kept]).max(), over_draining))


def draining_load(workload: Workload, assignment: IntArray) -> float:
    """Load on the draining nodes in the last window ([Madsen2016], sec. 4.3.1: they are to be emptied)."""
    return float(last_node_loads(workload, assignment)[workload.draining].sum())


def draining_key_groups(workload: Workload, assignment: IntArray) -> int:
    """Number of key groups on the draining nodes, those without load included."""
    return int(workload.draining[assignment].sum())


def imbalance(workload: Workload, assignment: IntArray) -> float:
    """Population variance of the node loads, summed over the windows ([Guo2018], eq. 1)."""
    return float(node_loads(workload, assignment).var(axis=1).sum())


def moved(workload: Workload, assignment: IntArray) -> np.ndarray:
    """Which key groups change node, shape (p,) bool."""
    return np.asarray(assignment != workload.current)


def migrations(workload: Workload, assignment: IntArray) -> int:
    """Number of key groups that change node."""
    return int(moved(workload, assignment).sum())


def state_moved(workload: Workload, assignment: IntArray) -> float:
    """State size of the key groups that change node ([Guo2018], eq. 2)."""
    return float(workload.state[moved(workload, assignment)].sum())


def table_size(workload: Workload, assignment: IntArray) -> int:
    """Number of key groups whose node is not the one their hash gives ([Fang2016], problem 3). Needs `home`."""
    return int((assignment != workload.home).sum())


def remote_traffic(workload: Workload, assignment: IntArray) -> float:
    """Traffic between key groups on different nodes. Needs `traffic`."""
    traffic = _traffic(workload)
    sender = np.repeat(assignment, np.diff(traffic.indptr))
    return float(traffic.data[sender != assignment[traffic.indices]].sum())


def collocation_factor(workload: Workload, assignment: IntArray) -> float:
    """Share of the traffic that stays on its node, 0..1; 1 where there is no traffic. Needs `traffic`."""
    total = float(_traffic(workload).sum())
    return 1.0 if total == 0 else 1.0 - remote_traffic(workload, assignment) / total


def _traffic(workload: Workload) -> sp.csr_array:
    if workload.traffic is None:
        raise InputError("the workload has no traffic, which this figure needs")
    return workload.traffic


def summary(workload: Workload, assignment: IntArray) -> dict[str, float]:
    """Every metric that applies to the workload, by its public name."""
    figures = {
        "load_distance": load_distance(workload, assignment),
        "imbalance": imbalance(workload, assignment),
        "state_moved": state_moved(workload, assignment),
        "migrations": float(migrations(workload, assignment)),
    }
    if workload.home is not None:
        figures["table_size"] = float(table_size(workload, assignment))
    if workload.traffic is not None:
        figures["remote_traffic"] = remote_traffic(workload, assignment)
        figures["collocation_factor"] = collocation_factor(workload, assignment)
    return figures
