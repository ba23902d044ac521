"""Write the JSON schemas of keyshift's files to docs/_static/schemas: ``python docs/write_schemas.py``.

They are made from the classes that read the files; a test keeps them in step.
"""

from __future__ import annotations

import json
from pathlib import Path

from keyshift.files.solution import PlanFile, SolutionFile
from keyshift.files.workload import WorkloadFile, WorkloadManifest
from keyshift.fronts.front import FrontFile
from keyshift.models.base.schema import FileFormat
from keyshift.models.routing.table_file import RoutingTableFile
from keyshift.replays.results import PeriodFile, ReplayFile
from keyshift.solvers.intervals.policy.saved_policy import PolicyHeader, ProgressHeader
from keyshift.spark_stats.statistics_files import StatisticsManifest

FOLDER = Path(__file__).parent / "_static" / "schemas"
FILES: dict[str, type[FileFormat]] = {
    "workload": WorkloadFile,
    "workload-manifest": WorkloadManifest,
    "statistics": StatisticsManifest,
    "replay": ReplayFile,
    "replay-period": PeriodFile,
    "front": FrontFile,
    "routing-table": RoutingTableFile,
    "policy": PolicyHeader,
    "policy-progress": ProgressHeader,
    "plan": PlanFile,
    "solution": SolutionFile,
}


def schema(kind: type[FileFormat]) -> str:
    """The JSON schema of a file, as text."""
    made = kind.model_json_schema()
    fields = made["properties"]
    fields["format"] = {"const": kind.kind}
    fields["version"] = {"type": "integer", "minimum": 1, "maximum": kind.newest}
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **made}, indent=2) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, kind in FILES.items():
        (FOLDER / f"{name}.schema.json").write_text(schema(kind))
