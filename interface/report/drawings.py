"""Drawings of reports as SVG: of a plan loads, moves, schedule and load distance; of a study profiles and gaps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keyshift.report.page import shown, text

WIDTH = 760
MOST_NODES = 40
"""Rows of a drawing; of more nodes, those are drawn that move most."""
LEFT, RIGHT, TOP = 74.0, 16.0, 18.0
"""Margins of a study's drawings."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#999999")
"""The colours of Okabe and Ito, legible on light and on dark; lines of the same colour differ in their dashes."""
DASHES = ("", "6 3", "2 3", "8 3 2 3")
Steps = Sequence[tuple[float, float]]


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    return (
        f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{text(title)}">'
        f"{''.join(parts)}</svg></div>"
    )


def _label(x: float, y: float, said: Any, anchor: str = "end", style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text(said)}</text>'


def _ticks(most: float, count: int = 5) -> list[float]:
    """Round figures from 0 to a little less than the most."""
    if most <= 0:
        return [0.0]
    raw = most / count
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    return [float(k * step) for k in range(int(most / step + 1e-9) + 1)]


def key(*entries: tuple[str, str]) -> str:
    """The legend of colours."""
    return "".join(f'<i class="key {colour}"></i>{text(name)}' for colour, name in entries)


def load_bars(nodes: Sequence[dict[str, Any]], mean: float, limits: Sequence[float | None] | None) -> str:
    """Load before, at its peak and after, for every node; the mean as a line, limits as ticks."""
    most = max([mean, *(max(n["before"], n["peak"], n["after"]) for n in nodes), *(v for v in limits or [] if v)])
    most = most * 1.05 or 1.0
    left, row, top = 110.0, 22.0, 6.0
    scale = (WIDTH - left - 20) / most
    height = top + row * len(nodes) + 26
    parts = _axis(left, scale, most, top, height - 26)
    for place, node in enumerate(nodes):
        y = top + row * place
        figures = ", ".join(f"{name} {shown(node[name])}" for name in ("before", "peak", "after"))
        said = f"{node['name']}: {figures}"
        parts.append(
            f"<g><title>{text(said)}</title>{_label(left - 8, y + 15, _short(node['name']))}"
            f'<rect x="{left}" y="{y + 2}" width="{scale * node["before"]:.1f}" height="8" fill="var(--before)"/>'
            f'<rect x="{left}" y="{y + 11}" width="{scale * node["after"]:.1f}" height="8" fill="var(--after)"/>'
            f'<rect x="{left + scale * node["peak"] - 1.5:.1f}" y="{y + 1}" width="3" height="19" fill="var(--peak)"/></g>'
        )
        if limits is not None and (limit := limits[place]) is not None:
            x = left + scale * limit
            parts.append(f'<path d="M{x:.1f} {y}v{row}" stroke="var(--ink)" stroke-width="2"/>')
    x = left + scale * mean
    parts.append(f'<path d="M{x:.1f} {top}V{height - 26}" stroke="var(--mean)" stroke-dasharray="5 4"/>')
    return _svg(height, parts, "Load of every node before, on the way and after")


def _axis(left: float, scale: float, most: float, top: float, bottom: float) -> list[str]:
    parts = []
    for tick in _ticks(most):
        x = left + scale * tick
        parts.append(
            f'<path d="M{x:.1f} {top}V{bottom}" stroke="var(--line)"/>'
            + _label(x, bottom + 18, shown(tick), "middle", "soft")
        )
    return parts


def _short(name: Any, most: int = 9) -> str:
    said = str(name)
    return said if len(said) <= most else said[: most - 1] + "…"


def busiest(source: np.ndarray, target: np.ndarray, state: np.ndarray, nodes: int) -> np.ndarray:
    """Nodes that take part in moves, at most `MOST_NODES` of them, those with most state; in their own order."""
    part = np.bincount(np.concatenate([source, target]), np.tile(state + 1e-9, 2), nodes)
    most = np.argsort(-part, kind="stable")[:MOST_NODES]
    return np.sort(most[part[most] > 0])


