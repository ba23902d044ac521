"""Methods for key-group allocation (paper 2, section 4.3.1)."""

from keyshift.catalogue.method import Formulation, Method

_PAPER = "Madsen, Zhou, Cao 2016, sec. 4.3.1"

FORMULATION = Formulation(
    name="key-group-allocation",
    entry="keyshift.models.allocation:KeyGroupAllocation",
    methods=(
        Method(
            "milp",
            "exact",
            f"{_PAPER}; own search and bounds, then CP-SAT",
            "keyshift.solvers.allocation.portfolio:solve_milp",
            ("flux",),
            prepare="keyshift.solvers.allocation.warm_up:compile_kernels",
        ),
        Method(
            "highs",
            "exact",
            f"{_PAPER}; HiGHS on the plain statement",
            "keyshift.solvers.allocation.statement:solve_highs",
            ("flux",),
        ),
        Method("cp-sat", "exact", f"{_PAPER}; CP-SAT", "keyshift.solvers.allocation.statement:solve_cpsat", ("flux",)),
        Method("lp", "relaxation", f"{_PAPER}, without integrality", "keyshift.solvers.allocation.statement:lp_bound"),
        Method(
            "prices",
            "relaxation",
            "keyshift: counts and prices of moves",
            "keyshift.solvers.allocation.pricing.tree:price_bound",
            prepare="keyshift.solvers.allocation.warm_up:compile_bound",
        ),
        Method(
            "flux",
            "heuristic",
            "Shah et al. 2003, as in Madsen et al. 2016",
            "keyshift.heuristics.allocation.flux:flux",
        ),
        Method("potc", "heuristic", "Azar et al. 1999, within the limits", "keyshift.heuristics.allocation.potc:potc"),
        Method(
            "drain-first",
            "heuristic",
            "Madsen, Zhou, Cao 2016, sec. 5.1",
            "keyshift.heuristics.allocation.drain_first:drain_first",
            prepare="keyshift.solvers.allocation.warm_up:compile_kernels",
        ),
    ),
)
