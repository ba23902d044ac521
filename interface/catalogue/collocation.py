"""Methods for collocated allocation (paper 2, section 4.3.2)."""

from keyshift.method import Formulation, Method

_PAPER = "Madsen, Zhou, Cao 2016, sec. 4.3.2"
_FAST = "keyshift.heuristics.collocation"
_OURS = "keyshift.solvers.collocation"
_PREPARE = f"{_OURS}.prepare:compile_kernels"
_BALANCING = f"{_OURS}.prepare:compile_balancing"
_START = ("albic", "cola", "allocation-milp")

FORMULATION = Formulation(
    name="collocated-allocation",
    entry="keyshift.models.collocation:CollocatedAllocation",
    methods=(
        Method(
            "milp",
            "exact",
            "the exact model that ALBIC approximates; ours and HiGHS",
            f"{_OURS}.milp:solve_milp",
            _START,
            prepare=_PREPARE,
        ),
        Method("milp-plain", "exact", "the same model by HiGHS alone", f"{_OURS}.exact:solve_plain_milp", _START),
        Method("cp-sat", "exact", "the same; CP-SAT", f"{_OURS}.exact:solve_cpsat", _START),
        Method("lp", "relaxation", "the same, without integrality", f"{_OURS}.exact:lp_bound"),
        Method(
            "lagrange", "relaxation", "trees and prices (ours)", f"{_OURS}.structure:lagrangian_bound", prepare=_PREPARE
        ),
        Method(
            "cut", "relaxation", "minimum cuts; Donath, Hoffman 1973", f"{_OURS}.structure:cut_bound", prepare=_PREPARE
        ),
        Method("albic", "heuristic", f"{_PAPER}, Algorithm 2", f"{_FAST}.albic:albic", prepare=_BALANCING),
        Method("cola", "heuristic", "Khandekar et al. 2009, as in Madsen et al. 2016", f"{_FAST}.cola:cola"),
        Method("flux", "heuristic", "Shah et al. 2003: balances only", f"{_FAST}.comparisons:flux", prepare=_PREPARE),
        Method(
            "potc",
            "heuristic",
            "Nasir et al. 2015, static: balances only",
            f"{_FAST}.comparisons:potc",
            prepare=_PREPARE,
        ),
        Method(
            "allocation-milp",
            "heuristic",
            "Madsen, Zhou, Cao 2016, sec. 4.3.1: balances only",
            f"{_FAST}.comparisons:allocation_milp",
            prepare=_BALANCING,
        ),
    ),
)
