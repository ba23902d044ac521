"""Drawings of a study as SVG: performance profiles, and the gaps of every method as dots."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from keyshift.report.page import shown, text

WIDTH, LEFT, RIGHT, TOP = 760, 74.0, 16.0, 18.0
LETTER = 11.5
"""Width of a letter on a narrow screen, where text is larger."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#999999")
"""The colours of Okabe and Ito, legible on light and on dark; lines of the same colour differ in their dashes."""
DASHES = ("", "6 3", "2 3", "8 3 2 3")
Steps = Sequence[tuple[float, float]]


def profile_curves(curves: Mapping[str, Steps], axis: str, least: float, logarithmic: bool) -> str:
    """A staircase for each method: what share of the instances it solves within a factor.

    Parameters
    ----------
    curves : mapping of str to sequence of (factor, share)
    axis : str
        What the horizontal axis measures.
    least : float
        Where that begins: 1 for ratios of time, 0 for gaps.
    logarithmic : bool
    """
    most = max([factor for steps in curves.values() for factor, _ in steps], default=least)
    most = max(most * 1.05, least + (9.0 if logarithmic else 1e-6))
    bottom, height = 250.0, 290.0

    def x(factor: float) -> float:
        place = (
            math.log(max(factor, least) / least) / math.log(most / least)
            if logarithmic
            else (factor - least) / (most - least)
        )
        return LEFT + place * (WIDTH - LEFT - RIGHT)

    def y(share: float) -> float:
        return bottom - share * (bottom - TOP)

    parts = [_grid(x, y, _marks(least, most, logarithmic), bottom)]
    for number, (method, steps) in enumerate(curves.items()):
        path, last = [], 0.0
        for factor, share in steps:
            path += [f"L{x(factor):.1f} {y(last):.1f}", f"L{x(factor):.1f} {y(share):.1f}"]
            last = share
        path.append(f"L{x(most):.1f} {y(last):.1f}")
        said = f"{method}: {shown(100 * last)} % in the end"
        parts.append(
            f'<path d="M{x(least):.1f} {y(0):.1f}{"".join(path)}" fill="none" stroke-width="2" {_stroke(number)}>'
            f"<title>{text(said)}</title></path>"
        )
    parts.append(f'<text class="soft" x="{WIDTH / 2}" y="{height - 4:.0f}" text-anchor="middle">{text(axis)}</text>')
    return _svg(height, parts, f"performance profile over {axis}") + legend(list(curves))


def gap_dots(gaps: Mapping[str, Sequence[float]]) -> str:
    """A line of dots for each method, a dot for each solve, on a scale of square roots: small gaps stay apart."""
    most = max([gap for values in gaps.values() for gap in values], default=0.0) or 1e-6
    row, left = 24.0, max(130.0, 14 + LETTER * max(map(len, gaps), default=0))
    bottom = TOP + row * len(gaps)

    def x(gap: float) -> float:
        return left + math.sqrt(gap / most) * (WIDTH - left - RIGHT)

    parts = []
    for share in (0.0, 0.05, 0.25, 1.0):
        parts.append(
            f'<line x1="{x(share * most):.1f}" x2="{x(share * most):.1f}" y1="{TOP}" y2="{bottom}" stroke="var(--line)"/>'
            f'<text class="soft" x="{x(share * most):.1f}" y="{bottom + 16:.0f}" '
            f'text-anchor="{"end" if share == 1 else "middle"}">{shown(float(f"{100 * share * most:.2g}"))} %</text>'
        )
    for number, (method, values) in enumerate(gaps.items()):
        y = TOP + row * number + row / 2
        parts.append(f'<text x="{left - 10}" y="{y + 4:.1f}" text-anchor="end">{text(method)}</text>')
        parts += [
            f'<circle cx="{x(gap):.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[0]}" fill-opacity="0.35"/>'
            for gap in sorted({float(f"{gap:.3g}") for gap in values})
        ]
        if values:
            middle = statistics.median(values)
            parts.append(
                f'<line x1="{x(middle):.1f}" x2="{x(middle):.1f}" y1="{y - 9:.1f}" y2="{y + 9:.1f}" '
                f'stroke="{COLOURS[1]}" stroke-width="3"><title>median {shown(100 * middle)} %</title></line>'
            )
    return _svg(bottom + 26, parts, "gaps to the best bound")


def legend(names: Sequence[str]) -> str:
    """The legend: the line of each method."""
    entries = "".join(
        f'<span style="white-space:nowrap;margin-right:1rem"><svg viewBox="0 0 28 10" style="display:inline;width:28px">'
        f'<line x1="0" x2="28" y1="5" y2="5" stroke-width="3" {_stroke(number)}/></svg> {text(name)}</span>'
        for number, name in enumerate(names)
    )
    return f'<p class="soft">{entries}</p>'


def _stroke(number: int) -> str:
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    return f'stroke="{COLOURS[number % len(COLOURS)]}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _marks(least: float, most: float, logarithmic: bool) -> list[float]:
    if not logarithmic:
        return [least + share * (most - least) for share in (0, 0.25, 0.5, 0.75, 1)]
    span = math.log10(most / least)
    return [least * 10 ** (span * share) for share in (0, 0.25, 0.5, 0.75, 1)]


def _grid(x, y, marks: Sequence[float], bottom: float) -> str:  # type: ignore[no-untyped-def]
    lines = [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(s):.1f}" y2="{y(s):.1f}" stroke="var(--line)"/>'
        f'<text class="soft" x="{LEFT - 6}" y="{y(s) + 4:.1f}" text-anchor="end">{100 * s:.0f} %</text>'
        for s in (0, 0.25, 0.5, 0.75, 1)
    ]
    lines += [
        f'<text class="soft" x="{x(mark):.1f}" y="{bottom + 16:.0f}" text-anchor="{"start" if mark == marks[0] else "end"}">'
        f"{shown(float(f'{mark:.2g}'))}</text>"
        for mark in (marks[0], *marks[1:])
    ]
    return "".join(lines)


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    return (
        f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{text(title)}">'
        f"{''.join(parts)}</svg></div>"
    )
