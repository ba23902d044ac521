"""Runs that outlive their limit: who waits for them, and with what the process ends."""

import importlib
import subprocess
import sys
import threading
import time

import pytest

from keyshift.models import Budget
from keyshift.solvers import checked

SCRIPT = """
import ctypes, sys
from keyshift.models import Budget
from keyshift.models.answer import LimitReached
from keyshift.solvers import threads

threads.LAST_SECONDS = 0.2
try:
    threads.until_limit(Budget(0.05), ctypes.CDLL(None).sleep, 60, grace=0.05)
except LimitReached:
    print("left")
"""


@pytest.mark.parametrize(
    ("last", "code"), [("", 0), ("raise ValueError", 1), ("threads.exit_code = 3; sys.exit(3)", 3)]
)
def test_a_run_that_never_comes_back_does_not_keep_the_process(last, code):
    ended = subprocess.run([sys.executable, "-c", SCRIPT + last], capture_output=True, text=True, timeout=50)
    assert (ended.returncode, ended.stdout) == (code, "left\n")
    said = [
        line for line in ended.stderr.splitlines() if line.startswith("ValueError")
    ]  # 3.13 prints the line of code, too
    assert len(said) == int(code == 1)


def test_a_run_that_comes_back_is_waited_for():
    script = SCRIPT.replace("threads.LAST_SECONDS = 0.2", "sleep = ctypes.CDLL(None).sleep")
    script = script.replace("ctypes.CDLL(None).sleep, 60", 'lambda: (sleep(1), print("back"))')
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50)
    assert (ended.returncode, ended.stdout) == (0, "left\nback\n")


def test_a_thread_that_loses_what_it_is_told_is_told_again_until_it_ends():
    """Python loses what is raised while it collects garbage: such a thread wrote a model of millions of rows after its limit."""
    writers, lost = [], []

    def write():
        writers.append(threading.current_thread())
        while True:
            try:
                while True:
                    time.sleep(0.001)
            except checked._Stopped:
                lost.append(time.monotonic())
                if lost[-1] - lost[0] > 3 * checked.LAST_WORDS:
                    raise

    hooks = sys.unraisablehook, threading.excepthook
    assert checked.within(Budget(0.05), write) is None
    writers[0].join(20)
    assert not writers[0].is_alive()
    assert len(lost) > 1
    time.sleep(2 * checked.POLL_SECONDS)  # for who asked it
    assert (sys.unraisablehook, threading.excepthook) == hooks


def test_a_thread_that_imports_is_not_stopped_half_way(tmp_path, monkeypatch):
    begun = tmp_path / "begun"
    slow = f"import time\nopen({str(begun)!r}, 'a').write('.')\nfor _ in range(60):\n    time.sleep(0.01)\n"
    (tmp_path / "slow_to_import.py").write_text(slow)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert checked.within(Budget(0.05), lambda: importlib.import_module("slow_to_import")) is None
    importlib.import_module("slow_to_import")
    assert begun.read_text() == "."
