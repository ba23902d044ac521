"""Methods for least movement within load limits, the scalarisation that ELB follows [Guo2018]."""

from keyshift.catalogue.method import Formulation, kinds, pyomo_and_cpsat
from keyshift.models.base.lazily import lazily

with lazily():
    from keyshift.heuristics.mclb.clb import elb_within_limits
    from keyshift.models.movement import MovementWithinLimits
    from keyshift.models.movement.cpsat_model import MovementCpSat
    from keyshift.models.movement.pyomo_model import MovementPyomo
    from keyshift.solvers.movement.statement import local_search, lp_bound, solve_cpsat, solve_milp
    from keyshift.solvers.rehearsals import movement as rehearsal

exact, relaxation, heuristic = kinds(rules=True, warm_up=rehearsal)
FORMULATION = Formulation(
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
            "milp", "keyshift's statement of [Guo2018], sec. 3; HiGHS", solve_milp, warm_start=("elb",),
            rivals=("local-search",),
        ),
        exact(
            "cp-sat", "keyshift's statement of [Guo2018], sec. 3; CP-SAT", solve_cpsat, warm_start=("elb",),
        ),
        relaxation("lp", "the linear relaxation of keyshift's statement; HiGHS", lp_bound),
        heuristic("local-search", "keyshift: moves, swaps and returns, annealed", local_search),
        heuristic("elb", "[Guo2018], Algorithm 1", elb_within_limits, warm_up=None, ignores=("limits", "nodes_after")),
    ),
)  # fmt: skip
