"""Methods for minimum-cost load balancing (paper 1)."""

from keyshift.method import Formulation, Method

_PAPER = "paper 1, sec. 2"
_START = ("local-search",)

FORMULATION = Formulation(
    name="mclb",
    entry="keyshift.models.mclb:MCLB",
    methods=(
        Method(
            "branch-and-bound",
            "exact",
            f"{_PAPER}; our own search",
            "keyshift.solvers.mclb.branch:branch_and_bound",
            _START,
        ),
        Method(
            "scip", "exact", f"{_PAPER}; quadratic program by SCIP", "keyshift.solvers.mclb.exact:solve_scip", _START
        ),
        Method(
            "cp-sat", "exact", f"{_PAPER}; integer squares by CP-SAT", "keyshift.solvers.mclb.exact:solve_cpsat", _START
        ),
        Method("milp", "exact", f"{_PAPER}; tangents by HiGHS", "keyshift.solvers.mclb.exact:solve_tangents", _START),
        Method(
            "combinatorial",
            "relaxation",
            "window by window, largest key groups",
            "keyshift.solvers.mclb.bounds:combinatorial_bound",
        ),
        Method(
            "local-search", "heuristic", "our own: moves and swaps", "keyshift.solvers.mclb.local_search:local_search"
        ),
    ),
)
