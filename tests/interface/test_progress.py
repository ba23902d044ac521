"""The line that Python shows while a run takes longer than a second."""

from __future__ import annotations

import io
import threading

import pytest

import keyshift as ks
from keyshift import terminal
from keyshift.models.answer import Progress


@pytest.fixture
def screen(monkeypatch):
    """A terminal, as a text, on which lines are shown at once."""
    shown = io.StringIO()

    class Screen(terminal.Terminal):
        def __init__(self, **options):
            super().__init__(**{**options, "file": shown, "force_terminal": True, "width": 120, "stderr": False})

    monkeypatch.setattr(terminal, "Terminal", Screen)
    monkeypatch.setattr(terminal, "DELAY", 0.0)
    return shown


def test_a_terminal_shows_phase_best_bound_gap_and_time(screen):
    line = terminal._Line("allocation: milp", 60.0)
    line.now = Progress(4.0, 3.0, "search")
    said = line.__rich__()
    assert said.startswith("allocation: milp search best 4 bound 3 gap 25 % ")
    assert said.endswith(" s left")
    with terminal.progress("allocation: milp", 60.0) as watch, terminal.progress("within") as inner:
        assert watch is not None
        assert inner is None, "one line at a time"
    assert terminal._ONE.acquire(blocking=False)
    terminal._ONE.release()


def test_it_is_off_where_nobody_looks(screen, monkeypatch):
    own = [].append
    with terminal.progress("t", watch=own) as watch:
        assert watch is own, "the caller watches"
    with terminal.progress("t", shown=False) as watch:
        assert watch is None
    found = []

    def elsewhere():
        with terminal.progress("t") as watch:
            found.append(watch)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [None]
    monkeypatch.setenv("KEYSHIFT_PROGRESS", "0")
    with terminal.progress("t") as watch:
        assert watch is None
    monkeypatch.undo()
    with terminal.progress("t") as watch:
        assert watch is None, "a pipe"


@pytest.mark.parametrize("progress", [True, False])
def test_solve_compare_and_pareto_take_the_word(screen, progress):
    w = ks.Workload(load=[3, 2, 1], state=[1, 1, 1], current=[0, 0, 0], nodes=2)
    problem = ks.KeyGroupAllocation(w, max_migrations=2)
    assert ks.solve(problem, progress=progress).status == "optimal"
    assert ks.compare(problem, ["milp", "flux"], progress=progress)
    assert ks.pareto(problem, points=2, progress=progress)
    assert progress or screen.getvalue() == ""
