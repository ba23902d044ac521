"""The terminal: the line that Python shows while a run takes longer than a second, and tables that fit."""

from __future__ import annotations

import io
import threading

import pytest

import keyshift as ks
from keyshift import terminal
from keyshift.commands.common import console
from keyshift.commands.showing import plain_table
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


WORDS = [["ExtractDelay/76", "b1", "[1002,1004,1005]", "117,200,032,388", "3.25", "0.5"]] * 3
HEADS = ["key", "from", "to", "load", "state", "gain"]


@pytest.mark.parametrize("width", [30, 45, 60, 70, 80, 200])
def test_keys_and_numbers_are_whole_and_what_does_not_fit_is_named(width):
    lines = terminal.printed(plain_table(HEADS, WORDS), width).splitlines()
    assert all(len(line) <= width for line in lines)
    shown = [head for head in HEADS if head in lines[0].split()]
    assert shown == HEADS[: len(shown)]
    assert len(shown) >= 2
    for place, head in enumerate(HEADS):
        assert sum(WORDS[0][place] in line for line in lines) == (3 if head in shown else 0)
    said = " ".join(" ".join(lines).split())
    assert ("not shown: " + ", ".join(HEADS[len(shown) :]) in said) == (len(shown) < len(HEADS))


def test_sentences_fold_and_pipes_are_as_wide_as_columns_says(monkeypatch):
    text = terminal.printed(terminal.table(["name", "what"], [["a", "some words " * 9]]), 40)
    assert text.count("some") == 9
    assert "not shown" not in text
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console().width == 120
    monkeypatch.setenv("COLUMNS", "200")
    assert console().width == 200


def test_heads_stand_on_several_lines_before_a_column_is_left_out():
    made = terminal.table(
        ("key", "above the best bound", "seconds"), [("a", "1", "2")], right=("above the best bound", "seconds")
    )
    wide, narrow = (terminal.printed(made, width) for width in (60, 36))
    assert "above the best bound" in wide
    assert "seconds" in narrow
    assert "above the best bound" not in narrow
    assert "not shown" not in narrow
    assert terminal.printed(made, 60) == wide, "the table is what it was"
