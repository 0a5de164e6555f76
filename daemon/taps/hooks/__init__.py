"""Hooks of agents: what `tooltap hook` does when an agent runs it (`run.py`), and the settings of the agents that make
them run it."""
