"""Methods for least movement within load limits, the scalarisation that ELB follows (paper 1, section 3)."""

from keyshift.catalogue.method import Formulation, Method

_SOURCE = "our statement of paper 1, sec. 3"

FORMULATION = Formulation(
    name="movement-within-limits",
    entry="keyshift.models.mclb:MovementWithinLimits",
    methods=(
        Method("milp", "exact", f"{_SOURCE}; HiGHS", "keyshift.solvers.movement.statement:solve_milp", ("elb",)),
        Method("cp-sat", "exact", f"{_SOURCE}; CP-SAT", "keyshift.solvers.movement.statement:solve_cpsat", ("elb",)),
        Method("elb", "heuristic", "paper 1, Algorithm 1", "keyshift.heuristics.mclb.elb:elb_within_limits"),
    ),
)
