"""The cache of compiled code on disk: beside the package, else in the home folder, else among temporary files.

A cache of another user is read where it cannot be written, one of another version is begun anew, and processes that need
the same kernels at the same time, such as the workers of a pool, compile them once: the others wait and load them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import pickle
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

from keyshift.models.base.disk import fcntl, read_json, read_text
from keyshift.models.errors import InputError

OF_ANOTHER_VERSION = (ImportError, AttributeError, EOFError, pickle.UnpicklingError)
"""What a cache raises whose kernels took types that are elsewhere now: it is begun anew."""
LONGEST_WAIT = 60.0
"""Seconds to wait for another process that compiles: one that was suspended may never end."""

Waiting = Callable[[], contextlib.AbstractContextManager[None]]
"""What is entered while another process compiles."""

_LOG = logging.getLogger("keyshift")
_LOCKED: list[int] = []
"""The source of the kernels that this process compiles, opened and locked."""


def keep(dispatcher: Any, codes: list[bytes], waiting: Waiting) -> None:
    """Cache compiled code where Numba can write, else among the user's temporary files, else not at all."""
    with contextlib.suppress(RuntimeError):  # what stands in no file has no place either
        dispatcher._cache = _layered()(dispatcher.py_func, codes, waiting)


@functools.cache
def _placed() -> Any:
    """Numba's search for a place to keep what is compiled, with one more at its end."""
    from numba.core.caching import CompileResultCacheImpl

    known = CompileResultCacheImpl._locator_classes
    in_tree: Any = known[1]

    class Temporary(in_tree):  # type: ignore[misc]
        """The user's temporary files; where there are none either, only what is beside the package is read."""

        elsewhere = True

        def __init__(self, function: FunctionType, file: str) -> None:
            super().__init__(function, file)
            if (folder := _temporary()) is not None:
                self._cache_path = str(Path(folder) / self.get_suitable_cache_subpath(file))

        def ensure_cache_path(self) -> None:
            if _temporary() is not None:
                super().ensure_cache_path()

    return type("Placed", (CompileResultCacheImpl,), {"_locator_classes": [*known, Temporary]})


@functools.cache
def _index_file() -> Any:
    """Numba's index of what is kept; one of another version, which names modules that are gone, is read as an empty one."""
    from numba.core.caching import IndexDataCacheFile

    class Index(IndexDataCacheFile):  # type: ignore[misc]
        def _load_index(self) -> Any:
            try:
                return super()._load_index()
            except OSError:
                raise
            except Exception:  # unpickling may raise anything
                return {}

    return Index


def _keep_others_waiting(source: Path, waiting: Waiting) -> None:
    """Lock a file of kernels until `let_others_compile`, once no other process has it."""
    let_others_compile()
    if fcntl is None:  # Windows: each process compiles for itself
        return
    until = time.monotonic() + LONGEST_WAIT
    with waiting(), contextlib.suppress(OSError):
        _LOCKED.append(file := os.open(source, os.O_RDONLY))
        while time.monotonic() < until:
            with contextlib.suppress(BlockingIOError):
                return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            time.sleep(0.05)


def let_others_compile() -> None:
    """Let other processes compile: this one has written its code to disk, or cannot."""
    while _LOCKED:
        file = _LOCKED.pop()
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)  # closing does not suffice where a fork has it open, too
        os.close(file)