def move_map(names: Sequence[Any], flow: np.ndarray, counts: np.ndarray) -> str:
    """State moved from each node (rows) to each node (columns), darker for more, with the number of moves."""
    n = len(names)
    left, top = 110.0, 26.0
    cell = min(46.0, (WIDTH - left - 10) / max(n, 1))
    parts, most = [], float(flow.max()) or 1.0
    for i, name in enumerate(names):
        middle = cell * i + cell / 2
        parts.append(
            _label(left - 8, top + middle + 4, _short(name))
            + _label(left + middle, top - 8, _short(name, max(2, int(cell / 7))), "middle")
            + f'<rect x="{left}" y="{top + cell * i:.1f}" width="{cell * n:.1f}" height="{cell:.1f}" '
            'fill="none" stroke="var(--line)"/>'
        )
    for i, j in np.argwhere(counts > 0).tolist():
        said = f"{names[i]} to {names[j]}: moves {int(counts[i, j])}, state {shown(float(flow[i, j]))}"
        x, y = left + cell * j, top + cell * i
        strength = 0.15 + 0.85 * float(flow[i, j]) / most
        count = _label(x + cell / 2, y + cell / 2 + 4, int(counts[i, j]), "middle") if cell >= 16 else ""
        parts.append(
            f'<g><title>{text(said)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{cell:.1f}" height="{cell:.1f}" '
            f'fill="var(--after)" fill-opacity="{strength:.2f}"/>{count}</g>'
        )
    return _svg(top + cell * n + 8, parts, "State moved from node to node")


def timeline(
    rows: Sequence[tuple[int, Any]],
    moves: Sequence[dict[str, Any]],
    phases: Sequence[dict[str, Any]],
    end: float,
    lanes: int,
) -> str:
    """For every node, when it sends and when it receives; phases as bands.

    Parameters
    ----------
    rows : sequence of (number, name) of nodes
    moves : sequence of mappings with key, source, target, start, end
    phases : sequence of mappings with start, end
    end : float
    lanes : int
        Transfers at once at a node: as many lines in its row.
    """
    left, top = 110.0, 22.0
    row = max(20.0, 9.0 * lanes + 5)
    scale = (WIDTH - left - 20) / (end or 1.0)
    height = top + row * len(rows) + 26
    parts = []
    for number, phase in enumerate(phases):
        x, wide = left + scale * phase["start"], scale * (phase["end"] - phase["start"])
        if number % 2 == 0:
            parts.append(
                f'<rect x="{x:.1f}" y="{top}" width="{wide:.1f}" height="{height - 26 - top:.1f}" fill="var(--shade)"/>'
            )
        if wide > 16:
            parts.append(_label(x + wide / 2, top - 6, number, "middle", "soft"))
    parts += _axis(left, scale, end, top, height - 26)
    place = {number: top + row * i for i, (number, _) in enumerate(rows)}
    busy: dict[int, list[float]] = {number: [0.0] * lanes for number in place}
    tall = (row - 5) / lanes - 1
    for number, name in rows:
        parts.append(_label(left - 8, place[number] + row / 2 + 4, _short(name)))
    for m in sorted(moves, key=lambda m: (m["start"], m["end"]))[:3000]:
        for node, colour in ((m["source"], "send"), (m["target"], "take")):
            if node not in place:
                continue
            lane = next((i for i, free in enumerate(busy[node]) if free <= m["start"] + 1e-9 * (end or 1)), 0)
            busy[node][lane] = m["end"]
            said = f"{m['key']}: {shown(m['start'])} to {shown(m['end'])}"
            parts.append(
                f'<rect x="{left + scale * m["start"]:.2f}" y="{place[node] + 2.5 + lane * (tall + 1):.1f}" '
                f'width="{max(1.0, scale * (m["end"] - m["start"]) - 0.6):.2f}" height="{tall:.1f}" rx="1.5" '
                f'fill="var(--{colour})"><title>{text(said)}</title></rect>'
            )
    return _svg(height, parts, "When each node sends and receives")


