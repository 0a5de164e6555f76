"""The table of `tooltap usage`: the columns that a terminal has room for; in a pipe tab-separated, with all digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tooltap.cli.common.printing import at_terminal, say, say_text, short
from tooltap.cli.common.terminal.columns import columns_of, fit, fit_end, padded, terminal_columns, wrapped
from tooltap.daemon.formats import counted

__all__ = ["print_usage"]

UNKNOWN = "unknown"
LONGEST_KEY = 48
LEAST_KEY = 12


class _Column(NamedTuple):
    head: str
    value: Callable[[dict[str, Any]], str]
    exact: Callable[[dict[str, Any]], object]
    """For a pipe."""
    needs: int = 0
    """Columns of the terminal from which on it is shown."""


def print_usage(by: str, found: dict[str, Any]) -> None:
    """`found`: the result of a `usage` request, which has rows."""
    if not at_terminal():
        say_text("\t".join([by.upper(), *(column.head for column in _COLUMNS)]) + "\n")
        for row in found["rows"]:
            say_text("\t".join([_key(by, row), *(short(column.exact(row)) for column in _COLUMNS)]) + "\n")
        return
    room = terminal_columns()
    shown = [column for column in _COLUMNS if room >= column.needs and (by != "session" or column.head != "SESSIONS")]
    rows = [*found["rows"], {**found["total"], "key": "total"}]
    cells = [[column.head, *(column.value(row) for row in rows)] for column in shown]
    widths = [max(map(columns_of, column)) for column in cells]
    keys = [by.upper(), *(_key(by, row) for row in rows)]
    most = max(LEAST_KEY, min(LONGEST_KEY, room - sum(widths) - 2 * len(widths)))
    width = min(max(map(columns_of, keys)), most)
    cut = fit_end if by in ("project", "subagent") else fit
    for index, key in enumerate(keys):
        figures = "  ".join(f"{column[index]:>{wide}}" for column, wide in zip(cells, widths, strict=True))
        title = short(rows[index - 1].get("title") or "") if index else ""
        line = f"{padded(cut(key, width), width)}  {figures}"
        say(fit(f"{line}  {title}" if title else line, room))
    say()
    for note in _notes(by, found):
        for line in wrapped(note, room):
            say(line)


def _notes(by: str, found: dict[str, Any]) -> list[str]:
    total, prices = found["total"], found.get("prices")
    notes = []
    if total.get("costEstimated"):
        day = f", checked {prices['date']}" if prices and prices.get("date") else ""
        version = f"genai-prices {prices['version']}{day}" if prices else "another installation"
        of = ", ".join(total.get("priceModels") or ())
        notes.append(f"~ estimated from the prices of {short(version)}{f', of {short(of, 200)}' if of else ''}")
    if unpriced := total.get("unpricedTokens"):
        where = "" if by == "model" else "; `--by model` shows of which models"
        notes.append(f"+ and {counted(unpriced, 'token')} whose cost is not known{where}")
    if prices is None:
        notes.append("no cost is estimated: the daemon cannot import genai-prices")
    if not found["complete"]:
        notes.append("there are more rows than fit into a reply; --since and --until choose among them")
    return notes


def _key(by: str, row: dict[str, Any]) -> str:
    return short(row.get("key") or ("main agents" if by == "subagent" else UNKNOWN))


def _cost(row: dict[str, Any]) -> str:
    cost = row.get("costUsd")
    if cost is None:
        return "-"
    digits = 2 if cost >= 0.1 or not cost else 4
    mark, more = "~" if row.get("costEstimated") else "", "+" if row.get("unpricedTokens") else ""
    return f"{mark}${cost:,.{digits}f}{more}"


def _tokens(count: int) -> str:
    for unit, name in ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k")):
        if count >= unit:
            return f"{count / unit:.{1 if count < 100 * unit else 0}f}{name}"
    return str(count)


def _of(field: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: _tokens(row[field])


_COLUMNS = (
    _Column("COST", _cost, lambda row: row.get("costUsd", "")),
    _Column("INPUT", _of("inputTokens"), lambda row: row["inputTokens"]),
    _Column("OUTPUT", _of("outputTokens"), lambda row: row["outputTokens"]),
    _Column("CACHED", _of("cacheReadTokens"), lambda row: row["cacheReadTokens"], 60),
    _Column("WRITTEN", _of("cacheWriteTokens"), lambda row: row["cacheWriteTokens"], 80),
    _Column("THOUGHT", _of("reasoningTokens"), lambda row: row["reasoningTokens"], 80),
    _Column("SESSIONS", lambda row: str(row["sessions"]), lambda row: row["sessions"], 70),
)
