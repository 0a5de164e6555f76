"""What several commands share: options, completers, the connection to the daemon, printing. Knows no command."""

COMPLETION_VARIABLE = "_TOOLTAP_COMPLETE"
"""Variable that a shell sets to ask for completions, by which click recognises it."""
