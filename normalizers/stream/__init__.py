"""One stream from its first line to its end, and what is made of its events. Knows every dialect by name alone."""
