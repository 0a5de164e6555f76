"""Formatting for people: counts, costs, durations, names of tools, and Markdown that is not rendered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MOST_DOLLARS = 1e9
"""Largest plausible cost of a session in USD. A larger or negative number is not shown."""
PLACES = 9
"""Decimal places of a sum of costs in dollars; more are errors of addition."""

NOT_INDEXED = "of long texts only the beginning and the end are searched"
"""What a search that found nothing says of the index."""


def not_searched(answer: Mapping[str, Any]) -> list[str]:
    """Say what a search has left out. `answer`: a reply to `search` or `ended-calls`."""
    said = []
    if not answer["complete"]:
        said.append("the search was stopped because it took too long; add a word or a filter to narrow it")
    if answer["behind"]:
        said.append(f"events after {answer['upto']} are not indexed yet; try again in a moment")
    if floor := answer.get("floor"):
        said.append(f"events up to {floor} are not searched: the index would be larger than `index_bytes`")
    return said


def counted(number: int, one: str, several: str | None = None) -> str:
    """`1 event`, `1,200 events`. `several`: a plural that is not `one` with an s."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def dollars(cost: float | None, digits: int = 2, *, is_bound: bool = False) -> str | None:
    """`$0.03`, `< $0.01`; None for an implausible cost: the numbers come from agents, and can be anything. `is_bound`:
    it is a lower bound, so it is rounded down, with more digits where nothing would be left."""
    if cost is None or not 0 <= cost <= MOST_DOLLARS:
        return None
    if is_bound:
        digits = digits if cost >= 10.0**-digits or not cost else 2 * digits
        cost = round(cost * 10**PLACES) // 10 ** (PLACES - digits) / 10**digits
    elif 0 < cost < 10.0**-digits / 2:
        return f"< ${10.0**-digits:.{digits}f}"
    return f"${cost:,.{digits}f}"


def is_cost_bound(row: Mapping[str, Any]) -> bool:
    """Whether the cost in a reply's row is a lower bound: it is estimated from tokens that are one."""
    is_estimate = row.get("costUsd") is not None and row.get("costEstimated")
    return bool(is_estimate and row.get("estimatedOutputTokens"))


def cost_word(estimated: bool | None, is_bound: bool | None) -> str:
    """The word before a cost: `about ` if it is estimated; `at least ` if from tokens that are a lower bound."""
    return "" if not estimated else "at least " if is_bound else "about "


def cost_words(cost: float | None, estimated: bool | None, is_bound: bool | None) -> str | None:
    """`$0.03`, `about $0.03`, `at least $0.03`, `< $0.01`; None for an implausible cost."""
    shown = dollars(cost, is_bound=bool(estimated and is_bound))
    return shown if shown is None or shown.startswith("<") else cost_word(estimated, is_bound) + shown


def bound(is_bound: bool) -> str:
    """The mark before a figure that is a lower bound."""
    return "≥" if is_bound else ""


def written(tokens: int) -> str:
    """What is said beside output tokens that are a lower bound: an estimate."""
    return f"by the text, about {amount(tokens)} output tokens"


def over_budget(period: str, spent: float, limit: float) -> str | None:
    """`over budget today: $23.10 of $20.00`; None if it is not exceeded. `period`: `day` or `month`."""
    when = "today" if period == "day" else "this month"
    return f"over budget {when}: {dollars(spent)} of {dollars(limit)}" if spent > limit else None


def quota_words(quota: Mapping[str, Any]) -> str:
    """`35 % of 5 h used`, `12 % of 7 d used`, of a window of a quota as in a reply; `7 d window` if the agent does not
    state how much is used. Agents round lengths: 299 minutes are 5 hours."""
    minutes, used = quota.get("minutes"), quota.get("usedPercent")
    hours = round((minutes or 0) / 60)
    length = f"{round(hours / 24)} d" if hours >= 48 else f"{hours} h" if hours else f"{minutes} min" if minutes else ""
    name = length or quota.get("name") or "quota"
    return f"{name} window" if used is None else f"{used:.0f} % of {name} used"


def rounded(number: int, *, is_bound: bool = False) -> str:
    """`950`, `12.3k`, `4.5M`: for tokens, rounded; down if they are a lower bound."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            number -= number % (size // 10) if is_bound else 0
            return f"{number / size:.1f}{letter}"
    return str(number)


_UNITS = ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k"))


def spent(milliseconds: float | None) -> str | None:
    """`0.3 s`, `14 s`, `1 m 40 s`, `41 min`, `1 h 03`, `3 d`; None for an implausible duration."""
    if milliseconds is None or not 0 <= milliseconds < 1e14:
        return None
    seconds = milliseconds / 1000
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 10:
        return f"{minutes} m {rest} s" if rest else f"{minutes} min"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02}" if hours < 48 else f"{hours // 24} d"


def amount(number: int | None, *, is_bound: bool = False) -> str | None:
    """`88`, `640 k`, `1.8 M`; None for an implausible count. `is_bound`: it is a lower bound, so it is rounded down."""
    if number is None or number < 0:
        return None
    for size, letter in _UNITS:
        if number >= size:
            number -= number % (size if number >= 10 * size else size // 10) if is_bound else 0
            scaled = number / size
            return f"{scaled:.1f} {letter}" if scaled < 9.95 else f"{scaled:,.0f} {letter}"
    return str(number)


def tool_name(name: str) -> str:
    """`server · tool` for an MCP tool, if its name can be split unambiguously; otherwise the unchanged name."""
    parts = name.split("__")
    return f"{parts[1]} · {parts[2]}" if len(parts) == 3 and parts[0] == "mcp" and parts[1] and parts[2] else name


def distinct_title(title: str | None, name: str) -> str:
    """The provider's title of a call; empty if it only repeats the name of the tool."""
    return "" if title is None or title.lower() == name.lower() else title


_MARKS = re.compile(
    r"^[ \t]{0,3}(?:#{1,6}[ \t]+|(?:```|~~~)[^\n]*(?:\n|\Z))"
    r"|`([^`\n]+)`|(?<!\w)\*\*(?=\S)([^*\n]*[^*\s])\*\*(?!\w)",
    re.MULTILINE,
)


def without_marks(text: str) -> str:
    """Markdown as it reads where it is not rendered: without the marks of headings, code and bold text."""
    return _MARKS.sub(lambda found: found[1] or (found[2] or "").replace("`", ""), text)
