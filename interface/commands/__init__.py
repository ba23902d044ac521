"""The subcommands of the shell, one module each."""
