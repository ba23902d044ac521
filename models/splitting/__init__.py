"""Key splitting and key placement: a worker for every message of a stream [Nasir2015].

Begin with problem.py; stream.py reads the keys, items.py counts together what is alike.
"""

from keyshift.models.splitting.data import Histogram
from keyshift.models.splitting.problem import KeyPlacement, KeySplitting
from keyshift.models.splitting.stream import Stream

__all__ = ["Histogram", "KeyPlacement", "KeySplitting", "Stream"]
