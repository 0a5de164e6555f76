"""A command and what it printed."""

from __future__ import annotations

from markupsafe import Markup

from tooltap.daemon.web.look import Look, excerpt
from tooltap.daemon.web.markup import template
from tooltap.protocol.file_tools import BashInput, BashResult

__all__ = ["shell_input", "shell_output"]


def shell_input(asked: BashInput, look: Look) -> Markup:
    return template("shell_input.html", asked=asked, command=excerpt(asked.command or "", look, "/input/command"))


def shell_output(result: BashResult, look: Look) -> Markup:
    printed = [
        (name, excerpt(value, look, f"/output/{name}"))
        for name in ("stdout", "stderr")
        if isinstance(value := getattr(result, name), str) and value
    ]
    return template("shell_output.html", result=result, printed=printed)
