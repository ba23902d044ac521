"""Rules: what a cluster does not allow, for the parameter `rules` of a problem.

>>> from keyshift.rules import Apart, Count, Pinned
>>> rules = [Pinned([3, 4]), Apart(by="partition", domain="rack"), Count(at_most=4000)]
"""

from __future__ import annotations

from keyshift.models.rules import *  # noqa: F403 - each of them, and one list of them
from keyshift.models.rules import __all__ as __all__
