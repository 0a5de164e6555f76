"""`tooltap run`: runs an agent and copies its output to the daemon.

The work is done by `agent.py`, which also parses plain command lines without importing this module.
"""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.completion import agent_commands
from tooltap.cli.common.connection import publisher_options, socket_option
from tooltap.cli.common.options import spool_options
from tooltap.cli.tap.agent import AgentStart, run_agent


def agent_command(name: str, description: str, *, examples: tuple[str, ...]) -> Command:
    """Make `run` or `proxy`, which differ in what they tap."""

    @click.command(
        name,
        cls=Command,
        help=description,
        examples=examples,
        context_settings={"allow_interspersed_args": False},
    )
    @click.argument(
        "command",
        nargs=-1,
        required=True,
        type=click.UNPROCESSED,
        metavar="-- COMMAND [ARGUMENT]...",
        shell_complete=agent_commands,
    )
    @click.option("--answers", is_flag=True, help="Let the daemon write to the agent: answers, prompts, interrupts.")
    @publisher_options
    @spool_options
    @socket_option
    @click.pass_context
    def command(
        context: click.Context,
        command: tuple[str, ...],
        answers: bool,
        dialect: str,
        provider: str | None,
        session: str | None,
        mcp_servers: tuple[str, ...],
        spool_bytes: int,
        spool_total_bytes: int,
        socket: Path | None,
    ) -> None:
        limits = (spool_bytes, spool_total_bytes)
        start = AgentStart(name, command, dialect, provider, session, mcp_servers, socket, limits, answers)
        context.exit(run_agent(start))

    return command


command = agent_command(
    "run",
    """Run an agent, pass its output through unchanged, and tap it.

    The agent gets standard input, standard error and signals directly. The command ends as the agent does: with its
    exit code, or by the signal that killed it; with 127 if it cannot be started. Without a daemon the agent runs as
    well; its lines wait in a spool for the next daemon.

    With `--answers`, an agent that takes answers from standard input is tapped and answered as by `proxy
    --answers`. """,
    examples=(
        "tooltap run -- claude -p 'List the files' --output-format stream-json --verbose",
        "tooltap run -- codex exec --json 'List the files' | jq .type",
        "tooltap run --provider my-agent --dialect claude-stream -- my-agent --stream",
    ),
)
