"""The exercise checkers accept right functions, and say what is wrong with wrong ones before the twentieth instance."""

import csv
import threading
import time

import numpy as np
import pytest
from wrong_solutions import SOLUTIONS, TABLE, WRONG, first_failures, right

import keyshift as ks
from keyshift import exercises
from keyshift.exercises import EXERCISES
from keyshift.models import InputError

NAMES = exercises.names()


def test_every_exercise_has_at_least_five_wrong_solutions():
    assert list(WRONG) == NAMES
    assert min(map(len, WRONG.values())) >= 5
    assert SOLUTIONS.is_file()


@pytest.mark.parametrize("first", [0, 5000])
@pytest.mark.parametrize("name", NAMES)
def test_a_right_function_passes(name, first):
    verdict = exercises.check(name, getattr(right, EXERCISES[name].function), seeds=60, first=first)
    assert verdict, str(verdict)
    assert str(verdict) == f"{name}: passed on 60 instances"


def test_every_wrong_function_fails_within_the_first_twenty_where_the_table_says():
    with TABLE.open() as file:
        told = list(csv.reader(file))[1:]
    found = list(first_failures())
    assert [row[:3] for row in found] == told, "python tests/support/wrong_solutions.py writes the table anew"
    assert max(int(row[2]) for row in found) <= 20
    assert all(row[3].startswith("you") for row in found)


@pytest.mark.parametrize("name", NAMES)
def test_every_wrong_function_fails_in_a_final_check_too(name):
    for label, function in WRONG[name].items():
        assert not exercises.check(name, function, seeds=100, first=5000), label


def loops(**given):
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            continue


def changes(**given):
    given[next(iter(given))].append(0)


REFUSED = {
    "text": (lambda **given: "3", "you returned '3', of type str; the task asks for "),
    "a truth value": (lambda **given: True, "you returned True, of type bool; the task asks for "),
    "a set": (lambda **given: {1, 2}, "of type set; the task asks for "),
    "nan": (lambda **given: float("nan"), "you returned nan, no finite number; the task asks for "),
    "a list with nan": (lambda **given: [float("nan")] * 2, "of type list; the task asks for "),
    "a list of text": (lambda **given: ["0"] * 3, "of type list; the task asks for "),
    "a function": (lambda **given: loops, "of type function; the task asks for "),
    "an error": (lambda **given: 1 / 0, "your function raised ZeroDivisionError: division by zero"),
    "an exit": (lambda **given: exit(), "your function raised SystemExit"),
    "no end": (loops, "your function had not returned after 0.05 seconds"),
    "other arguments": (lambda: 0, "your function raised TypeError"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_answer_is_told_so_in_one_sentence(name, kind):
    function, sentence = REFUSED[kind]
    verdict = exercises.check(name, function, seeds=3, time_limit=0.05)
    assert sentence in verdict.complaint
    assert verdict.tried == 1
    assert "\n" not in verdict.complaint


@pytest.mark.parametrize("name", NAMES)
def test_nothing_or_changed_arguments_are_told(name):
    told = exercises.check(name, lambda **given: None, seeds=20).complaint
    either = EXERCISES[name].returns.endswith("None")
    assert told.startswith(
        "you returned None; the" if either else "you returned None, nothing at all; the task asks for "
    )
    assert exercises.check(name, changes, seeds=20).complaint == "your function changed its arguments: copy them first"


@pytest.mark.parametrize("name", ["allocation", "front", "greedy-two", "policy-value"])
def test_an_answer_of_the_wrong_length_is_told(name):
    function = getattr(right, EXERCISES[name].function)
    for wrong in (lambda **given: function(**given)[:-1], lambda **given: [*function(**given), function(**given)[-1]]):
        verdict = exercises.check(name, wrong, seeds=20)
        assert not verdict
        assert verdict.complaint.startswith("you returned ")


def test_arrays_and_numbers_of_numpy_are_answers():
    assert exercises.check("allocation", lambda **given: np.array(right.allocation(**given)))
    assert exercises.check("load-distance", lambda **given: np.float64(right.load_distance(**given)))
    assert exercises.check("front", lambda **given: np.array(right.front(**given)))


def test_without_alarms_a_function_is_still_tried():
    verdicts = []
    thread = threading.Thread(target=lambda: verdicts.append(exercises.check("front", right.front, seeds=3)))
    thread.start()
    thread.join()
    assert verdicts[0]


def test_the_same_seed_draws_the_same_instance():
    seen = []
    for _ in range(2):
        exercises.check("greedy-two", lambda **given: seen.append(given) or [], seeds=1, first=7)
    assert seen[0] == seen[1]


def test_an_unknown_exercise_names_the_known_ones():
    with pytest.raises(InputError, match="there are load-distance"):
        exercises.check("no-such", right.load_distance)
    assert ks.exercises.task("intervals").startswith("intervals(load, state, current, nodes_after, limit)")
