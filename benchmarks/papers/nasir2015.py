"""[Nasir2015]: Table II and figures 4 to 9 on our streams, the optimum beside them, and throughput and latency on queues (simulated).

Where the flow optimum is in a study, every run of an online scheme is held against it; a run below it ends with an error.
In the figures, an imbalance of 1e-8 stands for none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, product
from typing import Any

import numpy as np
import pandas as pd

import keyshift as ks
from keyshift.generators.splitting import draw_keys, key_stream, zipf_exponent, zipf_shares
from keyshift.models.errors import InputError
from keyshift.models.splitting.problem import jaccard
from keyshift.papers.page import Case, Page, cases, each, studied
from keyshift.papers.queues import ms

WORKERS, SOURCES = [5, 10, 50, 100], [5, 10, 15, 20]
COARSE = [2, 3, 4, 6, 9, 12, 16, 20, 25, 30, 35, 40, 50, 64]
TRIED = {5: list(range(2, 6)), 10: list(range(2, 11)), 40: list(range(2, 41)), 50: COARSE[:-1], 100: COARSE}
"""Numbers of choices by the number of workers."""
FLOOR, SHARE = 1e-8, "imbalance / messages"
HEADS = {"WP": 0.0932, "TW": 0.0267}
PAPER = {
    "WP": {
        "pkg": (3.7e-8, 1.3e-7, 2.7e-2, 3.7e-2), "off-greedy": (3.7e-8, 4.1e-8, 7.4e-2, 8.3e-2),
        "on-greedy": (3.6e-7, 6.4e-3, 7.4e-2, 8.3e-2), "potc": (7.3e-7, 7.8e-3, 7.4e-2, 8.3e-2),
        "hash": (6.4e-2, 7.8e-2, 9.2e-2, 9.2e-2),
    },
    "TW": {
        "pkg": (3.4e-10, 1.4e-9, 2.3e-9, 3.4e-3), "off-greedy": (3.4e-10, 6e-10, 6.7e-3, 1.7e-2),
        "on-greedy": (7.2e-9, 7.9e-8, 1.0e-2, 1.7e-2), "potc": (1.9e-5, 4.3e-6, 1.2e-2, 1.7e-2),
        "hash": (3.5e-2, 3.2e-2, 2.0e-2, 2.8e-2),
    },
}  # fmt: skip
"""Table II as printed."""


def with_head(rng: np.random.Generator, messages: int, head: float, keys: int = 1_000_000) -> np.ndarray:
    """A Zipf stream whose first key has the given share of the messages."""
    return draw_keys(rng, zipf_shares(keys, zipf_exponent(keys, head)), messages)


def split(labels: dict[str, Any], keys: np.ndarray, seed: int, **more: Any) -> Iterator[Case]:
    """A stream on every number of workers, by the hash functions of a seed."""
    return ((labels | {"workers": w}, ks.KeySplitting(keys, workers=w, hash_seed=seed, **more)) for w in WORKERS)


def shares(instances: Iterable[Case], methods: list[str], **options: Any) -> pd.DataFrame:
    """A study's imbalances at the end as fractions of the messages, no less than what a logarithmic axis can show."""
    return studied(instances, methods, **options).assign(**{SHARE: lambda f: f["final_imbalance"].clip(FLOOR)})


