"""`tooltap run`: runs an agent and copies its output to the daemon."""

from __future__ import annotations

from tooltap.cli.tap.agent_command import agent_command

command = agent_command(
    "run",
    """Run an agent, pass its output through unchanged, and tap it.

    The agent gets standard input, standard error and signals directly. The exit code is the agent's: 128 + the signal
    number if a signal killed it, 127 if it cannot be started. Without a daemon the agent runs as well; its lines wait
    in a spool for the next daemon. """,
    examples=(
        "tooltap run -- claude -p 'List the files' --output-format stream-json --verbose",
        "tooltap run -- codex exec --json 'List the files' | jq .type",
        "tooltap run --provider my-agent --dialect claude-stream -- my-agent --stream",
    ),
)
