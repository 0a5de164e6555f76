"""`tooltap proxy`: runs an agent and copies its input and output to the daemon."""

from __future__ import annotations

from tooltap.cli.tap.run import agent_command

command = agent_command(
    "proxy",
    """Run an agent that speaks ACP or MCP, pass both directions through unchanged, and tap them.

    Configure your editor or MCP client to start the agent with this command. As with `run`, standard error, signals and
    exit code are the agent's, and no daemon is needed.

    With `--answers`, what is answered through the daemon is written to the agent between the client's lines. The first
    answer counts: a later one of the client does not reach the agent.
    """,
    examples=(
        "tooltap proxy -- gemini --acp",
        "tooltap proxy --answers -- gemini --acp",
        "tooltap proxy -- codex app-server",
        "tooltap proxy --provider my-agent -- my-acp-agent",
    ),
)
