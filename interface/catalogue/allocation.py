"""Methods for key-group allocation (paper 2, section 4.3.1)."""

from keyshift.method import Formulation, Method

_PAPER = "Madsen, Zhou, Cao 2016, sec. 4.3.1"

FORMULATION = Formulation(
    name="key-group-allocation",
    entry="keyshift.models.allocation:KeyGroupAllocation",
    methods=(
        Method("milp", "exact", f"{_PAPER}; HiGHS", "keyshift.solvers.allocation.exact:solve_milp", ("flux",)),
        Method("cp-sat", "exact", f"{_PAPER}; CP-SAT", "keyshift.solvers.allocation.exact:solve_cpsat", ("flux",)),
        Method("lp", "relaxation", f"{_PAPER}, without integrality", "keyshift.solvers.allocation.exact:lp_bound"),
        Method(
            "flux",
            "heuristic",
            "Shah et al. 2003, as in Madsen et al. 2016",
            "keyshift.heuristics.allocation.flux:flux",
        ),
    ),
)
