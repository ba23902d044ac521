"""Kernels run as Python while that is quick, compiled from then on: the same numbers, on no clock, whoever owns the folders."""

from __future__ import annotations

import os
import pathlib
import pickle
import subprocess
import sys
import threading
import time
from typing import NamedTuple

import numpy as np
import pytest

from keyshift.models import Budget
from keyshift.models.base import compiling, kernel_cache
from keyshift.models.base.compiling import COMPILING, Kernel, njit

try:
    import fcntl
except ImportError:
    fcntl = None
TWICE = 2


@njit(cache=True)
def halve(x, n=TWICE):
    """A leaf."""
    for _ in range(n):
        x[0] /= 2.0
    return x[0]


class Named(NamedTuple):
    """Has a field by the name of the kernel that reads it."""

    total: np.ndarray


@njit
def total(named):
    """An attribute is no global name."""
    return named.total.sum()


@njit(cache=True)
def halve_all(x, n, rng):
    """What calls it, and changes what it is handed on the way."""
    total = 0.0
    for i in range(x.size):
        x[i] += rng.random()
        total += halve(x[i:], n) + halve(x[:1])
    return total, x.size


@njit
def reciprocal(x):
    """Python raises where compiled code does as well, and where it does not."""
    return np.uint64(1) << np.uint64(x), 1.0 / x


def fresh(kernel: Kernel) -> Kernel:
    """The same, never called."""
    return Kernel(kernel.py_func, kernel._options)


@pytest.fixture
def allowance(monkeypatch):
    """Whatever other tests have used up, and the watcher that they had."""
    monkeypatch.setattr(COMPILING, "iterations", compiling.ALL)
    monkeypatch.setattr(COMPILING, "interpreted", True)


@pytest.mark.usefixtures("allowance")
def test_a_short_call_is_not_compiled_and_counts_its_iterations():
    kernel, x = fresh(halve_all), np.ones(3)
    total, size = kernel(x, 2, np.random.default_rng(0))
    assert kernel._compiled is None
    assert compiling.ALL - COMPILING.iterations == 3 * (1 + 2 + 2)
    assert (type(total), type(size)) == (float, int)


@pytest.mark.usefixtures("allowance")
def test_a_long_call_begins_again_compiled_with_what_it_was_handed(monkeypatch):
    monkeypatch.setattr(compiling, "EACH", 10)
    answers = []
    for most in (10, 10**6):
        monkeypatch.setattr(compiling, "EACH", most)
        kernel, x, rng = fresh(halve_all), np.ones(40), np.random.default_rng(1)
        answers.append((kernel(x, 3, rng), x.tolist(), rng.random()))
        assert (kernel._compiled is None) == (most > 10)
    assert answers[0] == answers[1]


@pytest.mark.usefixtures("allowance")
def test_nothing_is_interpreted_where_compiling_at_once_was_asked_for_or_arrays_are_large(monkeypatch):
    kernel = fresh(halve)
    with COMPILING.at_once():
        kernel(np.ones(1), 1)
    assert kernel._compiled is not None
    monkeypatch.setattr(compiling, "LARGE", 5)
    kernel = fresh(halve)
    kernel(np.ones(5), 1)
    assert kernel._compiled is None
    kernel(np.ones(6), 1)
    assert kernel._compiled is not None


def test_a_field_by_the_name_of_a_kernel_is_no_call_of_it():
    assert fresh(total)(Named(np.ones(3))) == 3
    assert fresh(total).dispatcher(Named(np.ones(3))) == 3


@pytest.mark.usefixtures("allowance")
def test_what_python_refuses_is_left_to_the_compiled_code():
    kernel = fresh(reciprocal)
    assert kernel(2) == (4, 0.5)
    with pytest.raises(ZeroDivisionError):
        kernel(0)
    assert kernel._compiled is not None


@pytest.mark.usefixtures("allowance")
def test_the_clock_stands_still_while_a_kernel_is_read():
    kernel, before = fresh(halve), COMPILING.seconds
    kernel(np.ones(1), 1)
    assert kernel._compiled is None
    assert COMPILING.seconds > before


@pytest.mark.usefixtures("allowance")
def test_the_clock_stands_still_while_a_kernel_compiles():
    budget, kernel, before = Budget(60.0), fresh(halve), COMPILING.seconds
    kernel = Kernel(kernel.py_func, {})  # without a cache: compiled anew
    with COMPILING.at_once():
        kernel(np.ones(1), 1)
    took = COMPILING.seconds - before
    assert took > 0.01
    assert budget.elapsed < 0.5 * took


@pytest.mark.usefixtures("allowance")
def test_a_change_in_a_kernel_that_is_called_makes_what_was_cached_stale():
    other = Kernel(halve.py_func, {"cache": True})
    before = fresh(halve_all).codes
    assert fresh(halve_all).codes == before
    other.py_func = reciprocal.py_func
    caller = fresh(halve_all)
    caller._globals = lambda form: {"halve": form(other)}
    assert caller.codes != before


