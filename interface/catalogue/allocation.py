"""Methods for key-group allocation (paper 2, section 4.3.1)."""

from keyshift.method import Formulation, Method

_PAPER = "Madsen, Zhou, Cao 2016, sec. 4.3.1"
_SOLVERS = "keyshift.solvers.allocation"
_HEURISTICS = "keyshift.heuristics.allocation"

FORMULATION = Formulation(
    name="key-group-allocation",
    entry="keyshift.models.allocation:KeyGroupAllocation",
    methods=(
        Method(
            "milp",
            "exact",
            f"{_PAPER}; own search and bounds, then CP-SAT",
            f"{_SOLVERS}.milp:solve_milp",
            ("flux",),
            prepare=f"{_SOLVERS}.prepare:compile_kernels",
        ),
        Method(
            "highs", "exact", f"{_PAPER}; HiGHS on the plain statement", f"{_SOLVERS}.statements:solve_highs", ("flux",)
        ),
        Method("cp-sat", "exact", f"{_PAPER}; CP-SAT", f"{_SOLVERS}.statements:solve_cpsat", ("flux",)),
        Method("lp", "relaxation", f"{_PAPER}, without integrality", f"{_SOLVERS}.statements:lp_bound"),
        Method(
            "prices",
            "relaxation",
            "keyshift: counts and prices of moves",
            f"{_SOLVERS}.price_tree:price_bound",
            prepare=f"{_SOLVERS}.prepare:compile_bound",
        ),
        Method("flux", "heuristic", "Shah et al. 2003, as in Madsen et al. 2016", f"{_HEURISTICS}.flux:flux"),
        Method("potc", "heuristic", "Azar et al. 1999, within the limits", f"{_HEURISTICS}.potc:potc"),
        Method(
            "drain-first",
            "heuristic",
            "Madsen, Zhou, Cao 2016, sec. 5.1",
            f"{_HEURISTICS}.drain_first:drain_first",
            prepare=f"{_SOLVERS}.prepare:compile_kernels",
        ),
    ),
)
