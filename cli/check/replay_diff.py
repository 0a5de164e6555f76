"""Renders the differences that `tooltap replay --diff` found, as text or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import orjson

from tooltap.cli.common.printing import MAX_ID, short
from tooltap.daemon.formats import counted
from tooltap.traces.replay import Change, EventDiff, FieldChange, Tally

SIGNS = {"added": "+", "removed": "-", "changed": "~"}
WIDTH = 60
CONTEXT = 15
"""Code points shown before the first difference of two long values."""


def as_json_value(difference: EventDiff) -> bytes:
    return msgspec.json.encode(
        {
            "same": not difference.changes,
            "total": difference.total,
            "events": dict(sorted(difference.tallies.items())),
            "missing": _missing(difference),
            "changes": difference.changes,
        }
    )


def render(difference: EventDiff) -> Iterator[str]:
    total, tallies = difference.total, sorted(difference.tallies.items())
    for change in difference.changes:
        yield from _change(change)
    if difference.changes:
        yield ""
        width = max(len(short(kind)) for kind, tally in tallies if _differs(tally))
        yield f"{'':{width}}  {'same':>8}{'added':>8}{'removed':>8}{'changed':>8}"
        for kind, tally in tallies:
            if _differs(tally):
                yield f"{short(kind):{width}}  " + "".join(f"{count:8}" for count in msgspec.structs.astuple(tally))
    for stream in _missing(difference):
        yield f"{short(stream, MAX_ID)}: the journal holds none of its events"
    events = sum(msgspec.structs.astuple(total))
    if not difference.changes:
        yield f"{counted(events, 'event')} of {counted(len(difference.seen), 'stream')}, no difference"
    else:
        yield (
            f"{len(difference.changes)} of {counted(events, 'event')} differ:"
            f" {total.added} added, {total.removed} removed, {total.changed} changed"
        )


def _differs(tally: Tally) -> bool:
    return bool(tally.added or tally.removed or tally.changed)


def _missing(difference: EventDiff) -> list[str]:
    return sorted(difference.covered.keys() - difference.seen)


def _change(change: Change) -> Iterator[str]:
    event = f"{short(change.kind)} {short(change.about)}".rstrip()
    yield f"{SIGNS[change.change]} {short(change.stream, MAX_ID)} line {change.line}: {event}"
    if change.whole is not None:
        shown = {key: value for key, value in change.whole.items() if key not in ENVELOPE}
        yield f"    {_shown(shown, 0)}"
    for one in change.fields:
        yield f"    {SIGNS[one.change]} {short(one.path)}: {_values(one)}"


ENVELOPE = frozenset({"seq", "v", "id", "stream", "line", "kind", "session", "protocol", "provider", "dialect", "ts"})
"""Keys that are not shown for an added or removed event."""


def _values(one: FieldChange) -> str:
    if one.change == "added":
        return _shown(one.after, 0)
    if one.change == "removed":
        return _shown(one.before, 0)
    before, after = _text(one.before), _text(one.after)
    start = max(0, _common(before, after) - CONTEXT) if max(len(before), len(after)) > WIDTH else 0
    return f"{_shown(one.before, start)} → {_shown(one.after, start)}"


def _common(before: str, after: str) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


def _shown(value: Any, start: int) -> str:
    """The value as JSON on one line, from its code point `start` on."""
    text = _text(value)
    return f"{'…' if start else ''}{short(text[start:], WIDTH)}"
