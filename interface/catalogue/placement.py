"""Methods for key placement: key splitting without the splitting [Nasir2015]."""

from keyshift.catalogue.method import Formulation, Method
from keyshift.catalogue.statement import Statement

SCHEMES = (
    Method(
        name="hash",
        kind="heuristic",
        source="[Nasir2015], key grouping",
        guarantee="none",
        code="keyshift.heuristics.splitting.schemes:hashing",
        warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
    ),
    Method(
        name="potc",
        kind="heuristic",
        source="[Nasir2015], sec. 3.1, static choice",
        guarantee="none",
        code="keyshift.heuristics.splitting.schemes:potc",
        warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
    ),
    Method(
        name="on-greedy",
        kind="heuristic",
        source="[Nasir2015], sec. 6.2",
        guarantee="none",
        code="keyshift.heuristics.splitting.schemes:on_greedy",
        warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
    ),
    Method(
        name="off-greedy",
        kind="heuristic",
        source="[Nasir2015], sec. 6.2",
        guarantee="none",
        code="keyshift.heuristics.splitting.schemes:off_greedy",
        warm_up="keyshift.solvers.splitting.warm_up:compile_splitting",
    ),
)
"""The schemes that never split a key: they answer key splitting as well."""


FORMULATION = Formulation(
    name="key-placement",
    summary="Key splitting without the splitting: every key on one worker.",
    code="keyshift.models.splitting:KeyPlacement",
    lesson="lessons/two-choices",
    statements=(
        Statement(
            kind="pyomo",
            language="pyomo",
            code="keyshift.models.splitting.pyomo_model:SplittingPyomo",
            summary="x[g,n]: so many keys of group g live on worker n; largest, the largest load.",
            source="KeyPlacement, (1)-(4); [Nasir2015]",
        ),
        Statement(
            kind="cp-sat",
            language="cp-sat",
            code="keyshift.models.splitting.cpsat_model:SplittingCpSat",
            summary="The same in whole numbers, loads rounded by no more than is taken off the bound.",
            source="KeyPlacement, (1)-(4); [Nasir2015]",
        ),
        Statement(
            kind="mathopt",
            language="mathopt",
            code="keyshift.models.splitting.mathopt_model:SplittingMathOpt",
            summary="The same for SCIP and others; relaxed, a flow of keys for GLOP.",
            source="KeyPlacement, (1)-(4); [Nasir2015]",
        ),
    ),
    methods=(
        Method(
            name="milp",
            kind="exact",
            source="makespan scheduling with restricted assignment; HiGHS",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            code="keyshift.solvers.splitting.statement:solve_milp",
            warm_up="keyshift.solvers.splitting.warm_up:compile_placement",
            warm_start=("off-greedy-d", "potc", "on-greedy", "off-greedy", "hash"),
        ),
        Method(
            name="flow",
            kind="relaxation",
            source="keyshift: maximum flow, keys splittable",
            guarantee="a lower bound",
            code="keyshift.solvers.splitting.flow:flow_bound",
            warm_up="keyshift.solvers.splitting.warm_up:compile_placement",
        ),
        Method(
            name="lp",
            kind="relaxation",
            source="messages divisible; HiGHS",
            guarantee="a lower bound",
            code="keyshift.solvers.splitting.statement:lp_bound",
            warm_up="keyshift.solvers.splitting.warm_up:compile_placement",
        ),
        Method(
            name="universal",
            kind="relaxation",
            source="[Nasir2015], sec. 5.1: max(p1 m, m / W)",
            guarantee="a lower bound",
            code="keyshift.solvers.splitting.statement:universal_bound",
            warm_up="keyshift.solvers.splitting.warm_up:compile_placement",
        ),
        Method(
            name="off-greedy-d",
            kind="heuristic",
            source="[Nasir2015], Off-Greedy among candidates",
            guarantee="none",
            code="keyshift.heuristics.splitting.schemes:off_greedy_d",
            warm_up="keyshift.solvers.splitting.warm_up:compile_placement",
        ),
        *SCHEMES,
    ),
)
