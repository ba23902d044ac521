"""ALBIC, Autonomic Load Balancing with Integrated Collocation ([Madsen2016], Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from keyshift.heuristics.collocation import comparisons
from keyshift.heuristics.collocation.comparisons import Scored
from keyshift.models import Answer, Budget, Workload
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.allocation.problem import SLACK
from keyshift.models.base.guards import NonNegative, Positive, Whole
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.rules import Only, Rule, Together
from keyshift.models.rules.lowered import labels_of
from keyshift.models.workload import FloatArray, IntArray


def albic(
    problem: CollocatedAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    max_partition_load: Positive = 25.0,
    step_partition_load: Positive = 5.0,
    score_factor: NonNegative = 1.5,
    plan_rounds: Whole = 15,
    anticipate: bool = True,
) -> Answer:
    """Keep what is collocated, collocate one pair more, and balance the rest by the allocation program.

    (1) Score the pairs by their traffic. (2) Merge the collocated pairs into sets and split these by METIS into
    partitions that are small enough to move; a partition moves as a whole. (3) Pick one of the pairs that send most
    and are apart, and demand that it comes together. (4) Solve the allocation program under these demands; while
    its load distance exceeds the limit, start over with smaller partitions. At size 0 the demands are gone and the
    allocation program alone decides.

    No guarantee on the objective. An invocation solves at most ``max_partition_load / step_partition_load + 1``
    allocation programs.

    Parameters
    ----------
    problem : CollocatedAllocation
    budget : Budget
    seed : int
        Chooses among pairs of equal traffic, and seeds METIS.
    max_partition_load : float, default 25
        maxPL: the most load of a partition, in the unit of the problem's load distance. The paper's 25 are points of
        a node's capacity: give loads in such points and pose the problem with ``distance_unit="load"``. In percent of
        the mean node load, maxPL and maxLD shrink with the mean as collocation frees load, and partitions that they
        once let through are cut again.
    step_partition_load : float, default 5
        stepPL, above 0: by how much maxPL falls at each retry.
    score_factor : float, default 1.5
        sF: a pair counts when it carries more than so many times its sender's average.
    plan_rounds : int, default 15
        How long one allocation program may take, in rounds of its search: counted, so that the same seed gives the
        same plan. It ends sooner at a load distance of 0.1 % of the mean node load.
    anticipate : bool, default True
        Balance with the load that the demanded pair will have once it is together. It matters only where the problem
        predicts the cost of remote traffic; False balances with today's measured load throughout, as printed.

    Notes
    -----
    Source: [Madsen2016], Algorithm 2; maxLD is the problem's `max_load_distance`. Departures: balancing sees the
    measured load (processing plus today's remote traffic), as in the paper's engine, while the answer is judged by
    the load it will really have (`anticipate` brings the two nearer); a program without an answer counts as one that
    breaks maxLD; see also `target_nodes` and `migration_weights`.
    """
    begun = Invocation.of(problem, seed, score_factor)
    max_pl, rounds, plan = max_partition_load, 0, None
    while not budget.expired:
        rounds += 1
        expected, partitions, demand = begun.demands(max_pl, anticipate)
        found = plan_under(begun.problem, expected, partitions, demand, budget, seed, plan_rounds)
        plan = plan if found is None else found
        if max_pl <= 0 or (found is not None and not begun.problem.violations(found)):
            break
        max_pl = max(0.0, max_pl - max(step_partition_load, SLACK))
    details = {
        "programs": rounds,
        "max_partition_load": max_pl,
        "candidates": begun.candidates,
        "collocated": len(begun.together),
    }
    return Answer(plan, termination=budget.why if budget.expired else "completed", details=details)


@dataclass(frozen=True, eq=False)
class Invocation:
    """The state of an invocation of ALBIC once it has scored the pairs and drawn one (steps 1 and 3)."""

    problem: CollocatedAllocation
    measured: Workload
    together: Scored
    candidates: int
    pair: tuple[int, int] | None
    seed: int

    @classmethod
    def of(cls, problem: CollocatedAllocation, seed: int, score_factor: float) -> Invocation:
        """Score the pairs by their measured traffic, and draw one that is apart."""
        problem = problem.averaged()
        measured = problem.load_model.measured(problem.workload)
        together, apart = comparisons.split_by_place(comparisons.score(measured, score_factor), measured.current)
        return cls(problem, measured, together, len(apart), choose_pair(apart, np.random.default_rng(seed)), seed)

    def demands(self, max_load: float, anticipate: bool = True) -> tuple[Workload, list[IntArray], Demand | None]:
        """The workload that step 4 balances, partitions of at most this load, and the demand; neither at size 0."""
        if max_load <= 0:
            return self.measured, [], None
        p, w = self.problem, self.measured
        percent = float(w.last_load.sum()) / p.kept_capacity / 100
        partitions = partition(
            p, w, self.together, max_load * (percent if p.distance_unit == "percent" else 1.0), self.seed
        )
        demand = None if self.pair is None else demanded(p, w, partitions, self.pair)
        return after_demand(p, w, demand) if anticipate else w, partitions, demand


def step_four(
    problem: CollocatedAllocation,
    *,
    seed: int = 0,
    max_partition_load: float = 25.0,
    score_factor: float = 1.5,
    anticipate: bool = True,
) -> KeyGroupAllocation:
    """The program of step 4 as a problem of its own: to read, to open with `keyshift.model`, to solve by any method.

    Steps 1 to 3 are those of an invocation with the same parameters as `albic`. What they demand are rules: each partition
    is `Together`, the key groups of the pair and their partitions are `Only` on its node. `albic` contracts every partition
    to one key group, which has the same plans where there is one limit on migrations; with two limits a contracted one
    weighs what it takes of the tighter one, and the rules keep each limit for itself.
    """
    begun = Invocation.of(problem, seed, score_factor)
    expected, partitions, demand = begun.demands(max_partition_load, anticipate)
    rules: list[Rule] = [Together(list(map(expected.key, piece))) for piece in partitions if piece.size > 1]
    if demand is not None:
        rules.append(Only(list(map(expected.key, demand.members)), expected.node(demand.node)))
    program = begun.problem.allocation
    return replace(program, workload=expected, rules=(*program.rules, *rules))


def choose_pair(apart: Scored, rng: np.random.Generator) -> tuple[int, int] | None:
    """One of the pairs that send most, at random (line 21); None when no pair is left."""
    if len(apart) == 0:
        return None
    most = np.flatnonzero(apart.traffic == apart.traffic.max())
    chosen = int(rng.choice(most))
    return int(apart.sender[chosen]), int(apart.receiver[chosen])


def partition(
    problem: CollocatedAllocation, measured: Workload, together: Scored, max_load: float, seed: int
) -> list[IntArray]:
    """Step 2: partitions of the collocated sets, none costlier to move than allowed nor heavier than maxPL."""
    both_ways = sp.csr_array(measured.traffic + measured.traffic.T)  # type: ignore[union-attr]
    limited = [*migration_limits(problem), (measured.last_load, max_load)]
    sets = comparisons.collocated_sets(together, measured.key_groups)
    return [piece for members in sets for piece in comparisons.split_set(members, both_ways, limited, seed)]


def migration_limits(problem: CollocatedAllocation) -> list[tuple[FloatArray, float]]:
    """(2): what moving each key group takes of a limit, shape (p,), and the limit."""
    found: list[tuple[FloatArray, float]] = []
    if problem.max_migration_cost is not None:
        found.append((problem.allocation.migration_cost, problem.max_migration_cost))
    if problem.max_migrations is not None:
        found.append((np.ones(problem.workload.key_groups), float(problem.max_migrations)))
    return found


@dataclass(frozen=True)
class Demand:
    """Key groups that have to end on one node (step 3)."""

    members: IntArray
    node: int


def demanded(
    problem: CollocatedAllocation, measured: Workload, partitions: list[IntArray], pair: tuple[int, int]
) -> Demand | None:
    """Step 3: where the pair, with the partitions that its ends belong to, has to come together.

    Both or neither in a partition: on the less loaded of the two nodes. One in a partition: where that one is.
    """
    piece_of = {int(k): piece for piece in partitions for k in piece}
    first, second = pair
    members = np.unique(np.concatenate([piece_of.get(k, np.array([k])) for k in pair]))
    for node in target_nodes(measured, first, second, first in piece_of, second in piece_of):
        movers = members[measured.current[members] != node]
        if problem.allocation.space.may_enter(movers, node).all():
            return Demand(members, node)
    return None


def after_demand(problem: CollocatedAllocation, measured: Workload, demand: Demand | None) -> Workload:
    """The measured workload with the loads that the demand's key groups have where it puts them, all others staying."""
    if demand is None or problem.load_model.per_tuple == 0:
        return measured
    place = measured.current.copy()
    place[demand.members] = demand.node
    return measured.replace(load=problem.load_model.key_group_loads(problem.workload, place))


def target_nodes(measured: Workload, first: int, second: int, first_held: bool, second_held: bool) -> list[int]:
    """The nodes of the two ends, the one that the paper takes in front.

    Departure: the other one is kept in reserve, for when the preferred node drains and may take no key group.
    """
    nodes = [int(measured.current[first]), int(measured.current[second])]
    if first_held == second_held:
        loads = np.bincount(measured.current, measured.last_load, measured.nodes) / measured.capacity
        return sorted(nodes, key=lambda i: float(loads[i]))  # a tie goes to the sender's node
    return nodes if first_held else nodes[::-1]


def plan_under(
    problem: CollocatedAllocation,
    measured: Workload,
    partitions: list[IntArray],
    demand: Demand | None,
    budget: Budget,
    seed: int,
    rounds: int,
) -> IntArray | None:
    """Step 4: the allocation program in which partitions move as one and the demand is met; None without an answer."""
    made = contracted(problem, measured, partitions, demand)
    if made is None:
        return None  # meeting the demand alone breaks a migration limit
    program, unit = made
    chosen = comparisons.allocate(program, budget, seed, rounds, 1e-3 * program.scale)
    return None if chosen is None else chosen[unit]


def contracted(
    problem: CollocatedAllocation, measured: Workload, partitions: list[IntArray], demand: Demand | None
) -> tuple[KeyGroupAllocation, IntArray] | None:
    """Step 4 with every unit as one key group, and the unit of each key group; None where the limits forbid the demand."""
    p = problem
    unit = labels_of([*partitions, *([] if demand is None else [demand.members])], measured.key_groups)
    weights, limit = migration_weights(problem, measured, unit, demand)
    if limit < -SLACK:
        return None
    place = np.zeros(weights.size, dtype=np.int64)
    place[unit] = measured.current
    if demand is not None:
        place[unit[demand.members[0]]] = demand.node

    def total(of: FloatArray) -> FloatArray:
        return np.bincount(unit, of, weights.size)

    merged = Workload(
        load=total(measured.last_load), state=weights, current=place, nodes=measured.capacity,
        draining=measured.draining,
        resources={name: total(use) for name, use in measured.resources.items()},
    )  # fmt: skip
    program = KeyGroupAllocation(
        merged, max_migration_cost=max(limit, 0.0), into_draining=p.into_draining, resource_capacity=p.resource_capacity
    )
    return program, unit


def migration_weights(
    problem: CollocatedAllocation, measured: Workload, unit: IntArray, demand: Demand | None
) -> tuple[FloatArray, float]:
    """The migration limits as a budget: the cost of moving each unit, shape (units,), and the total.

    What the demand needs is taken off beforehand, and its unit made too heavy to move. Departure: the program of
    section 4.3.1 has one limit; with a limit on cost and another on number, a unit weighs what it takes of the tighter
    one, which keeps both and may leave a little unused.
    """
    units = int(unit.max()) + 1
    moving = np.zeros(measured.key_groups, dtype=bool)
    if demand is not None:
        moving[demand.members] = measured.current[demand.members] != demand.node
    limited = ((cost, limit - float(cost[moving].sum())) for cost, limit in migration_limits(problem))
    left = [(np.bincount(unit, cost, units), limit) for cost, limit in limited]
    if not left:
        weights: FloatArray = np.zeros(units)
        room = 1.0
    elif len(left) == 1:
        weights, room = left[0]
    elif min(limit for _, limit in left) < 0:
        weights, room = left[0][0], -1.0
    else:  # a limit of 0 lets only units through that cost nothing
        weights = np.max(
            [np.where(cost > 0, cost / limit, 0) if limit > 0 else 2.0 * (cost > 0) for cost, limit in left], axis=0
        )
        room = 1.0
    if demand is not None:
        weights = weights.copy()
        weights[unit[demand.members[0]]] = 2 * abs(room) + 1
    return weights, room
