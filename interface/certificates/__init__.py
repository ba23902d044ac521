"""Certificates: proofs that a stranger can check with `verify.py` alone. Begin with `certificate.py`, then `verify.py`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class Proven:
    """A bound, and the proof that the checker follows; a proof without a bound is one that nothing is feasible."""

    bound: Fraction | None = None
    proof: dict[str, Any] | None = None
