"""Methods for key placement: key splitting without the splitting [Nasir2015]."""

from keyshift.catalogue.method import Formulation, Method, Statement
from keyshift.models.lazily import lazily

with lazily():
    from keyshift.heuristics.splitting.schemes import hashing, off_greedy, off_greedy_d, on_greedy, potc
    from keyshift.models.splitting import KeyPlacement
    from keyshift.models.splitting.cpsat_model import SplittingCpSat
    from keyshift.models.splitting.pyomo_model import SplittingPyomo
    from keyshift.solvers.rehearsals import placement, splitting
    from keyshift.solvers.splitting.flow import flow_bound
    from keyshift.solvers.splitting.statement import lp_bound, solve_milp, universal_bound

SCHEMES = (
    Method("hash", "heuristic", "[Nasir2015], key grouping", hashing, "none", warm_up=splitting),
    Method("potc", "heuristic", "[Nasir2015], sec. 3.1, static choice", potc, "none", warm_up=splitting),
    Method("on-greedy", "heuristic", "[Nasir2015], sec. 6.2", on_greedy, "none", warm_up=splitting),
    Method("off-greedy", "heuristic", "[Nasir2015], sec. 6.2", off_greedy, "none", warm_up=splitting),
)
"""The schemes that never split a key: they answer key splitting as well."""


FORMULATION = Formulation(
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
    ),
    methods=(
        Method(
            "milp", "exact", "makespan scheduling with restricted assignment; HiGHS", solve_milp,
            "the optimum, proven; at a limit the best found and a bound", warm_up=placement,
            warm_start=("off-greedy-d", "potc", "on-greedy", "off-greedy", "hash"),
        ),
        Method(
            "flow", "relaxation", "keyshift: maximum flow, keys splittable", flow_bound, "a lower bound",
            warm_up=placement,
        ),
        Method("lp", "relaxation", "messages divisible; HiGHS", lp_bound, "a lower bound", warm_up=placement),
        Method(
            "universal", "relaxation", "[Nasir2015], sec. 5.1: max(p1 m, m / W)", universal_bound, "a lower bound",
            warm_up=placement,
        ),
        Method(
            "off-greedy-d", "heuristic", "[Nasir2015], Off-Greedy among candidates", off_greedy_d, "none",
            warm_up=placement,
        ),
        *SCHEMES,
    ),
)  # fmt: skip
