"""The version, alone in a file that the build can read without importing anything."""

__version__ = "0.4.0"
