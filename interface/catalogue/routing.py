"""Methods for mixed routing [Fang2016]."""

from functools import partial

from keyshift.catalogue.method import Formulation, Statement, Trade, kinds, pyomo_and_cpsat
from keyshift.models.base.lazily import lazily

with lazily():
    from keyshift.heuristics.routing.mixed import llfd, min_mig, min_table, mixed, mixed_bf, readj
    from keyshift.models.routing import MixedRouting
    from keyshift.models.routing.cpsat_model import RoutingCpSat
    from keyshift.models.routing.pyomo_model import RoutingKeysPyomo, RoutingPyomo
    from keyshift.solvers.rehearsals import routing as rehearsal
    from keyshift.solvers.routing.rounding import local_search
    from keyshift.solvers.routing.statement import fewest_entries, lp_bound, solve_cpsat, solve_milp
    from keyshift.solvers.stages import by_cpsat, by_search_and_solvers

exact, relaxation, heuristic = kinds(rules=True, warm_up=rehearsal)
published = partial(heuristic, rules=False, ignores=("theta_max", "max_table_size"))
FORMULATION = Formulation(
    name="mixed-routing",
    summary="A hash for most keys, a bounded table for the exceptions.",
    code=MixedRouting,
    lesson="lessons/hash-plus-exceptions",
    statements=(
        *pyomo_and_cpsat(
            RoutingPyomo, RoutingCpSat, "x[r,n]: so many of the like keys of record r go to node n.",
            "MixedRouting, (1)-(5); [Fang2016], problem (3)",
        ),
        Statement(
            "pyomo-keys", "pyomo", RoutingKeysPyomo, "x[k,n]: key k goes to node n, keys alike told apart.",
            "MixedRouting, (1)-(5); [Fang2016], problem (3)",
        ),
    ),
    trades=(
        Trade(name="table-size", metric="table_size", limit="max_table_size", label="entries in the table", whole=True),
        Trade(name="theta", metric="theta", limit="theta_max", label="theta, the largest deviation from the mean load"),
    ),
    bounds={"table_size": fewest_entries},
    methods=(
        exact(
            "milp", "[Fang2016], problem (3); prices decide most keys, HiGHS the rest", solve_milp,
            warm_start=("mixed", "min-mig", "min-table"), rivals=("llfd", "mixed-bf", "readj"),
            later=by_search_and_solvers,
        ),
        exact(
            "cp-sat", "[Fang2016], problem (3); prices decide most keys, CP-SAT the rest", solve_cpsat,
            warm_start=("mixed", "min-mig", "min-table"), later=by_cpsat,
        ),
        relaxation("lp", "[Fang2016], problem (3) without integrality, by its Lagrangian dual", lp_bound),
        heuristic("local-search", "keyshift: single keys, swaps and exchanges, annealed", local_search),
        published("llfd", "[Fang2016], Algorithm 1", llfd),
        published("min-table", "[Fang2016], Algorithm 2", min_table),
        published("min-mig", "[Fang2016], Algorithm 3", min_mig),
        published("mixed", "[Fang2016], Algorithm 4", mixed),
        published("mixed-bf", "[Fang2016], sec. III-C", mixed_bf),
        published("readj", "[Gedik2014], as [Fang2016] describes it", readj),
    ),
)  # fmt: skip
