"""`tooltap doctor`: prints what is installed, missing or broken, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common.columns import terminal_columns, wrapped
from tooltap.cli.common.commands import Check
from tooltap.cli.common.connection import socket_option
from tooltap.cli.common.printing import at_terminal, joined, say, say_json, short, styled, wants_colour
from tooltap.daemon.formats import counted

TIMEOUT = 5.0
COLOURS = {"ok": "green", "note": "yellow", "problem": "red"}
WIDE, WIDE_INDENT = 80, 19
"""Minimum terminal width for sentences in a column of their own, and the indentation of that column."""
MAX_SENTENCE = 400
"""Code points of a printed sentence."""


@click.command(
    "doctor",
    cls=Check,
    examples=("tooltap doctor", "tooltap doctor --json | jq '.findings[] | select(.level == \"problem\")'"),
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the findings and their numbers.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The daemon's configuration.  [default: tooltap.toml in the user's configuration directory]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the daemon, for systemd, and for each agent.",
)
@socket_option
@click.pass_context
def command(context: click.Context, as_json: bool, config: Path | None, timeout: float, socket: Path | None) -> None:
    """Check this installation of tooltap, and say what to fix.

    It reports on tooltap and its extras, the configuration, the daemon with its socket, journal, spools and traces, the
    service, the installed agents, and their sessions. A note is about something missing or new. A problem is something
    that does not work or is not private; with a problem the exit code is 1. Nothing is changed, and agents are started
    only with `--version`.
    """
    import msgspec
    from msgspec.structs import replace

    from tooltap.daemon.doctor import examine
    from tooltap.daemon.system.sanitize import encodable
    from tooltap.normalizers.catalog.registry import agents

    found = examine(
        config_file=config,
        socket_place=socket,
        commands={name: agent.provider or name for name, agent in agents().items()},
        timeout=timeout,
    )
    counts = dict.fromkeys(COLOURS, 0)
    findings = []
    for finding in found:
        counts[finding.level] += 1
        advice = finding.advice and encodable(finding.advice)
        findings.append(replace(finding, text=encodable(finding.text), advice=advice))
        if not as_json:
            _print(finding.level, finding.area, finding.text, finding.advice)
    if as_json:
        say_json(msgspec.json.encode({**counts, "findings": findings}))
    else:
        say(
            ", ".join(
                counted(counts[level], level) if counts[level] else f"no {level}s" for level in ("problem", "note")
            )
        )
    context.exit(1 if counts["problem"] else 0)


def _print(level: str, area: str, text: str, advice: str | None) -> None:
    coloured = wants_colour()
    columns = terminal_columns() if at_terminal() else 2 * MAX_SENTENCE
    indent = WIDE_INDENT if columns >= WIDE else 4
    mark = f"{level:<8}"
    first, *others = wrapped(f"{mark} {area:<9} {short(text, MAX_SENTENCE)}", columns, hanging=indent)
    say(joined([styled(mark, COLOURS[level]) if coloured else mark, first[len(mark) :]]))
    for line in others:
        say(line)
    if advice is not None:
        for line in wrapped(f"{'':<{indent}}{short(advice, MAX_SENTENCE)}", columns, hanging=indent):
            say(styled(line, "dim") if coloured else line)
