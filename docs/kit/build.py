"""Build the lecturer's kit: two decks, the workbook, the exercise sheets and the projects, as plain pages and as PDF.

``python docs/kit/build.py OUT`` writes the pages, which need no network and no scripts from elsewhere; ``--pdf`` prints them with
Chromium, and ``--course`` builds the lessons as EPUB and PDF, too. ``make kit`` does all of it.

Decks are Markdown: a slide ends at a line ``---``, what follows ``Notes:`` is for the speaker. ``{{ ... }}`` is computed when
the kit is built, from `examples.py`; what a slide asserts is checked there.
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markdown_it import MarkdownIt
from matplotlib import pyplot as plt
from mdit_py_plugins.dollarmath import dollarmath_plugin

import keyshift as ks
from keyshift import exercises

HERE = Path(__file__).parent
DOCS = HERE.parent
sys.path[:0] = [str(HERE), str(DOCS / "_ext")]

import examples  # noqa: E402
from book import mathml  # noqa: E402
from worksheets import NUMBERS, ROWS, WORKSHEETS, Worksheet  # noqa: E402

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
{style}
</style></head><body class="{kind}">
{body}
</body></html>
"""
TURNING = """<script>
addEventListener("keydown", (event) => {
  if (event.key === "n") document.body.classList.toggle("notes");
  const step = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const all = [...document.querySelectorAll("section")];
  const here = all.findIndex((s) => s.getBoundingClientRect().bottom > innerHeight / 2);
  all[Math.min(all.length - 1, Math.max(0, here + step))].scrollIntoView();
});
</script>"""


# Markdown and mathematics ---------------------------------------------------------------------------------------------


def markdown(text: str) -> str:
    """Markdown with formulas and tables, as HTML."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.use(dollarmath_plugin, renderer=lambda tex, options: mathml(tex, options["display_mode"]))
    return str(parser.render(text))


def figure(drawn: Any, size: tuple[float, float] | None = None) -> str:
    """A figure of matplotlib, in the page; the smaller its size, the larger its letters."""
    text = io.StringIO()
    if size is not None:
        drawn.set_size_inches(size)
    drawn.savefig(text, format="svg", bbox_inches="tight")
    plt.close(drawn)
    return f'<div class="figure">{text.getvalue()[text.getvalue().index("<svg") :]}</div>'


def loads(name: str, *assignments: list[int]) -> str:
    """Loads of the nodes, one picture for each assignment, with the mean."""
    w, mean = examples.PROBLEMS[name].workload, examples.PROBLEMS[name].mean_load
    drawn, axes = plt.subplots(1, len(assignments), figsize=(3.4 * len(assignments), 2.2), sharey=True, squeeze=False)
    for axis, assignment in zip(axes[0], assignments, strict=True):
        bottom = np.zeros(w.nodes)
        for k, i in enumerate(assignment):
            axis.bar(i, w.last_load[k], bottom=bottom[i], color=f"C{k}", edgecolor="white", width=0.7)
            axis.text(i, bottom[i] + w.last_load[k] / 2, str(k), ha="center", va="center", color="white")
            bottom[i] += w.last_load[k]
        axis.axhline(mean, color="black", linestyle="--", linewidth=1)
        axis.set_xticks(range(w.nodes), [f"node {i}" for i in range(w.nodes)])
    axes[0][0].set_ylabel("load")
    axes[0][0].locator_params(axis="y", integer=True, nbins=5)
    return figure(drawn)


def cliff(workers: int = 10, messages: int = 2000) -> str:
    """The largest load over the mean when two choices are all there is, by the share of the most frequent key."""
    drawn, axis = plt.subplots(figsize=(5.6, 2.4))
    shares = np.linspace(0.02, 0.6, 15)
    optimum = []
    for share in shares:
        hot = int(share * messages)
        stream = np.concatenate([np.zeros(hot, dtype=int), np.arange(1, messages - hot + 1)])
        optimum.append(ks.solve(ks.KeySplitting(stream, workers=workers)).objective / (messages / workers))
    axis.plot(shares, optimum, "o-", label="optimum")
    axis.plot(shares, np.maximum(1, shares * workers / 2), "--", label="bound: $\\max(1, p_1 W / 2)$")
    axis.axvline(2 / workers, color="grey", linewidth=1)
    axis.set_xlabel("share $p_1$ of the most frequent key")
    axis.set_ylabel("largest load / mean")
    axis.legend()
    return figure(drawn)


def compared(name: str) -> str:
    """What each method reached and proved, as a table."""
    frame = ks.compare(examples.PROBLEMS[name]).to_frame()
    frame = frame.astype(object).where(frame.notna(), None)
    shown = frame.assign(objective=frame["objective"].map(examples.number), bound=frame["bound"].map(examples.number))
    rows = [f"| {r.method} | {r.status} | {r.objective} | {r.bound} |" for r in shown.itertuples()]
    return "\n".join(["| method | status | objective | bound |", "|---|---|---|---|", *rows])


def table(workload: ks.Workload, state: bool = False) -> str:
    """The data of a workload, as a table."""
    ids = range(workload.key_groups)
    rows = {"load": workload.last_load, **({"state": workload.state} if state else {})}
    lines = [f"| key group | {' | '.join(map(str, ids))} |", f"|---|{'---|' * workload.key_groups}"]
    lines += [f"| {name} | {' | '.join(map(examples.number, of))} |" for name, of in rows.items()]
    return "\n".join([*lines, f"| node now | {' | '.join(map(str, workload.current))} |"])


def computed(text: str) -> str:
    """Markdown with what stands in braces computed."""
    known = {name: getattr(examples, name) for name in dir(examples) if not name.startswith("_")}
    known |= {
        "loads": loads,
        "cliff": cliff,
        "compared": compared,
        "table": table,
        "figure": figure,
        "row_name": row_name,
    }
    return jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text).render(**known)


# Pages ----------------------------------------------------------------------------------------------------------------


def page(title: str, kind: str, body: str) -> str:
    """A page of its own."""
    return PAGE.format(title=escape(title), style=(HERE / "kit.css").read_text(), kind=kind, body=body)


def deck(source: Path) -> dict[str, str]:
    """The slides of a lecture, without and with the speaker's notes."""
    slides = re.split(r"^---\n", computed(source.read_text()), flags=re.MULTILINE)
    title = slides[0].splitlines()[0].removeprefix("# ").strip()
    sections = []
    for number, slide in enumerate(slides, 1):
        shown, _, notes = slide.partition("\nNotes:")
        assert notes, f"{source.name}: slide {number} has no notes"
        foot = f"<footer>{escape(title)} &middot; {number} / {len(slides)}</footer>"
        sections.append(f"<section>{markdown(shown)}<aside>{markdown(notes)}</aside>{foot}</section>")
    body = "\n".join(sections) + TURNING
    return {source.stem: page(title, "deck", body), f"{source.stem}-notes": page(title, "deck notes", body)}


