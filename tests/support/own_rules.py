"""One-line rules of one's own, for every problem and kind of model: drawn, added, and tried on every assignment.

`Spoken` says what the variables of a statement say of an assignment, by their names in files, without the statement; a
rule is rows over them; the truth is the least objective over all assignments under which some values keep the rows.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import over_windows
import pyomo.environ as pyo
from least import candidates

import keyshift as ks
from keyshift.models.intervals.policy.pyomo_model import PolicyChain, name_of
from keyshift.models.intervals.step import open_nodes
from keyshift.models.routing.compact import records_of
from keyshift.models.splitting.items import Items

KINDS = ("forbid", "force", "value", "at most", "load", "pair", "row")
SPEAK = ("x", "z", "b", "v")
"""Families of variables that are what their names say."""
MOST = 3000
"""Assignments that are tried, at most."""
Values = dict[str, float]


@dataclass
class Rule:
    """Rows over variables: the names of each with their factors, and its two sides."""

    kind: str
    rows: list[tuple[dict[str, float], float, float]]

    def keeps(self, matrix: np.ndarray, place: dict[str, int]) -> np.ndarray:
        """Which rows of values keep it."""
        kept = np.ones(len(matrix), dtype=bool)
        for terms, low, high in self.rows:
            value = sum(c * matrix[:, place[name]] for name, c in terms.items())
            kept &= (value >= low - 1e-9) & (value <= high + 1e-9)
        return kept


class Spoken:
    """What the variables of one kind of model say of every assignment that keeps the problem's rules.

    Attributes
    ----------
    objective : ndarray
    names : list of str
    matrix : ndarray, shape (assignments, names)
    groups : list of (name, node or None, load)
        What a rule speaks of: where it stands, and what load one unit of it is.
    """

    def __init__(self, problem: ks.Problem, kind: str) -> None:
        self.problem, self.kind = problem, kind
        self.model_names = set(ks.model(problem, kind).names())
        objective, rows = [], []
        for assignment, value in feasible(problem):
            for values in self.values(assignment):
                objective.append(value)
                rows.append(values)
        self.objective = np.array(objective)
        self.names = sorted(name for name in self.model_names if name.partition("[")[0] in SPEAK and "[" in name)
        self.matrix = np.array([[row.get(name, 0.0) for name in self.names] for row in rows]).reshape(
            len(rows), len(self.names)
        )
        self.place = {name: j for j, name in enumerate(self.names)}
        self.groups = self._groups()

    @property
    def each(self) -> bool:
        """Whether every key has variables of its own."""
        return self.kind.endswith("-keys")

    def items(self) -> Items:
        """The items of a stream, like ones in one group."""
        return Items.of(self.problem, self.each)

    def values(self, assignment: np.ndarray):
        """Each way in which the variables can say this assignment."""
        problem, kind = self.problem, self.kind
        if isinstance(problem, ks.KeySplitting):
            items, letter = self.items(), "k" if self.each else "g"
            share = items.share(assignment)
            yield {
                f"x[{letter}{g},n{items.options[g, at]}]": share[g, at]
                for g, at in np.argwhere(items.options >= 0).tolist()
            }
        elif isinstance(problem, ks.IntervalMigration | ks.MigrationSequence):
            yield interval_values(problem, np.atleast_2d(assignment), contiguous=kind != "cp-sat-free")
        elif isinstance(problem, ks.MixedRouting):
            yield self._routed(assignment)
        elif isinstance(problem, ks.ReplicatedAllocation):
            count = assignment.sum(axis=1)
            made = {f"z[k{k},c{c}]": 1.0 for k, c in enumerate(count.tolist())}
            yield made | {f"x[k{k},c{count[k]},n{i}]": 1.0 for k, i in np.argwhere(assignment).tolist()}
        else:
            made = {f"x[k{k},n{i}]": 1.0 for k, i in enumerate(assignment.tolist())}
            if isinstance(problem, ks.CollocatedAllocation):
                ends = zip(*problem.ends(assignment), strict=True)
                made |= {f"z[e{e},n{i}]": 1.0 for e, (i, j) in enumerate(ends) if i == j}
            if not isinstance(problem, ks.MovementWithinLimits):
                yield made
                return
            used = set(assignment.tolist())
            spare = [i for i in range(problem.places) if problem.open_nodes[i] and i not in used]
            more = problem.nodes_after - len(used)
            if problem.lower > 0:  # a node in use runs something
                assert more == 0
            for idle in itertools.combinations(spare, more):
                yield made | {f"z[n{i}]": 1.0 for i in (*used, *idle)}

    def _routed(self, assignment: np.ndarray) -> Values:
        w = self.problem.workload
        made: Values = {}
        if self.each:
            return {f"x[k{k},n{i}]": 1.0 for k, i in enumerate(assignment.tolist())}
        for r, members in enumerate(np.split(*_members(records_of(self.problem)))):
            for k in members.tolist():
                name = f"x[r{r},n{assignment[k]}]"
                made[name] = made.get(name, 0.0) + 1
        assert w.key_groups == sum(made.values())
        return made

    def _groups(self) -> list[tuple[str, int | None, float]]:
        made = []
        for name in self.names:
            family, _, inside = name.partition("[")
            parts = inside.rstrip("]").split(",")
            node = next((int(q[1:]) for q in parts if q[0] == "n" and q[1:].isdigit()), None) if family == "x" else None
            made.append((name, node, self._load(family, parts)))
        return made

    def _load(self, family: str, parts: list[str]) -> float:
        problem = self.problem
        if family != "x":
            return 0.0
        number = int(next(q for q in parts if q[0] in "kgr")[1:])
        if isinstance(problem, ks.KeySplitting):
            return float(self.items().weight[number])
        if isinstance(problem, ks.MixedRouting) and not self.each:
            return float(records_of(problem).load[number])
        return float(problem.workload.last_load[number])

    def draw(self, rng: np.random.Generator) -> Rule | None:
        """A rule at random; None where the one drawn would say nothing."""
        kind = str(rng.choice(KINDS))
        name, _, _ = self.groups[rng.integers(len(self.groups))]
        seen = self.matrix[:, self.place[name]] if len(self.matrix) else np.array([0.0, 1.0])
        if kind == "forbid":
            return Rule(kind, [({name: 1.0}, 0.0, 0.0)])
        if kind in ("force", "value"):
            value = float(seen.max(initial=1.0)) if kind == "force" else float(rng.choice(np.unique(seen)))
            return Rule(kind, [({name: 1.0}, value, value)])
        if kind in ("at most", "load"):
            return self._on_node(rng, kind)
        if kind == "pair":
            return self._pair(rng)
        chosen = rng.choice(len(self.groups), min(len(self.groups), int(rng.integers(2, 6))), replace=False).tolist()
        terms = {self.groups[g][0]: f for g in chosen if (f := float(rng.integers(-3, 4)))}
        return self._limited(rng, kind, terms)

    def _on_node(self, rng: np.random.Generator, kind: str) -> Rule | None:
        nodes = sorted({node for _, node, _ in self.groups if node is not None})
        if not nodes:
            return None
        node = nodes[rng.integers(len(nodes))]
        terms = {name: load if kind == "load" else 1.0 for name, at, load in self.groups if at == node}
        return self._limited(rng, kind, {name: c for name, c in terms.items() if c > 0})

    def _limited(self, rng: np.random.Generator, kind: str, terms: dict[str, float]) -> Rule | None:
        """At most what some assignment has, or just less than some has."""
        if not terms or not len(self.matrix):
            return None
        value = np.unique(sum(c * self.matrix[:, self.place[name]] for name, c in terms.items()))
        at = int(rng.integers(len(value)))
        gap = np.diff(value, append=value[-1] + max(1.0, abs(value[-1]))) > 1e-5 * max(1.0, abs(value).max())
        if not gap[at]:
            return None
        above = value[at + 1] if at + 1 < len(value) else value[at] + 1
        return Rule(kind, [(terms, -np.inf, float(value[at] + above) / 2)])

    def _pair(self, rng: np.random.Generator) -> Rule | None:
        """Two things together or apart, on every node that both may be on."""
        by_thing: dict[str, dict[int, str]] = {}
        for name, node, _ in self.groups:
            if node is not None:
                parts = name[2:-1].split(",")
                by_thing.setdefault(",".join(q for q in parts if q != f"n{node}"), {})[node] = name
        if len(by_thing) < 2:
            return None
        one, other = (by_thing[t] for t in rng.choice(sorted(by_thing), 2, replace=False).tolist())
        together, both = rng.random() < 0.5, sorted({*one, *other})
        rows = []
        for i in both:
            here = [at[i] for at in (one, other) if i in at]
            if together:
                rows.append(({here[0]: 1.0, here[-1]: -1.0} if len(here) == 2 else {here[0]: 1.0}, 0.0, 0.0))
            elif len(here) == 2:
                rows.append((dict.fromkeys(here, 1.0), -np.inf, 1.0))
        return Rule("together" if together else "apart", rows) if rows else None

    def best(self, rule: Rule) -> float | None:
        """The least objective of assignments that keep a rule; None where none does."""
        kept = rule.keeps(self.matrix.astype(float), self.place)
        return float(self.objective[kept].min()) if kept.any() else None

    def keeps(self, assignment: np.ndarray, rule: Rule) -> bool:
        """Whether an assignment keeps a rule, by some values."""
        rows = [[v.get(name, 0.0) for name in self.names] for v in self.values(assignment)]
        return bool(rule.keeps(np.array(rows, dtype=float), self.place).any())


def interval_values(problem: ks.Problem, rows: np.ndarray, contiguous: bool = True) -> Values:
    """x, b and v of an assignment after each step."""
    made: Values = {}
    before = problem.workload.current
    for t, row in enumerate(rows):
        for k, i in enumerate(row.tolist()):
            made[f"x[t{t},n{i},k{k}]"] = 1.0
            if contiguous and (k == 0 or row[k - 1] != i):
                made[f"b[t{t},n{i},k{k}]"] = 1.0
            elif not contiguous:
                made[f"b[t{t},n{i},k0]"] = 1.0
            if i != before[k]:
                made[f"v[t{t},k{k}]"] = 1.0
        before = row
    return made


def _members(keys) -> tuple[np.ndarray, np.ndarray]:
    return keys.members, np.cumsum(keys.count)[:-1]


def feasible(problem: ks.Problem):
    """Every assignment that keeps the problem's rules, with its objective; without z, b and the like."""
    if isinstance(problem, ks.IntervalMigration):
        pool = contiguous(problem)
    elif isinstance(problem, ks.MigrationSequence):
        pool = itertools.product(*[list(contiguous(problem))] * len(problem.counts))
    else:
        pool = candidates(problem)
    for candidate in pool:
        assignment = problem.canonical(np.array(candidate))
        if not problem.violations(assignment):
            yield assignment, problem.objective(assignment)


