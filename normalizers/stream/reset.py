"""Containment of errors: a line at which something raises costs that line, and the state only where that may be
inconsistent.

Whatever raises between a line's first look and its events, the line is `unparsed`, with the reason `parser-error:
<Exception> at <place>`, and nothing else of it remains: events that it had given before are taken back. The next line
is read as usual.

The state is in doubt if the line had given events or output, or if what raised was reached through the code that keeps
account of calls, turns, texts and permissions (`core/`). Otherwise the parser continues from its dump. Where the state
is in doubt, cannot be rebuilt or is gone, a fresh parser takes over (`replace`, `restart`). Whatever the lost state had
open is closed as at the end of a stream, so that nothing hangs: calls are interrupted, and a real result that still
comes names the synthetic one it replaces. A notice says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tooltap.normalizers.core.items import Item, Produced
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import CallsState, OpenCall, OpenTurn, PendingPermission
from tooltap.protocol.events import Notice
from tooltap.protocol.stats import Statistics

PARSER_ERROR = "parser-error"

_PACKAGE = "tooltap."
_CORE = f"{_PACKAGE}normalizers.core."
_FEEDING = {"close", "fail", "feed", "feed_long", "give_up", "lost", "take_line", "take_long"}
_READING = {"read", "read_other", "_abandon_document", "_begin", "_collect", "_read", "_read_all", "_read_unclean"}
_HARMLESS = {f"{_CORE}lines": None, f"{_CORE}parser": frozenset(_FEEDING | _READING)}
"""Functions that lead a line to its reader, and change nothing that is open, by module. None: all of a module's."""


def place_of(error: BaseException) -> str:
    """The place of an error: `module:function` of the innermost function of ours. Says nothing of the machine."""
    place = "outside"
    for module, function in _frames(error):
        if module.startswith(_PACKAGE) and not function.startswith("<"):
            place = f"{module.removeprefix(_PACKAGE)}:{function}"
    return place


def reason_of(error: BaseException) -> str:
    """The `reason` of the `unparsed` event."""
    return f"{PARSER_ERROR}: {type(error).__name__} at {place_of(error)}"


def may_have_changed(error: BaseException) -> bool:
    """Whether what raised may have left half a change of what is open."""
    return any(module.startswith(_CORE) and not _only_reads(module, function) for module, function in _frames(error))


def _only_reads(module: str, function: str) -> bool:
    if module not in _HARMLESS:
        return False
    functions = _HARMLESS[module]
    return functions is None or function in functions


def _frames(error: BaseException) -> Iterator[tuple[str, str]]:
    at = error.__traceback__
    while at is not None:
        yield str(at.tb_frame.f_globals.get("__name__", "")), at.tb_frame.f_code.co_name
        at = at.tb_next


class LeftOpen(msgspec.Struct, frozen=True):
    """Facts about the lost state, from the stream's stored events."""

    calls: dict[str, OpenCall] = {}
    permissions: dict[str, PendingPermission] = {}
    turns: list[OpenTurn] = []
    session: str | None = None
    """Session of the stream's last event."""


def restart(
    parser: Parser,
    lines: int,
    statistics: Statistics,
    left: LeftOpen,
    t: int | None,
    text: str | None = None,
    index: int | None = None,
) -> list[Item]:
    """Make a fresh parser continue after line `lines` of a stream with these statistics. `text`: of the notice;
    `index`: of the first event, where others come before."""
    state = parser.state
    state.line = lines
    # At least as many as were started: no number comes twice.
    state.turn_count = max(state.turn_count, statistics.kinds.get("turn", 0))
    state.calls.open.update(left.calls)
    state.permissions.pending.update(left.permissions)
    state.turns += left.turns
    # By default so that a second reset at the same line does not repeat an id.
    parser.begin_between_lines(statistics.events if index is None else index, t)
    parser.give_up_turns()
    parser.permissions.expire_all()
    parser.calls.close_all()
    parser.emit(
        Notice,
        session=left.session or parser.session,
        level="warning",
        code="parser-reset",
        text=text or f"the parser's state after line {lines} could not be rebuilt; it continues with a fresh one",
    )
    items, parser.items = parser.items, []
    return items


