"""Certificates: proofs that a stranger can check with `verify.py` alone. Begin with `certificate.py`, then `verify.py`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keyshift.models.base.lazily import lazily, on_first_use

with lazily() as _LAZY:
    from keyshift.certificates.certificate import Certificate

__all__ = ["Certificate"]
__getattr__ = on_first_use(globals(), _LAZY)


@dataclass(frozen=True)
class Proven:
    """A bound, and the proof that the checker follows; a proof without a bound is one that nothing is feasible."""

    bound: Fraction | None = None
    proof: dict[str, Any] | None = None
