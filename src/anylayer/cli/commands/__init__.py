"""The subcommands of `anylayer`, one per file. Each file defines `command`."""
