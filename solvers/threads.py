"""Keep linear algebra on one thread: small matrices gain nothing from more, and lose much on a busy machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the block with single-threaded BLAS, which also makes its sums come out alike from run to run."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield
