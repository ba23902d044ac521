"""Methods for mixed routing [Fang2016]."""

from keyshift.catalogue.method import Formulation, Method
from keyshift.catalogue.statement import Statement
from keyshift.catalogue.trade import Trade
from keyshift.models.lazily import lazily

with lazily():
    from keyshift.heuristics.routing.mixed import llfd, min_mig, min_table, mixed, mixed_bf
    from keyshift.heuristics.routing.readj import readj
    from keyshift.models.routing import MixedRouting
    from keyshift.models.routing.cpsat_model import RoutingCpSat
    from keyshift.models.routing.pyomo_model import RoutingPyomo
    from keyshift.solvers.routing.fewest_entries import fewest_entries
    from keyshift.solvers.routing.pooled import pooled_bound
    from keyshift.solvers.routing.statement import lp_bound, solve_cpsat, solve_milp
    from keyshift.solvers.routing.warm_up import compile_kernels
    from keyshift.solvers.stages.exact import by_cpsat, by_search_and_solvers

FORMULATION = Formulation(
    name="mixed-routing",
    summary="A hash for most keys, a bounded table for the exceptions.",
    code=MixedRouting,
    lesson="lessons/hash-plus-exceptions",
    statements=(
        Statement(
            kind="pyomo",
            language="pyomo",
            code=RoutingPyomo,
            summary="x[r,n]: so many of the like keys of record r go to node n.",
            source="MixedRouting, (1)-(5); [Fang2016], problem (3)",
        ),
        Statement(
            kind="cp-sat",
            language="cp-sat",
            code=RoutingCpSat,
            summary="The same in whole numbers, widened where they round.",
            source="MixedRouting, (1)-(5); [Fang2016], problem (3)",
        ),
    ),
    trades=(
        Trade(name="table-size", metric="table_size", limit="max_table_size", label="entries in the table", whole=True),
        Trade(name="theta", metric="theta", limit="theta_max", label="theta, the largest deviation from the mean load"),
    ),
    bounds={"table_size": fewest_entries},
    methods=(
        Method(
            name="milp",
            kind="exact",
            source="[Fang2016], problem (3); prices decide most keys, HiGHS the rest",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            code=solve_milp,
            warm_up=compile_kernels,
            warm_start=("mixed", "min-mig", "min-table"),
            rivals=("llfd", "mixed-bf", "readj"),
            later=by_search_and_solvers,
        ),
        Method(
            name="cp-sat",
            kind="exact",
            rules=True,
            source="[Fang2016], problem (3); prices decide most keys, CP-SAT the rest",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            code=solve_cpsat,
            warm_up=compile_kernels,
            warm_start=("mixed", "min-mig", "min-table"),
            later=by_cpsat,
        ),
        Method(
            name="lp",
            kind="relaxation",
            source="[Fang2016], problem (3) without integrality, by its Lagrangian dual",
            guarantee="a lower bound",
            code=lp_bound,
            warm_up=compile_kernels,
        ),
        Method(
            name="lp-pooled",
            kind="relaxation",
            source="[Fang2016], problem (3) without integrality, stated with a pool; HiGHS",
            guarantee="a lower bound",
            code=pooled_bound,
            warm_up=compile_kernels,
        ),
        Method(
            name="llfd",
            kind="heuristic",
            source="[Fang2016], Algorithm 1",
            guarantee="none",
            code=llfd,
            warm_up=compile_kernels,
        ),
        Method(
            name="min-table",
            kind="heuristic",
            source="[Fang2016], Algorithm 2",
            guarantee="none",
            code=min_table,
            warm_up=compile_kernels,
        ),
        Method(
            name="min-mig",
            kind="heuristic",
            source="[Fang2016], Algorithm 3",
            guarantee="none",
            code=min_mig,
            warm_up=compile_kernels,
        ),
        Method(
            name="mixed",
            kind="heuristic",
            source="[Fang2016], Algorithm 4",
            guarantee="none",
            code=mixed,
            warm_up=compile_kernels,
        ),
        Method(
            name="mixed-bf",
            kind="heuristic",
            source="[Fang2016], sec. III-C",
            guarantee="none",
            code=mixed_bf,
            warm_up=compile_kernels,
        ),
        Method(
            name="readj",
            kind="heuristic",
            source="[Gedik2014], as [Fang2016] describes it",
            guarantee="none",
            code=readj,
            warm_up=compile_kernels,
        ),
    ),
)
