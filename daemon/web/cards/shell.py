"""A command and what it printed; and the tools that look after a command that runs on.

The exit code stands in the card's header.
"""

from __future__ import annotations

from markupsafe import Markup

from tooltap.daemon.web.html.look import Look, excerpt
from tooltap.daemon.web.html.markup import template
from tooltap.daemon.web.html.screen import settled
from tooltap.protocol.file_tools import BashInput, BashResult
from tooltap.protocol.payloads import ToolInput

__all__ = ["FollowerInput", "FollowerResult", "follower_input", "shell_input", "shell_output"]


class FollowerInput(ToolInput):
    """Of `BashOutput` and `KillShell` (Claude Code, Copilot) and `write_stdin` (Codex)."""

    bash_id: str | None = None
    shell_id: str | None = None
    session_id: int | str | None = None
    chars: str | None = None
    """What is typed in; nothing where the output is all that is wanted."""


class FollowerResult(BashResult):
    status: str | None = None
    """Of the command: running, completed, failed, killed."""
    message: str | None = None
    command: str | None = None


def shell_input(asked: BashInput, look: Look) -> Markup:
    facts = [("in", asked.cwd), ("timeout", asked.timeout), ("background", "yes" if asked.run_in_background else None)]
    return template(
        "shell_input.html",
        description=asked.description,
        command=excerpt(asked.command, look, "/input/command") if asked.command else None,
        facts=[(name, str(value)) for name, value in facts if value is not None],
    )


def follower_input(asked: FollowerInput, look: Look) -> Markup:
    shell = next((one for one in (asked.bash_id, asked.shell_id, asked.session_id) if one is not None), None)
    return template(
        "shell_input.html",
        description=None,
        command=excerpt(asked.chars, look, "/input/chars") if asked.chars else None,
        facts=[] if shell is None else [("shell", str(shell))],
    )


def shell_output(result: BashResult, look: Look) -> Markup:
    printed = [
        (name, excerpt(settled(value), look, f"/output/{name}"))
        for name in ("message", "stdout", "stderr")
        if (value := getattr(result, name, None))
    ]
    facts = [("status", status)] if (status := getattr(result, "status", None)) else []
    if not printed and not facts and not result.interrupted:
        return Markup()
    return template("shell_output.html", result=result, printed=printed, facts=facts)
