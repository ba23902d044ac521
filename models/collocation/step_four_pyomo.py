"""Step 4 of ALBIC as a Pyomo model. The numbers are those of `StepFour`'s docstring."""

from __future__ import annotations

from collections.abc import Mapping

import pyomo.environ as pyo

from keyshift.models.allocation.pyomo_model import AllocationPyomo
from keyshift.models.collocation.step_four import StepFour


class StepFourPyomo(AllocationPyomo):
    """(1)-(7) by `AllocationPyomo`, the demands by one method each.

    Parameters
    ----------
    step : StepFour

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        As in `AllocationPyomo`.
    """

    letters: Mapping[str, str] = {"x": "kn", "one_node": "k", "upper_load": "n", "lower_load": "n",
                                         "capacity": "-n", "one_set": "kkn", "pair": "k"}  # fmt: skip

    def __init__(self, step: StepFour) -> None:
        super().__init__(step.allocation)
        self.step = step
        self.sets_move_as_one()
        self.pair_comes_together()

    def sets_move_as_one(self) -> None:
        """(12) Neighbours in a set run on the same node."""
        m, nodes = self.model, range(self.workload.nodes)
        rows = [
            (k, other, i) for k, other in self.step.neighbours() for i in nodes if (k, i) in m.x or (other, i) in m.x
        ]

        def alike(m: pyo.ConcreteModel, k: int, other: int, i: int) -> object:
            here = [m.x[g, i] for g in (k, other) if (g, i) in m.x]
            return here[0] == (here[1] if len(here) == 2 else 0)

        m.one_set = pyo.Constraint(pyo.Set(initialize=rows, dimen=3), rule=alike)

    def pair_comes_together(self) -> None:
        """(13) The demanded key groups run nowhere else than on their node."""
        m, j = self.model, self.step.node
        elsewhere = {k: [i for i in self.open[k] if i != j] for k in self.step.members.tolist()}
        m.pair = pyo.Constraint(
            [k for k, nodes in elsewhere.items() if nodes], rule=lambda m, k: sum(m.x[k, i] for i in elsewhere[k]) == 0
        )
