"""Methods for key placement: key splitting without the splitting [Nasir2015]."""

from keyshift.catalogue.method import Formulation, Method
from keyshift.catalogue.statement import Statement
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
            kind="pyomo",
            language="pyomo",
            code=SplittingPyomo,
            summary="x[g,n]: so many keys of group g live on worker n; largest, the largest load.",
            source="KeyPlacement, (1)-(4); [Nasir2015]",
        ),
        Statement(
            kind="cp-sat",
            language="cp-sat",
            code=SplittingCpSat,
            summary="The same in whole numbers, loads rounded by no more than is taken off the bound.",
            source="KeyPlacement, (1)-(4); [Nasir2015]",
        ),
    ),
    methods=(
        Method(
            name="milp",
            kind="exact",
            source="makespan scheduling with restricted assignment; HiGHS",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            code=solve_milp,
            warm_up=placement,
            warm_start=("off-greedy-d", "potc", "on-greedy", "off-greedy", "hash"),
        ),
        Method(
            name="flow",
            kind="relaxation",
            source="keyshift: maximum flow, keys splittable",
            guarantee="a lower bound",
            code=flow_bound,
            warm_up=placement,
        ),
        Method("lp", "relaxation", "messages divisible; HiGHS", lp_bound, "a lower bound", warm_up=placement),
        Method(
            name="universal",
            kind="relaxation",
            source="[Nasir2015], sec. 5.1: max(p1 m, m / W)",
            guarantee="a lower bound",
            code=universal_bound,
            warm_up=placement,
        ),
        Method(
            name="off-greedy-d",
            kind="heuristic",
            source="[Nasir2015], Off-Greedy among candidates",
            guarantee="none",
            code=off_greedy_d,
            warm_up=placement,
        ),
        *SCHEMES,
    ),
)
