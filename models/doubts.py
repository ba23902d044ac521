"""How far below a solver's word a bound has to lie to be safe: one number for each solver that works in floats."""

HIGHS_DOUBT = 2e-7
"""HiGHS proves its bounds within tolerances of its units, near 1 in rows (`solvers.scaling.in_units`): rows and integrality
within 1e-8, reduced costs within 1e-7. This share of the objective's size - of its largest coefficient, or of the bound
itself (`solvers.highs`) - is taken off, and once more of a load where a statement's rows are coarser than its objective."""
SCIP_DOUBT = 4e-7
"""SCIP keeps rows within 1e-9 here, and bounds sums of squares within tolerances of its own: this share of a statement's
scale is taken off."""