def contiguous(problem: ks.Problem):
    """Every assignment of tasks to open nodes in which each node has one interval."""
    m = problem.workload.key_groups
    nodes = open_nodes(problem)
    for parts in range(1, min(m, len(nodes)) + 1):
        for inner in itertools.combinations(range(1, m), parts - 1):
            for chosen in itertools.permutations(nodes, parts):
                yield tuple(np.repeat(chosen, np.diff([0, *inner, m])).tolist())


def size(problem: ks.Problem) -> int:
    """How many assignments `feasible` tries."""
    if isinstance(problem, ks.KeySplitting):
        return problem.workers**problem.stream.messages
    if isinstance(problem, ks.IntervalMigration | ks.MigrationSequence):
        one = sum(1 for _ in contiguous(problem))
        return one ** (len(problem.counts) if isinstance(problem, ks.MigrationSequence) else 1)
    return problem.places**problem.workload.key_groups


def drawn(module, rng: np.random.Generator) -> ks.Problem:
    """A tiny instance that has a model, some over several windows."""
    while True:
        problem = module.random_problem(rng, int(rng.integers(3, 6)), int(rng.integers(2, 4)))
        over = isinstance(problem, ks.KeyGroupAllocation | ks.CollocatedAllocation)
        if over and rng.random() < 0.25:
            loads = over_windows.loads_near(rng, problem)
            problem = over_windows.windows_of(rng, problem, loads, **over_windows.rule(rng, len(loads)))
        if isinstance(problem, ks.MCLB) and rng.random() < 0.5:
            problem = ks.MCLB(problem.workload)  # no limit: its nodes are alike
        if isinstance(problem, ks.MigrationPolicy):
            if not problem.conflicts():
                return problem
        elif not problem.conflicts() and size(problem) <= MOST:
            return problem


