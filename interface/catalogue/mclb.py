"""Methods for minimum-cost load balancing (MCLB) [Guo2018]."""

from keyshift.catalogue.method import Formulation, Method, Statement, Trade
from keyshift.models.lazily import lazily

with lazily():
    from keyshift.heuristics.mclb.clb import clb, clb_moment, is_quick
    from keyshift.heuristics.mclb.elb import elb
    from keyshift.heuristics.mclb.hashing import pkg, uhlb
    from keyshift.models.mclb import MCLB
    from keyshift.models.mclb.cpsat_model import MCLBCpSat
    from keyshift.models.mclb.mathopt_model import MCLBMathOpt
    from keyshift.models.mclb.pyomo_model import MCLBPairsPyomo, MCLBPyomo
    from keyshift.solvers.mclb.bounds import combinatorial_bound, qp_bound
    from keyshift.solvers.mclb.branch_and_bound import branch_and_bound, tree_of_a_point
    from keyshift.solvers.mclb.local_search import local_search
    from keyshift.solvers.mclb.sdp import sdp_bound
    from keyshift.solvers.mclb.statement import solve_cpsat, solve_scip, solve_tangents
    from keyshift.solvers.rehearsals import mclb, mclb_search

FORMULATION = Formulation(
    name="mclb",
    summary="Balance over many windows within a budget of state to move.",
    code=MCLB,
    lesson="lessons/two-objectives",
    trades=(
        Trade(
            name="state-moved", metric="state_moved", limit="max_state_moved", label="state moved",
            options=tree_of_a_point, apart=True,
        ),
    ),
    statements=(
        Statement(
            "pyomo", "pyomo", MCLBPyomo, "x[k,n]: key group k runs on node n; d[t,n], whose squares are summed.",
            "MCLB, (1)-(5); [Guo2018], sec. 2",
        ),
        Statement(
            "pyomo-pairs", "pyomo", MCLBPairsPyomo,
            "Linear, without squares: x[k,n] as before; together[k,l]: two key groups share a node.",
            "MCLBPairsPyomo, (7), (8); MCLB, (1), (3), (4), (6)",
        ),
        Statement(
            "mathopt", "mathopt", MCLBMathOpt, "The same quadratic program in MathOpt.",
            "MCLB, (1)-(5); [Guo2018], sec. 2",
        ),
        Statement(
            "cp-sat", "cp-sat", MCLBCpSat, "Whole loads L[t,n] and their squares.", "MCLB, (1)-(5); [Guo2018], sec. 2",
        ),
    ),
    methods=(
        Method(
            "branch-and-bound", "exact", "[Guo2018], sec. 2; keyshift's branch and bound", branch_and_bound, rules=True,
            warm_up=mclb, warm_start=("elb", "clb", "clb-moment"), rivals=("local-search",),
        ),
        Method(
            "scip", "exact", "[Guo2018], sec. 2; SCIP on the quadratic MathOpt statement", solve_scip, rules=True,
            limits="dozens of key groups", warm_start=("local-search",),
        ),
        Method(
            "cp-sat", "exact", "[Guo2018], sec. 2; CP-SAT on integer squares", solve_cpsat, rules=True,
            limits="dozens of key groups", warm_start=("local-search",),
        ),
        Method(
            "milp", "exact", "[Guo2018], sec. 2; HiGHS, tangents in place of squares, [Duran1986]", solve_tangents,
            rules=True, limits="dozens of key groups", warm_start=("local-search",),
        ),
        Method(
            "sdp", "relaxation", "[Frieze1997], made safe, with anchors for the budget", sdp_bound, rules=True,
            warm_up=mclb, lesson="lessons/two-objectives",
        ),
        Method(
            "combinatorial", "relaxation", "keyshift: window by window, what the largest key groups force",
            combinatorial_bound, rules=True,
        ),
        Method(
            "local-search", "heuristic", "keyshift: moves and swaps, annealed", local_search, rules=True,
            warm_up=mclb_search,
        ),
        Method("qp", "relaxation", "shares in place of whole key groups, [Frank1956]", qp_bound, rules=True),
        Method("elb", "heuristic", "[Guo2018], Algorithm 1", elb, rules=True),
        Method("clb", "heuristic", "[Guo2018], Algorithm 2, covariance as printed", clb, useful=is_quick),
        Method("clb-moment", "heuristic", "[Guo2018], Algorithm 2, second moment instead", clb_moment, useful=is_quick),
        Method("uhlb", "heuristic", "[Guo2018], sec. 5", uhlb),
        Method("pkg", "heuristic", "[Guo2018], sec. 5; [Nasir2015] without its splitting", pkg),
    ),
)  # fmt: skip
