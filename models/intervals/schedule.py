"""A migration in phases ([Ding2015], section 3): what moves when, and the check of every intermediate assignment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models import metrics
from keyshift.models.errors import InputError
from keyshift.models.problem import CheckReport, Violation
from keyshift.models.workload import FloatArray, IntArray, Workload


@dataclass(frozen=True, eq=False)
class MigrationSchedule:
    """Phases of a migration, each a set of tasks that move at the same time.

    Attributes
    ----------
    workload : Workload
    target : ndarray of int, shape (m,)
    phases : tuple of ndarray of int
        Tasks that move in each phase.
    least : int
        No schedule under the same limits has fewer phases.
    per_link : int
        Tasks that a node sends, and that it receives, at most in one phase.
    max_tasks : int or None
    max_state : float or None
        Limits on one phase.
    """

    workload: Workload
    target: IntArray
    phases: tuple[IntArray, ...]
    least: int
    per_link: int
    max_tasks: int | None
    max_state: float | None

    @property
    def optimal(self) -> bool:
        """Whether the number of phases is proven to be the least."""
        return len(self.phases) == self.least

    def assignments(self) -> list[IntArray]:
        """The assignment after each phase; the last one is the target."""
        now, made = self.workload.current.copy(), []
        for phase in self.phases:
            now = now.copy()
            now[phase] = self.target[phase]
            made.append(now)
        return made

    def link_use(self) -> FloatArray:
        """Tasks that each node sends and receives in each phase, shape (phases, 2, nodes)."""
        nodes = max(self.workload.nodes, int(self.target.max()) + 1)
        use = np.zeros((len(self.phases), 2, nodes))
        for row, phase in zip(use, self.phases, strict=True):
            row[0] = np.bincount(self.workload.current[phase], minlength=nodes)
            row[1] = np.bincount(self.target[phase], minlength=nodes)
        return use

    def violations(self) -> list[Violation]:
        """Broken limits, tasks that move twice or never, and tasks on a node where they must not be."""
        broken = []
        for i, phase in enumerate(self.phases):
            state = float(self.workload.state[phase].sum())
            most_on_a_link = int(self.link_use()[i].max(initial=0))
            if self.max_tasks is not None and phase.size > self.max_tasks:
                broken.append(Violation("max_tasks", f"phase {i} moves {phase.size} tasks", i))
            if self.max_state is not None and state > self.max_state * (1 + 1e-9):
                broken.append(Violation("max_state", f"phase {i} moves {state:g} of state", i))
            if most_on_a_link > self.per_link:
                broken.append(Violation("per_link", f"phase {i} sends {most_on_a_link} tasks over one link", i))
        moved = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *self.phases]))
        if not np.array_equal(moved, np.flatnonzero(self.workload.current != self.target)):
            broken.append(Violation("moves", "some task moves twice, or not at all, or without need"))
        return broken

    def check(self) -> list[CheckReport]:
        r"""A report for the assignment after each phase: its objective is the state still to move.

        With :math:`q_k` and :math:`t_k` the node of task k before and after, :math:`x_k \in \{q_k, t_k\}` for every k.
        Contiguity and load limits hold at the ends of a migration; in between they cannot hold in general, since two nodes
        that exchange tasks would have to do so at once.

        Raises
        ------
        InputError
            If the phases themselves break a rule.
        """
        if broken := self.violations():
            raise InputError(f"not a schedule: {broken[0]}")
        return [self._on_the_way(assignment) for assignment in self.assignments()]

    def _on_the_way(self, assignment: IntArray) -> CheckReport:
        w, waits = self.workload, assignment != self.target
        figures = {
            "state_moved": metrics.state_moved(w, assignment),
            "tasks_to_move": float(waits.sum()),
            "max_load": float(np.bincount(assignment, weights=w.last_load).max()),
        }
        return CheckReport(True, (), float(w.state[waits].sum()), figures)