@pytest.fixture
def nobody_may_write(monkeypatch, tmp_path):
    """As in a hardened container: neither the package's folder nor a home can be written, only one for temporary files."""
    from numba import config
    from numba.core import caching

    def refuse(self):
        if not self.get_cache_path().startswith(str(tmp_path)):
            raise PermissionError(self.get_cache_path())
        pathlib.Path(self.get_cache_path()).mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    forget()
    yield tmp_path
    forget()


def forget():
    """What this process knows of temporary folders."""
    kernel_cache._temporary.cache_clear()
    kernel_cache._say_where.cache_clear()


@pytest.mark.usefixtures("allowance")
def test_where_nothing_can_be_written_a_temporary_folder_is_used_or_none_with_one_sentence(nobody_may_write, caplog):
    kernel, other = fresh(halve), fresh(halve)
    kernel.codes, other.codes = (
        [str(nobody_may_write).encode()],
        [b"other", str(nobody_may_write).encode()],
    )  # in no cache
    with COMPILING.at_once():
        assert kernel(np.ones(1), 1) == 0.5
        assert [*nobody_may_write.rglob("*.nbi")]
        kernel_cache._temporary.cache_clear()
        (folder,) = nobody_may_write.iterdir()
        folder.chmod(0o777)  # somebody else could put code there
        assert other(np.ones(1), 1) == 0.5
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 2
    assert "kept in" in said[0]
    assert "not kept" in said[1]


@pytest.mark.usefixtures("allowance")
@pytest.mark.parametrize("temporary", [True, False])
@pytest.mark.parametrize("given", ["", "cache"], ids=["beside the package", "NUMBA_CACHE_DIR"])
def test_a_cache_that_somebody_else_wrote_is_read_where_it_cannot_be_written(
    given, temporary, request, monkeypatch, tmp_path_factory, caplog
):
    from numba import config

    folder = str(tmp_path_factory.mktemp(given)) if given else ""
    monkeypatch.setattr(config, "CACHE_DIR", folder)
    codes = [folder.encode(), b"found in this place alone"]

    def run():
        kernel = fresh(halve)
        kernel.codes = codes
        with COMPILING.at_once():
            assert kernel(np.ones(1), 1) == 0.5

    run()  # as root did, when the image was made
    request.getfixturevalue("nobody_may_write")
    monkeypatch.setattr(config, "CACHE_DIR", folder)
    if not temporary:
        monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", lambda: str(tmp_path_factory.getbasetemp() / "none"))
    before = COMPILING.anew
    run()
    assert COMPILING.anew == before
    assert not caplog.records  # nothing was compiled: there is nothing to say


@pytest.mark.usefixtures("allowance")
def test_a_cache_whose_types_are_elsewhere_now_is_begun_anew(monkeypatch, tmp_path):
    from numba import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def run():
        kernel = fresh(halve)
        kernel.codes = [b"in this place alone"]
        before = COMPILING.anew
        with COMPILING.at_once():
            assert kernel(np.ones(1), 1) == 0.5
        return COMPILING.anew > before

    assert run()
    (index,) = tmp_path.rglob("*.nbi")
    with index.open("rb") as file:
        version = pickle.load(file)
    index.write_bytes(pickle.dumps(version) + b"ckeyshift.solvers.once_upon_a_time\nRows\n.")
    assert run()
    assert not run()  # it was kept again


@pytest.mark.skipif(fcntl is None, reason="Windows: each process compiles for itself")
@pytest.mark.usefixtures("allowance")
@pytest.mark.parametrize("ends", [True, False], ids=["the other ends", "the other was suspended"])
def test_who_needs_the_same_kernel_at_the_same_time_waits_and_loads_it(ends, monkeypatch, tmp_path, caplog):
    from numba import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "LONGEST_WAIT", 60.0 if ends else 0.2)
    caplog.set_level("DEBUG", "keyshift")
    answers = []

    def run():
        kernel = fresh(halve)
        kernel.codes = [b"in this place alone"]
        with COMPILING.at_once():
            answers.append(kernel(np.ones(1), 1))

    def compiled():
        return sum("compiling halve" in record.getMessage() for record in caplog.records)

    run()
    assert compiled() == 1
    (index,) = tmp_path.rglob("*.nbi")
    hidden = index.rename(tmp_path / "hidden")
    with pathlib.Path(__file__).open("rb") as source:  # what has just compiled locks it no longer
        fcntl.flock(source, fcntl.LOCK_EX | fcntl.LOCK_NB)
        thread = threading.Thread(target=run)
        thread.start()
        while ends and not COMPILING.now:
            time.sleep(0.01)
        if ends:
            hidden.rename(index)
        else:
            thread.join()
    thread.join()
    assert compiled() == (1 if ends else 2)
    assert answers == [0.5, 0.5]


