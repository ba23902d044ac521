"""What [Madsen2016] compares ALBIC with: COLA and balancers that ignore collocation; and its allocation program."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pymetis
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components

from keyshift.heuristics.allocation.flux import flux as uncollocated_flux
from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.guards import Whole
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.collocation.load_model import traffic_between
from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload
from keyshift.solvers import cpsat
from keyshift.solvers.collocation.metis import silent


def collocated_sets(pairs: Scored, key_groups: int) -> list[IntArray]:
    """Merge pairs that share a key group until none do (calcSets, line 14): connected components, by first member."""
    graph = sp.coo_array((np.ones(len(pairs)), (pairs.sender, pairs.receiver)), shape=(key_groups, key_groups))
    _, label = connected_components(graph, directed=False)
    members = np.zeros(key_groups, dtype=bool)
    members[pairs.sender] = members[pairs.receiver] = True
    return [np.flatnonzero(members & (label == c)) for c in dict.fromkeys(label[members].tolist())]


def graph_parts(vertices: IntArray, traffic: sp.csr_array, weight: FloatArray, parts: int, seed: int) -> list[IntArray]:
    """Cut a set of key groups into even parts with little traffic between them (graphPart, line 18).

    Parameters
    ----------
    vertices : ndarray of int
        The set; the parts hold these numbers.
    traffic : sparse array, shape (p, p)
        Symmetric: tuples both ways.
    weight : ndarray, shape (p,)
        What is to be even.
    parts : int
        How many parts; some may come back empty, and are left out.
    seed : int
        METIS's own random numbers.
    """
    if parts <= 1 or vertices.size <= 1:
        return [vertices]
    if parts >= vertices.size:
        return [vertices[j : j + 1] for j in range(vertices.size)]
    local = sp.csr_array(traffic[vertices][:, vertices])
    local.setdiag(0)
    local.eliminate_zeros()
    adjacency = pymetis.CSRAdjacency(local.indptr.astype(np.int64), local.indices.astype(np.int64))
    with silent():
        _, part = pymetis.part_graph(
            parts,
            adjacency=adjacency,
            vweights=whole_weights(weight[vertices], least=0).tolist(),
            eweights=whole_weights(local.data, least=1).tolist(),
            options=pymetis.Options(seed=seed % 2**31),
        )
    label = np.asarray(part)
    cut = [vertices[label == j] for j in range(parts) if (label == j).any()]
    return cut if len(cut) > 1 else list(np.array_split(vertices, parts))  # METIS may leave all but one part empty


def whole_weights(values: FloatArray, least: int) -> IntArray:
    """Numbers as METIS reads them: whole, none below `least`."""
    largest = float(values.max(initial=0.0))
    if largest == 0.0:
        return np.ones(values.size, dtype=np.int64)
    # METIS takes whole weights only; the largest one becomes this.
    return np.maximum(np.rint(values / largest * 10_000).astype(np.int64), least)


def split_set(
    members: IntArray, traffic: sp.csr_array, limited: Sequence[tuple[FloatArray, float]], seed: int
) -> list[IntArray]:
    """Split a collocated set into partitions that keep every limit, cutting little traffic (lines 16-20).

    The number of parts is the greatest ``ceil(sum / limit)``; the vertex weight is the measure that is tightest
    against its limit. A part that still breaks a limit is split again; a single key group cannot be.

    Parameters
    ----------
    members : ndarray of int
    traffic : sparse array, shape (p, p)
        Symmetric.
    limited : sequence of (measure of shape (p,), limit)
        Migration cost against maxMigrCost, load against maxPL. A limit of 0 leaves single key groups.
    seed : int

    Returns
    -------
    list of ndarray
        Sorted by their first member. Every one keeps the limits, or is a single key group.

    Notes
    -----
    Departure: [Madsen2016] breaks a tie between the two vertex weights at random; here the first one listed wins.
    """
    use = [_share(float(measure[members].sum()), limit) for measure, limit in limited]
    tightest = max(use, default=0.0)
    if members.size <= 1 or tightest <= 1.0 + 1e-9:
        return [members]
    weight = limited[use.index(tightest)][0]
    parts = members.size if math.isinf(tightest) else min(math.ceil(tightest - 1e-9), members.size)
    cut = graph_parts(members, traffic, weight, parts, seed)
    pieces = [piece for part in cut for piece in split_set(part, traffic, limited, seed)]
    return sorted(pieces, key=lambda piece: int(piece[0]))


def _share(total: float, limit: float) -> float:
    """A total against its limit; infinite where the limit is 0 and the total is not."""
    return total / limit if limit > 0 else math.inf if total > 0 else 0.0


# ALBIC, step 1: which pairs of key groups talk enough to be worth a common node ----------------------------------------


@dataclass(frozen=True)
class Scored:
    """Directed pairs (sender, receiver, tuples) above the threshold, in lexicographic order."""

    sender: IntArray
    receiver: IntArray
    traffic: FloatArray

    def select(self, which: BoolArray) -> Scored:
        """Some of the pairs."""
        return Scored(self.sender[which], self.receiver[which], self.traffic[which])

    def __len__(self) -> int:
        return int(self.traffic.size)


def downstream_key_groups(workload: Workload) -> IntArray:
    """For each key group, how many key groups its operator's downstream operators have, shape (p,).

    An operator is downstream of another when any tuple flows from the one to the other. Without operators in the
    workload, every key group that receives anything is downstream of every other.
    """
    traffic = traffic_between(workload)
    if workload.operator is None:
        receivers = np.unique(traffic.col)
        return receivers.size - np.isin(np.arange(workload.key_groups), receivers).astype(np.int64)
    operators = int(workload.operator.max()) + 1
    size = np.bincount(workload.operator, minlength=operators)
    edge = np.zeros((operators, operators), dtype=bool)
    edge[workload.operator[traffic.row], workload.operator[traffic.col]] = True
    np.fill_diagonal(edge, False)  # the operator network has no cycles
    return (edge @ size)[workload.operator].astype(np.int64)


def score(workload: Workload, score_factor: float = 1.5) -> Scored:
    """Pairs with ``out(g, h) > score_factor * out(g) / (downstream key groups of g)`` (Algorithm 2, lines 2-8).

    Parameters
    ----------
    workload : Workload
        With `traffic`; `operator` tells who is downstream of whom.
    score_factor : float, default 1.5
        sF: 1 takes pairs above the sender's average, 2 those above twice the average.
    """
    traffic = traffic_between(workload)
    output = np.bincount(traffic.row, traffic.data, workload.key_groups)
    average = output / np.maximum(downstream_key_groups(workload), 1)
    worth = traffic.data > average[traffic.row] * score_factor
    order = np.lexsort((traffic.col[worth], traffic.row[worth]))
    return Scored(
        traffic.row[worth][order].astype(np.int64),
        traffic.col[worth][order].astype(np.int64),
        traffic.data[worth][order],
    )


def split_by_place(pairs: Scored, assignment: IntArray) -> tuple[Scored, Scored]:
    """Return colGrps and toBeColGrps: the pairs on one node, and those on two (lines 9-12)."""
    together = assignment[pairs.sender] == assignment[pairs.receiver]
    return pairs.select(together), pairs.select(~together)


def allocate(problem: KeyGroupAllocation, budget: Budget, seed: int, rounds: int, enough: float) -> np.ndarray | None:
    """The allocation program's plan ("lp-solver" in Algorithm 2), None when it finds none.

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget
    seed : int
    rounds : int
        Rounds of its search at most.
    enough : float
        A load distance at which it may stop.

    Notes
    -----
    The solver stops after this many rounds, not by the clock: the same seed gives the same plan on any machine.
    """
    with off_clock():
        from keyshift.solvers.allocation.portfolio import solve_milp
        from keyshift.solvers.tuning import AllocationSettings

    if problem.space.pairs <= AllocationSettings().small:
        return _small(problem, budget, seed)
    start = uncollocated_flux(problem, budget=budget, seed=seed).assignment
    if start is None or problem.violations(start):
        start = None if problem.violations(problem.workload.current) else problem.workload.current
    silent = budget.part(1.0, scale=0.0, silent=True)  # the plan's objective is not the method's
    return solve_milp(problem, budget=silent, seed=seed, start=start, rounds=rounds, enough=enough).assignment


def _small(problem: KeyGroupAllocation, budget: Budget, seed: int) -> np.ndarray | None:
    """The plan of an instance so small that `solve_milp` would leave it to CP-SAT, which here counts its own work."""
    with off_clock():
        from keyshift.models.allocation.cpsat_model import AllocationCpSat

    statement = AllocationCpSat(problem)
    effort = 0.5
    outcome = cpsat.minimise(statement.model, budget, seed=seed, max_deterministic_time=effort)
    return statement.assignment(outcome.solver.value) if outcome.found else None


PRIME = 2**31 - 1
"""The prime modulus of the 2-universal hash of `two_choices`."""


def balancing_problem(problem: CollocatedAllocation) -> KeyGroupAllocation:
    """The same limits and today's measured loads, ignoring traffic."""
    return replace(problem.allocation, workload=problem.load_model.measured(problem.workload))


