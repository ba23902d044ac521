"""A data frame as a Markdown table."""

from __future__ import annotations

from typing import Any

import pandas as pd


def markdown(frame: pd.DataFrame) -> str:
    def cell(value: Any) -> str:
        if pd.isna(value):
            return "-"
        if isinstance(value, float):
            return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
        return str(value)

    lines: list[Any] = [frame.columns, *frame.itertuples(index=False)]
    head, *rows = ("| " + " | ".join(map(cell, row)) + " |" for row in lines)
    return "\n".join([head, "|" + "---|" * frame.shape[1], *rows])
