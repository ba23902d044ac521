"""Methods for collocated allocation [Madsen2016]."""

from keyshift.catalogue.method import Formulation, Method
from keyshift.catalogue.statement import Statement
from keyshift.catalogue.trade import Trade
from keyshift.models.lazily import lazily

with lazily():
    from keyshift.heuristics.collocation.albic import albic
    from keyshift.heuristics.collocation.cola import cola
    from keyshift.heuristics.collocation.comparisons import allocation_milp, flux, potc
    from keyshift.models.collocation import CollocatedAllocation
    from keyshift.models.collocation.cpsat_model import CollocationCpSat
    from keyshift.models.collocation.pyomo_model import CollocationPyomo
    from keyshift.solvers.collocation.local_search import local_search
    from keyshift.solvers.collocation.portfolio import solve_milp
    from keyshift.solvers.collocation.statement import lp_bound, solve_cpsat, solve_plain_milp
    from keyshift.solvers.collocation.structural_bounds import cut_bound, lagrangian_bound
    from keyshift.solvers.collocation.warm_up import compile_balancing, compile_kernels
    from keyshift.solvers.stages.exact import by_cpsat, by_highs, by_search_and_solvers

FORMULATION = Formulation(
    name="collocated-allocation",
    summary="Key-group allocation that also keeps talkative key groups together.",
    code=CollocatedAllocation,
    lesson="lessons/collocation",
    statements=(
        Statement(
            kind="pyomo",
            language="pyomo",
            code=CollocationPyomo,
            summary="x[k,n] as in allocation; z[e,n]: both ends of traffic pair e run on node n.",
            source="CollocatedAllocation, (1)-(11)",
        ),
        Statement(
            kind="cp-sat",
            language="cp-sat",
            code=CollocationCpSat,
            summary="The same in whole numbers, widened where they round.",
            source="CollocatedAllocation, (1)-(11)",
        ),
    ),
    trades=(
        Trade(name="migrations", metric="migrations", limit="max_migrations", label="key groups moved", whole=True),
    ),
    methods=(
        Method(
            name="milp",
            kind="exact",
            rules=True,
            source="[Madsen2016], sec. 4.3.2, stated exactly; keyshift's search and bounds, then HiGHS",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            code=solve_milp,
            warm_up=compile_kernels,
            warm_start=("cola",),
            rescue=("albic", "allocation-milp"),
            rivals=("flux", "potc", "albic", "allocation-milp"),
            later=by_search_and_solvers,
        ),
        Method(
            name="milp-plain",
            kind="exact",
            rules=True,
            source="the same; HiGHS on the Pyomo statement",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            limits="dozens of key groups",
            code=solve_plain_milp,
            warm_start=("albic", "cola", "allocation-milp"),
            later=by_highs,
        ),
        Method(
            name="cp-sat",
            kind="exact",
            rules=True,
            source="the same; CP-SAT on its own statement",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            limits="dozens of key groups",
            code=solve_cpsat,
            warm_start=("albic", "cola", "allocation-milp"),
            later=by_cpsat,
        ),
        Method(
            name="lp",
            kind="relaxation",
            rules=True,
            source="the same, without integrality; HiGHS",
            guarantee="a lower bound",
            code=lp_bound,
        ),
        Method(
            name="lagrange",
            kind="relaxation",
            source="keyshift: Lagrangian relaxation, dynamic programs over trees of pairs",
            guarantee="a lower bound",
            code=lagrangian_bound,
            warm_up=compile_kernels,
        ),
        Method(
            name="cut",
            kind="relaxation",
            source="minimum cuts and eigenvalues, [Donath1973]",
            guarantee="a lower bound",
            code=cut_bound,
            warm_up=compile_kernels,
        ),
        Method(
            name="local-search",
            kind="heuristic",
            source="keyshift: joins, moves, swaps and returns, annealed",
            guarantee="none",
            code=local_search,
            warm_up=compile_kernels,
            rescue=("albic",),
        ),
        Method(
            name="albic",
            kind="heuristic",
            source="[Madsen2016], Algorithm 2",
            guarantee="none",
            code=albic,
            warm_up=compile_balancing,
        ),
        Method(
            name="cola",
            kind="heuristic",
            source="[Khandekar2009], as [Madsen2016] describes it",
            guarantee="none",
            code=cola,
        ),
        Method(
            name="flux",
            kind="heuristic",
            source="[Shah2003]: balances only",
            guarantee="none",
            code=flux,
            warm_up=compile_kernels,
        ),
        Method(
            name="potc",
            kind="heuristic",
            source="[Nasir2015], static: balances only",
            guarantee="none",
            code=potc,
            warm_up=compile_kernels,
        ),
        Method(
            name="allocation-milp",
            kind="heuristic",
            source="[Madsen2016], sec. 4.3.1: balances only",
            guarantee="none",
            code=allocation_milp,
            warm_up=compile_balancing,
        ),
    ),
)
