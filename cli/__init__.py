"""The `tooltap` command: one module per subcommand, the terminal renderer, and nothing that others could use."""