def distance_steps(distances: Sequence[float]) -> str:
    """The load distance before the plan and after every phase."""
    left, height, most = 80.0, 190.0, max(distances) * 1.08 or 1.0
    wide = (WIDTH - left - 20) / max(1, len(distances))
    parts = []
    for tick in _ticks(most, 4):
        y = height - 30 - (height - 40) * tick / most
        parts.append(
            f'<path d="M{left} {y:.1f}H{WIDTH - 20}" stroke="var(--line)"/>'
            + _label(left - 6, y + 4, shown(tick), style="soft")
        )
    for place, value in enumerate(distances):
        tall = (height - 40) * value / most
        label = "before" if place == 0 else str(place - 1)
        parts.append(
            f'<g><title>{text(label)}: {text(shown(value))}</title><rect x="{left + wide * place + wide * 0.15:.1f}" '
            f'y="{height - 30 - tall:.1f}" width="{wide * 0.7:.1f}" height="{tall:.1f}" '
            f'fill="var(--{"before" if place == 0 else "after"})"/></g>'
        )
        if len(distances) <= 25 or place % (len(distances) // 20 + 1) == 0:
            parts.append(_label(left + wide * (place + 0.5), height - 12, label, "middle", "soft"))
    return _svg(height, parts, "Load distance after each phase")


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
        place = (factor - least) / (most - least)
        if logarithmic:
            place = math.log(max(factor, least) / least) / math.log(most / least)
        return LEFT + place * (WIDTH - LEFT - RIGHT)

    def y(share: float) -> float:
        return bottom - share * (bottom - TOP)

    marks = (np.geomspace if logarithmic else np.linspace)(least, most, 5).tolist()
    parts = [_grid(x, y, marks, bottom)]
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
        parts += [
            f'<circle cx="{x(factor):.1f}" cy="{y(share):.1f}" r="5" fill="transparent">'
            f"<title>{text(method)}: {shown(100 * share)} % within {shown(factor)}</title></circle>"
            for factor, share in steps[:200]
        ]
    parts.append(_label(WIDTH / 2, height - 4, axis, "middle", "soft"))
    return _svg(height, parts, f"performance profile over {axis}") + legend(list(curves))


def gap_dots(gaps: Mapping[str, Mapping[str, float]]) -> str:
    """A line of dots for each method, a dot for each instance, on a scale of square roots: small gaps stay apart."""
    most = max([gap for values in gaps.values() for gap in values.values()], default=0.0) or 1e-6
    row, left = 24.0, max(130.0, 14 + 11.5 * max(map(len, gaps), default=0))  # a letter's width on a narrow screen
    bottom = TOP + row * len(gaps)

    def x(gap: float) -> float:
        return left + math.sqrt(gap / most) * (WIDTH - left - RIGHT)

    parts = []
    for share in (0.0, 0.05, 0.25, 1.0):
        at, anchor = x(share * most), "end" if share == 1 else "middle"
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}" stroke="var(--line)"/>'
            + _label(at, bottom + 16, f"{_rounded(100 * share * most)} %", anchor, "soft")
        )
    for number, (method, values) in enumerate(gaps.items()):
        y = TOP + row * number + row / 2
        parts.append(_label(left - 10, y + 4, method))
        near: dict[float, list[str]] = {}
        for instance, gap in values.items():
            near.setdefault(float(f"{gap:.3g}"), []).append(instance)
        parts += [
            f'<circle cx="{x(gap):.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[0]}" fill-opacity="0.35">'
            f"<title>{text(method)}: {shown(100 * gap)} % on {text(named[0])}"
            f"{f' and {len(named) - 1} more' if len(named) > 1 else ''}</title></circle>"
            for gap, named in sorted(near.items())
        ]
        if values:
            middle = statistics.median(values.values())
            parts.append(
                f'<line x1="{x(middle):.1f}" x2="{x(middle):.1f}" y1="{y - 9:.1f}" y2="{y + 9:.1f}" '
                f'stroke="{COLOURS[1]}" stroke-width="3"><title>median {shown(100 * middle)} %</title></line>'
            )
    return _svg(bottom + 26, parts, "gaps to the best bound")


def legend(names: Sequence[str]) -> str:
    """The legend: the line of each method."""
    entries = "".join(
        f'<span class="entry"><svg viewBox="0 0 28 10">'
        f'<line x1="0" x2="28" y1="5" y2="5" stroke-width="3" {_stroke(number)}/></svg> {text(name)}</span>'
        for number, name in enumerate(names)
    )
    return f'<p class="soft">{entries}</p>'


def _stroke(number: int) -> str:
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    return f'stroke="{COLOURS[number % len(COLOURS)]}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _grid(x, y, marks: Sequence[float], bottom: float) -> str:  # type: ignore[no-untyped-def]
    lines = [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(s):.1f}" y2="{y(s):.1f}" stroke="var(--line)"/>'
        + _label(LEFT - 6, y(s) + 4, f"{100 * s:.0f} %", style="soft")
        for s in (0, 0.25, 0.5, 0.75, 1)
    ]
    lines += [
        _label(x(mark), bottom + 16, _rounded(mark), "start" if mark == marks[0] else "end", "soft") for mark in marks
    ]
    return "".join(lines)


def _rounded(value: float) -> str:
    """Two digits, for a mark of an axis."""
    return shown(float(f"{value:.2g}"))
