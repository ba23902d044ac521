"""Methods for key-group allocation [Madsen2016], least movement within load limits [Guo2018] and replicas [DeepSeek2024]."""

from keyshift.catalogue.method import Formulation, Trade, kinds, pyomo_and_cpsat
from keyshift.models.base.lazily import lazily

with lazily():
    from keyshift.heuristics.allocation.flux import drain_first, flux, is_quick, potc
    from keyshift.heuristics.mclb.clb import elb_within_limits
    from keyshift.heuristics.replication.greedy import eplb, packs_quickly
    from keyshift.models.allocation import KeyGroupAllocation
    from keyshift.models.allocation.cpsat_model import AllocationCpSat
    from keyshift.models.allocation.problem import drains
    from keyshift.models.allocation.pyomo_model import AllocationPyomo
    from keyshift.models.movement import MovementWithinLimits
    from keyshift.models.movement.cpsat_model import MovementCpSat
    from keyshift.models.movement.pyomo_model import MovementPyomo
    from keyshift.models.replication import ReplicatedAllocation
    from keyshift.models.replication.cpsat_model import ReplicationCpSat
    from keyshift.models.replication.pyomo_model import ReplicationPyomo
    from keyshift.solvers.allocation.portfolio import solve_milp
    from keyshift.solvers.allocation.pricing.tree import price_bound
    from keyshift.solvers.allocation.statement import lp_bound, solve_cpsat, solve_highs
    from keyshift.solvers.movement.statement import local_search as movement_search
    from keyshift.solvers.movement.statement import lp_bound as movement_lp
    from keyshift.solvers.movement.statement import solve_cpsat as movement_cpsat
    from keyshift.solvers.movement.statement import solve_milp as movement_milp
    from keyshift.solvers.rehearsals import allocation, allocation_bound
    from keyshift.solvers.rehearsals import movement as movement_rehearsal
    from keyshift.solvers.replication.statement import counting_bound, descent
    from keyshift.solvers.replication.statement import solve_cpsat as replication_cpsat
    from keyshift.solvers.replication.statement import solve_milp as replication_milp
    from keyshift.solvers.stages import by_cpsat, by_highs, by_search_and_solvers

exact, relaxation, heuristic = kinds(rules=True)
ALLOCATION = Formulation(
    name="key-group-allocation",
    summary="Key groups onto nodes, the loads as even as a migration limit allows.",
    code=KeyGroupAllocation,
    lesson="lessons/allocation",
    statements=pyomo_and_cpsat(
        AllocationPyomo, AllocationCpSat, "x[k,n]: key group k runs on node n; d, the load distance.",
        "KeyGroupAllocation, (1)-(7); [Madsen2016], sec. 4.3.1",
    ),
    trades=(
        Trade(name="migrations", metric="migrations", limit="max_migrations", label="key groups moved", whole=True),
        Trade(name="state-moved", metric="migration_cost", limit="max_migration_cost", label="migration cost"),
    ),
    methods=(
        exact(
            "milp", "[Madsen2016], sec. 4.3.1; keyshift's search and bounds, then CP-SAT and HiGHS", solve_milp,
            warm_up=allocation, warm_start=("flux", "potc", "drain-first"), lesson="lessons/proving-by-branching",
            later=by_search_and_solvers,
        ),
        exact(
            "highs", "[Madsen2016], sec. 4.3.1; HiGHS on the Pyomo statement", solve_highs,
            limits="hundreds of key groups", warm_start=("flux",), later=by_highs,
        ),
        exact(
            "cp-sat", "[Madsen2016], sec. 4.3.1; CP-SAT on its own statement", solve_cpsat,
            limits="hundreds of key groups", warm_start=("flux",), later=by_cpsat,
        ),
        relaxation("lp", "[Madsen2016], sec. 4.3.1, without integrality; HiGHS", lp_bound),
        relaxation(
            "prices", "keyshift: counts of moves, and column generation over their prices", price_bound,
            "a lower bound, rarely far off", warm_up=allocation_bound, lesson="lessons/proving-by-prices",
        ),
        heuristic("flux", "[Shah2003], as [Madsen2016] describes it", flux, useful=is_quick),
        heuristic("potc", "[Azar1999], within the limits", potc, useful=is_quick),
        heuristic(
            "drain-first", "[Madsen2016], sec. 5.1: drain first, balance afterwards", drain_first, useful=drains,
            warm_up=allocation, lesson="lessons/rebalancing-over-time",
        ),
    ),
)  # fmt: skip

exact, relaxation, heuristic = kinds(rules=True, warm_up=movement_rehearsal)
MOVEMENT = Formulation(
    name="movement-within-limits",
    summary="Least movement that brings every node's load within limits.",
    code=MovementWithinLimits,
    lesson="lessons/two-objectives",
    statements=pyomo_and_cpsat(
        MovementPyomo, MovementCpSat, "x[k,n]: key group k runs on node n; z[n]: the node is in use.",
        "MovementWithinLimits, (1)-(5)",
    ),
    methods=(
        exact(
            "milp", "keyshift's statement of [Guo2018], sec. 3; HiGHS", movement_milp, warm_start=("elb",),
            rivals=("local-search",),
        ),
        exact(
            "cp-sat", "keyshift's statement of [Guo2018], sec. 3; CP-SAT", movement_cpsat, warm_start=("elb",),
        ),
        relaxation("lp", "the linear relaxation of keyshift's statement; HiGHS", movement_lp),
        heuristic("local-search", "keyshift: moves, swaps and returns, annealed", movement_search),
        heuristic("elb", "[Guo2018], Algorithm 1", elb_within_limits, warm_up=None, ignores=("limits", "nodes_after")),
    ),
)  # fmt: skip

exact, relaxation, heuristic = kinds()
REPLICATION = Formulation(
    name="replicated-allocation",
    summary="How many copies of each key group, and where, so that the largest node load is small.",
    code=ReplicatedAllocation,
    lesson="problems/replicas",
    statements=pyomo_and_cpsat(
        ReplicationPyomo, ReplicationCpSat,
        "z[k,c]: key group k has c copies; x[k,c,n]: one of them runs on node n.", "ReplicatedAllocation, (1)-(8)",
    ),
    methods=(
        exact("cp-sat", "keyshift's statement; CP-SAT", replication_cpsat, warm_start=("eplb",)),
        exact("milp", "keyshift's statement; HiGHS", replication_milp, warm_start=("eplb",)),
        relaxation("counting", "keyshift: no copy more than its share of a node", counting_bound),
        heuristic("descent", "keyshift: moves, exchanges and copies, the best first", descent, warm_start=("eplb",)),
        heuristic(
            "eplb", "[DeepSeek2024], replication and packing", eplb, ignores=("max_migrations",), useful=packs_quickly,
        ),
    ),
    trades=(
        Trade("migrations", "migrations", "max_migrations", "new copies", whole=True),
        Trade("copies", "copies", "copies", "copies", whole=True),
    ),
)  # fmt: skip
