"""Methods for mixed routing (paper 4)."""

from keyshift.method import Formulation, Method

_PAPER = "Fang et al. 2016"
_HEURISTICS = "keyshift.heuristics.routing.methods"
_EXACT = "keyshift.solvers.routing.exact"
_PREPARE = "keyshift.solvers.routing.prepare:compile_kernels"
_STARTS = ("mixed", "min-mig", "min-table")

FORMULATION = Formulation(
    name="mixed-routing",
    entry="keyshift.models.routing:MixedRouting",
    methods=(
        Method("milp", "exact", f"{_PAPER}, problem (3); HiGHS", f"{_EXACT}:solve_milp", _STARTS, prepare=_PREPARE),
        Method("cp-sat", "exact", f"{_PAPER}, problem (3); CP-SAT", f"{_EXACT}:solve_cpsat", _STARTS, prepare=_PREPARE),
        Method(
            "lp",
            "relaxation",
            f"{_PAPER}, problem (3) without integrality, by its Lagrangian dual",
            f"{_EXACT}:lp_bound",
            prepare=_PREPARE,
        ),
        Method("llfd", "heuristic", f"{_PAPER}, alg. 1", f"{_HEURISTICS}:llfd", prepare=_PREPARE),
        Method("min-table", "heuristic", f"{_PAPER}, alg. 2", f"{_HEURISTICS}:min_table", prepare=_PREPARE),
        Method("min-mig", "heuristic", f"{_PAPER}, alg. 3", f"{_HEURISTICS}:min_mig", prepare=_PREPARE),
        Method("mixed", "heuristic", f"{_PAPER}, alg. 4", f"{_HEURISTICS}:mixed", prepare=_PREPARE),
        Method("mixed-bf", "heuristic", f"{_PAPER}, sec. III-C", f"{_HEURISTICS}:mixed_bf", prepare=_PREPARE),
        Method(
            "readj",
            "heuristic",
            "Gedik 2014, as in Fang et al. 2016",
            "keyshift.heuristics.routing.readj:readj",
            prepare=_PREPARE,
        ),
    ),
)
