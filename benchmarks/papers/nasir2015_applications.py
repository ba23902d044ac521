"""[Nasir2015]: naive Bayes, the streaming decision tree and heavy hitters, what they lose and what they hold where keys are split."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

import numpy as np

import keyshift as ks
from keyshift.generators.splitting import draw_keys, zipf_shares
from keyshift.papers.page import Page

SCHEMES, WORKERS, CLASSES, LENGTH = ("hash", "pkg", "shuffle"), 10, 2, 2


def routed(keys: np.ndarray, scheme: str, seed: int) -> tuple[np.ndarray, dict[str, float]]:
    """The worker of each message, and what the scheme holds and how full its fullest worker is."""
    s = ks.solve(ks.KeySplitting(keys, workers=WORKERS, sources=5, hash_seed=seed), scheme)
    place = np.asarray(s.assignment if s.assignment is not None else s.offered)
    loads = np.bincount(place, minlength=WORKERS)
    pairs = np.unique(keys * WORKERS + place).size
    return place, {"counters": pairs, "fullest worker over the mean": float(loads.max() / loads.mean())}


def naive_bayes(page: Page) -> None:
    """The running example: a naive Bayes classifier, counting words by class.

    Documents of two words; each of two classes has the same Zipf law over its own order of the words. A partial count is merged once: the
    model is the same to the last count, whoever counted, so that it classifies alike.
    """
    rng, documents, words = np.random.default_rng(page.seed), 5_000 if page.quick else 50_000, 20_000
    label = rng.integers(0, CLASSES, documents)
    order = [rng.permutation(words) for _ in range(CLASSES)]
    rank = draw_keys(rng, zipf_shares(words, 1.0), documents * LENGTH)
    word = np.where(np.repeat(label, LENGTH) == 0, order[0][rank], order[1][rank])
    train = np.repeat(np.arange(documents) < documents * 4 // 5, LENGTH)
    exact, rows = _counts(word[train], np.repeat(label, LENGTH)[train], words), []
    for scheme in SCHEMES:
        place, held = routed(word[train], scheme, page.seed)
        parts = [
            _counts(word[train][place == w], np.repeat(label, LENGTH)[train][place == w], words) for w in range(WORKERS)
        ]
        merged = np.sum(parts, axis=0)
        logs = np.log(merged + 1) - np.log(merged.sum(axis=0) + words)
        said = logs[word[~train]].reshape(-1, LENGTH, CLASSES).sum(axis=1).argmax(axis=1)
        rows.append({"scheme": scheme, **held, "counts that differ": int((merged != exact).sum()),
                     "right, %": 100 * float((said == label[documents * 4 // 5:]).mean())})  # fmt: skip
    page.table(rows, "naive_bayes")


def _counts(word: np.ndarray, label: np.ndarray, words: int) -> np.ndarray:
    return np.bincount(word * CLASSES + label, minlength=words * CLASSES).reshape(words, CLASSES)


class BinnedValues:
    """The histogram of Ben-Haim and Tom-Tov, as section 4.1 takes it: at most so many bins, the two closest are merged."""

    def __init__(self, bins: int) -> None:
        self.bins, self.at, self.count = bins, list[float](), list[float]()

    def add(self, value: float, count: float = 1.0) -> None:
        """A value, seen so many times."""
        place = bisect_left(self.at, value)
        self.at.insert(place, value)
        self.count.insert(place, count)
        if len(self.at) > self.bins:
            j = min(range(self.bins), key=lambda j: self.at[j + 1] - self.at[j])
            both = self.count[j] + self.count[j + 1]
            self.at[j : j + 2] = [(self.at[j] * self.count[j] + self.at[j + 1] * self.count[j + 1]) / both]
            self.count[j : j + 2] = [both]

    def below(self, value: float) -> float:
        """How many values are estimated to lie below one: half of each bin lies on either side of it."""
        place = bisect_left(self.at, value)
        if place == 0:
            return 0.0
        if place == len(self.at):
            return sum(self.count)
        share = (value - self.at[place - 1]) / (self.at[place] - self.at[place - 1])
        here = self.count[place - 1] + (self.count[place] - self.count[place - 1]) * share
        return sum(self.count[: place - 1]) + self.count[place - 1] / 2 + (self.count[place - 1] + here) * share / 2


def merged(parts: Iterable[BinnedValues], bins: int) -> BinnedValues:
    """Several histograms as one."""
    made = BinnedValues(bins)
    for part in parts:
        for value, count in zip(part.at, part.count, strict=True):
            made.add(value, count)
    return made


def decision_tree(page: Page) -> None:
    """Section 4.1: histograms of a streaming decision tree, merged where a feature is on several workers.

    Features come as often as a Zipf law says, as those of sparse messages do; a value of class 1 lies higher by half a standard deviation.
    For each of the ten most frequent features the split of the largest gain is looked for, by the merged histograms and by the values
    themselves. *gain lost*: of the information that the true best split gains, in the mean. *rank error*: how far the estimated
    number of values below a threshold is off, as a share of all, at the worst.
    """
    rng, messages, features, bins = np.random.default_rng(1 + page.seed), 20_000 if page.quick else 200_000, 50, 32
    feature = draw_keys(rng, zipf_shares(features, 1.0), messages)
    label = rng.integers(0, CLASSES, messages)
    value, rows = rng.normal(0.5 * label, 1.0), []
    for scheme in SCHEMES:
        place, held = routed(feature, scheme, page.seed)
        parts: dict[tuple[int, int], dict[int, BinnedValues]] = {}
        for f, c, w, v in zip(feature.tolist(), label.tolist(), place.tolist(), value.tolist(), strict=True):
            parts.setdefault((f, c), {}).setdefault(w, BinnedValues(bins)).add(v)
        lost, worst = [], 0.0
        for f in range(10):
            values = [np.sort(value[(feature == f) & (label == c)]) for c in range(CLASSES)]
            grown = [merged(parts[f, c].values(), bins) for c in range(CLASSES)]
            thresholds = np.quantile(np.concatenate(values), np.linspace(0.02, 0.98, 49))
            true = np.array([np.searchsorted(v, thresholds) for v in values]).T
            seen = np.array([[h.below(t) for h in grown] for t in thresholds])
            of = np.array([v.size for v in values])
            gains = np.array([_gain(row, of) for row in true])
            lost.append(1 - gains[int(np.argmax([_gain(row, of) for row in seen]))] / gains.max())
            worst = max(worst, float(np.abs(seen - true).sum(axis=1).max() / of.sum()))
        rows.append({"scheme": scheme, "fullest worker over the mean": held["fullest worker over the mean"],
                     "histograms": sum(map(len, parts.values())), "merged for a split, most": max(map(len, parts.values())),
                     "gain lost, %": 100 * float(np.mean(lost)), "rank error, %": 100 * worst})  # fmt: skip
    page.table(rows, "decision_tree")


def _gain(below: np.ndarray, of: np.ndarray) -> float:
    """The information that a split gains, in bits."""

    def entropy(counts: np.ndarray) -> float:
        share = counts[counts > 0] / counts.sum() if counts.sum() > 0 else np.ones(1)
        return float(-(share * np.log2(share)).sum())

    above = of - below
    return entropy(of) - (below.sum() * entropy(below) + above.sum() * entropy(above)) / of.sum()


def space_saving(keys: Iterable[int], size: int) -> Counter[int]:
    """SpaceSaving [Metwally2005]: so many counters; a new key takes the least one over, with its count."""
    held: Counter[int] = Counter()
    for key in keys:
        if key in held or len(held) < size:
            held[key] += 1
        else:
            least = min(held, key=held.__getitem__)
            held[key] = held.pop(least) + 1
    return held


def heavy_hitters(page: Page) -> None:
    """Section 4.2: heavy hitters by SpaceSaving, a summary on each worker, merged by adding.

    Zipf of exponent 1.1 over 20,000 keys, 100 counters a worker; the 20 heaviest keys. *error*: how much too high an estimate is, as a share
    of all messages, at the worst; *within*: of the bound, the sum over the workers that hold a key of messages there over counters.
    """
    rng, messages, size, top = np.random.default_rng(2 + page.seed), 20_000 if page.quick else 200_000, 100, 20
    keys = draw_keys(rng, zipf_shares(20_000, 1.1), messages)
    true, rows = Counter(keys.tolist()), []
    heavy = [key for key, _ in true.most_common(top)]
    for scheme in SCHEMES:
        place, held = routed(keys, scheme, page.seed)
        parts = [space_saving(keys[place == w].tolist(), size) for w in range(WORKERS)]
        total = sum(parts, Counter())
        found = [key for key, _ in total.most_common(top)]
        sent = np.bincount(place, minlength=WORKERS)
        where = {key: [w for w in range(WORKERS) if key in parts[w]] for key in heavy}
        error = {key: total[key] - true[key] for key in heavy}
        bound = {key: sum(sent[w] for w in where[key]) / size for key in heavy}
        rows.append({"scheme": scheme, "fullest worker over the mean": held["fullest worker over the mean"],
                     "summaries that hold a heavy key, most": max(map(len, where.values())),
                     f"found of the {top}": len(set(heavy) & set(found)), "error, %": 100 * max(error.values()) / messages,
                     "within its bound": all(error[key] <= bound[key] for key in heavy)})  # fmt: skip
    page.table(rows, "heavy_hitters")
