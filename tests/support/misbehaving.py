"""Problems on which any method misbehaves: its process dies, it never ends, it wants all the memory there is."""

import os
import time
from dataclasses import dataclass

import numpy as np

from keyshift.models.allocation import KeyGroupAllocation


@dataclass(frozen=True, eq=False)
class DyingAllocation(KeyGroupAllocation):
    """Takes the process down, as a fault in compiled code does."""

    def check(self, assignment):
        os._exit(11)


@dataclass(frozen=True, eq=False)
class EndlessAllocation(KeyGroupAllocation):
    """Never comes back."""

    def check(self, assignment):
        while True:
            time.sleep(0.01)


@dataclass(frozen=True, eq=False)
class GreedyAllocation(KeyGroupAllocation):
    """Asks for a hundred GiB, and touches them."""

    def check(self, assignment):
        return np.ones((100, 2**27)).sum()


@dataclass(frozen=True, eq=False)
class RaisingAllocation(KeyGroupAllocation):
    """Raises what no method should."""

    def check(self, assignment):
        raise ZeroDivisionError("of all things")
