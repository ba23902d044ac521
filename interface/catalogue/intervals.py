"""Methods for interval migration: one step, a known sequence, a policy [Ding2015]."""

from keyshift.catalogue.method import Formulation, Statement, Trade, kinds, pyomo_and_cpsat
from keyshift.models.base.lazily import lazily

with lazily():
    from keyshift.heuristics.intervals.baselines import solve_consistent_hashing, solve_redist, solve_storm
    from keyshift.models.intervals import IntervalMigration, MigrationPolicy, MigrationSequence
    from keyshift.models.intervals.cpsat_model import FreeCpSat, IntervalCpSat
    from keyshift.models.intervals.policy.mathopt_model import OccupationMathOpt
    from keyshift.models.intervals.policy.pyomo_model import OccupationPyomo, PolicyPyomo
    from keyshift.models.intervals.pyomo_model import IntervalPyomo
    from keyshift.solvers.intervals.policy.mtm import solve_mtm
    from keyshift.solvers.intervals.policy.potentials import myopic_policy, potentials_policy, restricted_policy
    from keyshift.solvers.intervals.policy.written_out import read_values, solve_lp, value_iteration
    from keyshift.solvers.intervals.printed import simple_ssm, ssm_printed, ssm_repaired
    from keyshift.solvers.intervals.sequence.oms import solve_oms
    from keyshift.solvers.intervals.sequence.restricted import repeated_ssm, restricted_sequence
    from keyshift.solvers.intervals.ssm import lagrangian, solve_ssm
    from keyshift.solvers.intervals.statement import solve_cpsat, solve_free, solve_milp
    from keyshift.solvers.rehearsals import migration, policy, sequence

