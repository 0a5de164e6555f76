"""`tooltap proxy`: what an agent and its client say to each other goes where it would go anyway, and to the daemon."""

from __future__ import annotations

from tooltap.cli.tapping import agent_command

__all__ = ["command"]

command = agent_command(
    "proxy",
    """Run an agent that is spoken to over standard input, pass everything through untouched, and tap both directions.

    For agents that speak ACP or MCP: make it the command your editor starts the agent with. Otherwise it is as `run`.
    """,
    both_ways=True,
)
