"""The subcommands of the shell, one module each; common.py holds what they share. They read, call and print."""