def flux(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0, rounds: Whole | None = None) -> Answer:
    """Flux on the measured loads (`keyshift.heuristics.allocation.flux`): another objective, so no guarantee.

    Parameters
    ----------
    rounds : int, optional
        At most this many rounds.
    """
    return uncollocated_flux(balancing_problem(problem.averaged()), budget=budget, seed=seed, rounds=rounds)


def allocation_milp(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0, plan_rounds: Whole = 15) -> Answer:
    """The allocation program of [Madsen2016], section 4.3.1, on the measured loads: another objective, so no guarantee.

    Parameters
    ----------
    plan_rounds : int, default 15
        As for ALBIC.
    """
    posed = balancing_problem(problem.averaged())
    plan = allocate(posed, budget, seed, plan_rounds, 1e-3 * posed.scale)
    return Answer(plan, termination=budget.why if budget.expired else "completed")


def potc(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The power of two choices, once: key groups in order, each to the less loaded of its two hashed nodes.

    The scheme of Nasir et al. splits every key over its two nodes; an assignment cannot, so this is its static form. It
    keeps no migration limit. O(p).

    Notes
    -----
    Source: [Nasir2015], as in [Madsen2016], section 2.2. Departure: a draining node is no choice.
    """
    problem = problem.averaged()
    w = problem.workload
    load = problem.load_model.measured(w).last_load
    kept = np.flatnonzero(w.kept)
    first, second = two_choices(w.key_groups, kept.size, seed)
    full = np.zeros(kept.size)
    capacity = w.capacity[kept]
    plan = np.empty(w.key_groups, dtype=np.int64)
    for k in range(w.key_groups):
        a, b = first[k], second[k]
        i = int(a if full[a] / capacity[a] <= full[b] / capacity[b] else b)
        full[i] += load[k]
        plan[k] = kept[i]
        if k % 20_000 == 19_999 and budget.expired:
            return Answer(None, termination=budget.why)
    return Answer(plan, termination=budget.why if budget.expired else "completed")


def two_choices(key_groups: int, nodes: int, seed: int) -> tuple[IntArray, IntArray]:
    """Two nodes for every key group, different where there are two, by 2-universal hashing."""
    rng = np.random.default_rng(seed)
    (a, c), (b, d) = rng.integers(1, PRIME, 2), rng.integers(0, PRIME, 2)
    numbers = np.arange(1, key_groups + 1)
    first = (a * numbers + b) % PRIME % nodes
    second = (c * numbers + d) % PRIME % max(nodes - 1, 1)
    return first, np.where(second >= first, second + 1, second) if nodes > 1 else first


# COLA ([Khandekar2009]), as [Madsen2016] describes and compares it ----------------------------------------------------

A_SECOND = 1_000_000
"""Entries of the traffic that METIS cuts in a second or less."""
TOO_LARGE = "the next cut would take longer than the limit allows"


def cuts_quickly(problem: CollocatedAllocation) -> bool:
    """Whether COLA's cuts, or ALBIC's partitions, end soon: before the last there is no plan that balances."""
    return problem.workload.key_groups <= 20_000  # 100,000 take a quarter of a minute, ALBIC more than a second


def cola(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0, relabel: bool = False) -> Answer:
    """Cut all key groups into ever smaller parts, evenly and with little traffic cut, until they balance.

    It begins with one part. While the parts, dealt out to the nodes, break the load distance, the heaviest part is cut
    in two. Parts are dealt out heaviest first, each to the node that is least loaded.

    A cut that METIS cannot make (all in one half) falls back to halves by number.

    A static optimizer: it does not use where key groups run now, so nearly all of them move and a migration limit
    is mostly broken; `solve` then refuses its plan. No guarantee. At most p - 1 cuts by METIS, each followed
    by a deal in O(parts log parts + parts log n).

    Parameters
    ----------
    problem : CollocatedAllocation
    budget : Budget
    seed : int
        Seeds METIS.
    relabel : bool, default False
        Give the finished groups to the nodes such that the fewest key groups move: not in the paper, where it would
        spare COLA part of its migrations.

    Notes
    -----
    Source: [Madsen2016], section 2.1 and 5, after [Khandekar2009]. Departure: capacities weigh the
    deal, and draining nodes get nothing.
    """
    problem = problem.averaged()
    w = problem.workload
    load = problem.load_model.measured(w).last_load
    traffic = sp.csr_array(w.traffic + w.traffic.T)  # type: ignore[union-attr]
    parts = _Parts(load)
    parts.add(np.arange(w.key_groups))
    cuts, best, least = 0, None, np.inf
    while not budget.expired:
        plan = deal(parts.all, load, w.capacity, np.flatnonzero(w.kept))
        distance = problem.metrics(plan)["load_distance"]
        if distance < least:
            best, least = plan, distance
        if not problem.broken_load_distance(plan) or not parts.heap:
            break
        part = parts.pop()
        entries = int((traffic.indptr[part + 1] - traffic.indptr[part]).sum())
        if entries > A_SECOND and entries > A_SECOND * budget.remaining:  # METIS has no time limit
            return Answer(best, message=TOO_LARGE, details={"cuts": cuts})
        for half in graph_parts(part, traffic, load, 2, seed):
            parts.add(half)
        cuts += 1
    if best is not None and relabel:
        best = fewest_moves(best, w)
    return Answer(best, termination=budget.why if budget.expired else "completed", details={"cuts": cuts})


class _Parts:
    """The parts so far; those that can be cut, heaviest first."""

    def __init__(self, load: FloatArray) -> None:
        self.load = load
        self.heap: list[tuple[float, int, IntArray]] = []  # (-load, first member, members)
        self.single: list[IntArray] = []

    @property
    def all(self) -> list[IntArray]:
        return self.single + [part for _, _, part in self.heap]

    def add(self, part: IntArray) -> None:
        if part.size == 1:
            self.single.append(part)
        else:
            heapq.heappush(self.heap, (-float(self.load[part].sum()), int(part[0]), part))

    def pop(self) -> IntArray:
        return heapq.heappop(self.heap)[2]


def deal(parts: list[IntArray], load: FloatArray, capacity: FloatArray, kept: IntArray) -> IntArray:
    """Deal parts out, heaviest first, each to the kept node that is least loaded for its capacity, shape (p,)."""
    weight = [float(load[part].sum()) for part in parts]
    waiting = [(0.0, int(i)) for i in kept]
    heapq.heapify(waiting)
    plan = np.empty(load.size, dtype=np.int64)
    for j in sorted(range(len(parts)), key=lambda j: (-weight[j], int(parts[j][0]))):
        full, i = heapq.heappop(waiting)
        plan[parts[j]] = i
        heapq.heappush(waiting, (full + weight[j] / capacity[i], i))
    return plan


def fewest_moves(plan: IntArray, workload: Workload) -> IntArray:
    """The same groups on other nodes of the same capacity, so that the fewest key groups move."""
    n = workload.nodes
    stay = np.zeros((n, n))
    np.add.at(stay, (plan, workload.current), 1.0)  # group i, were it on node j
    alike = (workload.capacity[:, None] == workload.capacity) & (workload.kept[:, None] == workload.kept)
    group, node = linear_sum_assignment(np.where(alike, -stay, workload.key_groups + 1.0))
    name = np.empty(n, dtype=np.int64)
    name[group] = node
    return name[plan]