def add(model: ks.modelling.Model, rule: Rule) -> None:
    """Put a rule into the native model, by its own means."""
    native = model.native
    if model.about.language == "pyomo":
        known = {model.name_of(v): v for v in native.component_data_objects(pyo.Var)}
    elif model.about.language == "cp-sat":
        known = {v.name: native.get_int_var_from_proto_index(j) for j, v in enumerate(native.proto.variables)}
    else:
        known = {v.name: v for v in native.variables()}
    if model.about.language == "pyomo":
        native.mine = pyo.ConstraintList()
    for terms, low, high in rule.rows:
        if model.about.language == "cp-sat" and any(c != int(c) for c in terms.values()):
            largest = max(abs(c) for c in terms.values())  # in whole numbers, rounded far below the gaps that are drawn
            terms = {name: round(c / largest * 10**9) for name, c in terms.items()}
            low, high = (side if np.isinf(side) else round(side / largest * 10**9) for side in (low, high))
        whole = model.about.language == "cp-sat"
        said = sum((int(c) if whole else c) * known[name] for name, c in terms.items())
        row = said == (int(low) if whole else low) if low == high else said <= (int(np.floor(high)) if whole else high)
        if model.about.language == "pyomo":
            native.mine.add(row)
        elif model.about.language == "cp-sat":
            native.add(row)
        else:
            native.add_linear_constraint(row)


