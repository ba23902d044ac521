"""Figures 4 to 9 of [Nasir2015] on our streams."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import splitting_streams as streams
from splitting_report import FLOOR, WORKERS, e, final, optimum, run

import keyshift as ks
from keyshift.models.families.splitting import draw_keys, drifting_keys, log_normal_shares, zipf_shares
from keyshift.models.splitting.outcome import jaccard


def estimates(report, quick):
    """Figures 4, 5 and 6: local against global estimates."""
    m = 300_000 if quick else 2_000_000
    rng = np.random.default_rng(4)
    inputs = {
        "WP-like": draw_keys(rng, streams.zipf_with_head(1_000_000, 0.0932)[0], m),
        "TW-like": draw_keys(rng, streams.zipf_with_head(1_000_000, 0.0267)[0], m),
        "CT-like (drift)": drifting_keys(rng, min(m, 690_000)),
        "LN1": draw_keys(rng, log_normal_shares(rng, "ln1"), m),
        "LN2": draw_keys(rng, log_normal_shares(rng, "ln2"), m),
    }
    report.say("## Figures 4 to 6: local load estimates", "")
    figure_4(report, inputs, m)
    figure_5(report, inputs, m)
    figure_6(report, rng, m)


def figure_4(report, inputs, m):
    """Hashing, global and local estimates."""
    schemes = {"H": ("hash", {}), "G": ("pkg", {"sources": 5, "estimate": "global"})}
    schemes |= {f"L{s}": ("pkg", {"sources": s}) for s in (5, 10, 15, 20)}
    figure, axes = plt.subplots(1, len(inputs), figsize=(15, 3.2), sharey=True)
    for axis, (name, keys) in zip(axes, inputs.items(), strict=True):
        best = [optimum(keys, w) for w in WORKERS]
        for label, (scheme, options) in schemes.items():
            found = [run(scheme, keys, w, **options) for w in WORKERS]
            for partitioner, answer in zip(found, best, strict=True):
                report.held(answer.objective, partitioner.loads.max())
            style = {"H": "k^--", "G": "ks-"}.get(label, "o-")
            axis.plot(WORKERS, [final(p) for p in found], style, ms=4, label=label)
        lowest = [max(a.metrics["final_imbalance"], FLOOR) for a in best]
        axis.plot(WORKERS, lowest, "r_", ms=14, mew=2, label="optimum")
        axis.set(title=name, xscale="log", yscale="log", xlabel="workers", xticks=WORKERS, xticklabels=WORKERS)
        axis.minorticks_off()
    axes[0].set_ylabel("imbalance at the end / messages")
    axes[-1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    report.figure(
        "fig4",
        figure,
        f"As Figure 4: hashing (H), PKG with global (G) or local estimates (L, 5-20 sources); {m / 1e6:g} M messages.",
    )


def figure_5(report, inputs, m):
    """Imbalance over time."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 5), sharex="col", sharey="row")
    for row, w in enumerate((10, 50)):
        for axis, name in zip(axes[row], ("WP-like", "CT-like (drift)"), strict=True):
            keys = inputs[name]
            problem = ks.KeySplitting(keys, workers=w, sources=5)
            for label, options in {"G": {"estimate": "global"}, "L5": {}, "L5P": {"probe_every": m // 100}}.items():
                outcome = problem.outcome(ks.solve(problem, "pkg", **options), points=300)
                axis.plot(outcome.times / 1e6, np.maximum(outcome.imbalance / outcome.times, 1e-7), label=label, lw=1)
            axis.set(yscale="log", title=f"{name}, W = {w}")
    for axis in axes[1]:
        axis.set_xlabel("messages, millions")
    for axis in axes[:, 0]:
        axis.set_ylabel("I(t) / t")
    axes[0, 0].legend(fontsize=8)
    report.figure(
        "fig5",
        figure,
        "As Figure 5: imbalance over time, 5 sources. P probes 100 times: then all sources rush to the same workers.",
    )


def figure_6(report, rng, m):
    """How often local and global estimates decide alike."""
    figure, axis = plt.subplots(figsize=(5, 3.2))
    exponents = np.arange(0.1, 1.0, 0.2)
    for s in (5, 10, 15, 20):
        found = []
        for x in exponents:
            keys = draw_keys(rng, zipf_shares(10_000, x), m // 4)
            told = ks.Partitioner("pkg", 10, sources=s, estimate="global").feed(keys)
            found.append(1 - jaccard(told, ks.Partitioner("pkg", 10, sources=s).feed(keys)))
        axis.plot(exponents, found, "o-", ms=4, label=f"{s} sources")
    axis.set(xlabel="Zipf exponent, 10k keys, 10 workers", ylabel="disagreement (1 - Jaccard)", ylim=(0, 1))
    axis.legend(fontsize=8)
    report.figure("fig6", figure, "As Figure 6: share of decisions on which local and global estimates disagree.")


def skew(report, quick):
    """Figures 7 and 9: skew, and more choices against it."""
    m = 200_000 if quick else 2_000_000
    rng = np.random.default_rng(7)
    report.say("## Figures 7 and 9: skew, and more choices against it", "")
    figure_7(report, rng, m, np.arange(0.1, 2.01, 0.3 if quick else 0.1))
    stream = draw_keys(rng, zipf_shares(100_000, 2.0), m)
    figure_9(report, stream, quick)
    chooser(report, stream)


def figure_7(report, rng, m, exponents):
    """PKG under growing skew."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True)
    for axis, keys in zip(axes, (10_000, 100_000, 1_000_000), strict=True):
        curves = {w: [] for w in WORKERS}
        for x in exponents:
            stream = draw_keys(rng, zipf_shares(keys, x), m)
            for w in WORKERS:
                curves[w].append(final(run("pkg", stream, w, sources=5)))
        for w, curve in curves.items():
            axis.plot(exponents, curve, "o-", ms=3, label=f"W = {w}")
        for w, line in zip(WORKERS, axis.get_lines(), strict=True):
            cliff = [x for x in exponents if zipf_shares(keys, x)[0] > 2 / w]
            if cliff:
                axis.axvline(cliff[0], color=line.get_color(), lw=0.8, ls=":")
        axis.set(yscale="log", title=f"{keys:,} keys", xlabel="Zipf exponent")
    axes[0].set_ylabel("imbalance at the end / messages")
    axes[0].legend(fontsize=8)
    report.figure(
        "fig7",
        figure,
        f"As Figure 7: PKG under growing skew, 5 sources, {m / 1e6:g} M messages. Dotted: first with p1 > 2/W.",
    )


def figure_9(report, stream, quick):
    """More choices against skew."""
    numbers = (2, 3, 4, 6, 9, 14, 20, 30, 45, 64)
    figure, axis = plt.subplots(figsize=(6, 3.6))
    rows = []
    for w in (5, 10, 40, 50, 100):
        found = []
        for d in numbers:
            partitioner = run("greedy-d", stream, w, choices=d)
            found.append(final(partitioner))
            if d <= 9 or not quick:
                report.held(optimum(stream, w, d).objective, partitioner.loads.max())
        (line,) = axis.plot(numbers, found, "o-", ms=3, label=f"W = {w}")
        successors = {s: run(s, stream, w) for s in ("d-choices", "w-choices")}
        axis.axhline(final(successors["w-choices"]), color=line.get_color(), lw=0.8, ls=":")
        balanced = next((d for d, v in zip(numbers, found, strict=True) if v < 1e-3), "> 64")
        rows.append((w, balanced, *(e(final(p)) for p in successors.values()), successors["d-choices"].head_choices[0]))
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="choices d",
        ylabel="imbalance at the end / messages",
        xticks=numbers,
        xticklabels=numbers,
    )
    axis.minorticks_off()
    axis.legend(fontsize=8)
    report.figure(
        "fig9", figure, "As Figure 9: greedy-d at Zipf exponent 2.0, 100k keys. Dotted: W-Choices, for the head only."
    )
    report.table(
        ("W", "least d tried with imbalance < 1e-3", "D-Choices", "W-Choices", "D-Choices' d for the head"), rows
    )


def chooser(report, stream):
    """What the chooser says of the same stream."""
    counts = np.bincount(stream)
    rows = []
    for w in (10, 50):
        advice = ks.choose_splitting(counts[counts > 0], workers=w, target=1e-3)
        memory = advice.options[-1].counters
        rows.append(
            (
                w,
                advice.choices,
                f"{memory:,}",
                len(advice.split),
                f"{advice.plan_counters:,}",
                f"{(counts > 0).sum():,}",
            )
        )
    report.say(
        "What the chooser says of the same stream for a target of 0.1 %: d for all keys, or only the head split."
    )
    report.table(("W", "d for all", "counters", "keys to split", "counters of the plan", "keys"), rows)


def sources(report, quick):
    """Figure 8: sources fed by key."""
    m = 300_000 if quick else 2_000_000
    rng = np.random.default_rng(8)
    source, destination = streams.graph(rng, m)
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True)
    for axis, s in zip(axes, (5, 20), strict=True):
        found = {"uniform": [], "skewed": []}
        for w in WORKERS:
            best = optimum(destination, w)
            for label, options in {"uniform": {}, "skewed": {"feed": "key", "source_keys": source}}.items():
                problem = ks.KeySplitting(destination, workers=w, sources=s, **options)
                answer = ks.solve(problem, "pkg")
                report.held(best.objective, answer.objective)
                found[label].append(max(answer.metrics["final_imbalance"], FLOOR))
        for label, curve in found.items():
            axis.plot(WORKERS, curve, "o-", ms=4, label=f"{label} sources")
        axis.set(
            title=f"{s} sources",
            xscale="log",
            yscale="log",
            xlabel="workers",
            xticks=WORKERS,
            xticklabels=WORKERS,
            ylim=(1e-7, 1e-2),
        )
        axis.minorticks_off()
    axes[0].set_ylabel("imbalance at the end / messages")
    axes[0].legend(fontsize=8)
    report.say("## Figure 8: skewed sources", "")
    report.figure(
        "fig8",
        figure,
        "As Figure 8: edges of a synthetic graph come to sources in turn, or by source vertex.",
    )
