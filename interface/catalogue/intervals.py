"""Methods for interval migration, in one step and in a known sequence (paper 5, sections 4 and 5.1)."""

from keyshift.method import Formulation, Method

_PAPER = "Ding et al. 2015"
_SOLVERS = "keyshift.solvers.intervals"
_DECLARED = "keyshift.solvers.intervals.declarative"
_PREPARE = f"{_SOLVERS}.prepare:compile"
_BASELINES = "keyshift.heuristics.intervals.baselines"

MIGRATION = Formulation(
    name="interval-migration",
    entry="keyshift.models.intervals:IntervalMigration",
    methods=(
        Method(
            "ssm", "exact", f"{_PAPER}, sec. 4, by keyshift's band dynamic program", f"{_SOLVERS}.ssm:solve_ssm",
            prepare=f"{_PREPARE}_migration",
        ),
        Method("milp", "exact", f"{_PAPER}, Def. 4.1; HiGHS", f"{_DECLARED}:solve_milp", limits="small"),
        Method("cp-sat", "exact", f"{_PAPER}, Def. 4.1; CP-SAT", f"{_DECLARED}:solve_cpsat", limits="small"),
        Method(
            "ssm-repaired", "exact", f"{_PAPER}, Fig. 7, repaired", f"{_SOLVERS}.printed:ssm_repaired",
            limits="O(m^2 n'): thousands of tasks", prepare=f"{_PREPARE}_migration",
        ),
        Method(
            "simple-ssm", "exact", f"{_PAPER}, Fig. 5, repaired", f"{_SOLVERS}.printed:simple_ssm", limits="tiny",
            prepare=f"{_PREPARE}_migration",
        ),
        Method(
            "lagrangian", "relaxation", "keyshift: a price on intervals, for millions of tasks; finds assignments too",
            f"{_SOLVERS}.lagrangian:lagrangian", prepare=f"{_PREPARE}_migration",
        ),
        Method("free", "relaxation", "without contiguity; CP-SAT", f"{_DECLARED}:solve_free", limits="small"),
        Method(
            "ssm-printed", "heuristic", f"{_PAPER}, Fig. 7, as printed: wrong, kept for teaching",
            f"{_SOLVERS}.printed:ssm_printed", prepare=f"{_PREPARE}_migration",
        ),
        Method("storm", "heuristic", f"Storm's default, as in {_PAPER}, sec. 6", f"{_BASELINES}:solve_storm"),
        Method(
            "consistent-hashing", "heuristic", f"Karger et al. 1997, as in {_PAPER}, sec. 6; no intervals",
            f"{_BASELINES}:solve_consistent_hashing",
        ),
        Method(
            "redist", "heuristic", f"Gedik 2014 in outline, after {_PAPER}; no intervals", f"{_BASELINES}:solve_redist"
        ),
    ),
)  # fmt: skip
SEQUENCE = Formulation(
    name="migration-sequence",
    entry="keyshift.models.intervals:MigrationSequence",
    methods=(
        Method(
            "oms", "exact", f"{_PAPER}, sec. 5.1, by sweeps over all partitions", f"{_SOLVERS}.oms:solve_oms", ("ssm",),
            limits="partitions that can be enumerated (millions)", prepare=f"{_PREPARE}_sequence",
        ),
        Method(
            "profile", "exact", "keyshift: two changes at once, task by task", f"{_SOLVERS}.profile:two_known_steps",
            limits="two changes of the node count", prepare=f"{_PREPARE}_sequence",
        ),
        Method("milp", "exact", f"{_PAPER}, sec. 5.1; HiGHS", f"{_DECLARED}:solve_milp", limits="small"),
        Method("cp-sat", "exact", f"{_PAPER}, sec. 5.1; CP-SAT", f"{_DECLARED}:solve_cpsat", limits="small"),
        Method(
            "ssm", "heuristic", f"{_PAPER}, sec. 4, step by step", f"{_SOLVERS}.oms:repeated_ssm",
            prepare=f"{_PREPARE}_sequence",
        ),
    ),
)  # fmt: skip
POLICY = Formulation(
    name="migration-policy",
    entry="keyshift.models.intervals:MigrationPolicy",
    methods=(
        Method(
            "mtm", "exact", f"{_PAPER}, sec. 5.2, by sweeps over all partitions", f"{_SOLVERS}.mtm:solve_mtm",
            limits="partitions that can be enumerated (millions)", prepare=f"{_PREPARE}_policy",
        ),
        Method(
            "value-iteration", "exact", f"{_PAPER}, Fig. 9, corrected", f"{_SOLVERS}.small_policy:value_iteration",
            limits="hundreds of partitions", prepare=f"{_PREPARE}_policy",
        ),
        Method(
            "lp", "exact", "Puterman 1994, sec. 6.9; HiGHS", f"{_SOLVERS}.small_policy:solve_lp",
            limits="hundreds of partitions", prepare=f"{_PREPARE}_policy",
        ),
        Method(
            "mtm-restricted", "heuristic", "keyshift: looking ahead over some partitions, with a bound of any size",
            f"{_SOLVERS}.restricted:restricted_policy", prepare=f"{_PREPARE}_policy",
        ),
        Method(
            "ssm", "heuristic", f"{_PAPER}, sec. 4, step by step", f"{_SOLVERS}.restricted:myopic_policy",
            prepare=f"{_PREPARE}_policy",
        ),
    ),
)  # fmt: skip
FORMULATIONS = (MIGRATION, SEQUENCE, POLICY)