def judge(problem: ks.Problem, entry, rule: Rule, best: float | None, keeps) -> str:
    """Solve a model with a rule more, and hold it against the truth; says what became of it."""
    model = ks.model(problem, entry.kind)
    add(model, rule)
    solution = model.solve(time_limit=60)
    said = (problem, problem.arguments(), entry.kind, rule, solution, best)
    assert solution.bound is None, said
    close = max(problem.tolerance, 0.0 if best is None else problem.tolerance_of(best))
    bound = solution.details.get("bound_with_additions")
    if best is None:
        assert solution.assignment is None or not entry.exact, said
        return "none"
    assert "infeasible" not in solution.message, said
    assert bound is None or bound <= best + close, said
    if not entry.exact:
        assert bound is not None, said
        return "bounded"
    if solution.assignment is None:
        assert entry.kind.endswith("-occupation"), said
        assert bound is not None, said
        return "mixture"
    assert keeps(solution.assignment), said
    assert abs(solution.objective - best) <= close, said
    return "answered"


class Decisions:
    """Rules about the decisions of a policy - some are never taken -, tried by value iteration without them."""

    def __init__(self, problem: ks.MigrationPolicy) -> None:
        self.problem, self.chain = problem, PolicyChain(problem)
        self.branches = {
            (name_of(r), after): (r, chance, np.array(cost)) for (r, after), chance, cost in self.chain.branches()
        }

    def draw(self, rng: np.random.Generator) -> Rule:
        """One to three decisions that are never taken."""
        known = [
            f"u[{r},n{after},p{j}]" for (r, after), (_, _, cost) in self.branches.items() for j in range(len(cost))
        ]
        now = [name for name in known if name.startswith("u[now")]
        pool = now if rng.random() < 0.6 else known
        chosen = rng.choice(pool, min(len(pool), int(rng.integers(1, 4))), replace=False).tolist()
        return Rule("forbid", [(dict.fromkeys(chosen, 1.0), 0.0, 0.0)])

    def best(self, rule: Rule) -> float | None:
        """The least expected cost, by rounds of (1) until nothing moves."""
        never, discount = set(rule.rows[0][0]), self.problem.discount
        value = {name_of(state): 0.0 for state in self.chain.states}
        for _ in range(2000):
            new = dict.fromkeys(value, 0.0)
            for (r, after), (_, chance, cost) in self.branches.items():
                ways = [
                    c
                    + (
                        discount * value[name_of((after, j))] if discount else 0.0
                    )  # what is never reached may be infinite
                    for j, c in enumerate(cost.tolist())
                    if f"u[{r},n{after},p{j}]" not in never
                ]
                new[r] += chance * min(ways, default=np.inf)
            still = max((abs(new[r] - value[r]) for r in value if np.isfinite(new[r])), default=0.0)
            same = all(np.isfinite(new[r]) == np.isfinite(value[r]) for r in value)
            value = new
            if still < 1e-13 and same:
                break
        found = value["now"] * self.problem.scale
        return found if np.isfinite(found) else None
