"""Methods for collocated allocation (paper 2, section 4.3.2)."""

from keyshift.catalogue.method import Formulation, Method

_PAPER = "Madsen, Zhou, Cao 2016, sec. 4.3.2"
_START = ("albic", "cola", "allocation-milp")

FORMULATION = Formulation(
    name="collocated-allocation",
    entry="keyshift.models.collocation:CollocatedAllocation",
    methods=(
        Method(
            "milp",
            "exact",
            "the exact model that ALBIC approximates; ours and HiGHS",
            "keyshift.solvers.collocation.portfolio:solve_milp",
            _START,
            prepare="keyshift.solvers.collocation.warm_up:compile_kernels",
        ),
        Method(
            "milp-plain",
            "exact",
            "the same model by HiGHS alone",
            "keyshift.solvers.collocation.statement:solve_plain_milp",
            _START,
        ),
        Method("cp-sat", "exact", "the same; CP-SAT", "keyshift.solvers.collocation.statement:solve_cpsat", _START),
        Method("lp", "relaxation", "the same, without integrality", "keyshift.solvers.collocation.statement:lp_bound"),
        Method(
            "lagrange",
            "relaxation",
            "trees and prices (ours)",
            "keyshift.solvers.collocation.structural_bounds:lagrangian_bound",
            prepare="keyshift.solvers.collocation.warm_up:compile_kernels",
        ),
        Method(
            "cut",
            "relaxation",
            "minimum cuts; Donath, Hoffman 1973",
            "keyshift.solvers.collocation.structural_bounds:cut_bound",
            prepare="keyshift.solvers.collocation.warm_up:compile_kernels",
        ),
        Method(
            "albic",
            "heuristic",
            f"{_PAPER}, Algorithm 2",
            "keyshift.heuristics.collocation.albic:albic",
            prepare="keyshift.solvers.collocation.warm_up:compile_balancing",
        ),
        Method(
            "cola",
            "heuristic",
            "Khandekar et al. 2009, as in Madsen et al. 2016",
            "keyshift.heuristics.collocation.cola:cola",
        ),
        Method(
            "flux",
            "heuristic",
            "Shah et al. 2003: balances only",
            "keyshift.heuristics.collocation.comparisons:flux",
            prepare="keyshift.solvers.collocation.warm_up:compile_kernels",
        ),
        Method(
            "potc",
            "heuristic",
            "Nasir et al. 2015, static: balances only",
            "keyshift.heuristics.collocation.comparisons:potc",
            prepare="keyshift.solvers.collocation.warm_up:compile_kernels",
        ),
        Method(
            "allocation-milp",
            "heuristic",
            "Madsen, Zhou, Cao 2016, sec. 4.3.1: balances only",
            "keyshift.heuristics.collocation.comparisons:allocation_milp",
            prepare="keyshift.solvers.collocation.warm_up:compile_balancing",
        ),
    ),
)
