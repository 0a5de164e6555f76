"""Containment of errors: an error at a line costs that line, and costs the parser state only if that may be
inconsistent.

If something raises between the first inspection of a line and its events, the line is `unparsed`, with the reason
`parser-error: <Exception> at <place>`. All events it had emitted are taken back. The next line is read as usual.

The state is in doubt if the line had emitted events or output, or if the traceback passes through the code that keeps
account of calls, turns, texts and permissions (`core/`). Otherwise the parser continues from its dump. If the state is
in doubt, cannot be rebuilt or is lost, a fresh parser takes over (`replace`, `restart`). Everything that the lost state
had open is closed as at the end of a stream: calls are interrupted, and a real result that still arrives names the
synthetic one it replaces. A notice states the reset.
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
_READING = {
    *("read", "read_other", "_abandon_document", "_begin", "_can_read", "_collect", "_go_on", "_is_record", "_read"),
    *("_read_all", "_read_torn", "_read_unclean"),
}
_HARMLESS = {f"{_CORE}lines": None, f"{_CORE}parser": frozenset(_FEEDING | _READING)}
"""Module -> functions that dispatch a line to its reader without changing calls, turns, texts or permissions. None: all
functions of the module."""


def place_of(error: BaseException) -> str:
    """Location of an error: `module:function` of the innermost frame in our code. Contains no paths of the machine."""
    place = "outside"
    for module, function in _frames(error):
        if module.startswith(_PACKAGE) and not function.startswith("<"):
            place = f"{module.removeprefix(_PACKAGE)}:{function}"
    return place


def reason_of(error: BaseException) -> str:
    """The `reason` of the `unparsed` event."""
    return f"{PARSER_ERROR}: {type(error).__name__} at {place_of(error)}"


def may_have_changed(error: BaseException) -> bool:
    """Return whether the error may have interrupted a change of the state in `core/`."""
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
    `index`: number of the first event, if others precede it."""
    state = parser.state
    state.line = lines
    if left.session != (parser.context.session or parser.context.stream):  # which is no name that the agent has given
        state.session = left.session
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
        session=parser.session,
        level="warning",
        code="parser-reset",
        text=text or f"the parser's state after line {lines} could not be rebuilt; it continues with a fresh one",
    )
    items, parser.items = parser.items, []
    return items


def replace(
    old: Parser, lines: int, statistics: Statistics, taken_back: Sequence[Item], t: int | None, text: str
) -> tuple[Parser, list[Item]]:
    """Return a fresh parser that continues after line `lines`, and the items that close what was open. `taken_back`:
    events that the old parser emitted and that are discarded."""
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
    """Return the events that end everything that is open; if that raises, those emitted so far."""
    old.items = []
    try:
        return old.give_up(index, t)
    except Exception:  # the state is in doubt, so anything may be wrong with it
        return [item for item in old.items if isinstance(item, Produced)]


def _undo(events: Sequence[Produced]) -> tuple[set[tuple[str, str]], LeftOpen]:
    """Revert the effect of discarded events. Returns the subjects that were never opened, and what is still open
    because its end was discarded."""
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
    """Subject of an event: (`call`, `permission` or `turn`, its id); None for other kinds."""
    if event.kind in ("tool-call", "tool-update", "tool-result"):
        return "call", event.fields.call_id
    if event.kind in ("permission-request", "permission-response"):
        return "permission", event.fields.permission_id
    return ("turn", f"{event.session}/{event.turn}") if event.kind == "turn" else None


def _retain(old: Parser, fresh: Parser, never: set[str]) -> None:
    """Copy the session and the calls that are done to the fresh parser, if the old state can be encoded; likewise for
    inner parsers. `never`: ids of calls whose opening was discarded."""
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