def task_of(sheet: Worksheet) -> str:
    """The data of a worksheet, and its question."""
    problem = examples.PROBLEMS[sheet.example]
    if hasattr(problem, "stream"):
        data = "| key | a | b | c |\n|---|---|---|---|\n| messages | 6 | 4 | 2 |\n| workers | 0, 1 | 0, 1 | 2 |"
    else:
        data = table(problem.workload, state=True)
    return f"{sheet.question}\n\n{data}\n\n"


def steps(sheet: Worksheet, solved: bool) -> str:
    """The table to be filled: what was tried, its value, and what nothing is better than."""
    lines = ["| step | assignment | value | nothing is better than | gap |", "|---|---|---|---|---|"]
    blank = "&nbsp;"
    rows = [[str(n), blank, blank, blank, blank] for n in range(1, 6)]
    if solved:
        values = examples.values(sheet.example)
        bound = examples.relaxed(sheet.example)
        low = 0.0 if bound is None else max(0.0, round(bound, 6))
        shown = [(v, values[v][0]) for v in reversed(list(values)[:2])]
        rows = []
        for n, (value, assignment) in enumerate(shown, 1):
            proven, why = (value, "all tried") if n == len(shown) else (low, "relaxation")
            cells = [", ".join(map(str, np.ravel(assignment))), examples.number(value)]
            rows.append([str(n), *cells, f"{examples.number(proven)} ({why})", examples.number(value - proven)])
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows]) + "\n\n"


def row_name(example: str, kind: str) -> str:
    """What a kind of row says, with its number in the problem's formulation."""
    number = NUMBERS.get(type(examples.PROBLEMS[example]), {}).get(kind)
    return f"({number}) {ROWS[kind]}" if number else ROWS[kind]


def counts(sheet: Worksheet, solved: bool) -> str:
    """The table of variables and rows: to be filled, or counted in the model."""
    variables, rows = examples.size(sheet.example)
    lines = ["| what | how many | one of them in full |", "|---|---|---|"]
    if not solved:
        return (
            "\n".join(
                [
                    *lines,
                    "| variables | &nbsp; | &nbsp; |",
                    "| objective | 1 | &nbsp; |",
                    *["| rows: | &nbsp; | &nbsp; |"] * 5,
                ]
            )
            + "\n\n"
        )
    written = examples.algebra(sheet.example)
    lines.append(f"| variables | {variables} | |")
    said = (f"| {row_name(sheet.example, kind)} | {n} | `{written[kind]}` |" for kind, n in rows.items())
    return "\n".join([*lines, *said]) + "\n\n"


def worksheet(number: int, sheet: Worksheet, solved: bool) -> str:
    """One worksheet, or its solution."""
    text = f"## {number}. {sheet.title}{' - solution' if solved else ''}\n\n{task_of(sheet)}"
    text += "**Write it down.** Variables, objective, and one row of each kind.\n\n"
    if solved:
        text += f"$$\n{sheet.formula()}\n$$\n\n"
    text += counts(sheet, solved)
    text += "**Solve it by hand.** Each step a better answer, or a better bound; stop when they meet.\n\n" + steps(
        sheet, solved
    )
    text += "**Why nothing is better.** " + (" ".join(sheet.argument().split()) if solved else "<br>" * 2) + "\n\n"
    return f'<section class="sheet {"solution" if solved else "blank"}">{markdown(text)}</section>'


