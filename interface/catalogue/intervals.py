"""Methods for interval migration, in one step and in a known sequence (paper 5, sections 4 and 5.1)."""

from keyshift.catalogue.method import Formulation, Method

_PAPER = "Ding et al. 2015"

MIGRATION = Formulation(
    name="interval-migration",
    entry="keyshift.models.intervals:IntervalMigration",
    methods=(
        Method(
            "ssm",
            "exact",
            f"{_PAPER}, sec. 4, by keyshift's band dynamic program",
            "keyshift.solvers.intervals.step.ssm:solve_ssm",
            prepare="keyshift.solvers.intervals.warm_up:compile_migration",
        ),
        Method(
            "milp",
            "exact",
            f"{_PAPER}, Def. 4.1; HiGHS",
            "keyshift.solvers.intervals.statement:solve_milp",
            limits="small",
            prepare="keyshift.solvers.intervals.warm_up:compile_migration",
        ),
        Method(
            "cp-sat",
            "exact",
            f"{_PAPER}, Def. 4.1; CP-SAT",
            "keyshift.solvers.intervals.statement:solve_cpsat",
            limits="small",
            prepare="keyshift.solvers.intervals.warm_up:compile_migration",
        ),
        Method(
            "ssm-repaired",
            "exact",
            f"{_PAPER}, Fig. 7, repaired",
            "keyshift.solvers.intervals.step.printed:ssm_repaired",
            limits="O(m^2 n'): thousands of tasks",
            prepare="keyshift.solvers.intervals.warm_up:compile_migration",
        ),
        Method(
            "simple-ssm",
            "exact",
            f"{_PAPER}, Fig. 5, repaired",
            "keyshift.solvers.intervals.step.printed:simple_ssm",
            limits="tiny",
            prepare="keyshift.solvers.intervals.warm_up:compile_migration",
        ),
        Method(
            "lagrangian",
            "relaxation",
            "keyshift: a price on intervals, for millions of tasks; finds assignments too",
            "keyshift.solvers.intervals.step.lagrangian:lagrangian",
            prepare="keyshift.solvers.intervals.warm_up:compile_migration",
        ),
        Method(
            "free",
            "relaxation",
            "without contiguity; CP-SAT",
            "keyshift.solvers.intervals.statement:solve_free",
            limits="small",
            prepare="keyshift.solvers.intervals.warm_up:compile_migration",
        ),
        Method(
            "ssm-printed",
            "heuristic",
            f"{_PAPER}, Fig. 7, as printed: wrong, kept for teaching",
            "keyshift.solvers.intervals.step.printed:ssm_printed",
            prepare="keyshift.solvers.intervals.warm_up:compile_migration",
        ),
        Method(
            "storm",
            "heuristic",
            f"Storm's default, as in {_PAPER}, sec. 6",
            "keyshift.heuristics.intervals.baselines:solve_storm",
        ),
        Method(
            "consistent-hashing",
            "heuristic",
            f"Karger et al. 1997, as in {_PAPER}, sec. 6; no intervals",
            "keyshift.heuristics.intervals.baselines:solve_consistent_hashing",
        ),
        Method(
            "redist",
            "heuristic",
            f"Gedik 2014 in outline, after {_PAPER}; no intervals",
            "keyshift.heuristics.intervals.baselines:solve_redist",
        ),
    ),
)
SEQUENCE = Formulation(
    name="migration-sequence",
    entry="keyshift.models.intervals:MigrationSequence",
    methods=(
        Method(
            "oms",
            "exact",
            f"{_PAPER}, sec. 5.1, by sweeps over all partitions",
            "keyshift.solvers.intervals.sequence.oms:solve_oms",
            ("ssm",),
            limits="partitions that can be enumerated (millions)",
            prepare="keyshift.solvers.intervals.warm_up:compile_sequence",
        ),
        Method(
            "profile",
            "exact",
            "keyshift: two changes at once, task by task",
            "keyshift.solvers.intervals.sequence.two_changes:two_known_steps",
            limits="two changes of the node count",
            prepare="keyshift.solvers.intervals.warm_up:compile_sequence",
        ),
        Method(
            "milp",
            "exact",
            f"{_PAPER}, sec. 5.1; HiGHS",
            "keyshift.solvers.intervals.statement:solve_milp",
            limits="small",
            prepare="keyshift.solvers.intervals.warm_up:compile_sequence",
        ),
        Method(
            "cp-sat",
            "exact",
            f"{_PAPER}, sec. 5.1; CP-SAT",
            "keyshift.solvers.intervals.statement:solve_cpsat",
            limits="small",
            prepare="keyshift.solvers.intervals.warm_up:compile_sequence",
        ),
        Method(
            "ssm",
            "heuristic",
            f"{_PAPER}, sec. 4, step by step",
            "keyshift.solvers.intervals.sequence.oms:repeated_ssm",
            prepare="keyshift.solvers.intervals.warm_up:compile_sequence",
        ),
    ),
)
POLICY = Formulation(
    name="migration-policy",
    entry="keyshift.models.intervals:MigrationPolicy",
    methods=(
        Method(
            "mtm",
            "exact",
            f"{_PAPER}, sec. 5.2, by sweeps over all partitions",
            "keyshift.solvers.intervals.policy.mtm:solve_mtm",
            limits="partitions that can be enumerated (millions)",
            prepare="keyshift.solvers.intervals.warm_up:compile_policy",
        ),
        Method(
            "value-iteration",
            "exact",
            f"{_PAPER}, Fig. 9, corrected",
            "keyshift.solvers.intervals.policy.value_iteration:value_iteration",
            limits="hundreds of partitions",
            prepare="keyshift.solvers.intervals.warm_up:compile_policy",
        ),
        Method(
            "lp",
            "exact",
            "Puterman 1994, sec. 6.9; HiGHS",
            "keyshift.solvers.intervals.policy.statement:solve_lp",
            limits="hundreds of partitions",
            prepare="keyshift.solvers.intervals.warm_up:compile_policy",
        ),
        Method(
            "mtm-restricted",
            "heuristic",
            "keyshift: looking ahead over some partitions, with a bound of any size",
            "keyshift.solvers.intervals.policy.restricted:restricted_policy",
            prepare="keyshift.solvers.intervals.warm_up:compile_policy",
        ),
        Method(
            "ssm",
            "heuristic",
            f"{_PAPER}, sec. 4, step by step",
            "keyshift.solvers.intervals.policy.restricted:myopic_policy",
            prepare="keyshift.solvers.intervals.warm_up:compile_policy",
        ),
    ),
)
FORMULATIONS = (MIGRATION, SEQUENCE, POLICY)
