"""Methods for key splitting [Nasir2015]."""

from keyshift.catalogue.method import Formulation, Method
from keyshift.catalogue.placement import SCHEMES
from keyshift.catalogue.statement import Statement
from keyshift.catalogue.trade import Trade

FORMULATION = Formulation(
    name="key-splitting",
    summary="Every message to a worker, keys split over their candidates.",
    code="keyshift.models.splitting:KeySplitting",
    lesson="lessons/two-choices",
    statements=(
        Statement(
            kind="pyomo",
            language="pyomo",
            code="keyshift.models.splitting.pyomo_model:SplittingPyomo",
            summary="x[g,n]: so many messages of group g go to worker n; largest, the largest load.",
            source="KeySplitting, (1)-(3); [Nasir2015]",
        ),
        Statement(
            kind="cp-sat",
            language="cp-sat",
            code="keyshift.models.splitting.cpsat_model:SplittingCpSat",
            summary="The same in whole numbers, loads rounded by no more than is taken off the bound.",
            source="KeySplitting, (1)-(3); [Nasir2015]",
        ),
        Statement(
            kind="mathopt",
            language="mathopt",
            code="keyshift.models.splitting.mathopt_model:SplittingMathOpt",
            summary="The same for SCIP and others; relaxed, a flow of messages for GLOP.",
            source="KeySplitting, (1)-(3); [Nasir2015]",
        ),
    ),
    trades=(Trade(name="counters", metric="counters", limit="choices", label="counters held by all workers", least=1),),
    methods=(
        Method(
            name="flow",
            kind="exact",
            source="keyshift: maximum flows and minimum cuts, HiGHS for the rest",
            guarantee="the optimum, proven; by flows alone where messages weigh the same",
            code="keyshift.solvers.splitting.portfolio:solve_flow",
            warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            name="milp",
            kind="exact",
            source="integer program over groups of like messages; HiGHS",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            code="keyshift.solvers.splitting.statement:solve_milp",
            warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
            warm_start=("greedy-d",),
        ),
        Method(
            name="lp",
            kind="relaxation",
            source="the same, messages divisible; HiGHS",
            guarantee="a lower bound",
            code="keyshift.solvers.splitting.statement:lp_bound",
            warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            name="universal",
            kind="relaxation",
            source="[Nasir2015], sec. 5.1: max(p1 m / d, m / W)",
            guarantee="a lower bound for every choice of hash functions",
            code="keyshift.solvers.splitting.statement:universal_bound",
            warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            name="pkg",
            kind="heuristic",
            source="[Nasir2015], sec. 3",
            guarantee="none for one hash; on average [Nasir2015], sec. 5",
            code="keyshift.heuristics.splitting.schemes:pkg",
            warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            name="greedy-d",
            kind="heuristic",
            source="[Nasir2015], sec. 5",
            guarantee="none",
            code="keyshift.heuristics.splitting.schemes:greedy_d",
            warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            name="d-choices",
            kind="heuristic",
            source="[Nasir2016]",
            guarantee="none",
            code="keyshift.heuristics.splitting.schemes:d_choices",
            warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            name="w-choices",
            kind="heuristic",
            source="[Nasir2016]",
            guarantee="none",
            code="keyshift.heuristics.splitting.schemes:w_choices",
            warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            name="shuffle",
            kind="heuristic",
            source="[Nasir2015], shuffle grouping",
            guarantee="perfect balance; every worker may meet every key",
            code="keyshift.heuristics.splitting.schemes:shuffle",
            warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        *SCHEMES,
    ),
)
