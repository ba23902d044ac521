"""What is printed is what is built: variables, and rows of each number, of every problem's formulation.

The rows are read from the mathematics of the docstring, or of a lesson: for each number how many relations it has, and the words
behind it that say how often it holds. Here stands how many that is for a small instance, and which rows of the Pyomo
model bear the number. A row or a variable that is printed or built alone fails.
"""

import inspect
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyomo.environ as pyo
import pytest

import keyshift as ks

LESSONS = Path(__file__).parents[2] / "docs" / "lessons"
ROW = re.compile(r"\((\d+[ab]?)\)\s*\\quad(.*?)(?=\\\\\s|\n\s*\n|\\end\{aligned\}|\\\\$)", re.DOTALL)
RELATION = re.compile(r"\\le\b|\\ge\b|=")
SYMBOL = re.compile(r"([A-Za-z])(?:_\{?([A-Za-z]+)\}?)?")
DOMAIN = re.compile(r"\\in\s*(\\\{.*?\\\}|\[.*?\])|\\ge 0|\\quad")


@dataclass
class Case:
    """A problem, and what its printed formulation amounts to.

    `rows` has for each number the words behind it, how often that is, and its rows in the model; `sizes` how many
    values each index has; `variables` the model's name of each symbol.
    """

    problem: object
    rows: list[tuple[str, str, int, list[str]]]
    sizes: dict[str, int]
    variables: dict[str, str]
    lesson: str = ""
    also: type | None = None  # whose formulation this one goes on with
    steps: int = 1  # so many times all variables
    left_out: int = 0  # variables that a row closes: they are not built


def words(text):
    """What stands behind a row, without TeX's marks."""
    text = re.sub(r"\\text\{([^}]*)\}|\\[;,]|\\qquad", lambda m: m[1] or " ", text)
    return " ".join(text.split())


def printed_rows(text):
    """For each number and words behind it: how many relations."""
    found = {}
    for number, row in ROW.findall(text):
        body, where = [*re.split(r"&&|\\qquad(?= *\\text\{for)", row, maxsplit=1), ""][:2]
        body = re.sub(r"_\{[^{}]*\}|\\text\{[^}]*\}", "", body)
        found[number, words(where)] = len(RELATION.findall(body))
    return found


def printed_variables(text, lesson):
    """The symbols with a domain, and their indices: in the paragraph "Variables", or in a lesson's formulation."""
    if lesson:
        formulas = re.findall(r"^& (x_.*?)(?:\\\\)?$", text, re.MULTILINE)
    else:
        paragraph = " ".join(re.findall(r"Variables: (.*?)\n\s*\n", text, re.DOTALL))
        formulas = [f for f in re.findall(r":math:`([^`]*)`", paragraph) if DOMAIN.search(f)]
    found = {}
    for formula in formulas:
        for base, index in SYMBOL.findall(DOMAIN.sub(" ", formula)):
            found[base + "_" * bool(index) + index] = index
    return found


W = ks.Workload(load=[7, 5, 4, 3, 3, 2], state=[70, 50, 40, 30, 30, 20], current=[0, 0, 1, 1, 2, 2], nodes=3)
TRAFFIC = np.zeros((6, 6))
TRAFFIC[0, 2], TRAFFIC[3, 1] = 5, 3
DRAINING = W.replace(draining=[False, False, True])
EVEN = ks.Workload(load=[1] * 4, state=[1, 2, 2, 2], current=[0, 0, 0, 1], nodes=2)
TASKS = ks.Workload(load=[1, 2, 1, 2], state=[1, 2, 2, 2], current=[0, 0, 0, 1], nodes=2)
SIZES = {"i": 3, "k": 6, "u": 1, "l": 1}
X_D = {"x_ki": "x", "d": "d", "d_u": "d_u", "d_l": "d_l"}


def allocation_rows(upper, lower):
    return [
        ("1", "for every k", 6, ["one_node"]),
        ("2", "and/or \\sum_{k,i} (1 - q_{ki}) x_{ki} \\le maxMigrations", 2, ["migrations", "migration_cost"]),
        ("3", "for every i \\in A \\cup B", upper, ["upper_load"]),
        ("4", "for every i \\in A", lower, ["lower_load"]),
        ("5", "only with distance\\_floor", 1, ["distance_floor"]),
        ("6", "for b \\in B, unless into\\_draining", 0, []),
        ("7", "for every node and resource", 3, ["capacity"]),
        ("8", "", 0, []),
    ]