def table_2(page: Page) -> None:
    """Table II.

    WP and TW are not available: Zipf streams of the same head share p1 stand in, with a million keys and shorter (3 M messages, in a
    quick run 0.5 M, where the paper has 22 M and 1.2 G), so that the smallest figures, which go as 1/m, are larger here.
    `end` is the imbalance at the end, I(m)/m; `average` is I(t) averaged over time and divided by m, which is what the paper says it
    prints. Its numbers look like the former: where imbalance grows steadily the average is half of it, and Off-Greedy's tiny values
    at W = 5 and 10, or its p1 - 1/W = 8.3e-2 at W = 100, fit I(m)/m only. `optimum` is I(m)/m of the flow optimum with the same two
    candidates: what PKG, PoTC and hashing cannot avoid.
    """
    m, rng = 500_000 if page.quick else 3_000_000, np.random.default_rng([2, page.seed])
    inputs = {name: with_head(rng, m, head) for name, head in HEADS.items()}
    try:  # real keys are drawn once
        inputs |= {} if page.seed else {"words": stream_of("words-splitting", messages=m)}
        inputs |= {
            f"edits by {field}": stream_of("edits-splitting", field=field)
            for field in ("page", "user")
            if not page.seed
        }
    except InputError as no_data:
        page.say(f"Words and edits are left out: {no_data}.", "")
    frame = studied(chain.from_iterable(split({"stream": name, "p1": np.unique(keys, return_counts=True)[1].max() / keys.size}, keys, page.seed)
                                        for name, keys in inputs.items()), ["flow", *PAPER["WP"]])  # fmt: skip
    frame = frame.set_index(["stream", "p1", "workers"]).rename_axis(["stream", "p1", "W"])
    optimum, frame = frame.loc[frame["method"] == "flow", "final_imbalance"], frame[frame["method"] != "flow"]
    paper = [PAPER[name][scheme][WORKERS.index(w)] if name in PAPER else np.nan for (name, _, w), scheme in frame["method"].items()]  # fmt: skip
    frame = frame.assign(optimum=optimum, paper=paper).rename(
        columns={"method": "scheme", "final_imbalance": "end", "average_imbalance": "average"})[["optimum", "scheme", "end", "average", "paper"]]  # fmt: skip
    shown = frame.pivot_table(index=["stream", "scheme"], columns="W", values=["end", "paper"], sort=False)
    shown.columns = [f"W = {w}{', paper' if what == 'paper' else ''}" for what, w in shown.columns]
    page.table(frame, "table_2", shown)
    page.table(optimum.unstack().add_prefix("optimum, W = "))


def stream_of(family: str, **parameters: object) -> np.ndarray:
    problem = next(iter(ks.family(family, **parameters)))[1]
    return np.concatenate(list(problem.stream.chunks()))


def estimates(page: Page, figures: Sequence[int] = (4, 5, 6)) -> None:
    """Figures 4 to 6: local load estimates."""
    m, rng = 300_000 if page.quick else 2_000_000, np.random.default_rng([4, page.seed])
    inputs = {f"{name}-like": with_head(rng, m, head) for name, head in HEADS.items()}
    inputs |= {"CT-like (drift)": key_stream("drift", min(m, 690_000), seed=4 + page.seed)}
    inputs |= {law: key_stream(law, m, seed=4 + page.seed) for law in ("ln1", "ln2")}

    if 5 in figures:
        over_time(page, inputs, m)
    if 6 in figures:
        agreement(page, rng, inputs["WP-like"])
    if 4 not in figures:
        return

    def told(way: str, sources: list[int]) -> Iterator[Case]:
        return chain.from_iterable(split({"stream": name, "way": way.format(s)}, keys, page.seed, sources=s)
                                   for name, keys in inputs.items() for s in sources)  # fmt: skip

    found = [shares(told("G", [5]), ["hash", "pkg", "flow"], estimate="global"), shares(told("L{}", SOURCES), ["pkg", "flow"])]  # fmt: skip
    frame = pd.concat(found)
    frame["way"] = frame["method"].map({"hash": "H", "flow": "optimum"}).fillna(frame["way"])
    frame = page.keep(frame[["stream", "way", "workers", SHARE]].drop_duplicates(["stream", "way", "workers"]), "estimates")  # fmt: skip
    page.draw("fig4", f"As Figure 4: hashing (H), PKG with global (G) or local estimates (L, 5 to 20 sources); {m / 1e6:g} M messages.",
              *each(frame, "stream", x="workers", y=SHARE, by="way", xscale="log", yscale="log"), columns=5, size=(3, 3), sharey=True)  # fmt: skip


