"""Meta's Rebalancer on one allocation instance: as a script, in a Python of its own (>= 3.12, with `rebalancer` installed).

Reads a JSON object (load, current, nodes, max_migrations, formula, seconds; where there are rules also partition and rack, a label for
each key group and node, count, disk and room) from standard input; writes the seconds taken and the node of every key group to the file
named on the command line.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FORMULAS = {"linear": 1, "squares": 2, "max": 3, "ideal": 4}
ABSOLUTE = 1  # of limits; 2 is relative


def ask(python: str, job: dict) -> dict:
    """Run this file in that Python."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answer.json"
        subprocess.run(
            [python, "-P", __file__, str(out)], input=json.dumps(job), text=True, check=True, capture_output=True
        )
        return json.loads(out.read_text())


def add_rules(solver, job: dict, names: list[str]) -> None:
    """Replicas of a partition in different racks, at most so many a node, and so much of its disk."""
    groups: dict[str, list[str]] = {}
    for name, partition in zip(names, job["partition"], strict=True):
        groups.setdefault(str(partition), []).append(name)
    solver.add_partition("partition", groups)
    solver.add_scope("rack", {f"n{i}": rack for i, rack in enumerate(job["rack"])})
    solver.add_object_dimension("disk", dict(zip(names, job["disk"], strict=True)))
    apart = {"name": "apart", "scope": "rack", "partitionName": "partition", "limit": absolute(1.0)}
    solver.add_constraint({"groupCountSpec": apart})
    for name, dimension, most in (("count", "moves", float(job["count"])), ("room", "disk", job["room"])):
        spec = {"name": name, "scope": "node", "dimension": dimension, "limit": absolute(most)}
        solver.add_constraint({"capacitySpec": spec})


def absolute(most: float) -> dict:
    return {"type": ABSOLUTE, "globalLimit": most}


def solve(job: dict) -> dict:
    import rebalancer

    began = time.perf_counter()
    loads = {f"k{k}": float(y) for k, y in enumerate(job["load"])}
    nodes: dict[str, list[str]] = {f"n{i}": [] for i in range(job["nodes"])}
    for k, i in enumerate(job["current"]):
        nodes[f"n{i}"].append(f"k{k}")
    limit = {"name": "limit", "scope": "node", "dimension": "moves", "allowance": float(job["max_migrations"]),
             "doNotNormalize": True, "magicScaling": False}  # fmt: skip
    goal = {"name": "balance", "scope": "node", "dimension": "load", "upperBound": 0.0, "formula": job["formula"]}
    moves = [{"singleMoveTypeSpec": {}}, {"swapMoveTypeSpec": {}}]
    solver = rebalancer.ProblemSolver("keyshift", "keyshift")
    solver.set_log_level("ERROR")
    solver.set_object_name("key_group")
    solver.set_container_name("node")
    solver.set_assignment(nodes)
    solver.add_object_dimension("load", loads)
    solver.add_object_dimension("moves", dict.fromkeys(loads, 1.0))
    solver.add_constraint({"minimizeMovementSpec": limit})
    if "rack" in job:
        add_rules(solver, job, list(loads))
    solver.add_goal({"balanceSpec": goal})
    solver.add_solver({"localSearchSolverSpec": {"solveTime": max(1, round(job["seconds"])), "moveTypeList": moves}})
    chosen = solver.solve()["assignment"]
    return {"seconds": time.perf_counter() - began, "assignment": [int(chosen[f"k{k}"][1:]) for k in range(len(loads))]}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(solve(json.load(sys.stdin))))
