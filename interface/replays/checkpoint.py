"""Checkpoints of a replay: each finished period is one small file, written in one step."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models import InputError, Workload

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
RESULTS = "results.parquet"


@dataclass(frozen=True)
class Checkpoint:
    """A directory of ``replay.json`` (what is replayed), ``period-000012.json`` and, at the end, ``results.parquet``.

    Raises
    ------
    InputError
        If the directory holds the replay of something else.
    """

    folder: Path
    description: dict[str, Any]

    def __post_init__(self) -> None:
        about = self.folder / "replay.json"
        mine = {"keyshift_replay": FORMAT, **self.description}
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder} is a file, not a folder for checkpoints")
        self.folder.mkdir(parents=True, exist_ok=True)
        if not about.exists():
            if any(self.folder.iterdir()):
                raise InputError(f"{self.folder} is not empty and holds no replay: it is left alone")
            replace(about, json.dumps(mine, indent=1, sort_keys=True))
            return
        theirs = _read(about)
        for name in sorted({*mine, *theirs}):
            if mine.get(name) != theirs.get(name):
                raise InputError(
                    f"{self.folder} holds a replay with another {name}: {theirs.get(name)}, not {mine.get(name)}"
                )

    def read(self, period: int, statistics: Workload) -> dict[str, Any] | None:
        """A finished period, None when it is not."""
        file = self._file(period)
        if not file.exists():
            return None
        content = _read(file)
        if content.get("statistics") != fingerprint(statistics):
            raise InputError(f"{file} belongs to other statistics than period {period} has now")
        return content

    def write(self, period: int, statistics: Workload, rows: list[dict[str, Any]], clusters: dict[str, Any]) -> None:
        """Put a finished period down: wholly or not at all."""
        content = {"statistics": fingerprint(statistics), "rows": rows, "clusters": clusters}
        replace(self._file(period), json.dumps(content, allow_nan=False))

    def finish(self, rows: list[dict[str, Any]]) -> None:
        """Write all rows as Parquet."""
        import pandas as pd

        write_parquet(pd.DataFrame(rows), self.folder / RESULTS)

    def _file(self, period: int) -> Path:
        return self.folder / f"period-{period:06d}.json"


def fingerprint(workload: Workload) -> str:
    """A hash of everything that a workload holds."""
    digest = hashlib.sha256()
    parts: list[Any] = [workload.load, workload.state, workload.current, workload.capacity, workload.draining]
    if workload.traffic is not None:
        parts += [workload.traffic.indptr, workload.traffic.indices, workload.traffic.data]
    parts += [part for part in (workload.operator, workload.home, *workload.resources.values()) if part is not None]
    for part in parts:
        array = np.ascontiguousarray(part)
        digest.update(f"{array.shape}{array.dtype.kind}".encode())
        digest.update(array.astype(np.float64).tobytes())
    return digest.hexdigest()


def replace(file: Path, text: str) -> None:
    """Write a file in one step: readers see the old one or the new one."""
    scratch = file.with_name(f".{file.name}.tmp")
    with scratch.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    scratch.replace(file)


def write_parquet(frame: pd.DataFrame, file: Path) -> Path:
    """Write a table as Parquet in one step."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in ("objective", "bound"):
        if name in frame:
            frame = frame.assign(**{name: frame[name].astype("float64")})
    scratch = file.with_name(f".{file.name}.tmp")
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), scratch)
    scratch.replace(file)
    return file


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} is damaged ({error})") from None
    if not isinstance(content, dict):
        raise InputError(f"{file} is damaged: it holds no object")
    return content
