"""A command and what it printed; and the tools that look after a command that runs on."""

from __future__ import annotations

from markupsafe import Markup

from tooltap.daemon.web.look import Look, excerpt
from tooltap.daemon.web.markup import template
from tooltap.daemon.web.screen import settled
from tooltap.protocol.file_tools import BashInput, BashResult

__all__ = ["shell_input", "shell_output"]


def shell_input(asked: BashInput, look: Look) -> Markup:
    facts = [("in", asked.cwd), ("timeout", asked.timeout), ("background", "yes" if asked.run_in_background else None)]
    return template(
        "shell_input.html",
        description=asked.description,
        command=excerpt(asked.command, look, "/input/command") if asked.command else None,
        facts=[(name, str(value)) for name, value in facts if value is not None],
    )


def shell_output(result: BashResult, look: Look) -> Markup:
    printed = [
        (name, excerpt(settled(value), look, f"/output/{name}"))
        for name, value in (("stdout", result.stdout), ("stderr", result.stderr))
        if value
    ]
    if not printed and result.exit_code is None and not result.interrupted:
        return Markup()
    return template("shell_output.html", result=result, printed=printed)
