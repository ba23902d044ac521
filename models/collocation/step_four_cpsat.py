"""Step 4 of ALBIC as a CP-SAT model. The numbers are those of `StepFour`'s docstring."""

from __future__ import annotations

from keyshift.models.allocation.cpsat_model import AllocationCpSat
from keyshift.models.collocation.step_four import StepFour


class StepFourCpSat(AllocationCpSat):
    """(1)-(7) by `AllocationCpSat`, the demands by one method each.

    Parameters
    ----------
    step : StepFour

    Attributes
    ----------
    model : ortools.sat.python.cp_model.CpModel
    """

    def __init__(self, step: StepFour) -> None:
        super().__init__(step.allocation)
        self.step = step
        self.sets_move_as_one()
        self.pair_comes_together()

    def sets_move_as_one(self) -> None:
        """(12) Neighbours in a set run on the same node."""
        for k, other in self.step.neighbours():
            for i in range(self.workload.nodes):
                one, two = self.x.get((k, i)), self.x.get((other, i))
                if one is not None or two is not None:
                    row = (0 if one is None else one) == (0 if two is None else two)
                    self.model.add(row).with_name(f"one_set[k{k},k{other},n{i}]")

    def pair_comes_together(self) -> None:
        """(13) The demanded key groups run nowhere else than on their node."""
        demanded = set(self.step.members.tolist())
        for (k, i), x in self.x.items():
            if k in demanded and i != self.step.node:
                self.model.add(x == 0).with_name(f"pair[k{k},n{i}]")
