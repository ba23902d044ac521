"""Methods for key splitting (paper 3)."""

from keyshift.method import Formulation, Method

_PAPER = "Nasir et al. 2015"
_EXACT = "keyshift.solvers.splitting.exact"
_FLOW = "keyshift.solvers.splitting.flow"
_SCHEMES = "keyshift.heuristics.splitting.schemes"
_PREPARE = "keyshift.solvers.splitting.prepare:compile_splitting"

_COMMON = (
    Method("hash", "heuristic", f"{_PAPER}, key grouping", f"{_SCHEMES}:hashing", prepare=_PREPARE),
    Method("potc", "heuristic", f"{_PAPER}, sec. 3.1, static choice", f"{_SCHEMES}:potc", prepare=_PREPARE),
    Method("on-greedy", "heuristic", f"{_PAPER}, sec. 6.2", f"{_SCHEMES}:on_greedy", prepare=_PREPARE),
    Method("off-greedy", "heuristic", f"{_PAPER}, sec. 6.2", f"{_SCHEMES}:off_greedy", prepare=_PREPARE),
)

FORMULATION = Formulation(
    name="key-splitting",
    entry="keyshift.models.splitting:KeySplitting",
    methods=(
        Method("flow", "exact", "maximum flow and minimum cuts", f"{_FLOW}:solve_flow", prepare=_PREPARE),
        Method("milp", "exact", "integer program; HiGHS", f"{_EXACT}:solve_milp", ("greedy-d",), prepare=_PREPARE),
        Method("lp", "relaxation", "messages divisible; HiGHS", f"{_EXACT}:lp_bound", prepare=_PREPARE),
        Method(
            "universal",
            "relaxation",
            f"{_PAPER}, sec. 5.1: max(p1 m / d, m / W)",
            f"{_EXACT}:universal_bound",
            prepare=_PREPARE,
        ),
        Method("pkg", "heuristic", f"{_PAPER}, sec. 3", f"{_SCHEMES}:pkg", prepare=_PREPARE),
        Method("greedy-d", "heuristic", f"{_PAPER}, sec. 5", f"{_SCHEMES}:greedy_d", prepare=_PREPARE),
        Method("d-choices", "heuristic", "Nasir et al. 2016", f"{_SCHEMES}:d_choices", prepare=_PREPARE),
        Method("w-choices", "heuristic", "Nasir et al. 2016", f"{_SCHEMES}:w_choices", prepare=_PREPARE),
        Method("shuffle", "heuristic", f"{_PAPER}, shuffle grouping", f"{_SCHEMES}:shuffle", prepare=_PREPARE),
        *_COMMON,
    ),
)
