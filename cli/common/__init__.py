"""Parts shared by several commands: options, completers, the connection to the daemon, printing. Knows no command."""

COMPLETION_VARIABLE = "_TOOLTAP_COMPLETE"
"""Environment variable that a shell sets to ask click for completions."""
