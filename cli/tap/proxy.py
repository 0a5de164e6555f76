"""`tooltap proxy`: what an agent and its client say to each other goes where it would go anyway, and to the daemon."""

from __future__ import annotations

from tooltap.cli.common.tapping import agent_command

__all__ = ["command"]

command = agent_command(
    "proxy",
    """Run an agent that speaks ACP or MCP, pass both directions through untouched, and tap them.

    Make it the command your editor, or your MCP client, starts the agent with. Otherwise it is as `run`: standard
    error, signals and exit code are the agent's, and without a daemon it runs all the same.
    """,
    both_ways=True,
    examples=(
        "tooltap proxy -- gemini --acp",
        "tooltap proxy -- codex mcp-server",
        "tooltap proxy --provider my-agent -- my-acp-agent",
    ),
)
