"""``python -m keyshift`` is the command line."""

from keyshift.cli import script

script()
