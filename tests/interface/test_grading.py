"""The grader: right solutions get all marks, wrong and hostile ones none, and nothing of theirs stays behind."""

import json
import subprocess
import sys
import time

import pytest
from wrong_solutions import SOLUTIONS

from keyshift import exercises
from keyshift.cli import main
from keyshift.exercises.exercise import SHEETS, grade

HOSTILE = {
    "text": ("return '3'", "you returned '3', of type str; the task asks for a number"),
    "nan": ("return float('nan')", "you returned nan, no finite number; the task asks for a number"),
    "a set": ("return {1, 2}", "you returned {1, 2}, of type set, which is not the type of the task"),
    "an endless loop": ("while True: pass", "your function had not returned after 0.5 seconds"),
    "a loop that catches all": (
        "while True:\n  try:\n   pass\n  except BaseException: pass",
        "your function had not returned after 0.5 seconds",
    ),
    "all memory": ("return [0] * 10**10", "your function raised MemoryError"),
    "an error": ("return 1 / 0", "your function raised ZeroDivisionError: division by zero"),
    "an exit": ("raise SystemExit", "your function raised SystemExit"),
    "a crash": ("import os; os.abort()", "your function ended the process that called it"),
    "its own process": ("import os; os._exit(0)", "your function ended the process that called it"),
    "keyshift's help": ("import keyshift", "your function raised ModuleNotFoundError: import of keyshift halted"),
    "a file": ("open('x', 'w').write('y' * 10**6)", "your function raised OSError: [Errno 27] File too large"),
    "other arguments": ("given['load'].append(0)", "your function changed its arguments: copy them first"),
    "too much": ("return [0] * 10**5", "you returned far more than the task asks for"),
    "nonsense on the pipe": (
        "import os; os.write(4, b'[]\\n')",
        "your function changed the process that called it",
    ),
}


def sheet_one(tmp_path, body):
    path = tmp_path / "submission.py"
    path.write_text(f"print('hello')\ndef load_distance(**given):\n {body}\n")
    return path


@pytest.mark.parametrize("number", SHEETS)
def test_the_lecturers_solutions_get_all_marks(number):
    result = grade(SOLUTIONS, number, seeds=30)
    assert result.total == result.most == 10, result.verdicts
    assert [v.tried for v in result.verdicts.values()] == [30] * len(result.verdicts)


def test_the_sheets_have_every_exercise_once():
    assert sorted(name for sheet in SHEETS.values() for name in sheet.marks) == sorted(exercises.names())


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_goes_wrong_is_told_in_one_sentence(tmp_path, kind):
    body, sentence = HOSTILE[kind]
    verdict = grade(sheet_one(tmp_path, body), 1, time_limit=0.5).verdicts["load-distance"]
    assert sentence in verdict.complaint
    assert "\n" not in verdict.complaint
    assert [path.name for path in tmp_path.iterdir()] == ["submission.py"]


def test_what_a_submission_started_ends_with_it(tmp_path):
    started = (
        "import subprocess, sys\n return subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)']).pid"
    )
    told = grade(sheet_one(tmp_path, started), 1).verdicts["load-distance"].complaint
    pid = int(told.split()[2].rstrip(";"))
    for _ in range(100):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
        if not state or state.startswith("Z"):
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} goes on: {state}")


def test_answers_of_numpy_are_answers(tmp_path):
    path = tmp_path / "submission.py"
    path.write_text(
        f"import sys; sys.path.insert(0, {str(SOLUTIONS.parent)!r})\n"
        "import numpy as np, solutions\n"
        "def load_distance(**given): return np.float64(solutions.load_distance(**given))\n"
        "def allocation(**given): return np.array(solutions.allocation(**given))\n"
    )
    assert grade(path, 1, seeds=10).total == 10


def test_the_command_shows_the_marks(tmp_path, capsys):
    assert main(["grade", str(SOLUTIONS), "--sheet", "1", "--seeds", "10"]) == 0
    said = capsys.readouterr().out
    assert "Sheet 1: Loads and few moves - 10 of 10 marks" in said
    assert main(["grade", str(sheet_one(tmp_path, "return 0.0")), "--sheet", "1", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["marks"], told["of"], [row["of"] for row in told["exercises"]]) == (0, 10, [4, 6])
    assert told["exercises"][1]["complaint"] == "your file has no function allocation"
    assert (told["exercises"][1]["tried"], told["exercises"][1]["instance"]) == (0, None)


def test_a_missing_function_is_named_without_an_instance(tmp_path, capsys):
    assert main(["grade", str(sheet_one(tmp_path, "return 0.0")), "--sheet", "2"]) == 1
    said = capsys.readouterr().out
    assert "not tried" in said
    assert said.rstrip().endswith("fewest-moves: your file has no function fewest_moves")


def test_what_cannot_be_graded_ends_in_one_sentence(tmp_path, capsys):
    assert main(["grade", str(tmp_path / "none.py"), "--sheet", "1"]) == 2
    assert "there is no such file" in capsys.readouterr().err
    assert main(["grade", str(SOLUTIONS), "--sheet", "9"]) == 2
    assert "there is no sheet 9: choose one of 1, 2, 3" in capsys.readouterr().err
    (tmp_path / "broken.py").write_text("def (")
    assert main(["grade", str(tmp_path / "broken.py"), "--sheet", "1"]) == 1
    assert "the file does not run: SyntaxError: invalid syntax" in capsys.readouterr().out


def test_the_process_needs_no_package():
    from keyshift.exercises import submission

    code = f"import runpy, sys; sys.argv = ['x']; runpy.run_path({submission.__file__!r}, run_name='other')"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
