"""Sessions in the SQLite file: lists of them, and making their rows again."""
