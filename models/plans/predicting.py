"""A plan's predictions and measurements side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from keyshift.models.plans.plan import Plan


def compare_measured(plan: Plan, measured: Mapping[str, Any]) -> pd.DataFrame:
    """Compare a plan's predictions with what was measured when it was carried out.

    Parameters
    ----------
    plan : Plan
    measured : mapping
        By the names of `Plan.predict`: ``load``, ``peak_load``, ``sent`` and ``received`` of each node, shape (n,) or by the
        node's name; ``moves``, ``state_moved`` and ``seconds`` of the whole plan. In the workload's units; what was not
        measured is left out.

    Returns
    -------
    DataFrame
        A row for each figure and node: predicted, measured, difference, and the difference in percent of what was predicted.

    Raises
    ------
    InputError
        If a name is none of these, or figures do not fit the nodes.
    """
    import pandas as pd

    table, parts = plan.predict(), []
    known = dict.fromkeys(table.index.get_level_values("figure"))
    for name, values in measured.items():
        if name not in known:
            raise InputError(f"measured names {name!r:.60}; a plan predicts {', '.join(known)}")
        part = table.xs(name, level="figure", drop_level=False)
        nodes = part.index.get_level_values("node")
        if isinstance(values, Mapping):
            if unknown := [node for node in values if node not in nodes]:
                raise InputError(f"measured[{name!r}] names {unknown[0]!r:.60}, which is not a node of the plan")
            values, part = [values[node] for node in nodes if node in values], part[nodes.isin(list(values))]
        found = np.atleast_1d(np.asarray(values, dtype=float))
        if found.shape != (len(part),):
            raise InputError(
                f"measured[{name!r}] has shape {found.shape}; the plan has {len(part)} figures of that name"
            )
        parts.append(part.assign(measured=found))
    if not parts:
        raise InputError("nothing was measured")
    made = pd.concat(parts)
    made["difference"] = made["measured"] - made["predicted"]
    made["percent"] = 100.0 * made["difference"] / made["predicted"].where(made["predicted"] != 0)
    return made
