"""keyshift verify: does a certificate prove what it claims?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from keyshift.commands import common


def verify(file: Annotated[Path, typer.Argument(help="A certificate.")], as_json: common.JsonOption = False) -> None:
    """Check a certificate: one sentence says what is proven, or what is wrong. Exit code 0: proven; 1: not.

    The same program stands alone, for those who do not trust keyshift: python -I -S verify.py FILE, with the standard
    library and no package. `python -c "import keyshift.certificates.verify as v; print(v.__file__)"` says where it is.
    """
    from keyshift.certificates.verify import check_file
    from keyshift.models.files.reading import MOST_JSON, expect_holdable, read_bytes

    expect_holdable(read_bytes(file, MOST_JSON).decode("latin-1"), str(file))
    proven, said = check_file(str(file))
    if as_json:
        print(json.dumps({"proven": proven, "message": said}))  # noqa: T201  # the shell's output
    else:
        common.console().print(said, soft_wrap=True)
    raise typer.Exit(0 if proven else 1)
