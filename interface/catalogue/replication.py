"""Methods for replicas of hot key groups [DeepSeek2024]."""

from keyshift.catalogue.method import Formulation, Trade, kinds, pyomo_and_cpsat
from keyshift.models.base.lazily import lazily

with lazily():
    from keyshift.heuristics.replication.greedy import eplb
    from keyshift.models.replication import ReplicatedAllocation
    from keyshift.models.replication.cpsat_model import ReplicationCpSat
    from keyshift.models.replication.pyomo_model import ReplicationPyomo
    from keyshift.solvers.replication.statement import counting_bound, descent, solve_cpsat, solve_milp

exact, relaxation, heuristic = kinds()
FORMULATION = Formulation(
    name="replicated-allocation",
    summary="How many copies of each key group, and where, so that the largest node load is small.",
    code=ReplicatedAllocation,
    lesson="problems/replicas",
    statements=pyomo_and_cpsat(
        ReplicationPyomo, ReplicationCpSat,
        "z[k,c]: key group k has c copies; x[k,c,n]: one of them runs on node n.", "ReplicatedAllocation, (1)-(8)",
    ),
    methods=(
        exact("cp-sat", "keyshift's statement; CP-SAT", solve_cpsat, warm_start=("eplb",)),
        exact("milp", "keyshift's statement; HiGHS", solve_milp, warm_start=("eplb",)),
        relaxation("counting", "keyshift: no copy more than its share of a node", counting_bound),
        heuristic("descent", "keyshift: moves, exchanges and copies, the best first", descent, warm_start=("eplb",)),
        heuristic("eplb", "[DeepSeek2024], replication and packing", eplb, ignores=("max_migrations",)),
    ),
    trades=(
        Trade("migrations", "migrations", "max_migrations", "new copies", whole=True),
        Trade("copies", "copies", "copies", "copies", whole=True),
    ),
)  # fmt: skip
