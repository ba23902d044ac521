"""Methods for collocated allocation (paper 2, section 4.3.2)."""

from keyshift.method import Formulation, Method

_PAPER = "Madsen, Zhou, Cao 2016, sec. 4.3.2"
_FAST = "keyshift.heuristics.collocation"
_EXACT = "keyshift.solvers.collocation.exact"

FORMULATION = Formulation(
    name="collocated-allocation",
    entry="keyshift.models.collocation:CollocatedAllocation",
    methods=(
        Method(
            "milp",
            "exact",
            "the exact model that ALBIC approximates; HiGHS",
            f"{_EXACT}:solve_plain_milp",
            ("albic", "cola"),
        ),
        Method("cp-sat", "exact", "the same; CP-SAT", f"{_EXACT}:solve_cpsat", ("albic", "cola")),
        Method("lp", "relaxation", "the same, without integrality", f"{_EXACT}:lp_bound"),
        Method("albic", "heuristic", f"{_PAPER}, Algorithm 2", f"{_FAST}.albic:albic"),
        Method("cola", "heuristic", "Khandekar et al. 2009, as in Madsen et al. 2016", f"{_FAST}.cola:cola"),
    ),
)
