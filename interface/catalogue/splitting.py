"""Methods for key splitting, and for key placement: the same without the splitting [Nasir2015]."""

from keyshift.catalogue.method import Formulation, Statement, Trade, kinds, pyomo_and_cpsat
from keyshift.models.base.lazily import lazily

with lazily():
    from keyshift.heuristics.splitting import schemes
    from keyshift.models.splitting import KeyPlacement, KeySplitting
    from keyshift.models.splitting.cpsat_model import SplittingCpSat
    from keyshift.models.splitting.pyomo_model import SplittingKeysPyomo, SplittingPyomo
    from keyshift.solvers.rehearsals import placement, splitting
    from keyshift.solvers.splitting.flow import flow_bound
    from keyshift.solvers.splitting.statement import lp_bound, solve_flow, solve_milp, universal_bound

exact, relaxation, heuristic = kinds(warm_up=splitting)
SCHEMES = (
    heuristic("hash", "[Nasir2015], key grouping", schemes.hashing),
    heuristic("potc", "[Nasir2015], sec. 3.1, static choice", schemes.potc),
    heuristic("on-greedy", "[Nasir2015], sec. 6.2", schemes.on_greedy),
    heuristic("off-greedy", "[Nasir2015], sec. 6.2", schemes.off_greedy),
)
"""The schemes that never split a key: they answer key splitting as well."""

SPLITTING = Formulation(
    name="key-splitting",
    summary="Every message to a worker, keys split over their candidates.",
    code=KeySplitting,
    lesson="lessons/two-choices",
    statements=(
        *pyomo_and_cpsat(
            SplittingPyomo, SplittingCpSat,
            "x[g,n]: so many messages of group g go to worker n; largest, the largest load.",
            "KeySplitting, (1)-(3); [Nasir2015]",
            "The same in whole numbers, loads rounded by no more than is taken off the bound.",
        ),
        Statement(
            "pyomo-keys", "pyomo", SplittingKeysPyomo,
            "x[k,n]: so many messages of key k go to worker n, keys alike told apart.",
            "KeySplitting, (1)-(3); [Nasir2015]",
        ),
    ),
    trades=(Trade(name="counters", metric="counters", limit="choices", label="counters held by all workers", least=1),),
    methods=(
        exact(
            "flow", "keyshift: maximum flows and minimum cuts, HiGHS for the rest", solve_flow,
            "the optimum, proven; by flows alone where messages weigh the same",
            rivals=("greedy-d", "d-choices", "w-choices", "pkg", "off-greedy", "on-greedy", "potc", "hash"),
        ),
        exact("milp", "integer program over groups of like messages; HiGHS", solve_milp, warm_start=("greedy-d",)),
        relaxation("lp", "the same, messages divisible; HiGHS", lp_bound),
        relaxation(
            "universal", "[Nasir2015], sec. 5.1: max(p1 m / d, m / W)", universal_bound,
            "a lower bound for every choice of hash functions",
        ),
        heuristic("pkg", "[Nasir2015], sec. 3", schemes.pkg, "none for one hash; on average [Nasir2015], sec. 5"),
        heuristic("greedy-d", "[Nasir2015], sec. 5", schemes.greedy_d),
        heuristic("d-choices", "[Nasir2016]", schemes.d_choices),
        heuristic("w-choices", "[Nasir2016]", schemes.w_choices),
        heuristic(
            "shuffle", "[Nasir2015], shuffle grouping", schemes.shuffle, "perfect balance; every worker may meet every key",
        ),
        *SCHEMES,
    ),
)  # fmt: skip
exact, relaxation, heuristic = kinds(warm_up=placement)
PLACEMENT = Formulation(
    name="key-placement",
    summary="Key splitting without the splitting: every key on one worker.",
    code=KeyPlacement,
    lesson="lessons/two-choices",
    statements=(
        *pyomo_and_cpsat(
            SplittingPyomo, SplittingCpSat,
            "x[g,n]: so many keys of group g live on worker n; largest, the largest load.",
            "KeyPlacement, (1)-(4); [Nasir2015]",
            "The same in whole numbers, loads rounded by no more than is taken off the bound.",
        ),
        Statement(
            "pyomo-keys", "pyomo", SplittingKeysPyomo, "x[k,n]: key k lives on worker n, keys alike told apart.",
            "KeyPlacement, (1)-(4); [Nasir2015]",
        ),
    ),
    methods=(
        exact(
            "milp", "makespan scheduling with restricted assignment; HiGHS", solve_milp,
            warm_start=("off-greedy-d", "potc", "on-greedy", "off-greedy", "hash"),
        ),
        relaxation("flow", "keyshift: maximum flow, keys splittable", flow_bound),
        relaxation("lp", "messages divisible; HiGHS", lp_bound),
        relaxation("universal", "[Nasir2015], sec. 5.1: max(p1 m, m / W)", universal_bound),
        heuristic("off-greedy-d", "[Nasir2015], Off-Greedy among candidates", schemes.off_greedy_d),
        *SCHEMES,
    ),
)  # fmt: skip
FORMULATIONS = (SPLITTING, PLACEMENT)
