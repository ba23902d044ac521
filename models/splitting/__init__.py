"""Problems and declarative models of key splitting (paper 3)."""

from keyshift.models.splitting.histogram import Histogram
from keyshift.models.splitting.problem import KeyPlacement, KeySplitting
from keyshift.models.splitting.stream import Stream

__all__ = ["Histogram", "KeyPlacement", "KeySplitting", "Stream"]
