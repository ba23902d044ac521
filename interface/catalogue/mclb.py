"""Methods for minimum-cost load balancing (MCLB) [Guo2018]."""

from functools import partial

from keyshift.catalogue.method import Formulation, Statement, Trade, kinds
from keyshift.models.base.lazily import lazily

with lazily():
    from keyshift.heuristics.mclb.clb import clb, clb_moment, elb, is_quick, pkg, uhlb
    from keyshift.models.mclb import MCLB
    from keyshift.models.mclb.cpsat_model import MCLBCpSat
    from keyshift.models.mclb.mathopt_model import MCLBMathOpt
    from keyshift.models.mclb.pyomo_model import MCLBPairsPyomo, MCLBPyomo
    from keyshift.solvers.mclb.bounds import combinatorial_bound, qp_bound
    from keyshift.solvers.mclb.local_search import local_search
    from keyshift.solvers.mclb.portfolio import branch_and_bound, tree_of_a_point
    from keyshift.solvers.mclb.sdp import sdp_bound
    from keyshift.solvers.mclb.statement import solve_cpsat, solve_scip, solve_tangents
    from keyshift.solvers.rehearsals import mclb, mclb_search

exact, relaxation, heuristic = kinds(rules=True)
published = partial(heuristic, rules=False, ignores=("max_state_moved",))
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
        exact(
            "branch-and-bound", "[Guo2018], sec. 2; keyshift's branch and bound", branch_and_bound, warm_up=mclb,
            warm_start=("elb", "clb", "clb-moment"),
        ),
        exact(
            "scip", "[Guo2018], sec. 2; SCIP on the quadratic MathOpt statement", solve_scip,
            limits="dozens of key groups", warm_start=("local-search",),
        ),
        exact(
            "cp-sat", "[Guo2018], sec. 2; CP-SAT on integer squares", solve_cpsat, limits="dozens of key groups",
            warm_start=("local-search",),
        ),
        exact(
            "milp", "[Guo2018], sec. 2; HiGHS, tangents in place of squares, [Duran1986]", solve_tangents,
            limits="dozens of key groups", warm_start=("local-search",),
        ),
        relaxation(
            "sdp", "[Frieze1997], made safe, with anchors for the budget", sdp_bound, warm_up=mclb,
            lesson="lessons/two-objectives",
        ),
        relaxation(
            "combinatorial", "keyshift: window by window, what the largest key groups force", combinatorial_bound,
        ),
        heuristic("local-search", "keyshift: moves and swaps, annealed", local_search, warm_up=mclb_search),
        relaxation("qp", "shares in place of whole key groups, [Frank1956]", qp_bound),
        published("elb", "[Guo2018], Algorithm 1", elb, rules=True),
        published("clb", "[Guo2018], Algorithm 2, covariance as printed", clb, useful=is_quick),
        published("clb-moment", "[Guo2018], Algorithm 2, second moment instead", clb_moment, useful=is_quick),
        published("uhlb", "[Guo2018], sec. 5", uhlb),
        published("pkg", "[Guo2018], sec. 5; [Nasir2015] without its splitting", pkg),
    ),
)  # fmt: skip
