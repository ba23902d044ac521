"""The house rules of docs/design.md that a machine can hold: floors, circles, packages' sentences, sizes, a light import."""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import networkx as nx
import pytest

import keyshift as ks

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "models": {"models"},
    "solvers": {"models", "solvers"},
    "heuristics": {"models", "solvers", "heuristics"},
    "spark_stats": {"models", "spark_stats"},
}
FOLDERS = (*MAY_IMPORT, "interface", "benchmarks/papers")
BY_NAME = ("keyshift.heuristics", "keyshift.solvers")
"""Methods are imported from these by their own names, which the catalogue has."""
CHECKER = "interface/certificates/verify.py"
"""One file on purpose, since it is to be read, and trusted, as a whole; tests/interface/test_certificates.py holds its length."""
MOST_LINES, MOST_FUNCTION_LINES, MOST_KERNEL_ARGUMENTS = 500, 60, 12
HEAVY = ("pyomo", "ortools", "pyspark", "numba", "matplotlib", "scipy", "pandas", "networkx", "pyarrow", "pydantic")


@pytest.fixture(scope="module", autouse=True)
def forget_trees():
    """They take 150 MB, and other tests of this process come after; looking for garbage among them took longer than reading them."""
    gc.disable()
    yield
    gc.enable()
    tree_of.cache_clear()
    nodes_of.cache_clear()


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree_of(path)))


def sources(*folders: str) -> list[Path]:
    """Ours; a benchmark may have an environment of its own, in a folder whose name begins with a dot."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if not any(part[0] == "." for part in path.relative_to(ROOT).parts))


def module_of(path: Path) -> str:
    """The name a file is imported by: `interface/` is the package itself, and the papers' experiments are `keyshift.papers`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] in ("interface", "benchmarks") else parts
    return ".".join(("keyshift", *(part for part in parts if part != "__init__")))


def imported_modules(path: Path, types: bool = False):
    """Every module that a file names in an import, inside functions too; what only type checkers read if asked for."""
    for_types = (
        set()
        if types
        else {
            id(node)
            for block in nodes_of(path)
            if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
            for node in ast.walk(block)
        }
    )
    for node in nodes_of(path):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)  # may name a module


def functions(path: Path):
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            compiled = any("njit" in ast.unparse(decorator) for decorator in node.decorator_list)
            yield f"{path.relative_to(ROOT)}:{node.name}", node, compiled


def beyond(sizes, limit):
    """What is larger than the limit."""
    return {name: size for name, size in sizes if size > limit}


@pytest.mark.parametrize("floor", MAY_IMPORT)
def test_imports_only_go_down(floor):
    files = sorted((ROOT / floor).rglob("*.py"))
    assert files
    for path in files:
        for module in imported_modules(path):
            head, *rest = module.split(".")
            assert head not in {*MAY_IMPORT, "interface"}, f"{path} imports {module} by its bare name"
            if head == "keyshift":
                assert rest, f"{path} imports the front door"
                assert rest[0] in MAY_IMPORT[floor], f"{path} imports {module}, which is on a higher floor"


