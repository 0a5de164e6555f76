"""What several commands share: options, completers, the connection to the daemon, printing. Knows no command."""
