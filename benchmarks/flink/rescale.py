"""[Ding2015] on a real Flink: the state that its own rescale moves, beside the least that any ranges as even would move.

A keyed job is stopped with a savepoint and restarted from it at other parallelisms. Every value of its state says which
subtask wrote it; the restarted job counts the bytes that another subtask finds.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from runs import Live

from keyshift.engines import flink as ours

KEYS, GROUPS, BEFORE, AFTER = 2_000, 128, 6, (4, 5, 7, 8, 9)
MEGA = 1e6


def sizes() -> dict[str, int]:
    """Bytes of each key's state: a few large, most small."""
    drawn = np.random.default_rng(5).lognormal(8, 1, KEYS).astype(int) + 10
    return {f"k{i}": int(size) for i, size in enumerate(drawn)}


def kept(live: Live, path: str, workers: int, savepoint: str | None = None) -> tuple[str, str, pd.DataFrame]:
    """Run the job until every key came, stop it with a savepoint: its id, the savepoint, and who found what of whom."""
    notes = Path(tempfile.mkdtemp(dir=live.folder))
    job = live.submit({
        "name": f"keep {workers}", "sizes": path, "workers": workers, "max_parallelism": GROUPS, "folder": str(notes),
        "savepoint": savepoint,
    })  # fmt: skip
    until = time.monotonic() + 120
    while _read(live, job) < KEYS:
        if time.monotonic() > until:
            raise RuntimeError(f"{job} has not read its keys")
        time.sleep(0.5)
    asked = live.flink.ask(f"/jobs/{job}/stop", {"targetDirectory": f"file://{live.folder}/savepoints", "drain": False})
    live.flink.wait(job)
    answer = live.flink.ask(f"/jobs/{job}/savepoints/{asked['request-id']}")
    noted = [pd.read_csv(notes / str(i), sep=" ", names=["writer", "bytes"], dtype={"writer": str}).assign(subtask=str(i))
             for i in range(workers)]  # fmt: skip
    return job, answer["operation"]["location"], pd.concat(noted)


def _read(live: Live, job: str) -> int:
    """Records that the keyed vertex has read; a job that has only been submitted has none yet."""
    vertices = live.flink.ask(f"/jobs/{job}")["vertices"]
    return sum(v["metrics"]["read-records"] for v in vertices if "keep" in v["name"])


def rescale(live: Live) -> list[dict[str, Any]]:
    """A row for each parallelism, from one savepoint."""
    size = sizes()
    path = live.place("sizes", size)
    job, savepoint, noted = kept(live, path, BEFORE)
    groups = ours.key_groups(list(size), GROUPS, "string", row=True)
    shares = ours.loads_of(groups, list(size.values()), GROUPS)
    w = ours.read_workload(live.flink.rest, job, vertex="keep", shares=shares)
    state = np.bincount(w.current, w.state, BEFORE).astype(int).tolist()
    print(
        "savepoint, bytes of each subtask:", state, "payload alone:", noted.groupby("subtask")["bytes"].sum().tolist()
    )
    rows = []
    for advice in ours.advise(w, AFTER).to_dict("records"):
        to = int(advice["parallelism"])
        after, _, noted = kept(live, path, to, savepoint)
        new = ours.read_workload(live.flink.rest, after, vertex="keep", shares=shares)
        assert len(noted) == KEYS
        assert (noted["writer"] != "new").all(), "state was lost"
        share = noted.loc[noted["writer"] != noted["subtask"], "bytes"].sum() / noted["bytes"].sum()
        rows.append({
            "from - to": f"{BEFORE} - {to}", "least - most MB of a subtask": _range(np.bincount(new.current, new.state, to)),
            "predicted MB moved": round(advice["state_moved"] / MEGA, 3), "measured MB moved": round(share * w.state.sum() / MEGA, 3),
            "as predicted": abs(share * w.state.sum() / advice["state_moved"] - 1) < 0.01, "measured % moved": round(100 * share, 2),
            "optimum MB": round(advice["least_state_moved"] / MEGA, 3),
            "imbalance %": round(100 * advice["imbalance"], 1),
        })  # fmt: skip
    return rows


def _range(state: np.ndarray) -> str:
    return f"{state.min() / MEGA:.2f} - {state.max() / MEGA:.2f}"
