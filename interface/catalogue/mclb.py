"""Methods for minimum-cost load balancing (paper 1)."""

from keyshift.catalogue.method import Formulation, Method

_PAPER = "paper 1, sec. 2"
_START = ("local-search",)

FORMULATION = Formulation(
    name="mclb",
    entry="keyshift.models.mclb:MCLB",
    pareto="keyshift.solvers.mclb.front:front",
    methods=(
        Method(
            "branch-and-bound",
            "exact",
            f"{_PAPER}; our own search",
            "keyshift.solvers.mclb.branch_and_bound:branch_and_bound",
            _START,
            prepare="keyshift.solvers.mclb.warm_up:compile_kernels",
        ),
        Method(
            "scip",
            "exact",
            f"{_PAPER}; quadratic program by SCIP",
            "keyshift.solvers.mclb.statement:solve_scip",
            _START,
        ),
        Method(
            "cp-sat",
            "exact",
            f"{_PAPER}; integer squares by CP-SAT",
            "keyshift.solvers.mclb.statement:solve_cpsat",
            _START,
        ),
        Method(
            "milp", "exact", f"{_PAPER}; tangents by HiGHS", "keyshift.solvers.mclb.statement:solve_tangents", _START
        ),
        Method(
            "sdp",
            "relaxation",
            "Frieze, Jerrum 1997, made safe; anchors for the budget",
            "keyshift.solvers.mclb.sdp:sdp_bound",
            prepare="keyshift.solvers.mclb.warm_up:compile_kernels",
        ),
        Method(
            "combinatorial",
            "relaxation",
            "window by window, largest key groups",
            "keyshift.solvers.mclb.bounds:combinatorial_bound",
        ),
        Method(
            "local-search",
            "heuristic",
            "our own: moves and swaps",
            "keyshift.solvers.mclb.local_search:local_search",
            prepare="keyshift.solvers.mclb.warm_up:compile_search",
        ),
        Method(
            "qp",
            "relaxation",
            "shares in place of whole key groups, Frank, Wolfe 1956",
            "keyshift.solvers.mclb.qp:qp_bound",
        ),
        Method("elb", "heuristic", "paper 1, Algorithm 1", "keyshift.heuristics.mclb.elb:elb"),
        Method("clb", "heuristic", "paper 1, Algorithm 2, covariance as printed", "keyshift.heuristics.mclb.clb:clb"),
        Method(
            "clb-moment", "heuristic", "paper 1, Algorithm 2, second moment", "keyshift.heuristics.mclb.clb:clb_moment"
        ),
        Method("uhlb", "heuristic", "paper 1, sec. 5", "keyshift.heuristics.mclb.hashing:uhlb"),
        Method("pkg", "heuristic", "paper 1, sec. 5; Nasir et al. 2015", "keyshift.heuristics.mclb.hashing:pkg"),
    ),
)
