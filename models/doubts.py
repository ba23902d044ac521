"""How far below a solver's word a bound has to lie to be safe: one number for each solver that works in floats."""

HIGHS_DOUBT = 2e-7
"""HiGHS proves its bounds within tolerances of its units, near 1 in rows (`solvers.scaling.in_units`): rows and integrality
within 1e-8, reduced costs within 1e-7. So much of the objective's size is taken off: of its largest coefficient or of the
bound itself (`solvers.highs`), and once more of a load in which a statement's rows are coarser than its objective."""
SCIP_DOUBT = 4e-7
"""SCIP keeps rows within 1e-9 here, and proves within tolerances of its own what squares sum to: so much of a statement's
scale is taken off."""
MATHOPT_DOUBT = 2e-6
"""What the tolerances of the solvers that MathOpt runs as they come (1e-6 on a row, for HiGHS and SCIP) can make of a load
near 1."""
