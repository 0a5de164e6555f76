"""`tooltap doctor`: prints what is installed, missing or broken, and what to do about it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import socket_option

__all__ = ["command"]

TIMEOUT = 5.0
COLOURS = {"ok": "green", "note": "yellow", "problem": "red"}
MAX_SENTENCE = 400
"""Code points of a printed sentence."""


@click.command(
    "doctor",
    cls=Command,
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

    from tooltap.daemon.doctor.examination import examine
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
        findings.append(finding)
        if not as_json:
            _print(finding.level, finding.area, finding.text, finding.advice)
    if as_json:
        click.echo(msgspec.json.encode({**counts, "findings": findings}))
    else:
        click.echo(f"{counts['problem'] or 'no'} {_plural('problem', counts['problem'])},", nl=False)
        click.echo(f" {counts['note'] or 'no'} {_plural('note', counts['note'])}")
    context.exit(1 if counts["problem"] else 0)


def _print(level: str, area: str, text: str, advice: str | None) -> None:
    from tooltap.cli.common.render import one_line, wants_colour

    coloured = wants_colour(sys.stdout)
    mark = f"{level:<8}"
    click.echo(f"{click.style(mark, fg=COLOURS[level]) if coloured else mark} {area:<9} {one_line(text, MAX_SENTENCE)}")
    if advice is not None:
        line = f"{'':<18} {one_line(advice, MAX_SENTENCE)}"
        click.echo(click.style(line, dim=True) if coloured else line)


def _plural(word: str, number: int) -> str:
    return word if number == 1 else f"{word}s"
