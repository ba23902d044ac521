"""Methods for least movement within load limits, the scalarisation that ELB follows [Guo2018]."""

from keyshift.catalogue.method import Formulation, Method

FORMULATION = Formulation(
    name="movement-within-limits",
    summary="Least movement that brings every node's load within limits.",
    code="keyshift.models.movement:MovementWithinLimits",
    lesson="lessons/mclb-slip",
    methods=(
        Method(
            name="milp",
            kind="exact",
            source="keyshift's statement of [Guo2018], sec. 3; HiGHS",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            code="keyshift.solvers.movement.statement:solve_milp",
            warm_start=("elb",),
        ),
        Method(
            name="cp-sat",
            kind="exact",
            source="keyshift's statement of [Guo2018], sec. 3; CP-SAT",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            code="keyshift.solvers.movement.statement:solve_cpsat",
            warm_start=("elb",),
        ),
        Method(
            name="elb",
            kind="heuristic",
            source="[Guo2018], Algorithm 1",
            guarantee="none",
            code="keyshift.heuristics.mclb.elb:elb_within_limits",
        ),
    ),
)
