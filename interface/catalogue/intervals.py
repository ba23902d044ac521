"""Methods for interval migration: one step, a known sequence, a policy [Ding2015]."""

from keyshift.catalogue.method import Formulation, Method
from keyshift.catalogue.statement import Statement
from keyshift.catalogue.trade import Trade
from keyshift.models.lazily import lazily

with lazily():
    from keyshift.heuristics.intervals.baselines import solve_consistent_hashing, solve_redist, solve_storm
    from keyshift.models.intervals import IntervalMigration, MigrationPolicy, MigrationSequence
    from keyshift.models.intervals.cpsat_model import FreeCpSat, IntervalCpSat
    from keyshift.models.intervals.policy.occupation_pyomo import OccupationPyomo
    from keyshift.models.intervals.policy.pyomo_model import PolicyPyomo
    from keyshift.models.intervals.pyomo_model import IntervalPyomo
    from keyshift.solvers.intervals.policy.mtm import solve_mtm
    from keyshift.solvers.intervals.policy.potentials import potentials_policy
    from keyshift.solvers.intervals.policy.restricted import myopic_policy, restricted_policy
    from keyshift.solvers.intervals.policy.written_out import read_values, solve_lp, value_iteration
    from keyshift.solvers.intervals.sequence.oms import solve_oms
    from keyshift.solvers.intervals.sequence.restricted import restricted_sequence
    from keyshift.solvers.intervals.sequence.step_by_step import repeated_ssm
    from keyshift.solvers.intervals.sequence.two_changes import two_known_steps
    from keyshift.solvers.intervals.statement import solve_cpsat, solve_free, solve_milp
    from keyshift.solvers.intervals.step.lagrangian import lagrangian
    from keyshift.solvers.intervals.step.printed import simple_ssm, ssm_printed, ssm_repaired
    from keyshift.solvers.intervals.step.ssm import solve_ssm
    from keyshift.solvers.rehearsals import migration, policy, sequence

