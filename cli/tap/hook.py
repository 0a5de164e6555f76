"""`tooltap hook`: what an agent runs as its hook. Without options, `main.py` calls `run_hook` at once."""

from __future__ import annotations

import click

from tooltap.cli.common.commands import Command


@click.command("hook", cls=Command, examples=("tooltap hook claude", "tooltap hook copilot agentStop"))
@click.argument("agent", default="claude")
@click.argument("event", default="")
def command(agent: str, event: str) -> int:
    """Ask you what an agent asks: the agent runs this as its hook.

    `tooltap hooks install` writes it into the settings of your agents. It reads the hook's JSON on standard input. If
    the agent asks for a permission, or a question, the daemon shows it; where the agent's own dialog stays usable
    meanwhile (Claude Code), or while you are away (`tooltap away`), it waits for an answer and prints it. The first
    answer counts. Without a daemon, after an error and without an answer it prints nothing, which decides nothing, and
    its exit code is 0.

    EVENT is the name of the hook, for agents that do not state it in their JSON.
    """
    from tooltap.daemon.taps.hooks.run import run_hook

    return run_hook(agent, event)