@pytest.mark.usefixtures("allowance")
def test_a_full_disk_costs_the_cache_and_no_answer(monkeypatch, caplog):
    from numba.core import caching

    def full(self, key, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", full)
    kernel = fresh(halve)
    kernel.codes = [b"in no cache"]
    with COMPILING.at_once():
        assert kernel(np.ones(1), 1) == 0.5
    assert "No space left" in caplog.text


def test_kernels_that_are_kept_beside_an_installed_package_go_when_it_is_uninstalled(tmp_path, monkeypatch):
    """`pip uninstall` takes what RECORD lists; nothing is noted for a checkout, nor twice."""
    folder = tmp_path / "keyshift" / "solvers" / "__pycache__"
    folder.mkdir(parents=True)
    for name in ("sums.add-1.py311.nbi", "sums.add-1.py311.1.nbc", "sums.other-1.py311.nbi"):
        (folder / name).touch()
    monkeypatch.setattr(kernel_cache, "__file__", str(tmp_path / "keyshift" / "models" / "base" / "kernel_cache.py"))
    kernel_cache.list_installed(folder, "sums.add-1.py311*.nb[ic]")  # no RECORD: a checkout
    (record := tmp_path / "keyshift-1.0.dist-info" / "RECORD").parent.mkdir()
    record.write_text("keyshift/__init__.py,sha256=x,1")
    for _ in range(2):
        kernel_cache.list_installed(folder, "sums.add-1.py311*.nb[ic]")
    assert record.read_text().splitlines() == [
        "keyshift/__init__.py,sha256=x,1",
        "keyshift/solvers/__pycache__/sums.add-1.py311.1.nbc,,",
        "keyshift/solvers/__pycache__/sums.add-1.py311.nbi,,",
    ]
    kernel_cache.list_installed(tmp_path / "elsewhere", "sums.add-1.py311*.nb[ic]")
    assert len(record.read_text().splitlines()) == 3


def test_an_index_of_another_version_which_names_a_module_that_is_gone_costs_no_answer(tmp_path):
    kernel = Kernel(halve.py_func, {"cache": True})
    index = kernel.dispatcher._cache._cache_file
    index._cache_path, index._index_path = str(tmp_path), str(tmp_path / "other.nbi")
    (tmp_path / "other.nbi").write_bytes(pickle.dumps(index._version) + b"cno_such_module\nThing\n.")
    assert index._load_index() == {}
    assert kernel.dispatcher(np.array([4.0])) == 1.0  # and it is written anew
    assert index._load_index()


def test_a_default_that_is_left_out_is_no_type_of_its_own():
    kernel = njit(halve.py_func)
    with COMPILING.at_once():
        assert kernel(np.ones(2)) == kernel(np.ones(2), TWICE) == 0.25
    assert len(kernel.dispatcher.overloads) == 1


def test_what_was_compiled_ahead_is_known_until_source_or_kernels_change(tmp_path, monkeypatch):
    root, noted = tmp_path / "package", tmp_path / "warmed.json"
    root.mkdir()
    (root / "a.py").write_text("1")
    monkeypatch.setattr(kernel_cache, "_warmed_file", lambda: noted)
    monkeypatch.setattr(kernel_cache, "_temporary", lambda: None)
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    kernel_cache.note_warmed("all", [root])
    assert not kernel_cache.is_warmed("all", [root]), "nothing was compiled"
    (root / "a.nbc").write_text("kernel")
    kernel_cache.note_warmed("all", [root])
    assert kernel_cache.is_warmed("all", [root])
    assert not kernel_cache.is_warmed("mclb", [root])
    (root / "more.nbc").write_text("of another signature")
    assert kernel_cache.is_warmed("all", [root])
    (root / "a.py").write_text("22")
    assert not kernel_cache.is_warmed("all", [root])
    kernel_cache.note_warmed("all", [root])
    (root / "a.nbc").unlink()
    assert not kernel_cache.is_warmed("all", [root])
    noted.write_text("[")
    assert not kernel_cache.is_warmed("all", [root])


def test_a_first_answer_to_a_small_allocation_compiles_nothing():
    """In a process of its own: this one has compiled kernels, and may have loaded Numba."""
    code = """if True:
        import sys, keyshift as ks
        w = ks.Workload(load=[8, 6, 5, 2, 2, 1], state=[9, 2, 3, 1, 1, 1], current=[0, 0, 0, 1, 1, 2], nodes=3)
        s = ks.solve(ks.KeyGroupAllocation(w, max_migrations=2))
        print(s.status, s.objective, "numba" in sys.modules)"""
    environment = {name: value for name, value in os.environ.items() if name != "KEYSHIFT_KERNELS"}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["optimal", "1.0", "False"]
