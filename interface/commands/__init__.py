"""The subcommands of the shell, those that belong together in one module; common.py holds what all share."""
