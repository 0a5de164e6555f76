"""Prints statistics objects on stderr: as text (`--stats`) and as JSON (`--stats-json`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tooltap.protocol.stats import Statistics

__all__ = ["describe_daemon", "describe_stream", "print_statistics", "statistics_options"]

FIGURES = ("lines", "withEvents", "unparsed", "events", "bytes", "repaired")
TABLES = ("skipped", "kinds", "tools", "rawTools")


def statistics_options(function: Any) -> Any:
    """Add `--stats` and `--stats-json` to a command."""
    function = click.option("--stats", is_flag=True, help="Print statistics on stderr.")(function)
    return click.option(
        "--stats-json",
        is_flag=True,
        help='Print statistics on stderr as JSON, one line per file; with several files a last line has "total":true.',
    )(function)


def print_statistics(all_statistics: list[Statistics], *, stats: bool, stats_json: bool) -> None:
    import msgspec

    objects: list[dict[str, Any]] = [msgspec.to_builtins(one) for one in all_statistics]
    if len(objects) > 1:
        objects.append(_total(objects))
    if stats:
        for one in objects:
            click.echo(describe_stream(one), err=True)
    if stats_json:
        for one in objects:
            click.echo(msgspec.json.encode(one), err=True)


def _total(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum of several statistics objects."""
    summed: dict[str, Any] = {"total": True, "streams": len(objects)}
    for figure in FIGURES:
        summed[figure] = sum(one[figure] for one in objects)
    for table in TABLES:
        names: dict[str, int] = {}
        for one in objects:
            for name, number in one[table].items():
                names[name] = names.get(name, 0) + number
        summed[table] = names
    return summed


def describe_stream(one: dict[str, Any]) -> str:
    """A statistics object, or the total of several, as a few lines of text."""
    if one.get("total"):
        head = f"total of {one['streams']} streams"
    else:
        head = f"{one['stream']}: {one['dialect']}, {one['provider']}"
    skipped = sum(one["skipped"].values())
    lines = [
        head,
        f"  {one['lines']} lines ({one['bytes']} bytes) = {one['withEvents']} with events"
        f" + {one['unparsed']} unparsed + {skipped} skipped{_by_name(one['skipped'])}",
        f"  {one['events']} events{_by_name(one['kinds'])}",
        f"  {sum(one['tools'].values())} calls{_by_name(one['tools'])}",
    ]
    if one["rawTools"] != one["tools"]:
        lines.append(f"  on the wire{_by_name(one['rawTools'])}")
    if one["repaired"]:
        lines.append(f"  {one['repaired']} lines repaired")
    return "\n".join(lines)


def _by_name(counts: dict[str, int] | Iterable[tuple[str, int]]) -> str:
    pairs = sorted(dict(counts).items(), key=lambda pair: (-pair[1], pair[0]))
    return f": {', '.join(f'{name} {number}' for name, number in pairs)}" if pairs else ""


def describe_daemon(statistics: dict[str, Any]) -> str:
    """The result of the daemon's `stats` request, without its streams, as a few lines of text."""
    journal, streams, trace = statistics["journal"], statistics["streams"], statistics["trace"]
    seconds = statistics["uptimeMs"] // 1000
    lines = [
        f"tooltap {statistics['version']}, pid {statistics['pid']},"
        f" up {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}",
        f"journal {journal['id']}: events {journal['oldest']} to {journal['latest']}",
        f"streams: {', '.join(f'{number} {state}' for state, number in streams.items())}",
        f"spools: {statistics['spools']['waiting']} waiting, {statistics['spools']['drained']} drained",
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
    return f"trace {trace['path']}: {trace['records']} records, {trace['dropped']} dropped, {size}{problem}"
