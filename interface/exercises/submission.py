"""The process in which a submission runs: it calls the functions of the file, and has neither answers nor marks.

The grader starts it as ``python -I submission.py FILE BYTES SECONDS``, with limits on memory and processor time, and talks to
it in lines of JSON. It uses the standard library alone, and hides keyshift from the submission, which is to solve its
exercises itself.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import os
import reprlib
import sys
from numbers import Real
from typing import Any

MOST_LETTERS = 100_000


def limit(memory: int, seconds: int) -> None:
    """So much memory and processor time, and no file written; Windows has no such limits."""
    with contextlib.suppress(ImportError):
        import resource

        limits = {"AS": memory, "CPU": seconds, "FSIZE": 0, "CORE": 0}
        for what, most in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{what}"), (most, most))


def as_json(value: Any) -> Any:
    """NumPy's arrays and numbers, and fractions."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Real):
        return float(value)
    raise TypeError


def told(error: BaseException) -> str:
    """An error in one short line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")[:300]


def call(function: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The value that a call returned, or a sentence about what it did instead."""
    before = copy.deepcopy(given)
    try:
        returned = function(**given)
    except (Exception, SystemExit) as error:
        return {"failed": "your function raised " + told(error)}
    if given != before:
        return {"failed": "your function changed its arguments: copy them first"}
    try:
        text = json.dumps(returned, default=as_json)
    except (TypeError, ValueError, RecursionError):
        kind = type(returned).__name__
        return {"failed": f"you returned {reprlib.repr(returned)}, of type {kind}, which is not the type of the task"}
    if len(text) > MOST_LETTERS:
        return {"failed": "you returned far more than the task asks for"}
    return {"returned": json.loads(text)}


def serve(path: str) -> None:
    """Load the file, then answer a line a call; what the submission itself prints goes nowhere."""
    questions, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    sys.modules["keyshift"] = None  # type: ignore[assignment]  # to import it is an error
    try:
        spec = importlib.util.spec_from_file_location("submission", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        print(json.dumps({"failed": "the file does not run: " + told(error)}), file=answers)
        return
    print(json.dumps({"functions": [n for n, f in vars(module).items() if callable(f)]}), file=answers)
    for line in questions:
        asked = json.loads(line)
        print(json.dumps(call(getattr(module, asked["function"]), asked["given"])), file=answers)


if __name__ == "__main__":
    limit(int(sys.argv[2]), int(sys.argv[3]))
    serve(sys.argv[1])
