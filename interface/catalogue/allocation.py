"""Methods for key-group allocation [Madsen2016]."""

from keyshift.catalogue.method import Formulation, Method
from keyshift.catalogue.statement import Statement
from keyshift.catalogue.trade import Trade
from keyshift.models.lazily import lazily

with lazily():
    from keyshift.heuristics.allocation.drain_first import drain_first, drains
    from keyshift.heuristics.allocation.flux import flux
    from keyshift.heuristics.allocation.potc import potc
    from keyshift.models.allocation import KeyGroupAllocation
    from keyshift.models.allocation.windows_cpsat import AllocationWindowsCpSat
    from keyshift.models.allocation.windows_pyomo import AllocationWindowsPyomo
    from keyshift.solvers.allocation.cpsat_statement import solve_cpsat
    from keyshift.solvers.allocation.portfolio import solve_milp
    from keyshift.solvers.allocation.pricing.tree import price_bound
    from keyshift.solvers.allocation.statement import lp_bound, solve_highs
    from keyshift.solvers.allocation.warm_up import compile_bound, compile_kernels
    from keyshift.solvers.stages.exact import by_cpsat, by_highs, by_search_and_solvers

FORMULATION = Formulation(
    name="key-group-allocation",
    summary="Key groups onto nodes, the loads as even as a migration limit allows.",
    code=KeyGroupAllocation,
    lesson="lessons/allocation",
    statements=(
        Statement(
            kind="pyomo",
            language="pyomo",
            code=AllocationWindowsPyomo,
            summary="x[k,n]: key group k runs on node n; d, the load distance.",
            source="KeyGroupAllocation, (1)-(7); [Madsen2016], sec. 4.3.1",
        ),
        Statement(
            kind="cp-sat",
            language="cp-sat",
            code=AllocationWindowsCpSat,
            summary="The same in whole numbers, widened where they round.",
            source="KeyGroupAllocation, (1)-(7); [Madsen2016], sec. 4.3.1",
        ),
    ),
    trades=(
        Trade(name="migrations", metric="migrations", limit="max_migrations", label="key groups moved", whole=True),
        Trade(name="state-moved", metric="migration_cost", limit="max_migration_cost", label="migration cost"),
    ),
    methods=(
        Method(
            name="milp",
            kind="exact",
            rules=True,
            source="[Madsen2016], sec. 4.3.1; keyshift's search and bounds, then CP-SAT and HiGHS",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            code=solve_milp,
            warm_up=compile_kernels,
            warm_start=("flux", "potc", "drain-first"),
            lesson="lessons/proving-it",
            later=by_search_and_solvers,
        ),
        Method(
            name="highs",
            kind="exact",
            rules=True,
            source="[Madsen2016], sec. 4.3.1; HiGHS on the Pyomo statement",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            limits="hundreds of key groups",
            code=solve_highs,
            warm_start=("flux",),
            later=by_highs,
        ),
        Method(
            name="cp-sat",
            kind="exact",
            rules=True,
            source="[Madsen2016], sec. 4.3.1; CP-SAT on its own statement",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            limits="hundreds of key groups",
            code=solve_cpsat,
            warm_start=("flux",),
            later=by_cpsat,
        ),
        Method(
            name="lp",
            kind="relaxation",
            rules=True,
            source="[Madsen2016], sec. 4.3.1, without integrality; HiGHS",
            guarantee="a lower bound",
            code=lp_bound,
        ),
        Method(
            name="prices",
            kind="relaxation",
            rules=True,
            source="keyshift: counts of moves, and column generation over their prices",
            guarantee="a lower bound, rarely far off",
            code=price_bound,
            warm_up=compile_bound,
            lesson="lessons/proving-it",
        ),
        Method(
            name="flux",
            kind="heuristic",
            source="[Shah2003], as [Madsen2016] describes it",
            guarantee="none",
            code=flux,
        ),
        Method(
            name="potc",
            kind="heuristic",
            source="[Azar1999], within the limits",
            guarantee="none",
            code=potc,
        ),
        Method(
            name="drain-first",
            kind="heuristic",
            source="[Madsen2016], sec. 5.1: drain first, balance afterwards",
            guarantee="none",
            code=drain_first,
            useful=drains,
            warm_up=compile_kernels,
            lesson="lessons/rebalancing-over-time",
        ),
    ),
)
