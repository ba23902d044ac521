"""Methods for least movement within load limits, the scalarisation that ELB follows [Guo2018]."""

from keyshift.catalogue.method import Formulation, Method
from keyshift.catalogue.statement import Statement
from keyshift.models.lazily import lazily

with lazily():
    from keyshift.heuristics.mclb.elb import elb_within_limits
    from keyshift.models.movement import MovementWithinLimits
    from keyshift.models.movement.cpsat_model import MovementCpSat
    from keyshift.models.movement.pyomo_model import MovementPyomo
    from keyshift.solvers.movement.local_search import local_search
    from keyshift.solvers.movement.statement import lp_bound, solve_cpsat, solve_milp
    from keyshift.solvers.movement.warm_up import compile_search

FORMULATION = Formulation(
    name="movement-within-limits",
    summary="Least movement that brings every node's load within limits.",
    code=MovementWithinLimits,
    lesson="lessons/mclb-slip",
    statements=(
        Statement(
            kind="pyomo",
            language="pyomo",
            code=MovementPyomo,
            summary="x[k,n]: key group k runs on node n; z[n]: the node is in use.",
            source="MovementWithinLimits, (1)-(5)",
        ),
        Statement(
            kind="cp-sat",
            language="cp-sat",
            code=MovementCpSat,
            summary="The same in whole numbers, widened where they round.",
            source="MovementWithinLimits, (1)-(5)",
        ),
    ),
    methods=(
        Method(
            name="milp",
            kind="exact",
            rules=True,
            source="keyshift's statement of [Guo2018], sec. 3; HiGHS",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            code=solve_milp,
            warm_up=compile_search,
            warm_start=("elb", "local-search"),
            rivals=("local-search",),
        ),
        Method(
            name="cp-sat",
            kind="exact",
            rules=True,
            source="keyshift's statement of [Guo2018], sec. 3; CP-SAT",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            code=solve_cpsat,
            warm_up=compile_search,
            warm_start=("elb", "local-search"),
        ),
        Method(
            name="lp",
            kind="relaxation",
            rules=True,
            source="the linear relaxation of keyshift's statement; HiGHS",
            guarantee="a lower bound",
            code=lp_bound,
            warm_up=compile_search,
        ),
        Method(
            name="local-search",
            kind="heuristic",
            source="keyshift: moves, swaps and returns, annealed",
            guarantee="none",
            code=local_search,
            warm_up=compile_search,
        ),
        Method(
            name="elb",
            kind="heuristic",
            source="[Guo2018], Algorithm 1",
            guarantee="none",
            code=elb_within_limits,
        ),
    ),
)