def workbook(solved: bool) -> str:
    """All worksheets; with solutions, each behind its sheet."""
    intro = markdown((HERE / "workbook.md").read_text())
    made = [f'<section class="sheet">{intro}</section>']
    for number, sheet in enumerate(WORKSHEETS, 1):
        made.append(worksheet(number, sheet, False))
        if solved:
            made.append(worksheet(number, sheet, True))
    return page("First formulation by hand", "paper", "\n".join(made))


SHEET = """## Sheet {{ sheet.number }}. {{ sheet.title }}

**By hand** - worksheet{{ "s" if sheet.by_hand | length > 1 }} {{ titles }}: {{ 10 // sheet.by_hand | length }} marks
{{- " each" if sheet.by_hand | length > 1 }}, half of them for the formulation, a quarter for the answer, a quarter for the
argument why nothing is better.
{% for name, marks in sheet.marks.items() %}
**By program** - `{{ name }}`: {{ marks }} marks.

```text
{{ task(name).partition("\n")[0] }}
```

{{ task(name).partition("\n")[2].replace("\n", " ") }}
{% endfor %}
Try a function on small instances before you hand it in:

```python
from keyshift import exercises

{% for name in sheet.marks -%}
print(exercises.check("{{ name }}", {{ task(name).partition("(")[0] }}))
{% endfor -%}
```

Hand in one Python file. It is marked by `keyshift grade submission.py --sheet {{ sheet.number }}`, where `import keyshift`
fails.
"""


def sheets() -> str:
    """The exercise sheets: worksheets by hand, and functions that ``keyshift grade`` marks."""
    template, made = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(SHEET), []
    for sheet in exercises.SHEETS.values():
        titles = ", ".join(f"{n} (*{WORKSHEETS[n - 1].title}*)" for n in sheet.by_hand)
        text = template.render(sheet=sheet, titles=titles, task=exercises.task)
        made.append(f'<section class="sheet">{markdown(text)}</section>')
    return page("Exercise sheets", "paper", "\n".join(made))


def pages() -> dict[str, str]:
    """Every page of the kit by its name."""
    made = {}
    for lecture in sorted(HERE.glob("lecture-*.md")):
        made |= deck(lecture)
    made |= {"workbook": workbook(False), "workbook-solutions": workbook(True), "sheets": sheets()}
    projects = f'<section class="sheet">{markdown((HERE / "projects.md").read_text())}</section>'
    return {**made, "projects": page("Projects", "paper", projects)}


# PDF and EPUB ---------------------------------------------------------------------------------------------------------


def print_pdf(source: Path, target: Path) -> None:
    """Print a page by Chromium, without a network."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"{target.name}: not printed, since there is no Chromium (apt-get install chromium)")
        return
    with tempfile.TemporaryDirectory() as profile:
        line = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
            "--no-pdf-header-footer",
            "--generate-pdf-document-outline",
        ]
        line += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--print-to-pdf={target}", source.as_uri()]
        subprocess.run(line, check=True, capture_output=True, timeout=300)


def course(out: Path, pdf: bool) -> None:
    """The lessons as EPUB, and as one page that is printed."""
    settings = {
        "root_doc": "book",
        "exclude_patterns": "_build,_ext",
        "include_patterns": "book.md,primer.md,paths.md,papers.md,lessons/*",
        "suppress_warnings": "myst.xref_missing,epub.unknown_project_files",  # pages that are not in the book
        "html_math_renderer": "mathml",
        "html_css_files": "book.css",
        "epub_title": "keyshift: the course",
        "epub_description": "Lessons about rebalancing stateful streams: formulations, answers, bounds.",
        "epub_use_index": "0",
        "epub_identifier": "keyshift-course",
        "epub_uid": "keyshift-course",
    }
    with tempfile.TemporaryDirectory() as folder:
        for builder in ("epub", *["singlehtml"] * pdf):
            line = [sys.executable, "-m", "sphinx", "-q", "-j", "2", "-b", builder, "-d", f"{folder}/trees"]
            for name, value in {**settings, "html_theme": "epub" if builder == "epub" else "basic"}.items():
                line += ["-D", f"{name}={value}"]
            subprocess.run([*line, str(DOCS), f"{folder}/{builder}"], check=True)
        shutil.copy(next((Path(folder) / "epub").glob("*.epub")), out / "course.epub")
        if pdf:
            print_pdf(Path(folder) / "singlehtml" / "book.html", out / "course.pdf")


def main() -> None:
    """Write what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--pdf", action="store_true", help="print every page, too")
    parser.add_argument("--course", action="store_true", help="build the lessons as EPUB, and with --pdf as PDF")
    asked = parser.parse_args()
    out = asked.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (out / f"{name}.html").write_text(text)
        if asked.pdf:
            print_pdf(out / f"{name}.html", out / f"{name}.pdf")
    if asked.course:
        course(out, asked.pdf)
    print(f"{out}: {', '.join(sorted(file.name for file in out.iterdir()))}")


if __name__ == "__main__":
    main()
