"""`tooltap run`: an agent's output goes where it would go anyway, and to the daemon."""

from __future__ import annotations

from tooltap.cli.common.tapping import agent_command

__all__ = ["command"]

command = agent_command(
    "run",
    """Run an agent, pass its output through untouched, and tap it.

    Standard input, standard error and signals are the agent's, and its exit code is that of this command: 128 + the
    signal if one killed it, 127 if it cannot be started. Without a daemon it runs all the same, and the next one gets
    what it printed.
    """,
    both_ways=False,
    examples=(
        "tooltap run -- claude -p 'List the files' --output-format stream-json --verbose",
        "tooltap run -- codex exec --json 'List the files' | jq .type",
        "tooltap run --provider my-agent --dialect claude-stream -- my-agent --stream",
    ),
)
