"""Methods for key-group allocation [Madsen2016]."""

from keyshift.catalogue.method import Formulation, Trade, kinds, pyomo_and_cpsat
from keyshift.models.base.lazily import lazily

with lazily():
    from keyshift.heuristics.allocation.flux import drain_first, flux, potc
    from keyshift.models.allocation import KeyGroupAllocation
    from keyshift.models.allocation.cpsat_model import AllocationCpSat
    from keyshift.models.allocation.problem import drains
    from keyshift.models.allocation.pyomo_model import AllocationPyomo
    from keyshift.solvers.allocation.portfolio import solve_milp
    from keyshift.solvers.allocation.pricing.tree import price_bound
    from keyshift.solvers.allocation.statement import lp_bound, solve_cpsat, solve_highs
    from keyshift.solvers.rehearsals import allocation, allocation_bound
    from keyshift.solvers.stages import by_cpsat, by_highs, by_search_and_solvers

exact, relaxation, heuristic = kinds(rules=True)
FORMULATION = Formulation(
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
        heuristic("flux", "[Shah2003], as [Madsen2016] describes it", flux),
        heuristic("potc", "[Azar1999], within the limits", potc),
        heuristic(
            "drain-first", "[Madsen2016], sec. 5.1: drain first, balance afterwards", drain_first, useful=drains,
            warm_up=allocation, lesson="lessons/rebalancing-over-time",
        ),
    ),
)  # fmt: skip
