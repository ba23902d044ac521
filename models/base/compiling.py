"""Kernels: innermost loops in plain Python, compiled by Numba once they turn out to be long.

A newcomer's first instance is small, and a compiler takes seconds for every loop. So a kernel that is called for the first time
runs as the Python it is written in, up to a number of loop iterations; where that does not suffice, its arguments are put back as
they were and it is compiled (or loaded from the cache that Numba keeps on disk), now and for the rest of the process. Small
instances never import Numba. Both ways compute the same numbers; tests hold it.

What compiling and loading takes is counted, for `Budget` to leave it out of its clock.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import inspect
import logging
import os
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from keyshift.models.base.kernel_cache import keep, let_others_compile

LEAF: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
"""For `njit`, of kernels that allocate nothing: without reference counts on the arrays that they are handed, and
merged into what calls them, searches take a half to a tenth of the time."""

EACH = 100_000
"""Iterations that a kernel may run uncompiled, over all its calls in a process: some 0.1 s."""
ALL = 1_000_000
"""The same of all kernels together."""
LARGE = 50_000
"""A kernel that is handed arrays of more numbers than this is compiled at once."""

_LOG = logging.getLogger("keyshift")
_LEFT = bytearray()
"""A byte for each iteration left to the uncompiled kernel that runs: Python counts no quicker than by taking the last one."""


class Compiling:
    """When kernels are compiled in this process, and how long it took so far.

    Attributes
    ----------
    interpreted : bool
        Whether kernels may run uncompiled at first. KEYSHIFT_KERNELS=compiled in the environment says no.
    iterations : int
        How many iterations all kernels together may still run uncompiled.
    pause, resume : callable, optional
        Called when clocks should stand still, and run again.
    """

    def __init__(self) -> None:
        self.interpreted = os.environ.get("KEYSHIFT_KERNELS") != "compiled"
        self.iterations = ALL
        self.pause: Callable[[], None] | None = None
        self.resume: Callable[[], None] | None = None
        self._taken: dict[str, float] = {"all": 0.0, "anew": 0.0}
        self._began: dict[str, float] = {}
        self._deep: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """Seconds that kernels took to be compiled, or loaded from the cache: on no clock."""
        return self._until_now("all")

    @property
    def anew(self) -> float:
        """Seconds spent on compiling code that was not in the cache."""
        return self._until_now("anew")

    @property
    def now(self) -> bool:
        """Whether code that was not in the cache is being compiled."""
        return self._deep["anew"] > 0

    @property
    def idle(self) -> bool:
        """Whether nothing is being imported, loaded or compiled."""
        return self._deep["all"] == 0

    def _until_now(self, what: str) -> float:
        if not self._deep[what]:  # as good as always, and asked in inner loops
            return self._taken[what]
        with self._lock:
            running = time.monotonic() - self._began[what] if self._deep[what] else 0.0
            return self._taken[what] + running

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """A context in which every kernel is compiled at its first call."""
        before, self.interpreted = self.interpreted, False
        try:
            yield
        finally:
            self.interpreted = before

    def begin(self, what: str) -> None:
        """Note that "all" begins - importing, loading or compiling - or the part of it that is "anew"."""
        with self._lock:
            self._deep[what] += 1
            if self._deep[what] > 1:
                return
            self._began[what] = time.monotonic()
        if what == "anew" and not self._taken["anew"]:
            _LOG.info("compiling, once for this machine")
        if what == "all" and self.pause is not None:
            self.pause()

    def end(self, what: str) -> None:
        """Note that it has ended."""
        with self._lock:
            if self._deep[what] == 1:
                self._taken[what] += time.monotonic() - self._began[what]  # before nothing seems to run
            self._deep[what] -= 1
            if self._deep[what]:
                return
        if what == "anew":
            _LOG.info("compiling, once for this machine: %.1f s so far", self._taken["anew"])
        if what == "all" and self.resume is not None:
            self.resume()


COMPILING = Compiling()


@contextlib.contextmanager
def off_clock(what: str = "all") -> Iterator[None]:
    """A context for imports inside a method, such as a solver's half second: no budget's clock runs meanwhile."""
    COMPILING.begin(what)
    try:
        yield
    finally:
        COMPILING.end(what)


class Kernel:
    """A function that runs as Python while that is quick, and compiled from then on.

    Attributes
    ----------
    py_func : function
        As it is written.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._options = options
        self._parameters, self._defaults = function.__code__.co_argcount, function.__defaults__ or ()
        self._left = EACH
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *given: Any) -> Any:
        if len(given) < self._parameters:  # a default that is left out is a type of its own to Numba
            given += self._defaults[len(given) - self._parameters :]
        if self._compiled is not None:
            return self._compiled(*given)
        if COMPILING.interpreted and self._left > 0 and COMPILING.iterations > 0:
            before = _kept(given)
            if before is not None:
                if "plain" not in self.__dict__:
                    with off_clock():
                        _ = self.plain
                most = min(self._left, COMPILING.iterations)
                _LEFT[:] = bytes(most)
                try:
                    with np.errstate(all="ignore"):
                        return _plain(self.plain(*given))
                except Exception:
                    # Iterations used up, or what Python refuses and compiled code does not, such as 1 / 0.
                    _restore(before)
                    self._left = 0
                finally:
                    used = most - len(_LEFT)
                    self._left -= used
                    COMPILING.iterations -= used
        COMPILING.begin("all")
        try:
            self._compiled = self.dispatcher
        finally:
            COMPILING.end("all")
        return self._compiled(*given)

    @functools.cached_property
    def plain(self) -> Callable[..., Any]:
        """The function as Python that counts its iterations and calls other kernels likewise."""
        tree = ast.parse(textwrap.dedent(inspect.getsource(self.py_func)))
        (written,) = tree.body
        assert isinstance(written, ast.FunctionDef)
        written.decorator_list, written.returns, written.args.defaults = [], None, []
        for argument in (*written.args.args, *written.args.kwonlyargs):
            argument.annotation = None
        ast.fix_missing_locations(_Counted().visit(tree))
        ast.increment_lineno(tree, self.py_func.__code__.co_firstlineno - 1)
        known = {**self._globals(lambda kernel: kernel.plain), "keyshift_counts": _LEFT.pop}
        exec(compile(tree, self.py_func.__code__.co_filename, "exec"), known)
        made = known[self.py_func.__name__]
        made.__defaults__ = self.py_func.__defaults__
        return made

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's version of the function, for Python to call."""
        made = self._made({})
        if self._options.get("cache"):
            keep(made, self.codes, functools.partial(off_clock, "anew"))
        return made

    @functools.cached_property
    def leaf(self) -> Any:
        """The same for other kernels to call: without what unpacks Python's objects, and without a cache, since theirs has it."""
        return self._made({"no_cpython_wrapper": True, "no_cfunc_wrapper": True})

    def _made(self, further: dict[str, bool]) -> Any:
        from numba import njit as numba_njit

        _listen()
        known, own = self._globals(lambda kernel: kernel.leaf), self.py_func
        function = FunctionType(own.__code__, known, own.__name__, own.__defaults__, own.__closure__)
        functools.update_wrapper(function, own)
        del function.__dict__["__wrapped__"]  # Numba would read the source of what it wraps
        return numba_njit(**{**self._options, **further, "cache": False})(function)

    @functools.cached_property
    def codes(self) -> list[bytes]:
        """The code of the function and of all kernels it calls: a change in any of them makes what is cached stale."""
        code = self.py_func.__code__
        found = [code.co_code, repr([c for c in code.co_consts if not inspect.iscode(c)]).encode()]
        for name, value in sorted(self._globals(lambda kernel: kernel).items()):
            if isinstance(value, Kernel):
                found += value.codes
            elif isinstance(value, (int, float)):
                found.append(f"{name}={value!r}".encode())
        return found

    def _globals(self, form: Callable[[Kernel], Any]) -> dict[str, Any]:
        """The names that the function finds in its module, other kernels in this form."""
        found = {name: value for name, value in self.py_func.__globals__.items() if name in self._names}
        return {name: form(value) if isinstance(value, Kernel) else value for name, value in found.items()}

    @functools.cached_property
    def _names(self) -> set[str]:
        names, codes = {"__builtins__", "__name__", "__file__"}, [self.py_func.__code__]
        while codes:
            code = codes.pop()
            names |= {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
            codes += [inner for inner in code.co_consts if inspect.iscode(inner)]
        return names


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A function as a `Kernel`; the options are `numba.njit`'s."""
    if function is None:
        return functools.partial(Kernel, options=options)
    return Kernel(function, options)


def sealed(array: np.ndarray) -> np.ndarray:
    """A read-only view: kernels are compiled for writable and for read-only arrays apart, so settle for one kind."""
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


class _Counted(ast.NodeTransformer):
    """Every loop counts its iterations."""

    def _loop(self, node: ast.For | ast.While) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(
            0, ast.copy_location(ast.Expr(ast.Call(ast.Name("keyshift_counts", ast.Load()), [], [])), node)
        )
        return node

    visit_For = visit_While = _loop  # noqa: N815 - the names that NodeTransformer asks for


# Arguments: kept before an uncompiled run, to be put back where it does not end --------------------------------------


def _kept(given: tuple[Any, ...]) -> list[tuple[Any, Any]] | None:
    """Each array, and random generator, with a copy of what it holds; None where only compiled code is fit for them."""
    kept: list[tuple[Any, Any]] = []
    size, waiting = 0, list(given)
    while waiting:
        value = waiting.pop()
        if isinstance(value, np.ndarray):
            size += value.size
            if size > LARGE or value.dtype.hasobject:
                return None
            if value.flags.writeable:
                kept.append((value, value.copy()))
        elif isinstance(value, tuple):
            waiting += value
        elif isinstance(value, np.random.Generator):
            kept.append((value, value.bit_generator.state))
        elif not (value is None or isinstance(value, (int, float, np.generic))):
            return None
    return kept


def _restore(kept: list[tuple[Any, Any]]) -> None:
    for value, before in kept:
        if isinstance(value, np.ndarray):
            value[...] = before
        else:
            value.bit_generator.state = before


def _plain(result: Any) -> Any:
    """A result as compiled code would hand it back: Python's own numbers."""
    if isinstance(result, np.generic):
        return result.item()
    if isinstance(result, tuple):
        values = [_plain(value) for value in result]
        return result._make(values) if hasattr(result, "_make") else tuple(values)
    return result


# Compiled: on no clock -----------------------------------------------------------------------------------------------


@functools.cache
def _listen() -> None:
    """Have Numba tell when it loads or compiles something."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        def __init__(self, what: str) -> None:
            self.what = what

        def on_start(self, event: Any) -> None:
            COMPILING.begin(self.what)
            if self.what == "anew":
                _LOG.debug("compiling %s", event.data["dispatcher"].py_func.__qualname__)

        def on_end(self, event: Any) -> None:
            COMPILING.end(self.what)
            if COMPILING.idle:
                let_others_compile()

    event.register("numba:compiler_lock", Listener("all"))
    event.register("numba:compile", Listener("anew"))


# What compiled searches share: random numbers, from a state of one number that a kernel can carry along, and copies ---


@njit(cache=True, error_model="numpy", _nrt=False)
def uniform(rng):
    """The next random number in [0, 1): xorshift64*, whose state ``rng[0]``, a uint64, must not be 0."""
    x = rng[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    rng[0] = x
    return np.float64((x * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0


@njit(**LEAF)
def whole_below(rng, below):
    """A random whole number in 0..below-1."""
    return int(uniform(rng) * below)


def generator(seed: int, stream: int) -> np.ndarray:
    """State of a kernel's random numbers, shape (1,): one for each seed and stream."""
    return np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64) | np.uint64(1)


@njit(**LEAF)
def overwrite(array, values):
    """``array[:] = values``, for which Numba would compile words about shapes that do not fit, a second or two long."""
    for k in range(values.size):
        array[k] = values[k]
