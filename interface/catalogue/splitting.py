"""Methods for key splitting (paper 3)."""

from keyshift.catalogue.method import Formulation, Method

_PAPER = "Nasir et al. 2015"

_COMMON = (
    Method(
        "hash",
        "heuristic",
        f"{_PAPER}, key grouping",
        "keyshift.heuristics.splitting.schemes:hashing",
        prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
    ),
    Method(
        "potc",
        "heuristic",
        f"{_PAPER}, sec. 3.1, static choice",
        "keyshift.heuristics.splitting.schemes:potc",
        prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
    ),
    Method(
        "on-greedy",
        "heuristic",
        f"{_PAPER}, sec. 6.2",
        "keyshift.heuristics.splitting.schemes:on_greedy",
        prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
    ),
    Method(
        "off-greedy",
        "heuristic",
        f"{_PAPER}, sec. 6.2",
        "keyshift.heuristics.splitting.schemes:off_greedy",
        prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
    ),
)

FORMULATION = Formulation(
    name="key-splitting",
    entry="keyshift.models.splitting:KeySplitting",
    methods=(
        Method(
            "flow",
            "exact",
            "maximum flow and minimum cuts",
            "keyshift.solvers.splitting.portfolio:solve_flow",
            prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            "milp",
            "exact",
            "integer program; HiGHS",
            "keyshift.solvers.splitting.statement:solve_milp",
            ("greedy-d",),
            prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            "lp",
            "relaxation",
            "messages divisible; HiGHS",
            "keyshift.solvers.splitting.statement:lp_bound",
            prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            "universal",
            "relaxation",
            f"{_PAPER}, sec. 5.1: max(p1 m / d, m / W)",
            "keyshift.solvers.splitting.statement:universal_bound",
            prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            "pkg",
            "heuristic",
            f"{_PAPER}, sec. 3",
            "keyshift.heuristics.splitting.schemes:pkg",
            prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            "greedy-d",
            "heuristic",
            f"{_PAPER}, sec. 5",
            "keyshift.heuristics.splitting.schemes:greedy_d",
            prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            "d-choices",
            "heuristic",
            "Nasir et al. 2016",
            "keyshift.heuristics.splitting.schemes:d_choices",
            prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            "w-choices",
            "heuristic",
            "Nasir et al. 2016",
            "keyshift.heuristics.splitting.schemes:w_choices",
            prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        Method(
            "shuffle",
            "heuristic",
            f"{_PAPER}, shuffle grouping",
            "keyshift.heuristics.splitting.schemes:shuffle",
            prepare="keyshift.solvers.splitting.warm_up:compile_splitting",
        ),
        *_COMMON,
    ),
)
