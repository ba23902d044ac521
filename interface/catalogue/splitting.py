"""Methods for key splitting (paper 3)."""

from keyshift.method import Formulation, Method

_PAPER = "Nasir et al. 2015"
_EXACT = "keyshift.solvers.splitting.exact"
_FLOW = "keyshift.solvers.splitting.flow"
_SCHEMES = "keyshift.heuristics.splitting.schemes"

_COMMON = (
    Method("hash", "heuristic", f"{_PAPER}, key grouping", f"{_SCHEMES}:hashing"),
    Method("potc", "heuristic", f"{_PAPER}, sec. 3.1, static choice", f"{_SCHEMES}:potc"),
    Method("on-greedy", "heuristic", f"{_PAPER}, sec. 6.2", f"{_SCHEMES}:on_greedy"),
    Method("off-greedy", "heuristic", f"{_PAPER}, sec. 6.2", f"{_SCHEMES}:off_greedy"),
)

FORMULATION = Formulation(
    name="key-splitting",
    entry="keyshift.models.splitting:KeySplitting",
    methods=(
        Method("flow", "exact", "maximum flow and minimum cuts", f"{_FLOW}:solve_flow"),
        Method("milp", "exact", "integer program; HiGHS", f"{_EXACT}:solve_milp", ("greedy-d",)),
        Method("lp", "relaxation", "messages divisible; HiGHS", f"{_EXACT}:lp_bound"),
        Method("universal", "relaxation", f"{_PAPER}, sec. 5.1: max(p1 m / d, m / W)", f"{_EXACT}:universal_bound"),
        Method("pkg", "heuristic", f"{_PAPER}, sec. 3", f"{_SCHEMES}:pkg"),
        Method("greedy-d", "heuristic", f"{_PAPER}, sec. 5", f"{_SCHEMES}:greedy_d"),
        Method("d-choices", "heuristic", "Nasir et al. 2016", f"{_SCHEMES}:d_choices"),
        Method("w-choices", "heuristic", "Nasir et al. 2016", f"{_SCHEMES}:w_choices"),
        Method("shuffle", "heuristic", f"{_PAPER}, shuffle grouping", f"{_SCHEMES}:shuffle"),
        *_COMMON,
    ),
)
