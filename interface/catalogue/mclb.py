"""Methods for minimum-cost load balancing (MCLB) [Guo2018]."""

from keyshift.catalogue.method import Formulation, Method
from keyshift.catalogue.statement import Statement
from keyshift.catalogue.trade import Trade
from keyshift.models.lazily import lazily

with lazily():
    from keyshift.heuristics.mclb.clb import clb, clb_moment, is_quick
    from keyshift.heuristics.mclb.elb import elb
    from keyshift.heuristics.mclb.hashing import pkg, uhlb
    from keyshift.models.mclb import MCLB
    from keyshift.models.mclb.cpsat_model import MCLBCpSat
    from keyshift.models.mclb.mathopt_model import MCLBMathOpt
    from keyshift.models.mclb.pyomo_model import MCLBPyomo
    from keyshift.solvers.mclb.bounds import combinatorial_bound
    from keyshift.solvers.mclb.branch_and_bound import branch_and_bound
    from keyshift.solvers.mclb.front import front
    from keyshift.solvers.mclb.local_search import local_search
    from keyshift.solvers.mclb.qp import qp_bound
    from keyshift.solvers.mclb.sdp import sdp_bound
    from keyshift.solvers.mclb.statement import solve_cpsat, solve_scip, solve_tangents
    from keyshift.solvers.mclb.warm_up import compile_kernels, compile_search

FORMULATION = Formulation(
    name="mclb",
    summary="Balance over many windows within a budget of state to move.",
    code=MCLB,
    lesson="lessons/mclb-slip",
    trades=(
        Trade(
            name="state-moved",
            metric="state_moved",
            limit="max_state_moved",
            label="state moved",
            code=front,
        ),
    ),
    statements=(
        Statement(
            kind="pyomo",
            language="pyomo",
            code=MCLBPyomo,
            summary="x[k,n]: key group k runs on node n; d[t,n], whose squares are summed.",
            source="MCLB, (1)-(5); [Guo2018], sec. 2",
        ),
        Statement(
            kind="mathopt",
            language="mathopt",
            code=MCLBMathOpt,
            summary="The same quadratic program in MathOpt.",
            source="MCLB, (1)-(5); [Guo2018], sec. 2",
        ),
        Statement(
            kind="cp-sat",
            language="cp-sat",
            code=MCLBCpSat,
            summary="Whole loads L[t,n] and their squares.",
            source="MCLB, (1)-(5); [Guo2018], sec. 2",
        ),
    ),
    methods=(
        Method(
            name="branch-and-bound",
            kind="exact",
            source="[Guo2018], sec. 2; keyshift's branch and bound",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            code=branch_and_bound,
            warm_up=compile_kernels,
            warm_start=("elb", "clb", "clb-moment"),
            rivals=("local-search",),
        ),
        Method(
            name="scip",
            kind="exact",
            source="[Guo2018], sec. 2; SCIP on the quadratic MathOpt statement",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            limits="dozens of key groups",
            code=solve_scip,
            warm_start=("local-search",),
        ),
        Method(
            name="cp-sat",
            kind="exact",
            rules=True,
            source="[Guo2018], sec. 2; CP-SAT on integer squares",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            limits="dozens of key groups",
            code=solve_cpsat,
            warm_start=("local-search",),
        ),
        Method(
            name="milp",
            kind="exact",
            source="[Guo2018], sec. 2; HiGHS, tangents in place of squares, [Duran1986]",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            limits="dozens of key groups",
            code=solve_tangents,
            warm_start=("local-search",),
        ),
        Method(
            name="sdp",
            kind="relaxation",
            source="[Frieze1997], made safe, with anchors for the budget",
            guarantee="a lower bound",
            code=sdp_bound,
            warm_up=compile_kernels,
            lesson="lessons/two-objectives",
        ),
        Method(
            name="combinatorial",
            kind="relaxation",
            source="keyshift: window by window, what the largest key groups force",
            guarantee="a lower bound",
            code=combinatorial_bound,
        ),
        Method(
            name="local-search",
            kind="heuristic",
            source="keyshift: moves and swaps, annealed",
            guarantee="none",
            code=local_search,
            warm_up=compile_search,
        ),
        Method(
            name="qp",
            kind="relaxation",
            source="shares in place of whole key groups, [Frank1956]",
            guarantee="a lower bound",
            code=qp_bound,
        ),
        Method(
            name="elb",
            kind="heuristic",
            source="[Guo2018], Algorithm 1",
            guarantee="none",
            code=elb,
        ),
        Method(
            name="clb",
            kind="heuristic",
            source="[Guo2018], Algorithm 2, covariance as printed",
            guarantee="none",
            code=clb,
            useful=is_quick,
        ),
        Method(
            name="clb-moment",
            kind="heuristic",
            source="[Guo2018], Algorithm 2, second moment instead",
            guarantee="none",
            code=clb_moment,
            useful=is_quick,
        ),
        Method(
            name="uhlb",
            kind="heuristic",
            source="[Guo2018], sec. 5",
            guarantee="none",
            code=uhlb,
        ),
        Method(
            name="pkg",
            kind="heuristic",
            source="[Guo2018], sec. 5; [Nasir2015] without its splitting",
            guarantee="none",
            code=pkg,
        ),
    ),
)
