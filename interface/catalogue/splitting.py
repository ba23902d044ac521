"""Methods for key splitting, and for key placement: the same without the splitting [Nasir2015]."""

from keyshift.catalogue.method import Formulation, Method, Statement, Trade
from keyshift.models.lazily import lazily

with lazily():
    from keyshift.heuristics.splitting.schemes import (
        d_choices,
        greedy_d,
        hashing,
        off_greedy,
        off_greedy_d,
        on_greedy,
        pkg,
        potc,
        shuffle,
        w_choices,
    )
    from keyshift.models.splitting import KeyPlacement, KeySplitting
    from keyshift.models.splitting.cpsat_model import SplittingCpSat
    from keyshift.models.splitting.pyomo_model import SplittingKeysPyomo, SplittingPyomo
    from keyshift.solvers.rehearsals import placement, splitting
    from keyshift.solvers.splitting.flow import flow_bound
    from keyshift.solvers.splitting.statement import lp_bound, solve_flow, solve_milp, universal_bound

SCHEMES = (
    Method("hash", "heuristic", "[Nasir2015], key grouping", hashing, warm_up=splitting),
    Method("potc", "heuristic", "[Nasir2015], sec. 3.1, static choice", potc, warm_up=splitting),
    Method("on-greedy", "heuristic", "[Nasir2015], sec. 6.2", on_greedy, warm_up=splitting),
    Method("off-greedy", "heuristic", "[Nasir2015], sec. 6.2", off_greedy, warm_up=splitting),
)
"""The schemes that never split a key: they answer key splitting as well."""

SPLITTING = Formulation(
    name="key-splitting",
    summary="Every message to a worker, keys split over their candidates.",
    code=KeySplitting,
    lesson="lessons/two-choices",
    statements=(
        Statement(
            "pyomo", "pyomo", SplittingPyomo,
            "x[g,n]: so many messages of group g go to worker n; largest, the largest load.",
            "KeySplitting, (1)-(3); [Nasir2015]",
        ),
        Statement(
            "cp-sat", "cp-sat", SplittingCpSat,
            "The same in whole numbers, loads rounded by no more than is taken off the bound.",
            "KeySplitting, (1)-(3); [Nasir2015]",
        ),
        Statement(
            "pyomo-keys", "pyomo", SplittingKeysPyomo,
            "x[k,n]: so many messages of key k go to worker n, keys alike told apart.",
            "KeySplitting, (1)-(3); [Nasir2015]",
        ),
    ),
    trades=(Trade(name="counters", metric="counters", limit="choices", label="counters held by all workers", least=1),),
    methods=(
        Method(
            "flow", "exact", "keyshift: maximum flows and minimum cuts, HiGHS for the rest", solve_flow,
            "the optimum, proven; by flows alone where messages weigh the same", warm_up=splitting,
            rivals=("greedy-d", "d-choices", "w-choices", "pkg", "off-greedy", "on-greedy", "potc", "hash"),
        ),
        Method(
            "milp", "exact", "integer program over groups of like messages; HiGHS", solve_milp, warm_up=splitting,
            warm_start=("greedy-d",),
        ),
        Method("lp", "relaxation", "the same, messages divisible; HiGHS", lp_bound, warm_up=splitting),
        Method(
            "universal", "relaxation", "[Nasir2015], sec. 5.1: max(p1 m / d, m / W)", universal_bound,
            "a lower bound for every choice of hash functions", warm_up=splitting,
        ),
        Method(
            "pkg", "heuristic", "[Nasir2015], sec. 3", pkg, "none for one hash; on average [Nasir2015], sec. 5",
            warm_up=splitting,
        ),
        Method("greedy-d", "heuristic", "[Nasir2015], sec. 5", greedy_d, warm_up=splitting),
        Method("d-choices", "heuristic", "[Nasir2016]", d_choices, warm_up=splitting),
        Method("w-choices", "heuristic", "[Nasir2016]", w_choices, warm_up=splitting),
        Method(
            "shuffle", "heuristic", "[Nasir2015], shuffle grouping", shuffle,
            "perfect balance; every worker may meet every key", warm_up=splitting,
        ),
        *SCHEMES,
    ),
)  # fmt: skip
PLACEMENT = Formulation(
    name="key-placement",
    summary="Key splitting without the splitting: every key on one worker.",
    code=KeyPlacement,
    lesson="lessons/two-choices",
    statements=(
        Statement(
            "pyomo", "pyomo", SplittingPyomo,
            "x[g,n]: so many keys of group g live on worker n; largest, the largest load.",
            "KeyPlacement, (1)-(4); [Nasir2015]",
        ),
        Statement(
            "cp-sat", "cp-sat", SplittingCpSat,
            "The same in whole numbers, loads rounded by no more than is taken off the bound.",
            "KeyPlacement, (1)-(4); [Nasir2015]",
        ),
        Statement(
            "pyomo-keys", "pyomo", SplittingKeysPyomo, "x[k,n]: key k lives on worker n, keys alike told apart.",
            "KeyPlacement, (1)-(4); [Nasir2015]",
        ),
    ),
    methods=(
        Method(
            "milp", "exact", "makespan scheduling with restricted assignment; HiGHS", solve_milp, warm_up=placement,
            warm_start=("off-greedy-d", "potc", "on-greedy", "off-greedy", "hash"),
        ),
        Method("flow", "relaxation", "keyshift: maximum flow, keys splittable", flow_bound, warm_up=placement),
        Method("lp", "relaxation", "messages divisible; HiGHS", lp_bound, warm_up=placement),
        Method(
            "universal", "relaxation", "[Nasir2015], sec. 5.1: max(p1 m, m / W)", universal_bound, warm_up=placement,
        ),
        Method(
            "off-greedy-d", "heuristic", "[Nasir2015], Off-Greedy among candidates", off_greedy_d, warm_up=placement,
        ),
        *SCHEMES,
    ),
)  # fmt: skip
FORMULATIONS = (SPLITTING, PLACEMENT)
