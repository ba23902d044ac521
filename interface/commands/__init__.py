"""The subcommands of the shell, those that belong together in one module; begin with common.py, what all share."""
