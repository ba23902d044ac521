"""Bounds on the collocated traffic from the shape of the traffic alone: what cannot fit on one node must be cut."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, maximum_flow

from keyshift.models import Answer, Budget
from keyshift.models.answer import STEP
from keyshift.models.base.compiling import njit, off_clock
from keyshift.models.base.guards import Whole
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.checked import within
from keyshift.solvers.collocation.arrays import BOUNDED, Arrays
from keyshift.solvers.collocation.levels import by_level
from keyshift.solvers.collocation.metis import parted
from keyshift.solvers.semidefinite import Rows, SemidefiniteAscent
from keyshift.solvers.threads import one_blas_thread

if TYPE_CHECKING:
    from keyshift.solvers.collocation.lagrangian import LagrangianBound

LARGEST_CUT, LARGEST_SPECTRUM, LARGEST_SEMIDEFINITE = 150, 1500, 600
"""Components with more key groups get no minimum cut; workloads with more key groups no spectrum, no semidefinite bound."""
STEPS, LEAST_RISE, MOST_LOOKS = 50, 5e-4, 40
"""Steps of the semidefinite bound between two looks at it; it ends where they raise it above 0 by no more than this share."""


def most_by_structure(data: Arrays, budget: Budget) -> float:
    """An upper bound on the share of traffic that any feasible assignment collocates: 1 less the better bound.

    The cuts are about one window; over more of them they know the loads of the first, and the traffic of all.
    """
    least = within(budget, lambda: component_cuts(data)) or 0.0
    if not budget.expired and data.max_moves >= data.key_groups // 4:  # with few moves other bounds are far better
        if data.key_groups <= LARGEST_SPECTRUM:
            cut = within(budget, lambda: spectral_cut(data, budget))
        else:  # it looks at the clock itself, and searches use the time better
            cut = spectral_cut(data, budget.part(0.25, 3.0))
        least = max(least, cut or 0.0)
    return min(1.0 - least, most_by_moves(data))


def most_by_moves(data: Arrays) -> float:
    r"""An upper bound on the share of traffic that is collocated after so many moves, in one pass over the pairs.

    Of the pairs that are remote now, one that a move of k collocates has its other end on the node i to which k goes, or that
    end moves as well; then each end has half of it. So k gains no more than

    .. math:: g_k = \tfrac12 \sum_l t_{kl} [a_l \ne a_k] + \tfrac12 \max_{i \ne a_k} \sum_l t_{kl} [a_l = i],

    and all of them no more than the :math:`maxMigrations` largest :math:`g_k` together.
    """
    here = float(data.row_share @ data.together(data.current))
    if data.max_moves >= data.key_groups or data.first.size == 0:
        return 1.0
    gain, there = np.zeros(data.key_groups), np.zeros(data.nodes)
    gains_of_moves(data.indptr, data.neighbour, data.mean_weight, data.current, there, gain)
    order = np.sort(gain)[::-1][: data.max_moves]
    return min(1.0, (here + float(order.sum())) * (1 + 1e-9) + 1e-15)


@njit(cache=True, error_model="numpy", nogil=True)
def gains_of_moves(indptr, neighbour, weight, place, there, gain):
    """The most that each key group's move collocates; `there`, of zeros, is scratch for each node."""
    for k in range(gain.size):
        here, away, most = place[k], 0.0, 0.0
        for e in range(indptr[k], indptr[k + 1]):
            i = place[neighbour[e]]
            if i != here:
                away += weight[e]
                there[i] += weight[e]
                most = max(most, there[i])
        for e in range(indptr[k], indptr[k + 1]):
            there[place[neighbour[e]]] = 0.0
        gain[k] = (away + most) / 2


def component_cuts(data: Arrays) -> float:
    r"""Share of traffic that is remote at least because connected components are too heavy for one node.

    A component of processing load W that no node may carry whole falls into :math:`r \ge W / max_i\,limit_i` parts.
    Each part's boundary carries at least the component's minimum cut, and every remote pair lies on two
    boundaries: at least r / 2 times the minimum cut is remote.
    """
    p = data.key_groups
    graph = sp.csr_array((data.mean_weight, data.neighbour, data.indptr), shape=(p, p))
    count, label = connected_components(graph, directed=False)
    limit, weight, size = float(data.upper[0].max()), np.bincount(label, data.load[0], count), np.bincount(label)
    least = 0.0
    for c in np.flatnonzero((weight > limit * (1 + 1e-9)) & (size >= 2) & (size <= LARGEST_CUT)):
        members = np.flatnonzero(label == c)
        parts = int(np.ceil(weight[c] / limit * (1 - 1e-9)))
        least += max(parts, 2) / 2 * _minimum_cut(graph[members][:, members])
    return least * (1 - 1e-9)


