"""Mixed routing: a hash plus a bounded table of exceptions [Fang2016].

Begin with problem.py; table.py is what an engine loads, compact.py makes a million keys few.
"""

from keyshift.models.routing.problem import MixedRouting
from keyshift.models.routing.table import RoutingTable

__all__ = ["MixedRouting", "RoutingTable"]
