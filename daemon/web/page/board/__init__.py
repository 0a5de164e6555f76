"""The board: a column for each agent that works now."""
