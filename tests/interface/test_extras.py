"""What an extra brings is missing: everything else works, and one sentence says which extra it is."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from keyshift.models.splitting import stream

WITHOUT = textwrap.dedent("""
    import sys

    class Missing:
        @staticmethod
        def find_spec(fullname, path=None, target=None):
            if fullname.split(".")[0] in ("matplotlib", "pyarrow", "pyspark", "redis"):
                raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

    sys.meta_path.insert(0, Missing)
    import keyshift as ks
    from keyshift import cli

    w = ks.Workload(load=[3, 2, 2], state=[1, 1, 1], current=[0, 0, 1], nodes=2)
    ks.write_workload(w, "w.json")
    problem = ks.KeyGroupAllocation(w)
    solution = ks.solve(problem)
    assert solution.status == "optimal"
    ks.plan(problem, solution).report("plan.html")
    assert ks.certify(solution, "c.json").complete
    assert ks.solve(ks.KeySplitting(["ann", "bob", "ann", "cé"], workers=2)).objective == 2

    def refused(call):
        try:
            call()
        except ks.models.MissingDependencyError as error:
            print(error)

    refused(ks.compare(problem, "flux").plot)
    refused(lambda: ks.write_workload(w, "folder"))
    refused(lambda: ks.KeySplitting("keys.parquet", workers=2))
    refused(lambda: ks.replay([w, w], "flux", problem="key-group-allocation", checkpoint="replayed"))
    for line in ("verify c.json", "compare w.json -m flux --plot p.png", "import kafka --log-dirs none --out w",
                 "reproduce --list nasir2015"):
        print(cli.main(line.split()))
""")


def test_answering_needs_no_extra_and_the_rest_says_which(tmp_path):
    done = subprocess.run([sys.executable, "-c", WITHOUT], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    said = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert "pip install '.[plot]'" in said[0]
    assert all("pip install '.[parquet]'" in line for line in said[1:4])
    assert [line for line in said[4:] if line.isdigit()] == ["0", "2", "2", "0"]
    assert "pip install '.[plot]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "folder").exists()
    assert not (tmp_path / "replayed").exists()


@pytest.mark.parametrize(
    "texts", [["ann", "", "cé", "日本"], [b"a\0", b"", b"\xff"], ["a", b"b"], ["\ud800"], [""], [np.str_("x")]]
)
def test_texts_have_the_same_keys_with_and_without_arrow(texts, monkeypatch):
    array = np.array(texts, dtype=object)
    before = stream._end_to_end(array)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    after = stream._end_to_end(array)
    assert (before is None) == (after is None)
    if before is not None:
        assert before[1].tolist() == after[1].tolist()
        assert before[0].tobytes() == after[0].tobytes()
