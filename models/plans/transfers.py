"""When each key group moves: the transfer scheduling problem and its check."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from keyshift.models.base.figures import apart
from keyshift.models.base.guards import frozen
from keyshift.models.errors import InputError
from keyshift.models.problem import SLACK, Violation
from keyshift.models.workload import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class TransferScheduling:
    r"""Transfer key groups between nodes so that the last transfer ends as early as possible.

    Sets and data: transfers j from node :math:`u_j` to node :math:`v_j \ne u_j`, of duration :math:`p_j > 0`; nodes i, each
    of which takes part in at most m transfers at once, sending or receiving; resources r (the load is one), of which
    transfer j carries :math:`w_{rj}` and node i holds :math:`h_{ri}` before the first, and the limits :math:`R_{ri}`.

    Variables: the start :math:`S_j` of every transfer, which then runs without a break.

    .. math::

        \min \; \max_j \, (S_j + p_j) \quad \text{subject to}

        (1) \quad & S_j \ge 0 && \text{for every } j \\
        (2) \quad & |\{j : i \in \{u_j, v_j\},\; S_j \le t < S_j + p_j\}| \le m && \text{for every } i, t \\
        (3) \quad & h_{ri} + \sum_{j : v_j = i,\, S_j \le t} w_{rj} - \sum_{j : u_j = i,\, S_j + p_j \le t} w_{rj} \le R_{ri}
                  && \text{for every } r, i, t

    A key group counts at both ends while it moves: that is (3). It is stated for a limit; where no order of transfers
    meets it, the plan raises all limits by the least common share that some order meets (`least_overload`).

    Parameters
    ----------
    source, target : ndarray of int, shape (e,)
    seconds : ndarray, shape (e,)
        Durations p_j, all above 0.
    nodes : int
    parallel : int
        m of (2).
    held, limit : ndarray, shape (resources, nodes)
        h and R of (3); a limit may be infinite.
    usage : ndarray, shape (resources, e)
        w of (3).

    Notes
    -----
    (1) and (2) are *file transfer scheduling* (Coffman, Garey, Johnson, LaPaugh, *Scheduling file transfers*, SIAM Journal
    on Computing 14, 1985): edge colouring of a multigraph whose edges have lengths. Where each node only sends or only
    receives it is the open shop. NP-hard with three nodes already. The busiest node gives the lower bound
    :math:`\max_i \sum_{j \ni i} p_j / m`, the longest transfer another. Without (3), a list schedule, which never lets a
    transfer wait while both its ends have room, is within a factor of 2 of them for m = 1 and of 3 for any m: until its
    last transfer j begins, u or v is busy m times over, so it ends by
    :math:`(\sum_{l \ni u} p_l + \sum_{l \ni v} p_l) / m + (1 - 2 / m) p_j`. (3) is the reservoir constraint of project
    scheduling.
    """

    source: IntArray
    target: IntArray
    seconds: FloatArray
    nodes: int
    parallel: int
    held: FloatArray
    usage: FloatArray
    limit: FloatArray

    def __post_init__(self) -> None:
        if self.seconds.size and not (self.seconds > 0).all():
            j = int(np.argmin(self.seconds))
            raise InputError(f"seconds[{j}] = {self.seconds[j]:g}: a transfer must take more than 0 seconds")
        if (self.source == self.target).any():
            j = int(np.argmax(self.source == self.target))
            raise InputError(f"transfer {j} goes from node {self.source[j]} to itself")

    @property
    def transfers(self) -> int:
        """Number of transfers, e."""
        return int(self.source.size)

    @property
    def limited(self) -> bool:
        """Whether (3) can bind at all."""
        return bool(np.isfinite(self.limit).any())

    def makespan(self, starts: FloatArray) -> float:
        """The end of the last transfer, in seconds; 0 when there is none."""
        return float((starts + self.seconds).max(initial=0.0))

    def violations(self, starts: FloatArray) -> list[Violation]:
        """Everything that a schedule breaks, by the numbers of the formulation; empty when it may be carried out."""
        early = np.flatnonzero(starts < -SLACK * self.seconds)
        return [
            *(Violation("start", f"transfer {j} starts at {starts[j]:g}", int(j), float(-starts[j])) for j in early),
            *self._too_many_at_once(starts),
            *self._over_limit(starts),
        ]

    def _too_many_at_once(self, starts: FloatArray) -> list[Violation]:  # (2)
        slack = SLACK * max(1e-300, self.makespan(starts))
        broken = []
        for i in range(self.nodes):
            mine = (self.source == i) | (self.target == i)
            moments = starts[mine]
            ends = moments + self.seconds[mine]
            running = (moments[:, None] <= moments + slack) & (moments < ends[:, None] - slack)
            most = int(running.sum(axis=0).max(initial=0))
            if most > self.parallel:
                said = f"node {i} takes part in {most} transfers at once, the limit is {self.parallel}"
                broken.append(Violation("parallel", said, i, most - self.parallel))
        return broken

    def _over_limit(self, starts: FloatArray) -> list[Violation]:  # (3)
        broken = []
        for r in range(self.limit.shape[0]):
            peak = peaks(self.held[r], self.usage[r], self.source, self.target, starts, starts + self.seconds)
            over = peak - self.limit[r]
            scale = np.where(np.isfinite(self.limit[r]), np.maximum(np.abs(self.limit[r]), peak), 1.0)
            for i in np.flatnonzero(over > SLACK * scale):
                held, most = apart(peak[i], self.limit[r, i])
                said = f"node {i} holds {held} of resource {r} on the way, the limit is {most}"
                broken.append(Violation("limit", said, int(i), float(over[i])))
        return broken

    def part(self, chosen: IntArray, held: FloatArray) -> TransferScheduling:
        """The same problem for some of the transfers, with other holdings before the first."""
        moved = {name: getattr(self, name)[chosen] for name in ("source", "target", "seconds")}
        return replace(self, **moved, held=held, usage=self.usage[:, chosen])

    def after(self) -> FloatArray:
        """The state on every node once all transfers are done, shape (resources, nodes)."""
        return self.held + net_change(self.usage, self.source, self.target, self.nodes)


def durations(state: FloatArray, source: IntArray, target: IntArray, bandwidth: FloatArray | None) -> FloatArray:
    """Seconds that transfers take, or units of state without a bandwidth; no state takes a moment, too, shape (e,)."""
    seconds = state if bandwidth is None else state / np.minimum(bandwidth[source], bandwidth[target])
    some = seconds[seconds > 0]
    moment = 1e-3 * min(1.0, float(some.mean())) if some.size else 1e-3
    return np.where(seconds > 0, seconds, moment)


def net_change(usage: FloatArray, source: IntArray, target: IntArray, nodes: int) -> FloatArray:
    """The nodes' gains by transfers less their losses, shape (resources, nodes)."""
    made = np.zeros((usage.shape[0], nodes))
    for change, row in zip(made, usage, strict=True):
        change[:] = np.bincount(target, row, nodes) - np.bincount(source, row, nodes)
    return made


