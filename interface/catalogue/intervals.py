"""Methods for interval migration, in one step and in a known sequence (paper 5, sections 4 and 5.1)."""

from keyshift.method import Formulation, Method

_PAPER = "Ding et al. 2015"
_SOLVERS = "keyshift.solvers.intervals"

MIGRATION = Formulation(
    name="interval-migration",
    entry="keyshift.models.intervals:IntervalMigration",
    methods=(
        Method("ssm", "exact", f"{_PAPER}, sec. 4, by keyshift's band dynamic program", f"{_SOLVERS}.ssm:solve_ssm"),
        Method("milp", "exact", f"{_PAPER}, Def. 4.1; HiGHS", f"{_SOLVERS}.declarative:solve_milp", limits="small"),
        Method("cp-sat", "exact", f"{_PAPER}, Def. 4.1; CP-SAT", f"{_SOLVERS}.declarative:solve_cpsat", limits="small"),
    ),
)
FORMULATIONS = (MIGRATION,)
