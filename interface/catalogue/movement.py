"""Methods for least movement within load limits, the scalarisation that ELB follows [Guo2018]."""

from keyshift.catalogue.method import Formulation, Method, Statement
from keyshift.models.lazily import lazily

with lazily():
    from keyshift.heuristics.mclb.elb import elb_within_limits
    from keyshift.models.movement import MovementWithinLimits
    from keyshift.models.movement.cpsat_model import MovementCpSat
    from keyshift.models.movement.pyomo_model import MovementPyomo
    from keyshift.solvers.movement.local_search import local_search
    from keyshift.solvers.movement.statement import lp_bound, solve_cpsat, solve_milp
    from keyshift.solvers.rehearsals import movement as rehearsal

FORMULATION = Formulation(
    name="movement-within-limits",
    summary="Least movement that brings every node's load within limits.",
    code=MovementWithinLimits,
    lesson="lessons/two-objectives",
    statements=(
        Statement(
            "pyomo", "pyomo", MovementPyomo, "x[k,n]: key group k runs on node n; z[n]: the node is in use.",
            "MovementWithinLimits, (1)-(5)",
        ),
        Statement(
            "cp-sat", "cp-sat", MovementCpSat, "The same in whole numbers, widened where they round.",
            "MovementWithinLimits, (1)-(5)",
        ),
    ),
    methods=(
        Method(
            "milp", "exact", "keyshift's statement of [Guo2018], sec. 3; HiGHS", solve_milp, rules=True,
            warm_up=rehearsal, warm_start=("elb", "local-search"), rivals=("local-search",),
        ),
        Method(
            "cp-sat", "exact", "keyshift's statement of [Guo2018], sec. 3; CP-SAT", solve_cpsat, rules=True,
            warm_up=rehearsal, warm_start=("elb", "local-search"),
        ),
        Method(
            "lp", "relaxation", "the linear relaxation of keyshift's statement; HiGHS", lp_bound, rules=True,
            warm_up=rehearsal,
        ),
        Method(
            "local-search", "heuristic", "keyshift: moves, swaps and returns, annealed", local_search, rules=True,
            warm_up=rehearsal,
        ),
        Method("elb", "heuristic", "[Guo2018], Algorithm 1", elb_within_limits, rules=True),
    ),
)  # fmt: skip