@functools.cache
def _layered() -> Any:
    """Numba's cache on disk, which also reads where it may not write: an image's cache, made by root, serves every user."""
    from numba import config
    from numba.core.caching import FunctionCache

    class Layered(FunctionCache):  # type: ignore[misc]
        _impl_class = _placed()
        _cache_file: Any

        def __init__(self, function: FunctionType, codes: list[bytes], waiting: Waiting) -> None:
            self._codes = hashlib.sha256(b"".join(codes)).hexdigest()
            super().__init__(function)
            written = Path(function.__code__.co_filename)
            self._alone = functools.partial(_keep_others_waiting, written, waiting)
            places = [written.parent / "__pycache__"]
            if config.CACHE_DIR:
                places.insert(0, Path(config.CACHE_DIR) / self._impl.locator.get_suitable_cache_subpath(str(written)))
            stamp, base = self._impl.locator.get_source_stamp(), self._impl.filename_base
            index = functools.partial(_index_file(), filename_base=base, source_stamp=stamp)
            self._cache_file = index(cache_path=self.cache_path)
            self._others = [
                index(cache_path=str(place))
                for place in places
                if str(place) != self.cache_path and (place / f"{base}.nbi").exists()
            ]

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            """What a cache has; where none has it, once more when no other process is compiling it."""
            if (found := super().load_overload(sig, target_context)) is None:
                self._alone()
                found = super().load_overload(sig, target_context)
            return found

        def _load_overload(self, sig: Any, target_context: Any) -> Any:
            own: Any = self._cache_file
            try:
                for file in (own, *self._others):
                    self._cache_file = file
                    with contextlib.suppress(OSError, *OF_ANOTHER_VERSION):
                        if (found := super()._load_overload(sig, target_context)) is not None:
                            return found
            finally:
                self._cache_file = own
            return None

        def save_overload(self, sig: Any, data: Any) -> None:
            if getattr(self._impl.locator, "elsewhere", False):
                _say_where(_temporary())
                if _temporary() is None:
                    return
            try:
                super().save_overload(sig, data)
            except OSError as error:  # such as a full disk
                _LOG.warning("compiled code is not kept: %s", error)
            else:
                list_installed(Path(self.cache_path), f"{self._impl.filename_base}*.nb[ic]")

        def _index_key(self, sig: Any, codegen: Any) -> Any:
            return (*super()._index_key(sig, codegen), self._codes)

    return Layered


def list_installed(folder: Path, files: str) -> None:
    """Add cached files to the installer's list, so that uninstalling removes them."""
    package = Path(__file__).parents[2]
    if package not in folder.parents:
        return
    with contextlib.suppress(OSError, InputError):
        for record in package.parent.glob("keyshift-*.dist-info/RECORD"):
            # Bytes of an installer's list that are read.
            noted = read_text(record, 2**24)
            names = sorted(file.relative_to(package.parent).as_posix() for file in folder.glob(files))
            if new := [f"{name},,\n" for name in names if f"{name},," not in noted]:
                with record.open("a", encoding="utf-8") as file:
                    file.write(("" if noted.endswith("\n") else "\n") + "".join(new))


@functools.cache
def _temporary() -> str | None:
    """A folder that only this user can write, so that no other user's code is ever loaded from it."""
    if not hasattr(os, "getuid"):
        return None
    try:
        folder = Path(tempfile.gettempdir()) / f"keyshift-{os.getuid()}"  # an OSError where nothing can be written
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    safe = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return str(folder) if safe else None


@functools.cache
def _say_where(folder: str | None) -> None:
    """Say once where what is compiled goes."""
    _LOG.warning(
        "neither keyshift's folder nor a home folder can be written: compiled code is %s; set NUMBA_CACHE_DIR to another folder",
        "not kept" if folder is None else f"kept in {folder}",
    )


# What was compiled ahead: known again without calling every kernel --------------------------------------------------------


def _warmed_file() -> Path | None:
    """Where it is noted: beside what is compiled."""
    from numba import config

    beside = Path(__file__).parent / "__pycache__"
    places = [Path(config.CACHE_DIR)] if config.CACHE_DIR else [beside] if os.access(beside, os.W_OK) else []
    places += [Path(found)] if (found := _temporary()) is not None else []
    return places[0] / "keyshift-warmed.json" if places else None


def _compiled(roots: list[Path]) -> tuple[str, dict[str, int]]:
    """The state of the package's source, and the size of each compiled kernel."""
    from numba import config

    sources = sorted((str(f), f.stat().st_size, f.stat().st_mtime_ns) for root in roots for f in root.rglob("*.py"))
    folders = [*roots, *(Path(f) for f in (config.CACHE_DIR, _temporary()) if f)]
    kernels = {str(f): f.stat().st_size for folder in folders for f in folder.rglob("*.nbc")}
    return hashlib.sha256(repr(sources).encode()).hexdigest(), kernels


def is_warmed(name: str, roots: list[Path]) -> bool:
    """Whether everything of that name was compiled from this source, and is still there."""
    file = _warmed_file()
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        if file is not None:
            noted, (source, kernels) = read_json(file)[name], _compiled(roots)
            return bool(noted["source"] == source and noted["kernels"] and noted["kernels"].items() <= kernels.items())
    return False


def note_warmed(name: str, roots: list[Path]) -> None:
    """Note that everything of that name is compiled."""
    if (file := _warmed_file()) is None:
        return
    known: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        known = read_json(file)
    source, kernels = _compiled(roots)
    with contextlib.suppress(OSError):
        file.write_text(json.dumps({**known, name: {"source": source, "kernels": kernels}}))
        list_installed(file.parent, file.name)