exact, relaxation, heuristic = kinds(warm_up=migration)
MIGRATION = Formulation(
    name="interval-migration",
    summary="Consecutive tasks on each node, one change of the number of nodes.",
    code=IntervalMigration,
    lesson="lessons/intervals",
    statements=(
        *pyomo_and_cpsat(
            IntervalPyomo, IntervalCpSat,
            "x[t,n,k]: task k runs on node n; b[t,n,k]: an interval begins there; v[t,k]: it moves.",
            "IntervalMigration, (1)-(6); [Ding2015], Def. 4.1", "The same in whole numbers, load limits exact.",
        ),
        Statement(
            "cp-sat-free", "cp-sat", FreeCpSat, "Without contiguity: any task may go to any node.",
            "IntervalMigration without (2)", exact=False,
        ),
    ),
    trades=(
        Trade(name="tau", metric="max_load_over_mean", limit="tau", label="largest load over the mean", offset=1.0),
    ),
    methods=(
        exact("ssm", "[Ding2015], sec. 4, by keyshift's band dynamic program", solve_ssm, "the optimum, proven"),
        exact("milp", "[Ding2015], Def. 4.1; HiGHS", solve_milp, limits="dozens of tasks"),
        exact("cp-sat", "[Ding2015], Def. 4.1; CP-SAT", solve_cpsat, limits="dozens of tasks"),
        exact(
            "ssm-repaired", "[Ding2015], Fig. 7, repaired", ssm_repaired, "the optimum, proven",
            limits="O(m^2 n'): thousands of tasks",
        ),
        exact("simple-ssm", "[Ding2015], Fig. 5, repaired", simple_ssm, "the optimum, proven", limits="a dozen tasks"),
        relaxation(
            "lagrangian", "keyshift: a price on intervals in place of their number", lagrangian,
            "a lower bound; finds assignments too",
        ),
        relaxation("free", "without contiguity; CP-SAT", solve_free, limits="dozens of tasks", lesson="lessons/prices"),
        heuristic("ssm-printed", "[Ding2015], Fig. 7, as printed: wrong, kept for teaching", ssm_printed),
        heuristic("storm", "Storm's default, as in [Ding2015], sec. 6", solve_storm, warm_up=None),
        heuristic(
            "consistent-hashing", "[Karger1997], as in [Ding2015], sec. 6", solve_consistent_hashing,
            "none; tasks are not contiguous", warm_up=None, ignores=("intervals", "load"),
        ),
        heuristic(
            "redist", "[Gedik2014] in outline, after [Ding2015]", solve_redist, "none; tasks are not contiguous",
            warm_up=None, ignores=("intervals",),
        ),
    ),
)  # fmt: skip
exact, relaxation, heuristic = kinds(warm_up=sequence)
SEQUENCE = Formulation(
    name="migration-sequence",
    summary="The same through a known sequence of node counts.",
    code=MigrationSequence,
    lesson="lessons/next-migration",
    statements=pyomo_and_cpsat(
        IntervalPyomo, IntervalCpSat,
        "x[t,n,k]: task k runs on node n in step t; b[t,n,k]: an interval begins there; v[t,k]: it moves.",
        "MigrationSequence, (1)-(6); [Ding2015], sec. 5.1", "The same in whole numbers, load limits exact.",
    ),
    methods=(
        exact(
            "oms", "[Ding2015], sec. 5.1, by sweeps over all partitions", solve_oms, "the optimum, proven",
            limits="partitions that can be enumerated (millions)", warm_start=("ssm",),
        ),
        exact("milp", "[Ding2015], sec. 5.1; HiGHS", solve_milp, limits="dozens of tasks"),
        exact("cp-sat", "[Ding2015], sec. 5.1; CP-SAT", solve_cpsat, limits="dozens of tasks"),
        heuristic(
            "oms-restricted", "keyshift: the sweeps of oms over some partitions of each class, found round by round",
            restricted_sequence, "none; with a bound of any size",
        ),
        heuristic("ssm", "[Ding2015], sec. 4, step by step", repeated_ssm, "none; with a bound of any size"),
    ),
)  # fmt: skip
exact, relaxation, heuristic = kinds(warm_up=policy)
POLICY = Formulation(
    name="migration-policy",
    summary="The same when node counts follow a transition matrix.",
    code=MigrationPolicy,
    lesson="lessons/next-migration",
    statements=(
        Statement(
            "pyomo", "pyomo", PolicyPyomo,
            "V[n,i]: value of partition i of class n; Q[n,i,m]: once the next count is m.",
            "MigrationPolicy, (2), (3); [Ding2015], sec. 5.2", integer=False, reader=read_values,
        ),
        Statement(
            "pyomo-occupation", "pyomo", OccupationPyomo,
            "The dual. u[state,n,p]: how often partition p of class n is chosen; y[state]: how often it is visited.",
            "OccupationPyomo, (5), (6); [Puterman1994], sec. 6.9", integer=False,
        ),
        Statement(
            "mathopt", "mathopt", OccupationMathOpt, "The dual in MathOpt, for GLOP (a corner) and PDLP (near an optimum).",
            "OccupationPyomo, (5), (6)", integer=False,
        ),
    ),
    methods=(
        exact(
            "mtm", "[Ding2015], sec. 5.2, by sweeps over all partitions", solve_mtm,
            "the optimum, proven, to a certified interval [MacQueen1966]; beyond enumeration as potentials",
            limits="partitions that can be enumerated (millions)",
        ),
        exact(
            "value-iteration", "[Ding2015], Fig. 9, corrected", value_iteration,
            "the optimum, proven, to a certified interval", limits="hundreds of partitions",
        ),
        exact(
            "lp", "[Puterman1994], sec. 6.9; HiGHS", solve_lp, "the optimum, proven, by one Bellman step after HiGHS",
            limits="hundreds of partitions",
        ),
        heuristic(
            "potentials", "keyshift: values that are sums over intervals", potentials_policy,
            "none; with a bound, mostly within a few percent", limits="2,000 tasks; any number of partitions",
        ),
        heuristic(
            "mtm-restricted", "keyshift: looking ahead over some partitions", restricted_policy,
            "none; with a bound of any size",
        ),
        heuristic("ssm", "[Ding2015], sec. 4, step by step", myopic_policy, "none; with a bound of any size"),
    ),
)  # fmt: skip
FORMULATIONS = (MIGRATION, SEQUENCE, POLICY)
