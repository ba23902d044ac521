"""Run Meta's Rebalancer on one allocation instance: a process of its own, because it needs its own Python (>= 3.12).

Reads a JSON object (load, current, nodes, max_migrations, formula, seconds) from standard input; writes the
seconds taken and the node of every key group to the file named on the command line.
"""

import json
import sys
import time
from pathlib import Path


def solve(job: dict) -> dict:
    import rebalancer

    began = time.perf_counter()
    objects = {f"k{k}": float(y) for k, y in enumerate(job["load"])}
    nodes: dict[str, list[str]] = {f"n{i}": [] for i in range(job["nodes"])}
    for k, i in enumerate(job["current"]):
        nodes[f"n{i}"].append(f"k{k}")
    solver = rebalancer.ProblemSolver("keyshift", "keyshift")
    solver.set_log_level("ERROR")
    solver.set_object_name("key_group")
    solver.set_container_name("node")
    solver.set_assignment(nodes)
    solver.add_object_dimension("load", objects)
    solver.add_object_dimension("moves", dict.fromkeys(objects, 1.0))
    solver.add_constraint(
        {
            "minimizeMovementSpec": {
                "name": "limit", "scope": "node", "dimension": "moves", "allowance": float(job["max_migrations"]),
                "doNotNormalize": True, "magicScaling": False,
            }
        }
    )  # fmt: skip
    solver.add_goal(
        {
            "balanceSpec": {
                "name": "balance", "scope": "node", "dimension": "load", "upperBound": 0.0, "formula": job["formula"],
            }
        }
    )  # fmt: skip
    solver.add_solver(
        {
            "localSearchSolverSpec": {
                "solveTime": max(1, round(job["seconds"])),
                "moveTypeList": [{"singleMoveTypeSpec": {}}, {"swapMoveTypeSpec": {}}],
            }
        }
    )
    chosen = solver.solve()["assignment"]
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "assignment": [int(chosen[f"k{k}"][1:]) for k in range(len(objects))]}


if __name__ == "__main__":
    answer = solve(json.load(sys.stdin))
    Path(sys.argv[1]).write_text(json.dumps(answer))