def over_time(page: Page, inputs: dict[str, np.ndarray], m: int) -> None:
    """Figure 5."""
    rows = []
    for w, name in product((10, 50), ("WP-like", "CT-like (drift)")):
        problem = ks.KeySplitting(inputs[name], workers=w, sources=5, hash_seed=page.seed)
        for way, options in {"G": {"estimate": "global"}, "L5": {}, "L5P": {"probe_every": m // 100}}.items():
            out = problem.outcome(ks.solve(problem, "pkg", **options), points=300)
            rows.append(pd.DataFrame({"plot": f"{name}, W = {w}", "way": way, "messages, millions": out.times / 1e6,
                                      "I(t) / t": np.maximum(out.imbalance / out.times, 1e-7)}))  # fmt: skip
    page.keep(pd.concat(rows), "over_time")
    page.draw("fig5", "As Figure 5: imbalance over time, 5 sources. P probes 100 times: then all sources rush to the same workers.",
              *each(pd.concat(rows), "plot", x="messages, millions", y="I(t) / t", by="way", yscale="log", style={"marker": ""}),
              columns=2, size=(4.5, 2.6))  # fmt: skip


def agreement(page: Page, rng: np.random.Generator, wp: np.ndarray) -> None:
    """Figure 6: how often local and global estimates decide alike."""

    def agree(keys: np.ndarray, sources: int) -> float:
        """Jaccard index of the decisions."""
        return jaccard(*(ks.Partitioner("pkg", 10, sources=sources, estimate=e, hash_seed=page.seed).feed(keys) for e in ("global", "local")))  # fmt: skip

    streams = {x: draw_keys(rng, zipf_shares(10_000, x), wp.size // 4) for x in np.arange(0.1, 1.0, 0.2)}
    rows = [{"sources": s, "Zipf exponent": x, "disagreement": 1 - agree(keys, s)} for x, keys in streams.items() for s in SOURCES]  # fmt: skip
    page.table([{"agreement on WP-like (Jaccard), %": 100 * agree(wp, 5)}], "agreement")
    frame = page.keep(rows, "disagreement")
    page.draw("fig6", "As Figure 6: share of decisions on which local and global estimates disagree (1 - Jaccard); 10k keys, 10 workers.",
              {"frame": frame, "x": "Zipf exponent", "y": "disagreement", "by": "sources", "ylim": (0, 1)}, size=(5, 3.2))  # fmt: skip


def skew(page: Page) -> None:
    """Figure 7: PKG under growing skew, 5 sources."""
    exponents = np.arange(0.4, 1.81, 0.3 if page.quick else 0.1).round(1).tolist()
    frame = shares(cases("nasir-splitting", messages=200_000 if page.quick else 500_000, keys=[10_000, 100_000, 1_000_000],
                         exponent=exponents, workers=WORKERS, seed=page.seed), ["pkg"])  # fmt: skip
    heads = [zipf_shares(keys, x)[0] for keys, x in zip(frame["keys"], frame["exponent"], strict=True)]
    beyond, frame["keys"] = np.array(heads) > 2 / frame["workers"], frame["keys"].map("{:,} keys".format)
    page.draw("fig7", "As Figure 7: PKG under growing skew, 5 sources.", *each(
        frame, "keys", x="exponent", y=SHARE, by="workers", yscale="log"), sharey=True)  # fmt: skip
    first = {"first exponent with imbalance > 1e-3": frame[SHARE] > 1e-3, "first with p1 > 2/W": beyond}
    page.table({said: frame[held].groupby(["keys", "workers"])["exponent"].min() for said, held in first.items()}, "skew")  # fmt: skip


def choices(page: Page) -> None:
    """Figure 9 at several exponents, since the text at hand lacks the paper's.

    greedy-d on 100,000 keys. Below, the least d tried with an imbalance below 1e-3; the paper
    has 4 at 5 workers and 9 at 40. Then, at exponent 2.0, what the chooser says for a target of 0.1 % (d for all keys, or only the head
    split), and the successors of PKG.
    """
    m, exponents = 20_000 if page.quick else 200_000, [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.4]
    frame = shares(chain.from_iterable(
        cases("nasir-splitting", messages=m, keys=100_000, sources=1, exponent=[1.6, 1.8, 2.0] if page.quick else exponents, workers=[w],
              choices=tried, seed=page.seed) for w, tried in TRIED.items()
    ), ["greedy-d"])  # fmt: skip
    frame = page.keep(frame[["exponent", "workers", "choices", SHARE]], "choices")
    page.draw("fig9", "As Figure 9: greedy-d on 100k keys, by Zipf's exponent.", *each(
        frame[frame["exponent"].isin((1.6, 1.8, 2.0))], "exponent", x="choices", y=SHARE, by="workers", xscale="log", yscale="log",
        xticks=COARSE[::3], xticklabels=COARSE[::3]), sharey=True)  # fmt: skip
    least = frame[frame[SHARE] < 1e-3].groupby(["exponent", "workers"])["choices"].min().unstack().add_prefix("W = ")
    least.insert(0, "share of the first key", [zipf_shares(100_000, x)[0] for x in least.index])
    page.table(least, "least_choices")
    stream, rows = key_stream("zipf", m, keys=100_000, exponent=2.0), []
    counts = np.bincount(stream)
    for w in (10, 50):
        advice = ks.choose_splitting(counts[counts > 0], workers=w, target=1e-3)
        final = {scheme: ks.Partitioner(scheme, w) for scheme in ("d-choices", "w-choices")}
        for partitioner in final.values():
            partitioner.feed(stream)
        rows.append({"W": w, "d for all": advice.choices, "counters": advice.options[-1].counters, "keys to split": len(advice.split),
                     "counters of the plan": advice.plan_counters, "keys": (counts > 0).sum(),
                     "its d for the head": final["d-choices"].head_choices[0],
                     **{scheme: max(p.imbalance / p.messages, FLOOR) for scheme, p in final.items()}})  # fmt: skip
    page.table(rows)


def sources(page: Page) -> None:
    """Figure 8: skewed sources."""
    m, rng = 300_000 if page.quick else 2_000_000, np.random.default_rng([8, page.seed])
    source, into = with_head(rng, m, 0.02, 100_000), rng.permutation(100_000)[with_head(rng, m, 0.0029, 100_000)]
    frame = shares(chain.from_iterable(
        split({"plot": f"{s} sources", "sources": label}, into, page.seed, sources=s, **options) for s in (5, 20)
        for label, options in {"uniform": {}, "skewed": {"feed": "key", "source_keys": source}}.items()
    ), ["pkg", "flow"])  # fmt: skip
    frame = page.table(frame.loc[frame["method"] == "pkg", ["plot", "sources", "workers", SHARE]], "sources")
    page.draw("fig8", "As Figure 8: edges of a synthetic graph come to sources in turn, or by source vertex.", *each(
        frame, "plot", x="workers", y=SHARE, by="sources", xscale="log", yscale="log"), columns=2, sharey=True)  # fmt: skip


def theorem(page: Page) -> None:
    """Theorem 5.1.

    Uniform keys, m = 1000 W messages, so that m >= W^2, as the theorem asks, up to 1,000 workers: imbalance / (m/W). On 5 W keys p1 = 1/(5 W), the theorem's hypothesis: for
    d = 2 the figure must not grow with W. On W keys some workers are no key's candidate.
    """
    frame = studied((({"W": w, "keys": per * w, "of": f"{per} W keys"}, ks.KeySplitting(
        np.random.default_rng(page.seed).integers(0, per * w, 1000 * w), workers=w, hash_seed=page.seed))
        for w in ((20, 80, 320) if page.quick else (20, 80, 320, 1000)) for per in (5, 1)), ["pkg", "hash"])  # fmt: skip
    frame = frame.assign(of=frame["method"] + ", " + frame["of"], relative=frame["W"] * frame["final_imbalance"])
    shown = frame.pivot_table(index="W", columns="of", values="relative")
    page.table(shown.assign(**{"ln W / ln ln W": np.log(shown.index) / np.log(np.log(shown.index))}), "theorem")


SCHEMES = {"hash": 10, "pkg": 8, "shuffle": 8}


def deployed(
    keys: np.ndarray, scheme: str, workers: int, rate: float, delay: float, seed: int, **options: Any
) -> ks.simulation.Simulation:
    """A scheme on queues: 8 sources, so many messages a second in all, each a delay of so many milliseconds at its worker."""
    feed = ks.Partitioner(scheme, workers, sources=8, hash_seed=seed).feed
    times = np.cumsum(np.random.default_rng(seed).standard_exponential(keys.size)) / rate
    return ks.simulate((times, keys), feed, service_rate=1e3 / delay, nodes=workers, **options)


def queues(page: Page) -> None:
    """[Nasir2015], Figure 10(a) and Table III: hashing, PKG and shuffling by the time that a message takes.

    A Zipf stream with WP's first key (9.32 %), 8 sources; 10 workers for hashing, 8 for the others, as in the paper (whose other two
    merge). A message takes the worker the delay. Ours: the sources send 12,500 messages a second and stop where 100 are at
    a worker. Table III: 90 % of what hashing can serve, endless queues.
    """
    keys, rows = (
        with_head(np.random.default_rng([10, page.seed]), 200_000 if page.quick else 4_000_000, HEADS["WP"]),
        [],
    )
    sent = ks.Partitioner("hash", 10, sources=8, hash_seed=page.seed).feed(keys)
    hottest = np.bincount(sent).max() / keys.size
    for scheme, workers in SCHEMES.items():
        for delay in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0):
            full = deployed(keys, scheme, workers, 12_500, delay, page.seed, queue=100)
            calm = deployed(keys, scheme, workers, 0.9e3 / delay / hottest, delay, page.seed)
            rows.append({"scheme": scheme, "delay": delay, "throughput": full.throughput, **ms(calm)})
    frame = page.keep(rows, "nasir")
    page.say(f"Hashing's hottest worker has {100 * hottest:.1f} % of the messages. Throughput, messages a second, by delay in ms; then mean latency, ms:")  # fmt: skip
    for values, digits in (("throughput", 0), ("mean, ms", 2)):
        page.table(frame.pivot(index="scheme", columns="delay", values=values).map(f"{{:.{digits}f}}".format))
    page.draw("nasir", "As Figure 10(a) and Table III of [Nasir2015], simulated.", *(
        {"frame": frame, "x": "delay", "xlabel": "delay, ms", "y": y, "by": "scheme", "title": title, "ylim": (0, None)}
        for y, title in (("throughput", "(a) the delay"), ("mean, ms", "Table III: 90 % of hashing's capacity"))), size=(4.2, 3.4))  # fmt: skip


def aggregation(page: Page, stream: str = "WP") -> None:
    """[Nasir2015], Figure 10(b) and (c): partial counters are merged every so many seconds.

    WP's first key (9.32 %): 10 workers for hashing, 8 and 2 aggregators for the others, a delay of 0.4 ms. TW's (2.67 %): 16 workers, or 8
    and 8 aggregators, 0.1 ms, the paper's "no artificial delay". Ours: the sources send without limit and stop where 100 messages are at a
    worker; a counter takes a worker a quarter of a message's delay and an aggregator half of that. *counters*: sent in a period.
    """
    workers, aggregators, delay = (
        (SCHEMES, 2, 0.4) if stream == "WP" else ({"hash": 16, "pkg": 8, "shuffle": 8}, 8, 0.1)
    )
    keys, rows = (
        with_head(np.random.default_rng([10, page.seed]), 200_000 if page.quick else 4_000_000, HEADS[stream]),
        [],
    )
    rate, cost = 1e4 / delay, 1e-3 * delay / 4
    for scheme, of in workers.items():
        sent = np.bincount(ks.Partitioner(scheme, of, sources=8, hash_seed=page.seed).feed(keys), minlength=of)
        for period in (10, 30, 60):
            second = (
                None
                if scheme == "hash"
                else ks.simulation.Aggregation(period, flush=cost, merge=cost / 2, nodes=aggregators)
            )
            found = deployed(keys, scheme, of, rate, delay, page.seed, queue=100, aggregation=second)
            rows.append({"stream": stream, "scheme": scheme, "period": period, "throughput": found.throughput,
                         "counters": found.counters / np.ceil(found.drained / period),
                         "most possible": 1e3 / delay * keys.size / sent.max()})  # fmt: skip
    page.draw(f"aggregation_{stream}", f"As Figure 10 of [Nasir2015], {stream}, simulated.", {
        "frame": page.table(rows, f"aggregation_{stream}"), "x": "period", "xlabel": "period, s", "y": "throughput", "by": "scheme",
        "ylim": (0, None)}, size=(4.2, 3.4))  # fmt: skip
