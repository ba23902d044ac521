"""A data frame as a Markdown table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def markdown(frame: pd.DataFrame) -> str:
    def cell(value: Any) -> str:
        if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
            return "-"
        return (
            f"{value:.4g}"
            if isinstance(value, float) and not 1e4 <= abs(value) < 1e7
            else f"{value:.0f}"
            if isinstance(value, float)
            else str(value)
        )

    lines = ["| " + " | ".join(map(str, frame.columns)) + " |", "|" + "---|" * len(frame.columns)]
    lines += ["| " + " | ".join(map(cell, r)) + " |" for r in frame.itertuples(index=False)]
    return "\n".join(lines)
