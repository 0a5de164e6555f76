"""Baselines of agents' lines, and what deviates from them. Knows `fixtures` (for its keys) and `recording`."""
