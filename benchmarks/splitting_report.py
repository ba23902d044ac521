"""What the parts of the key-splitting benchmark share: the report, one run, and the optimum."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import keyshift as ks
from keyshift.models.splitting.stream import CHUNK

WORKERS = (5, 10, 50, 100)
FLOOR = 1e-8
SAME_CANDIDATES = ("hash", "potc", "pkg")


class Report:
    """Lines of Markdown, figures beside them, and the tally of runs held against the optimum."""

    def __init__(self, out: Path) -> None:
        self.out, self.lines, self.runs, self.closest = out, [], 0, np.inf
        out.mkdir(parents=True, exist_ok=True)

    def say(self, *lines: str) -> None:
        self.lines += lines
        print(*lines, sep="\n", flush=True)

    def table(self, head, rows) -> None:
        self.say("", "| " + " | ".join(head) + " |", "|" + "---|" * len(head))
        self.say(*("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows), "")

    def figure(self, name, figure, caption) -> None:
        figure.savefig(self.out / f"key_splitting_{name}.png", dpi=90, bbox_inches="tight")
        plt.close(figure)
        self.say("", f"![{caption}](key_splitting_{name}.png)", "", f"*{caption}*", "")

    def write(self, title, anew) -> None:
        """Write the report, or renew the sections of an existing one that were run."""
        path = self.out / "key_splitting.md"
        old = {} if anew or not path.exists() else _sections(path.read_text())
        sections = old | _sections("\n".join(self.lines))
        start = f"# {title}\n\nIn the figures, an imbalance of 1e-8 stands for none.\n"
        path.write_text("\n".join([start, *(text.strip() + "\n" for text in sections.values())]))

    def held(self, optimum, load) -> None:
        if load < optimum:
            raise AssertionError(f"a scheme's largest load {load} is below the optimum {optimum}")
        self.runs += 1
        self.closest = min(self.closest, load / optimum)


def _sections(text):
    """The sections of a report, by heading."""
    parts = text.split("\n## ") if text.startswith("# ") else ("\n" + text).split("\n## ")
    return {part.split("\n", 1)[0]: "## " + part for part in parts[1:]}


def run(scheme, keys, workers, **options):
    """Feed a stream; the partitioner afterwards."""
    partitioner = ks.Partitioner(scheme, workers, **options)
    for begin in range(0, keys.size, CHUNK):
        partitioner.feed(keys[begin : begin + CHUNK])
    return partitioner


def optimum(keys, workers, choices=2):
    """The flow optimum: largest load, and its imbalance as a fraction of the messages."""
    answer = ks.solve(ks.KeySplitting(keys, workers=workers, choices=choices))
    assert answer.status == "optimal"
    return answer


def imbalances(partitioner):
    """Imbalance at the end, and its average over time, as fractions of the messages."""
    return partitioner.imbalance / partitioner.messages, partitioner.average_imbalance


def final(partitioner):
    """Imbalance at the end as a fraction of the messages, no less than what a logarithmic axis can show."""
    return max(imbalances(partitioner)[0], FLOOR)


def e(value):
    return f"{value:.1e}"
