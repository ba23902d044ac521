"""Lines of the shell and statements of SQL, one after the other in one session of Spark: python shell_lines.py SETTINGS LINES.

SETTINGS is a JSON text, LINES a file of JSON: a text is a statement, a list the arguments of `keyshift`. What each line answered -
its exit code, and what it printed - is the last line that this prints, as JSON. A table of Iceberg or Delta that grows between two
lines is what `grow` of `lake_tables` adds to: a mapping of its arguments.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from keyshift.cli import main
from keyshift.spark_stats import local_session


def answers(settings, lines):
    master = settings.pop("spark.master", "local[2]")
    with local_session("tests", master=master, conf=settings) as spark:
        for line in lines:
            if isinstance(line, str):
                spark.sql(line)
            elif isinstance(line, dict):
                from lake_tables import grow

                grow(**line)
            else:
                out, err = io.StringIO(), io.StringIO()
                with redirect_stdout(out), redirect_stderr(err):
                    code = main(line)
                yield code, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    print(json.dumps(list(answers(json.loads(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())))))
