"""Whatever comes from outside reaches no terminal as more than text."""
