"""MacQueen's interval: how far values are from the optimal ones, read off one application of the Bellman operator."""

from __future__ import annotations

from collections.abc import Iterable

from keyshift.models.workload import FloatArray


def interval(changes: Iterable[FloatArray], discount: float) -> tuple[float, float]:
    r"""Bounds on V* - TV from the changes TV - V, wherever V is from.

    With every row of the matrix summing to 1, V* lies between
    :math:`TV + \tfrac{\gamma}{1 - \gamma} \min(TV - V)` and :math:`TV + \tfrac{\gamma}{1 - \gamma} \max(TV - V)`.

    Parameters
    ----------
    changes : iterable of ndarray
        TV - V, in any number of parts.
    discount : float
        :math:`\gamma < 1`.

    Notes
    -----
    Source: MacQueen, "A modified dynamic programming method for Markovian decision problems", J. Math. Anal. Appl.,
    1966; Puterman, *Markov Decision Processes*, 1994, section 6.6.
    """
    parts = list(changes)
    lever = discount / (1 - discount)
    return lever * min(float(part.min()) for part in parts), lever * max(float(part.max()) for part in parts)