def test_no_import_goes_in_a_circle():
    files = {module_of(path): path for path in sources(*FOLDERS)}
    graph = nx.DiGraph(
        (module, used) for module, path in files.items() for used in imported_modules(path, types=True) if used in files
    )
    # `from package import module` names the package too: it only finds the module there.
    packages = {module for module, path in files.items() if path.name == "__init__.py"}
    graph.remove_edges_from([(a, b) for a, b in graph.edges if b in packages and a.startswith(f"{b}.")])
    assert [sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


@functools.cache
def names_in(path: Path) -> set[str]:
    """What can be imported from a file: what it defines, assigns, imports, or names in a table of lazy names."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_every_imported_name_exists():
    # an import inside a function fails only when the function runs
    files = {module_of(path): path for path in sources(*FOLDERS)}
    missing = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.module}.{alias.name}"
        for path in sources(*FOLDERS, "tests", "benchmarks")
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and node.module in files
        for alias in node.names
        if alias.name not in names_in(files[node.module]) and f"{node.module}.{alias.name}" not in files
        if node.module not in BY_NAME or not hasattr(importlib.import_module(node.module), alias.name)
    ]
    assert missing == []


def test_private_names_stay_in_their_folder():
    for path in sources(*FOLDERS):
        for node in nodes_of(path):
            if not isinstance(node, ast.ImportFrom) or not node.module.startswith("keyshift"):
                continue
            folder = module_of(path.parent / "__init__.py")
            near = node.module == folder or node.module.rpartition(".")[0] == folder
            private = [a.name for a in node.names if a.name.startswith("_") and not a.name.startswith("__")]
            assert near or not private, f"{path}:{node.lineno} imports {private} from {node.module}"


POSE_ONE = ("interface/commands/solve.py", "interface/engines/flink.py", "solvers/rehearsals.py", "spark_stats/keys.py")
"""They make a problem of their own choice, and ask none which one it is."""
POSERS = ("interface/catalogue/", "interface/files/problem.py", "interface/generators/")
"""The list of formulations, what a file can ask for, and the instances one can draw."""
STILL_BY_TYPE = ("interface/certificates/", "interface/modelling/")


def test_only_its_own_rooms_name_a_formulation():
    from keyshift.catalogue import FORMULATIONS

    problems = {formulation.problem_class.__name__ for formulation in FORMULATIONS.values()}
    rooms = {path.name for path in (ROOT / "models").iterdir() if (path / "problem.py").exists()} | {"intervals"}
    own = ("models/", "benchmarks/papers/", *POSERS, "interface/__init__.py", *POSE_ONE, *STILL_BY_TYPE)
    own += tuple(f"{floor}/{room}/" for floor in ("solvers", "heuristics") for room in rooms)
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources(*FOLDERS)
        if not str(path.relative_to(ROOT)).startswith(own)
        for node in nodes_of(path)
        if getattr(node, "id", getattr(node, "attr", getattr(node, "name", ""))) in problems
    }
    assert found == set()


def test_every_class_has_a_name_of_its_own():
    named = defaultdict(list)
    for path in sources(*FOLDERS):
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                named[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in named.items() if len(paths) > 1} == {}


def test_no_module_stands_where_a_public_name_does():
    # importing `keyshift.solve` would put the module in the place of the function `ks.solve`
    rooms = {path.stem for path in (ROOT / "interface").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert rooms & set(ks.__all__) == set()


def test_every_room_has_a_sentence_at_its_door():
    for path in sources(*FOLDERS):
        if path.name == "__init__.py":
            said = ast.get_docstring(tree_of(path)) or ""
            assert len(said) >= 40, f"{path} does not say what is in the room"
            assert re.search(r"(?i)\bbegin (with|in)\b", said), f"{path} does not say where to begin"
            for name in re.findall(r"(?<![*\w/])\w+\.py\b", said):
                assert list(path.parent.rglob(name)), f"{path} names {name}, which is not there"


def test_files_are_short():
    sizes = [
        (str(path.relative_to(ROOT)), len(path.read_text().splitlines()))
        for path in sources(*FOLDERS, "tests", "benchmarks")
        if str(path.relative_to(ROOT)) != CHECKER
    ]
    assert beyond(sizes, MOST_LINES) == {}


def test_functions_fit_a_screen():
    sizes = []
    for path in sources(*FOLDERS, "benchmarks"):
        for name, node, compiled in functions(path):
            first = node.body[0]
            docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0
            if not compiled:
                sizes.append((name, node.end_lineno - node.lineno + 1 - docstring))
    assert beyond(sizes, MOST_FUNCTION_LINES) == {}


def test_kernels_take_a_dozen_arguments():
    sizes = [
        (name, len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs))
        for path in sources(*FOLDERS)
        for name, node, compiled in functions(path)
        if compiled
    ]
    assert beyond(sizes, MOST_KERNEL_ARGUMENTS) == {}


def test_there_is_no_folder_that_shadows_the_package():
    assert not (ROOT / "keyshift").exists()


@pytest.mark.parametrize("command", ["import keyshift", "from keyshift.cli import main; main(['--help'])"])
def test_the_front_door_is_light(command):
    code = f"{command}; import sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "order", ["import highspy, ortools.sat.python.cp_model", "import ortools.sat.python.cp_model, highspy"]
)
def test_highs_and_ortools_share_a_process(order):
    # highspy 1.15 and ortools 9.15 cannot: both ship libhighs.so.1. The pin in pyproject.toml keeps this true.
    solve_both = "h = highspy.Highs(); h.setOptionValue('output_flag', False); h.run(); from ortools.sat.python import cp_model; cp_model.CpSolver().solve(cp_model.CpModel())"
    subprocess.run([sys.executable, "-c", f"{order}; {solve_both}"], check=True, capture_output=True)


def test_every_public_name_loads():
    for name in ks.__all__:
        assert getattr(ks, name) is not None
    assert set(ks._LAZY) < set(ks.__all__)
    assert set(ks.__all__) <= set(dir(ks))
    with pytest.raises(AttributeError, match="no attribute 'rebalance'"):
        ks.rebalance  # noqa: B018


def test_every_subpackage_is_installed():
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {"keyshift"} | {
        "keyshift."
        + ".".join(init.parent.relative_to(ROOT).parts).removeprefix("interface.").removeprefix("benchmarks.")
        for floor in FOLDERS
        for init in (ROOT / floor).rglob("__init__.py")
        if init.parent != ROOT / "interface"
    }
    assert listed == found


def test_a_call_on_the_shell_loads_no_reader_of_fortran_before_it_is_used():
    lines = """
import sys
from keyshift.cli import LateFortran
sys.meta_path.insert(0, LateFortran)
import numpy, scipy.sparse
assert "numpy.f2py.crackfortran" not in sys.modules
assert numpy.f2py.get_include()
assert "numpy.f2py.crackfortran" in sys.modules
"""
    subprocess.run([sys.executable, "-c", lines], check=True)


def test_pyomo_comes_through_one_door():
    """Else a process loads all of SciPy and Matplotlib with it; what is imported within a function comes later than the door."""
    assert {
        str(path.relative_to(ROOT))
        for path in sources(*FOLDERS)
        for node in tree_of(path).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(name.split(".")[0] == "pyomo" for name in [getattr(node, "module", None) or node.names[0].name])
    } <= {"models/base/pyomo.py"}
    lines = """
import sys
import keyshift as ks, scipy.sparse
problem = ks.KeyGroupAllocation(ks.Workload(load=[3, 2, 2], state=[1, 1, 1], current=[0, 0, 0], nodes=2))
assert ks.solve(problem, "highs").status == "optimal"
assert "pyomo.environ" in sys.modules and "scipy.stats" not in sys.modules
assert sys.modules["scipy"] is scipy
"""
    subprocess.run([sys.executable, "-c", lines], check=True)


def test_every_room_says_on_the_page_of_the_house_what_it_buys(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    house = importlib.import_module("house")
    with_code = {room for room, lines in house.rooms().items() if lines}
    assert set(house.words_of(house.PAGE.read_text())) - {"all"} == with_code


def test_every_part_of_the_ablation_can_be_found_and_left_out(monkeypatch):
    """What moves, moves there too: else a table that says what each part is worth ends in the middle."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    ablation = importlib.import_module("ablation")
    parts = [part for made in vars(ablation).values() if isinstance(made, list) for part in made]
    assert len(parts) > 50
    for part in parts:
        assert all(ablation.lines_of(path) > 0 for path in part.code), part.name
        with part.off():
            pass


def test_every_mutation_still_finds_its_line(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    mutations = importlib.import_module("mutations")
    for each in mutations.MUTATIONS:
        assert (ROOT / each.file).read_text().count(each.old) == 1, each
