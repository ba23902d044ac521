"""Methods for mixed routing (paper 4)."""

from keyshift.catalogue.method import Formulation, Method

_PAPER = "Fang et al. 2016"
_STARTS = ("mixed", "min-mig", "min-table")

FORMULATION = Formulation(
    name="mixed-routing",
    entry="keyshift.models.routing:MixedRouting",
    methods=(
        Method(
            "milp",
            "exact",
            f"{_PAPER}, problem (3); HiGHS",
            "keyshift.solvers.routing.statement:solve_milp",
            _STARTS,
            prepare="keyshift.solvers.routing.warm_up:compile_kernels",
        ),
        Method(
            "cp-sat",
            "exact",
            f"{_PAPER}, problem (3); CP-SAT",
            "keyshift.solvers.routing.statement:solve_cpsat",
            _STARTS,
            prepare="keyshift.solvers.routing.warm_up:compile_kernels",
        ),
        Method(
            "lp",
            "relaxation",
            f"{_PAPER}, problem (3) without integrality, by its Lagrangian dual",
            "keyshift.solvers.routing.statement:lp_bound",
            prepare="keyshift.solvers.routing.warm_up:compile_kernels",
        ),
        Method(
            "llfd",
            "heuristic",
            f"{_PAPER}, alg. 1",
            "keyshift.heuristics.routing.mixed:llfd",
            prepare="keyshift.solvers.routing.warm_up:compile_kernels",
        ),
        Method(
            "min-table",
            "heuristic",
            f"{_PAPER}, alg. 2",
            "keyshift.heuristics.routing.mixed:min_table",
            prepare="keyshift.solvers.routing.warm_up:compile_kernels",
        ),
        Method(
            "min-mig",
            "heuristic",
            f"{_PAPER}, alg. 3",
            "keyshift.heuristics.routing.mixed:min_mig",
            prepare="keyshift.solvers.routing.warm_up:compile_kernels",
        ),
        Method(
            "mixed",
            "heuristic",
            f"{_PAPER}, alg. 4",
            "keyshift.heuristics.routing.mixed:mixed",
            prepare="keyshift.solvers.routing.warm_up:compile_kernels",
        ),
        Method(
            "mixed-bf",
            "heuristic",
            f"{_PAPER}, sec. III-C",
            "keyshift.heuristics.routing.mixed:mixed_bf",
            prepare="keyshift.solvers.routing.warm_up:compile_kernels",
        ),
        Method(
            "readj",
            "heuristic",
            "Gedik 2014, as in Fang et al. 2016",
            "keyshift.heuristics.routing.readj:readj",
            prepare="keyshift.solvers.routing.warm_up:compile_kernels",
        ),
    ),
)
