"""A command and its output; and the tools for a command that runs in the background.

The card's header has the exit code.
"""

from __future__ import annotations

from tooltap.daemon.show.ansi import final_screen
from tooltap.daemon.show.blocks import Body, Excerpt, RenderContext, ToolCard, block, excerpt
from tooltap.protocol.payloads import ToolInput
from tooltap.protocol.tools import BashInput, BashResult, ToolTypes


class FollowerInput(ToolInput):
    """The input of `BashOutput` and `KillShell` (Claude Code, Copilot) and of `write_stdin` (Codex)."""

    bash_id: str | None = None
    shell_id: str | None = None
    session_id: int | str | None = None
    chars: str | None = None
    """Text to type; empty where the agent only polls for output."""


class FollowerResult(BashResult):
    status: str | None = None
    """State of the command: running, completed, failed, killed."""
    message: str | None = None
    command: str | None = None


def shell_input(payload: BashInput, context: RenderContext) -> Body:
    facts = [
        ("in", payload.cwd),
        ("timeout", payload.timeout),
        ("background", "yes" if payload.run_in_background else None),
    ]
    command = excerpt(payload.command, context, "/input/command") if payload.command else None
    return _input(payload.description, command, [(name, str(value)) for name, value in facts if value is not None])


def _input(description: str | None, command: Excerpt | None, facts: list[tuple[str, str]]) -> Body:
    if not description and command is None and not facts:
        return ()
    return block("shell_input", description=description, command=command, facts=facts)


def follower_input(payload: FollowerInput, context: RenderContext) -> Body:
    shell = next((one for one in (payload.bash_id, payload.shell_id, payload.session_id) if one is not None), None)
    typed = excerpt(payload.chars, context, "/input/chars") if payload.chars else None
    return _input(None, typed, [] if shell is None else [("shell", str(shell))])


def shell_output(result: BashResult, context: RenderContext) -> Body:
    printed = [
        (name, excerpt(final_screen(value), context, f"/output/{name}"))
        for name in ("message", "stdout", "stderr")
        if (value := getattr(result, name, None))
    ]
    facts = [("status", status)] if (status := getattr(result, "status", None)) else []
    if not printed and not facts and not result.interrupted:
        return ()
    return block("shell_output", result=result, printed=printed, facts=facts)


_FOLLOWER = ToolCard("❯", follower_input, shell_output, ToolTypes(FollowerInput, FollowerResult))

CARDS = {
    "Bash": ToolCard("❯", shell_input, shell_output),
    "BashOutput": _FOLLOWER,
    "KillShell": _FOLLOWER,
    "write_stdin": _FOLLOWER,
}
