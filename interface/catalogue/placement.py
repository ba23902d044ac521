"""Methods for key placement: key splitting without the splitting (paper 3, section 3.1)."""

from keyshift.catalogue.splitting import _COMMON, _EXACT, _FLOW, _PAPER, _SCHEMES
from keyshift.method import Formulation, Method

_PREPARE = "keyshift.solvers.splitting.prepare:compile_placement"

FORMULATION = Formulation(
    name="key-placement",
    entry="keyshift.models.splitting:KeyPlacement",
    methods=(
        Method(
            "milp",
            "exact",
            "restricted assignment; HiGHS",
            f"{_EXACT}:solve_milp",
            ("off-greedy-d", "potc"),
            prepare=_PREPARE,
        ),
        Method("flow", "relaxation", "keys splittable; maximum flow", f"{_FLOW}:flow_bound", prepare=_PREPARE),
        Method("lp", "relaxation", "messages divisible; HiGHS", f"{_EXACT}:lp_bound", prepare=_PREPARE),
        Method(
            "universal",
            "relaxation",
            f"{_PAPER}, sec. 5.1: max(p1 m, m / W)",
            f"{_EXACT}:universal_bound",
            prepare=_PREPARE,
        ),
        Method(
            "off-greedy-d", "heuristic", "Off-Greedy among candidates", f"{_SCHEMES}:off_greedy_d", prepare=_PREPARE
        ),
        *_COMMON,
    ),
)