MIGRATION = Formulation(
    name="interval-migration",
    summary="Consecutive tasks on each node, one change of the number of nodes.",
    code=IntervalMigration,
    lesson="lessons/intervals",
    statements=(
        Statement(
            kind="pyomo",
            language="pyomo",
            code=IntervalPyomo,
            summary="x[t,n,k]: task k runs on node n; b[t,n,k]: an interval begins there; v[t,k]: it moves.",
            source="IntervalMigration, (1)-(6); [Ding2015], Def. 4.1",
        ),
        Statement(
            kind="cp-sat",
            language="cp-sat",
            code=IntervalCpSat,
            summary="The same in whole numbers, load limits exact.",
            source="IntervalMigration, (1)-(6); [Ding2015], Def. 4.1",
        ),
        Statement(
            kind="cp-sat-free",
            language="cp-sat",
            code=FreeCpSat,
            summary="Without contiguity: any task may go to any node.",
            source="IntervalMigration without (2)",
            exact=False,
        ),
    ),
    trades=(
        Trade(
            name="tau",
            metric="max_load_over_mean",
            limit="tau",
            label="largest load over the mean",
            offset=1.0,
        ),
    ),
    methods=(
        Method(
            name="ssm",
            kind="exact",
            source="[Ding2015], sec. 4, by keyshift's band dynamic program",
            guarantee="the optimum, proven",
            code=solve_ssm,
            warm_up=migration,
        ),
        Method(
            name="milp",
            kind="exact",
            source="[Ding2015], Def. 4.1; HiGHS",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            limits="dozens of tasks",
            code=solve_milp,
            warm_up=migration,
        ),
        Method(
            name="cp-sat",
            kind="exact",
            source="[Ding2015], Def. 4.1; CP-SAT",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            limits="dozens of tasks",
            code=solve_cpsat,
            warm_up=migration,
        ),
        Method(
            name="ssm-repaired",
            kind="exact",
            source="[Ding2015], Fig. 7, repaired",
            guarantee="the optimum, proven",
            limits="O(m^2 n'): thousands of tasks",
            code=ssm_repaired,
            warm_up=migration,
        ),
        Method(
            name="simple-ssm",
            kind="exact",
            source="[Ding2015], Fig. 5, repaired",
            guarantee="the optimum, proven",
            limits="a dozen tasks",
            code=simple_ssm,
            warm_up=migration,
        ),
        Method(
            name="lagrangian",
            kind="relaxation",
            source="keyshift: a price on intervals in place of their number",
            guarantee="a lower bound; finds assignments too",
            code=lagrangian,
            warm_up=migration,
        ),
        Method(
            name="free",
            kind="relaxation",
            source="without contiguity; CP-SAT",
            guarantee="a lower bound",
            limits="dozens of tasks",
            code=solve_free,
            warm_up=migration,
            lesson="lessons/prices",
        ),
        Method(
            name="ssm-printed",
            kind="heuristic",
            source="[Ding2015], Fig. 7, as printed: wrong, kept for teaching",
            guarantee="none",
            code=ssm_printed,
            warm_up=migration,
        ),
        Method("storm", "heuristic", "Storm's default, as in [Ding2015], sec. 6", solve_storm, "none"),
        Method(
            name="consistent-hashing",
            kind="heuristic",
            source="[Karger1997], as in [Ding2015], sec. 6",
            guarantee="none; tasks are not contiguous",
            code=solve_consistent_hashing,
        ),
        Method(
            name="redist",
            kind="heuristic",
            source="[Gedik2014] in outline, after [Ding2015]",
            guarantee="none; tasks are not contiguous",
            code=solve_redist,
        ),
    ),
)
SEQUENCE = Formulation(
    name="migration-sequence",
    summary="The same through a known sequence of node counts.",
    code=MigrationSequence,
    lesson="lessons/next-migration",
    statements=(
        Statement(
            kind="pyomo",
            language="pyomo",
            code=IntervalPyomo,
            summary="x[t,n,k]: task k runs on node n in step t; b[t,n,k]: an interval begins there; v[t,k]: it moves.",
            source="MigrationSequence, (1)-(6); [Ding2015], sec. 5.1",
        ),
        Statement(
            kind="cp-sat",
            language="cp-sat",
            code=IntervalCpSat,
            summary="The same in whole numbers, load limits exact.",
            source="MigrationSequence, (1)-(6); [Ding2015], sec. 5.1",
        ),
    ),
    methods=(
        Method(
            name="oms",
            kind="exact",
            source="[Ding2015], sec. 5.1, by sweeps over all partitions",
            guarantee="the optimum, proven",
            limits="partitions that can be enumerated (millions)",
            code=solve_oms,
            warm_up=sequence,
            warm_start=("ssm",),
        ),
        Method(
            name="profile",
            kind="exact",
            source="keyshift: two changes at once, task by task",
            guarantee="the optimum, proven",
            limits="two changes of the node count",
            code=two_known_steps,
            warm_up=sequence,
        ),
        Method(
            name="milp",
            kind="exact",
            source="[Ding2015], sec. 5.1; HiGHS",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            limits="dozens of tasks",
            code=solve_milp,
            warm_up=sequence,
        ),
        Method(
            name="cp-sat",
            kind="exact",
            source="[Ding2015], sec. 5.1; CP-SAT",
            guarantee="the optimum, proven; at a limit the best found and a bound",
            limits="dozens of tasks",
            code=solve_cpsat,
            warm_up=sequence,
        ),
        Method(
            name="oms-restricted",
            kind="heuristic",
            source="keyshift: the sweeps of oms over some partitions of each class, found round by round",
            guarantee="none; with a bound of any size",
            code=restricted_sequence,
            warm_up=sequence,
        ),
        Method(
            name="ssm",
            kind="heuristic",
            source="[Ding2015], sec. 4, step by step",
            guarantee="none; with a bound of any size",
            code=repeated_ssm,
            warm_up=sequence,
        ),
    ),
)
POLICY = Formulation(
    name="migration-policy",
    summary="The same when node counts follow a transition matrix.",
    code=MigrationPolicy,
    lesson="lessons/next-migration",
    statements=(
        Statement(
            kind="pyomo",
            language="pyomo",
            code=PolicyPyomo,
            summary="V[n,i]: value of partition i of class n; Q[n,i,m]: once the next count is m.",
            source="MigrationPolicy, (2), (3); [Ding2015], sec. 5.2",
            integer=False,
            reader=read_values,
        ),
        Statement(
            kind="pyomo-occupation",
            language="pyomo",
            code=OccupationPyomo,
            summary="The dual. u[state,n,p]: how often partition p of class n is chosen; y[state]: how often it is visited.",
            source="OccupationPyomo, (5), (6); [Puterman1994], sec. 6.9",
            integer=False,
        ),
    ),
    methods=(
        Method(
            name="mtm",
            kind="exact",
            source="[Ding2015], sec. 5.2, by sweeps over all partitions",
            guarantee="the optimum, proven, to a certified interval [MacQueen1966]; beyond enumeration as potentials",
            limits="partitions that can be enumerated (millions)",
            code=solve_mtm,
            warm_up=policy,
        ),
        Method(
            name="value-iteration",
            kind="exact",
            source="[Ding2015], Fig. 9, corrected",
            guarantee="the optimum, proven, to a certified interval",
            limits="hundreds of partitions",
            code=value_iteration,
            warm_up=policy,
        ),
        Method(
            name="lp",
            kind="exact",
            source="[Puterman1994], sec. 6.9; HiGHS",
            guarantee="the optimum, proven, by one Bellman step after HiGHS",
            limits="hundreds of partitions",
            code=solve_lp,
            warm_up=policy,
        ),
        Method(
            name="potentials",
            kind="heuristic",
            source="keyshift: values that are sums over intervals",
            guarantee="none; with a bound, mostly within a few percent",
            limits="2,000 tasks; any number of partitions",
            code=potentials_policy,
            warm_up=policy,
        ),
        Method(
            name="mtm-restricted",
            kind="heuristic",
            source="keyshift: looking ahead over some partitions",
            guarantee="none; with a bound of any size",
            code=restricted_policy,
            warm_up=policy,
        ),
        Method(
            name="ssm",
            kind="heuristic",
            source="[Ding2015], sec. 4, step by step",
            guarantee="none; with a bound of any size",
            code=myopic_policy,
            warm_up=policy,
        ),
    ),
)
FORMULATIONS = (MIGRATION, SEQUENCE, POLICY)