MOVES = {"max_migrations": 2, "max_migration_cost": 80, "distance_floor": True, "resource_capacity": {"load": 14}}
CASES = {
    "allocation": Case(ks.KeyGroupAllocation(W, **MOVES), allocation_rows(3, 3), SIZES, X_D),
    "allocation, a draining node": Case(
        ks.KeyGroupAllocation(DRAINING, **MOVES), allocation_rows(3, 2), SIZES, X_D, left_out=4
    ),
    "allocation, the lesson": Case(
        ks.KeyGroupAllocation(W, max_migrations=1),
        [
            ("1", "for every k", 6, ["one_node"]),
            ("2", "or \\textstyle\\sum_{k,i} (1-q_{ki}) x_{ki} \\le maxMigrations", 1, ["migrations"]),
            ("3", "for every i", 3, ["upper_load"]),
            ("4", "for every kept i", 3, ["lower_load"]),
        ],
        SIZES,
        X_D,
        lesson="allocation",
    ),
    "opened, the lesson": Case(
        ks.KeyGroupAllocation(W, max_migrations=2),
        [
            ("1", "for every k", 6, ["one_node"]),
            ("2", "", 1, ["migrations"]),
            ("3", "for every i", 3, ["upper_load"]),
            ("4", "for every kept i", 3, ["lower_load"]),
        ],
        SIZES,
        {"x_ki": "x", "d": "d", "d_u": "d_u", "d_l": "d_l"},
        lesson="open-the-model",
    ),
    "collocation": Case(
        ks.CollocatedAllocation(W.replace(traffic=TRAFFIC), max_load_distance=50, max_migrations=1),
        [
            ("7", "", 7, ["one_node", "migrations"]),  # printed as "of key-group allocation": 6 and 1
            ("8", "for every i \\in A \\cup B", 3, ["upper_load"]),
            ("9", "for every i \\in A", 3, ["lower_load"]),
            ("10", "for every i and e = \\{k, l\\}", 6, ["z_first", "z_second"]),
            ("11", "for every i and e = \\{k, l\\}", 6, ["z_lower"]),
            ("16", "", 1, ["together_sum"]),
            ("14", "", 0, []),
            ("15", "", 0, []),
            ("17", "", 0, []),
        ],
        {"i": 3, "k": 6, "e": 2},
        {"x_ki": "x", "z_ei": "z", "Z": "together"},
    ),
    "mclb": Case(
        ks.MCLB(W, max_state_moved=60),
        [
            ("1", "for every k", 6, ["one_node"]),
            ("2", "for every t, i", 3, ["deviation"]),
            ("3", "unless None", 1, ["budget"]),
            ("4", "for i \\in B", 0, []),
            ("5", "for interchangeable i, j the one before", 0, []),
            ("6", "for every k of s_k > max\\_state\\_moved", 1, ["too_large"]),
        ],
        {"i": 3, "k": 6, "t": 1},
        {"x_ki": "x", "L_ti": "d"},
    ),
    "movement": Case(
        ks.MovementWithinLimits(W, 3, 10, nodes_after=3),
        [
            ("1", "for every k", 6, ["one_node"]),
            ("2", "for every i, t", 3, ["upper_load", "lower_load"]),
            ("3", "", 1, ["count"]),
            ("4", "for every k, i", 18, ["in_use"]),
            ("5", "for a draining i", 0, []),
            ("6", "for every i, where v > 0", 3, ["not_empty"]),
        ],
        {"i": 3, "k": 6},
        {"x_ki": "x", "z_i": "z"},
    ),
    "mixed routing": Case(
        ks.MixedRouting(W.replace(home=[0, 0, 1, 1, 2, 2]), theta_max=0.25, max_table_size=1, sides="both"),
        [
            ("1", "for every class t", 6, ["somewhere"]),
            ("2", "for every kept node d", 3, ["upper_load"]),
            ("3", 'likewise, for sides "both"', 3, ["lower_load"]),
            ("4", "the table's size", 1, ["table"]),
            ("5", "for every draining node d", 0, []),
        ],
        {"d": 3, "t": 6},
        {"x_td": "x"},
    ),
    "intervals": Case(
        ks.IntervalMigration(TASKS, 3, "0.5"),
        [
            ("1", "for every k", 4, ["one_node"]),
            ("2a", "for every i, k, x_{-1,i} = 0", 12, ["begin", "begin_only"]),
            ("2b", "for every i", 3, ["one_interval"]),
            # Loads 1, 2, 1, 2, and 3 a node: too much are tasks 0-2 and 1-3.
            ("3", "for every i, k, l = l(k)", 6, ["load_limit"]),
            ("4", "at most n' nodes carry tasks", 1, ["nodes_after"]),
            ("5", "for every draining i", 0, []),
            ("6", "for every k", 4, ["leave"]),
        ],
        {"i": 3, "k": 4},
        {"x_ki": "x", "b_ki": "b", "v_k": "v"},
    ),
    "key splitting": Case(
        ks.KeySplitting([1, 1, 2, 2, 3], workers=3, choices=None),
        [
            ("1", "for every t", 1, ["once"]),  # all messages may go everywhere: one class
            ("2", "for i \\notin C_{k_t}", 0, []),
            ("3", "for every i", 3, ["worker_load"]),
        ],
        {"t": 1, "i": 3},
        {"x_ti": "x", "L": "largest"},
    ),
    "key placement": Case(
        ks.KeyPlacement([1, 1, 2, 2, 3, 3], workers=3, choices=None),
        [
            ("1", "for every t", 1, ["once"]),  # all keys are of one weight, and may go everywhere
            ("2", "for i \\notin C_{k_t}", 0, []),
            ("3", "for every i", 3, ["worker_load"]),
            ("4", "", 0, []),  # keys are counted, not messages
        ],
        {"t": 1, "i": 3},
        {"x_ti": "x", "L": "largest"},
        also=ks.KeySplitting,
    ),
    "sequence": Case(
        ks.MigrationSequence(TASKS, [3, 2, 3], tau="0.5"),
        [
            ("1", "for every k", 3 * 4, ["one_node"]),
            ("2a", "for every i, k, x_{-1,i} = 0", 3 * 16, ["begin", "begin_only"]),
            ("2b", "for every i", 3 * 4, ["one_interval"]),
            ("3", "for every i, k, l = l(k)", 4 * (2 + 1 + 2), ["load_limit"]),  # with two nodes only 1-3 is too much
            ("4", "at most n' nodes carry tasks", 3, ["nodes_after"]),
            ("5", "for every draining i", 0, []),
            ("6", "for every k", 4, ["leave"]),
            ("6", "for every i, k, t > 1", 2 * 16, []),
        ],
        {"i": 4, "k": 4},
        {"x_ki": "x", "b_ki": "b", "v_k": "v"},
        steps=3,
        also=ks.IntervalMigration,
    ),
    "policy": Case(
        ks.MigrationPolicy(EVEN, {2: {3: 1.0}, 3: {2: 1.0}}, tau=0.5, discount=0.8),
        [
            ("1", "", 0, []),
            ("2", "for every state", 7, ["expectation"]),
            # 4 ways to cut for three nodes (2 2, 2 1 1, 1 2 1, 1 1 2), 3 for two (1 3, 2 2, 3 1), and back.
            ("3", "for every state, n' and P'", 4 * 3 + 3 * 4, ["decision"]),
        ],
        {"s": 7, "b": 7},
        {"V_s": "V", "Q_b": "Q"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_printed_is_what_is_built(name):
    case = CASES[name]
    kinds = [kind for kind in (case.also, type(case.problem)) if kind]
    text = "\n\n".join(inspect.getdoc(kind) for kind in kinds)
    if case.lesson:
        text = (LESSONS / f"{case.lesson}.md").read_text()
        text = text[text.index("\\begin{aligned}") : text.index("\\end{aligned}") + 20]
    built = ks.model(case.problem, "pyomo").native
    rows = {c.name: len(c) for c in built.component_objects(pyo.Constraint, active=True) if len(c)}
    printed = printed_rows(text)
    assert set(printed) == {(number, where) for number, where, _, _ in case.rows}
    for number in {row[0] for row in case.rows}:
        here = [row for row in case.rows if row[0] == number]
        expected = sum((printed[number, where] or 1) * often for _, where, often, _ in here)
        found = {name: rows.pop(name, 0) for row in here for name in row[3]}
        assert sum(found.values()) == expected, f"({number}): printed {expected} rows, built {found}"
    assert not rows, "rows that are not printed"
    symbols = printed_variables(text, case.lesson)
    assert set(symbols) == set(case.variables)
    printed_number = (
        sum(math.prod(case.sizes[i] for i in index) for index in symbols.values()) * case.steps - case.left_out
    )
    assert printed_number == built.nvariables()
    assert {v.name for v in built.component_objects(pyo.Var)} == set(case.variables.values())
