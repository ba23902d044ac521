"""Mixed routing: a hash plus a bounded table of exceptions (paper 4)."""

from keyshift.models.routing.problem import MixedRouting
from keyshift.models.routing.table import RoutingTable

__all__ = ["MixedRouting", "RoutingTable"]