def replace(
    old: Parser, lines: int, statistics: Statistics, taken_back: Sequence[Item], t: int | None, text: str
) -> tuple[Parser, list[Item]]:
    """A fresh parser that continues after line `lines`, and what closes what was open before. `taken_back`: events that
    the old one has given and that nobody gets."""
    index = statistics.events
    undone = [item for item in taken_back if isinstance(item, Produced) and not item.partial]
    closing = _closing(old, index, t)
    index += len(closing)
    never, left = _undo(undone)
    closing = [item for item in closing if not (isinstance(item, Produced) and _subject(item) in never)]
    closed = {_subject(item) for item in closing if isinstance(item, Produced) and item.kind != "tool-update"}
    fresh = type(old)(old.context)
    fresh.partials, fresh.watch = old.partials, old.watch
    _retain(old, fresh, {key for kind, key in never if kind == "call"})
    left = LeftOpen(
        {key: call for key, call in left.calls.items() if ("call", key) not in closed},
        {key: one for key, one in left.permissions.items() if ("permission", key) not in closed},
        [one for one in left.turns if ("turn", f"{one.session}/{one.id}") not in closed],
        fresh.state.session,
    )
    return fresh, closing + restart(fresh, lines, statistics, left, t, text, index)


def _closing(old: Parser, index: int, t: int | None) -> list[Item]:
    """Events that end everything that is open; as much as can be ended, if the state is inconsistent."""
    old.items = []
    try:
        return old.give_up(index, t)
    except Exception:  # the state is in doubt, so anything may be wrong with it
        return [item for item in old.items if isinstance(item, Produced)]


def _undo(events: Sequence[Produced]) -> tuple[set[tuple[str, str]], LeftOpen]:
    """Revert what these events, which nobody gets, have opened and closed."""
    never: set[tuple[str, str]] = set()
    left = LeftOpen({}, {}, [])
    for event in events:
        subject, fields = _subject(event), event.fields
        if subject is None or event.kind == "tool-update":
            continue
        kind, key = subject
        if event.kind in ("tool-call", "permission-request") or (kind == "turn" and fields.state == "started"):
            never.add(subject)
        elif subject in never:
            continue
        elif kind == "call":
            if not fields.async_ and fields.replaces is None:
                left.calls[key] = OpenCall(
                    event.raw_tool or fields.name,
                    fields.name,
                    event.session,
                    event.agent,
                    event.parent,
                    event.turn,
                    id=key,
                    status="running",
                )
        elif kind == "permission":
            left.permissions[key] = PendingPermission(
                session=event.session, call_id=fields.call_id, turn=event.turn, agent=event.agent
            )
        else:
            left.turns.append(OpenTurn(str(event.turn), event.session, event.agent))
    return never, left


def _subject(event: Produced) -> tuple[str, str] | None:
    """The subject of an event: a call, permission or turn, and its id."""
    if event.kind in ("tool-call", "tool-update", "tool-result"):
        return "call", event.fields.call_id
    if event.kind in ("permission-request", "permission-response"):
        return "permission", event.fields.permission_id
    return ("turn", f"{event.session}/{event.turn}") if event.kind == "turn" else None


def _retain(old: Parser, fresh: Parser, never: set[str]) -> None:
    """Retain the session and the calls that are done, if they are in order, for inner parsers too."""
    was: Any = old.state
    state: Any = fresh.state
    try:
        kept = msgspec.msgpack.decode(
            msgspec.msgpack.encode([was.session, was.named, was.provider, was.cwd, was.turn_count, was.calls]),
            type=tuple[str | None, bool, str | None, str | None, int, CallsState],
        )
    except Exception:  # then nothing of it is
        return
    state.session, state.named, provider, state.cwd, state.turn_count, calls = kept
    if provider is not None:
        fresh.set_provider(provider)
    state.calls.done.update({key: tomb for key, tomb in calls.done.items() if key not in never})
    state.calls.renamed.update(calls.renamed)
    state.calls.reused = calls.reused
    if isinstance(started := getattr(was, "started", None), str):
        state.started = started
    try:
        for inner, renewed, prefix in fresh.renew_inner(old):
            _retain(inner, renewed, {key.removeprefix(prefix) for key in never})
    except Exception:  # it begins without inner parsers, or without some
        return
