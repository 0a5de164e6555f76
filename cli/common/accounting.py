"""Prints statistics objects: for people (`--stats`) and for programs (`--stats-json`), always on stderr."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tooltap.protocol.stats import Statistics

__all__ = ["accounting_options", "describe", "report", "total"]

FIGURES = ("lines", "withEvents", "unparsed", "events", "bytes", "repaired")
TABLES = ("skipped", "kinds", "tools", "rawTools")


def accounting_options(function: Any) -> Any:
    """Adds `--stats` and `--stats-json` to a command."""
    function = click.option("--stats", is_flag=True, help="Print the accounting on stderr.")(function)
    return click.option(
        "--stats-json",
        is_flag=True,
        help='Print the statistics object on stderr, one JSON line per file; of several, a last one has "total":true.',
    )(function)


def report(all_statistics: list[Statistics], *, stats: bool, stats_json: bool) -> None:
    import msgspec

    objects: list[dict[str, Any]] = [msgspec.to_builtins(one) for one in all_statistics]
    several = [total(objects)] if len(objects) > 1 else []
    if stats:
        for one in objects + several:
            click.echo(describe(one), err=True)
    if stats_json:
        for one in objects + several:
            click.echo(msgspec.json.encode(one), err=True)


def total(objects: list[dict[str, Any]]) -> dict[str, Any]:
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


def describe(one: dict[str, Any]) -> str:
    """A statistics object as a few lines of text."""
    if one.get("total"):
        head = f"total of {one['streams']} streams"
    else:
        head = f"{one['stream']}: {one['dialect']}, {one['provider']}"
    skipped = sum(one["skipped"].values())
    lines = [
        head,
        f"  {one['lines']} lines ({one['bytes']} bytes) = {one['withEvents']} with events"
        f" + {one['unparsed']} unparsed + {skipped} skipped{_named(one['skipped'])}",
        f"  {one['events']} events{_named(one['kinds'])}",
        f"  {sum(one['tools'].values())} calls{_named(one['tools'])}",
    ]
    if one["rawTools"] != one["tools"]:
        lines.append(f"  on the wire{_named(one['rawTools'])}")
    if one["repaired"]:
        lines.append(f"  {one['repaired']} lines repaired")
    return "\n".join(lines)


def _named(counts: dict[str, int] | Iterable[tuple[str, int]]) -> str:
    pairs = sorted(dict(counts).items(), key=lambda pair: (-pair[1], pair[0]))
    return f": {', '.join(f'{name} {number}' for name, number in pairs)}" if pairs else ""