def peaks(
    held: FloatArray, usage: FloatArray, source: IntArray, target: IntArray, starts: FloatArray, ends: FloatArray
) -> FloatArray:
    """The most that each node holds of one resource at any time, a key group counting at both ends while it moves.

    Parameters
    ----------
    held : ndarray, shape (n,)
        Before the first transfer.
    usage, source, target, starts, ends : ndarray, shape (e,)

    Returns
    -------
    ndarray, shape (n,)
    """
    node = np.concatenate([target, source])
    when = np.concatenate([starts, ends])
    change = np.concatenate([usage, -usage])
    # What ends at a moment has left when the next begins: departures come first among ties, ties being up to rounding.
    when = _merged(when)
    order = np.lexsort((change > 0, when, node))
    node, change = node[order], change[order]
    running = np.cumsum(change)
    first = np.searchsorted(node, np.arange(held.size))
    before = np.concatenate([[0.0], running])[first]
    peak = held.astype(float).copy()
    np.maximum.at(peak, node, held[node] + running - before[node])
    return frozen(peak)


def _merged(when: FloatArray) -> FloatArray:
    """Moments with those that differ by rounding only made equal."""
    order = np.argsort(when, kind="stable")
    ordered = when[order]
    gap = np.diff(ordered, prepend=ordered[:1]) > SLACK * max(1e-300, float(np.abs(when).max(initial=0.0)))
    merged = np.empty_like(when)
    merged[order] = np.cumsum(gap)
    return merged
