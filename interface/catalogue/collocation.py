"""Methods for collocated allocation [Madsen2016]."""

from keyshift.catalogue.method import Formulation, Trade, kinds, pyomo_and_cpsat
from keyshift.models.base.lazily import lazily

with lazily():
    from keyshift.heuristics.collocation.albic import albic
    from keyshift.heuristics.collocation.comparisons import allocation_milp, cola, cuts_quickly, flux, potc
    from keyshift.models.collocation import CollocatedAllocation
    from keyshift.models.collocation.cpsat_model import CollocationCpSat
    from keyshift.models.collocation.pyomo_model import CollocationPyomo
    from keyshift.solvers.collocation.local_search import local_search
    from keyshift.solvers.collocation.portfolio import solve_milp
    from keyshift.solvers.collocation.statement import lp_bound, solve_cpsat, solve_plain_milp
    from keyshift.solvers.collocation.structural_bounds import cut_bound, lagrangian_bound, sdp_bound
    from keyshift.solvers.rehearsals import collocation, collocation_balanced
    from keyshift.solvers.stages import by_cpsat, by_highs, by_search_and_solvers

exact, relaxation, heuristic = kinds(rules=True)
balanced, moves = ("max_load_distance",), ("max_migrations", "max_migration_cost")
FORMULATION = Formulation(
    name="collocated-allocation",
    summary="Key-group allocation that also keeps talkative key groups together.",
    code=CollocatedAllocation,
    lesson="lessons/collocation",
    statements=pyomo_and_cpsat(
        CollocationPyomo, CollocationCpSat,
        "x[k,n] as in allocation; z[e,n]: both ends of traffic pair e run on node n.",
        "CollocatedAllocation, (1)-(11)",
    ),
    trades=(
        Trade(name="migrations", metric="migrations", limit="max_migrations", label="key groups moved", whole=True),
    ),
    methods=(
        exact(
            "milp", "[Madsen2016], sec. 4.3.2, stated exactly; keyshift's search and bounds, then HiGHS", solve_milp,
            warm_up=collocation, warm_start=("cola",), rivals=("flux", "potc", "albic", "allocation-milp"),
            later=by_search_and_solvers,
        ),
        exact(
            "milp-plain", "the same; HiGHS on the Pyomo statement", solve_plain_milp, limits="dozens of key groups",
            warm_start=("albic", "cola", "allocation-milp"), later=by_highs,
        ),
        exact(
            "cp-sat", "the same; CP-SAT on its own statement", solve_cpsat, limits="dozens of key groups",
            warm_start=("albic", "cola", "allocation-milp"), later=by_cpsat,
        ),
        relaxation("lp", "the same, without integrality; HiGHS", lp_bound),
        relaxation(
            "lagrange", "keyshift: Lagrangian relaxation, dynamic programs over trees of pairs", lagrangian_bound,
            warm_up=collocation,
        ),
        relaxation("cut", "minimum cuts and eigenvalues, [Donath1973]", cut_bound, warm_up=collocation),
        relaxation(
            "sdp", "a semidefinite relaxation of partitions, [Frieze1997], loads and limits as rows", sdp_bound,
            warm_up=collocation,
        ),
        heuristic(
            "local-search", "keyshift: joins, moves, swaps and returns, annealed", local_search, warm_up=collocation,
            rescue=("albic",),
        ),
        heuristic(
            "albic", "[Madsen2016], Algorithm 2", albic, warm_up=collocation_balanced, rules=False, ignores=balanced,
            useful=cuts_quickly,
        ),
        heuristic(
            "cola", "[Khandekar2009], as [Madsen2016] describes it", cola, rules=False, ignores=(*balanced, *moves),
            useful=cuts_quickly,
        ),
        heuristic("flux", "[Shah2003]: balances only", flux, warm_up=collocation, ignores=balanced),
        heuristic(
            "potc", "[Nasir2015], static: balances only", potc, warm_up=collocation, rules=False,
            ignores=(*balanced, *moves),
        ),
        heuristic(
            "allocation-milp", "[Madsen2016], sec. 4.3.1: balances only", allocation_milp,
            warm_up=collocation_balanced, ignores=balanced,
        ),
    ),
)  # fmt: skip
