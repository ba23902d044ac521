"""PyArrow, which reads and writes tables; where it is not installed, one sentence says how to install it."""

from __future__ import annotations

from keyshift.models.errors import needing

with needing(
    "pyarrow",
    "this needs PyArrow, as Parquet tables and workloads in folders do: pip install '.[parquet]' in a checkout of keyshift; "
    "a workload in one .json file needs none",
):
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["pa", "pq"]
