"""`tooltap stats`: what the daemon has done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import orjson

from tooltap.cli.common.accounting import describe
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import ask, socket_option

__all__ = ["command"]


@click.command(
    "stats",
    cls=Command,
    examples=(
        "tooltap stats",
        "tooltap stats --json | jq .journal",
    ),
)
@click.option("--json", "as_json", is_flag=True, help="Everything the daemon tells, as one JSON object.")
@socket_option
def command(as_json: bool, socket: Path | None) -> None:
    """Show what the daemon has done, stream by stream."""
    statistics = ask(socket, "stats")
    if as_json:
        click.echo(orjson.dumps(statistics))
        return
    click.echo(summary(statistics))
    for one in statistics["perStream"]:
        click.echo(f"{describe(one)}\n  {one['state']}")


def summary(statistics: dict[str, Any]) -> str:
    """The daemon in a few lines."""
    journal, streams, trace = statistics["journal"], statistics["streams"], statistics["trace"]
    seconds = statistics["uptimeMs"] // 1000
    lines = [
        f"tooltap {statistics['version']}, pid {statistics['pid']},"
        f" up {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}",
        f"journal {journal['id']}: events {journal['oldest']} to {journal['latest']}",
        f"streams: {', '.join(f'{number} {state}' for state, number in streams.items())}",
        f"spools: {statistics['spools']['waiting']} waiting, {statistics['spools']['drained']} taken in",
        f"display outputs: {statistics['outputs']['kept']} kept, {statistics['outputs']['bytes']} bytes",
        f"connections: {statistics['connections']['open']},"
        f" publishing {statistics['connections']['publishing']},"
        f" subscribed {len(statistics['subscribers'])}",
    ]
    if (following := statistics.get("following")) is not None:
        lines.append(f"following: {following['files']} files, {following['open']} open, {following['waiting']} waiting")
    if (web := statistics.get("web")) is not None:
        lines.append(f"web: {web['url']}, {web['connections']} connections, {web['feeds']} live")
    if trace is not None:
        lines.append(_trace(trace, statistics["limits"]["trace_total_bytes"]))
    return "\n".join(lines)


def _trace(trace: dict[str, Any], budget: int) -> str:
    size = f"{trace['totalBytes'] / 2**20:.1f} of {budget / 2**20:.0f} MiB"
    problem = f"; {trace['problem']}" if trace["problem"] else ""
    return f"trace {trace['path']}: {trace['records']} records, {trace['dropped']} left out, {size}{problem}"
