"""What people outside script against stays: nothing that 0.1 offered is lost, and every change is written down."""

from __future__ import annotations

import json

import pytest
from public_surface import NOW, RELEASED, surface


@pytest.fixture(scope="module")
def today():
    return surface()


LIMITED = {"time_limit=60.0": "time_limit=None", "time_limit=10.0": "time_limit=None"}
"""Since 0.3 a run ends by itself."""


def lost(before, now, where=""):
    """What `before` offered and `now` does not: a name, a parameter, a default, an option."""
    if isinstance(before, dict):
        for key, value in before.items():
            if key in now:
                yield from lost(value, now[key], f"{where}/{key}")
            else:
                yield f"{where}/{key}"
    elif isinstance(before, list):
        # a parameter that had to be given may have got a default since
        today = [LIMITED.get(entry, entry) for entry in now]
        as_before = {entry: entry if entry in before else entry.partition("=")[0] for entry in today}
        if [entry for entry in as_before.values() if entry in before] != before:
            yield f"{where}: {before} -> {now}"
    elif before != now:
        yield f"{where}: {before} -> {now}"


REPLACED = ("/names/keyshift.CollocatedAllocation/limits",)
"""Every problem lists its limits by this name now: a property, where one problem had a method of its own."""


def test_nothing_that_was_released_is_lost(today):
    gone = [loss for loss in lost(json.loads(RELEASED.read_text()), today) if not loss.startswith(REPLACED)]
    assert gone == []


def test_every_change_is_written_down(today):
    assert today == json.loads(NOW.read_text()), "the public surface changed: if that is meant, run `make surface`"


def test_a_loss_is_seen():
    before = {"names": {"f": ["a", "b=1"], "C": {"()": ["x"], "g": "property"}}}
    assert list(lost(before, {"names": {"f": ["a", "new=0", "b=1"], "C": before["names"]["C"]}})) == []
    assert list(lost(before, {"names": {**before["names"], "f": ["a=None", "b=1"]}})) == []
    assert list(lost(before, {"names": {**before["names"], "f": ["a", "b=2"]}})) == [
        "/names/f: ['a', 'b=1'] -> ['a', 'b=2']"
    ]
    assert list(lost(before, {"names": {"f": ["b=1", "a"], "C": {"()": ["x"]}}})) == [
        "/names/f: ['a', 'b=1'] -> ['b=1', 'a']",
        "/names/C/g",
    ]
