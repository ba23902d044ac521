"""Methods for key placement: key splitting without the splitting (paper 3, section 3.1)."""

from keyshift.catalogue.method import Formulation, Method
from keyshift.catalogue.splitting import _COMMON, _PAPER

FORMULATION = Formulation(
    name="key-placement",
    entry="keyshift.models.splitting:KeyPlacement",
    methods=(
        Method(
            "milp",
            "exact",
            "restricted assignment; HiGHS",
            "keyshift.solvers.splitting.statement:solve_milp",
            ("off-greedy-d", "potc"),
            prepare="keyshift.solvers.splitting.warm_up:compile_placement",
        ),
        Method(
            "flow",
            "relaxation",
            "keys splittable; maximum flow",
            "keyshift.solvers.splitting.flow:flow_bound",
            prepare="keyshift.solvers.splitting.warm_up:compile_placement",
        ),
        Method(
            "lp",
            "relaxation",
            "messages divisible; HiGHS",
            "keyshift.solvers.splitting.statement:lp_bound",
            prepare="keyshift.solvers.splitting.warm_up:compile_placement",
        ),
        Method(
            "universal",
            "relaxation",
            f"{_PAPER}, sec. 5.1: max(p1 m, m / W)",
            "keyshift.solvers.splitting.statement:universal_bound",
            prepare="keyshift.solvers.splitting.warm_up:compile_placement",
        ),
        Method(
            "off-greedy-d",
            "heuristic",
            "Off-Greedy among candidates",
            "keyshift.heuristics.splitting.schemes:off_greedy_d",
            prepare="keyshift.solvers.splitting.warm_up:compile_placement",
        ),
        *_COMMON,
    ),
)