def _minimum_cut(graph: sp.csr_array) -> float:
    """The least weight that parts a connected graph, rounded down by less than 1e-4 of it: the least flow from its first vertex.

    A cut through an edge of more than the least degree is no smaller than that degree, which is a cut itself.
    """
    degree, size = float(graph.sum(axis=0).min()), graph.shape[0]
    unit = size * degree / 2**30  # flows are 32-bit integers
    if not unit:
        return 0.0
    whole = sp.csr_array(((np.minimum(graph.data, degree) / unit).astype(np.int32), graph.indices, graph.indptr))
    return min(maximum_flow(whole, 0, sink).flow_value for sink in range(1, size)) * unit


def spectral_cut(data: Arrays, budget: Budget) -> float:
    r"""Share of traffic that is remote at least because no node may carry everything.

    Where key groups are many it is that within the parts of a partition, together: of as many parts as there is time for.
    With the Laplacian L of the traffic and the loads D, the indicators of the nodes' key groups are D-orthogonal, and
    their squares are the loads :math:`l_i`:

    .. math:: remote = \tfrac12 \sum_i 1_i^T L 1_i \ge \tfrac12 \sum_i l_{(i)} \, \lambda_i(L, D),

    the largest load against the smallest eigenvalue. The j largest loads are together at most the j largest upper
    limits, and at most the total less the smallest lower limits of the others; that leaves the least to the larger
    eigenvalues. Each resource with a capacity gives such a bound, too; the load does where collocation does not change it.

    Notes
    -----
    Source: [Donath1973], with weights. Key groups without
    load get a little of it, which can only lower the eigenvalues. The eigenvalues are taken
    smaller than computed by far more than LAPACK's error, and the limits wider than the check's.
    """
    p, limited = data.key_groups, _limited(data)
    if data.traffic.size == 0 or not limited:
        return 0.0
    graph = sp.csr_array((data.mean_weight, data.neighbour, data.indptr), shape=(p, p))
    best, whole = 0.0, np.zeros(p, dtype=np.int64)
    for nodes in (2, 5) if p > LARGEST_SPECTRUM else (0,):  # more of them say more, and take longer
        parts = min(p, max(-(-p // LARGEST_SPECTRUM), data.nodes // nodes)) if nodes else 1
        part = whole if parts == 1 else parted(graph, data.load[0], np.full(parts, 1 / parts), budget)
        if part is None:
            break
        cut = np.zeros(len(limited))
        for inside in np.split(np.argsort(part, kind="stable"), np.cumsum(np.bincount(part, minlength=parts))[:-1]):
            if budget.expired:
                break
            if 1 < inside.size <= LARGEST_SPECTRUM:
                traffic = graph[inside][:, inside].toarray()
                laplacian = np.diag(traffic.sum(axis=1)) - traffic
                cut += [_spectral(laplacian, size[inside], held) for size, _, held in limited]
                budget.spend(inside.size**3 / 700.0 if nodes else 0.0)  # in steps of a search
        best = max(best, float(cut.max()))
    return best


def _limited(data: Arrays) -> list[tuple[FloatArray, float, FloatArray]]:
    """Sizes whose sum on a node is limited: each key group's, the least of a node, and the most of 1, 2, ... nodes together."""
    rows = [] if data.serialisation[0] > 0 else [(data.load[0], data.lower[0], data.upper[0])]
    rows += [(use, np.zeros(data.nodes), most) for use, most in zip(data.use, data.room, strict=True)]
    made = []
    for size, least, most in rows:
        total, low = float(size.sum()), np.sort(np.maximum(least, 0.0)) * (1 - 1e-9)
        ceilings = np.cumsum(np.sort(np.maximum(most, 0.0))[::-1]) * (1 + 1e-9)
        floors = total - np.cumsum(low)[::-1]
        held = np.minimum(ceilings, np.append(floors[1:], total))
        if total > 0 and held[0] < total:
            made.append((size, float(low[0]), np.append(np.minimum(held[:-1], total), total)))
    return made


def _spectral(laplacian: FloatArray, size: FloatArray, held: FloatArray) -> float:
    """What is cut at least when so many nodes hold together at most `held` of what sizes count."""
    p, total = size.size, float(size.sum())
    if not 0 < held[0] < total:
        return 0.0
    little = 1e-6 * total / p
    held = np.minimum(held, total)
    held = np.append(held[: min(p, held.size) - 1], total) + p * little
    root = 1.0 / np.sqrt(size + little)
    scaled = root[:, None] * laplacian * root
    with one_blas_thread():  # two that wait for each other on a busy machine take ten times as long
        values = scipy.linalg.eigh(scaled, eigvals_only=True, subset_by_index=[0, held.size - 1])
    error_bound = 1e-10 * float(np.abs(scaled).sum(axis=1).max())
    return float(np.diff(held, prepend=0.0) @ np.maximum(values - error_bound, 0.0)) / 2


def semidefinite_cut(data: Arrays, budget: Budget) -> float:
    r"""Share of traffic that is remote at least, by the semidefinite relaxation of partitions; 0 where time is too short for it.

    Let Z[k, l] = 1 iff k and l share a node, and X = Z - J/n. Then :math:`remote = (1 - 1/n) \sum_e t_e - \sum_e t_e X_e`, and

    .. math::

        (1) \quad X_{kk} = 1 - 1/n, \qquad
        (2) \quad X_{kl} \ge -1/n, \qquad
        (3) \quad X \succeq 0.

    For loads that collocation does not change, and for each resource, sizes y with the sum Y: a node holds from L to U, and the
    squares of what nodes hold are together at most Q, as when what j of them hold is as much as it may be for every j:

    .. math::

        (4) \quad L - Y/n \le \sum_l y_l X_{kl} \le U - Y/n, \qquad
        (5) \quad \sum_{k, l} y_k y_l X_{kl} \le Q - Y^2/n.

    Notes
    -----
    Sources: [Frieze1997] for (1)-(3), [Karisch1998] for sizes; the ascent and what makes it safe are those of MCLB's bound.
    """
    p, n, limited, best = data.key_groups, data.nodes, _limited(data), -np.inf
    if not limited or n == 1 or data.traffic.size == 0 or p > LARGEST_SEMIDEFINITE:
        return 0.0
    cost, mean = np.zeros((p, p)), float(data.traffic[0].sum()) / p
    np.add.at(cost, (data.first, data.second), -data.traffic[0] / (2 * mean))
    ascent = SemidefiniteAscent.of(cost + cost.T, p * (1 - 1 / n), _rows_of(limited, p, n))
    if 2 * STEPS * STEP * ascent.work > budget.remaining:
        return 0.0
    with one_blas_thread():
        for _ in range(MOST_LOOKS):
            if budget.expired:
                break
            ascent.iterate(STEPS, budget)
            least = ascent.least(p + n + 16, p + n + 16)
            last, best = best, max(best, ((1 - 1 / n) * p + least) * mean * (1 - 1e-12))
            if 0 < best <= (1 + LEAST_RISE) * last:
                break
    return max(0.0, float(best))


def _rows_of(limited: list[tuple[FloatArray, float, FloatArray]], p: int, n: int) -> Rows:
    """(1), (2), (4) and (5), the latter two in units of the mean size."""
    k, l = np.triu_indices(p)
    rows, columns, coefficients = [k], [l], [np.ones(k.size)]
    right, lengths = [np.where(k == l, 1 - 1 / n, -1.0 / n)], [np.ones(k.size, dtype=np.int64)]
    every, others = np.repeat(np.arange(p), p), np.tile(np.arange(p), p)
    for size, least, held in limited:
        unit = float(size.mean())
        y, share = size / unit, p / n
        for sign, limit in ((-1.0, share - held[0] / unit), (1.0, least / unit - share))[: 2 if least > 0 else 1]:
            rows, columns, coefficients = [*rows, every], [*columns, others], [*coefficients, np.tile(sign * y, p)]
            right, lengths = [*right, np.full(p, limit)], [*lengths, np.full(p, p)]
        most = float(np.square(np.diff(held / unit, prepend=0.0)).sum()) * (1 + 1e-9)
        rows, columns = [*rows, k], [*columns, l]
        coefficients = [*coefficients, -np.where(k == l, 1.0, 2.0) * y[k] * y[l] / p]
        right, lengths = [*right, np.array([share - most / p])], [*lengths, np.array([k.size])]
    first = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    free = np.append(k == l, np.zeros(first.size - 1 - k.size, dtype=bool))
    row, column, coefficient, limit = (np.concatenate(one) for one in (rows, columns, coefficients, right))
    return Rows.of(first, row, column, coefficient, limit, free)


@by_level
def sdp_bound(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The bound of `semidefinite_cut`, no assignment; it ignores migration limits."""
    problem = problem.averaged()
    bound = mean_bound(problem, 1.0 - semidefinite_cut(Arrays(problem), budget))
    return Answer(None, bound, budget.why if budget.expired else "completed")


@by_level
def cut_bound(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The better of `component_cuts` and `spectral_cut`: a bound, no assignment.

    It ignores migration limits: where these are loose, the linear relaxation's bound is 0 and this one is not.
    """
    problem = problem.averaged()
    data = Arrays(problem)
    cuts = (within(budget, partial(cut, data)) or 0.0 for cut in (component_cuts, partial(spectral_cut, budget=budget)))
    least = max(cuts)
    bound = problem.value((1.0 - least) * problem.total_traffic) - 1e-9 * problem.scale
    return Answer(None, max(0.0, float(bound)))


@by_level
def lagrangian_bound(
    problem: CollocatedAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    steps: Whole = 1500,
) -> Answer:
    """The bound by Lagrangian relaxation over trees, migration limits included; see `LagrangianBound`."""
    with off_clock():
        from keyshift.solvers.collocation import lagrangian

    if (data := Arrays(problem)).cells > BOUNDED:
        return Answer(
            start, mean_bound(problem, most_by_moves(data)), "completed", "too large: the bound by moves instead"
        )
    bound, best = lagrangian.LagrangianBound(data), 0.0
    # Weights of the windows that a bound over more than one tries, one after another.
    turns = 8 if bound.row_share.size > 1 and problem.combines else 1
    for turn in range(turns):
        share = None if start is None else share_of(problem, bound, start)
        most = lagrangian.tighten(bound, budget, share, max(1, steps // turns))
        best = max(best, objective_bound(problem, bound, most) - 1e-9 * problem.scale)
        reweigh(problem, bound, turn)
    return Answer(start, best, "completed")


# What shares of collocated traffic say of the objective, over one window or several, and the reverse -----------------


def mean_bound(problem: CollocatedAllocation, most_collocated: float) -> float:
    """The least objective when at most so large a share of the mean traffic is collocated."""
    share = min(most_collocated + 1e-12, 1.0)
    return float(max(0.0, problem.value(share * problem.total_traffic) - 1e-12 * problem.scale))


def objective_bound(problem: CollocatedAllocation, bound: LagrangianBound, most: float) -> float:
    """The least objective when at most so large a share of the traffic, weighted by `bound.row_share`, is collocated."""
    if not problem.combines:
        return mean_bound(problem, most)
    saved = problem.saved * bound.data.traffic_unit * (most + 1e-12)
    weighted = (
        bound.row_share @ problem.apart - saved
        if bound.row_share.size > 1
        else problem.planned.combined(problem.apart - saved)
    )
    return float(max(0.0, weighted - 1e-12 * float(problem.apart.max())))


def share_of(problem: CollocatedAllocation, bound: LagrangianBound, assignment: IntArray) -> float:
    """The share of the traffic, weighted by `bound.row_share`, that is collocated by all that is better than an assignment."""
    if not problem.combines or bound.row_share.size == 1:
        return float(bound.row_share @ bound.data.together(assignment))
    unit = problem.saved * bound.data.traffic_unit
    return float((bound.row_share @ problem.apart - problem.objective(assignment)) / unit) if unit > 0 else -np.inf


def reweigh(problem: CollocatedAllocation, bound: LagrangianBound, turn: int) -> None:
    """Weigh the windows that are worst where the bound is attained a little more."""
    if problem.combines and bound.row_share.size > 1:
        values = problem.apart - problem.saved * bound.data.traffic_unit * bound.data.together(bound.labels)
        bound.row_share = bound.row_share + (problem.planned.weights(values) - bound.row_share) / (turn + 2)
