"""The dialects and agents there are: how folders describe them, how a line is recognised. Knows `core` by type."""
