"""Calls that only the session file has, although a tap owns the session.

A tap reports what its agent prints, and an agent that is interrupted may end before it prints a call: Codex and
OpenCode do so with the command that runs when they get SIGINT. Their session file has it. So calls that are left out of
a file are kept, with their results, in the file's stream (`StreamInfo.unsaid`), until all taps that cover them have
ended, and what the file had by then has been read. Then each is dropped if a tap has reported it, and reported as the
file's own if none has. That is one commit of the file's stream, so it happens once, whatever ends the daemon.

Whether a tap has reported a call is a question of ids, if the file and the tap share some, or the tap has reported no
call at all. Codex `exec` numbers its calls itself: there, only calls that were stopped are compared, by how many of
them each side has.

A call that has no result by then gets a synthetic one, since its agent has ended; a result that the file states later
replaces it. Calls of subagents are compared by the journal (`repetitions.py`), not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from tooltap.daemon.journal.interface import Journal, StreamInfo, Unsaid, UnsaidBody
from tooltap.normalizers.core.items import Item, OutputChunk, Produced
from tooltap.normalizers.core.state import put
from tooltap.normalizers.stream.normalizer import REPORTED_ELSEWHERE
from tooltap.protocol.events import ToolCall, ToolResult, decode
from tooltap.protocol.filters import Filter
from tooltap.protocol.stats import Statistics

MOST_CALLS: Final = 64
"""Most calls that a stream keeps, the latest ones; and most of those reported whose result is still to come."""
MOST_BYTES: Final = 256 * 1024
"""Most bytes that they take together: they are part of each commit of the stream until their taps have ended."""
KINDS: Final = frozenset({"tool-call", "tool-update", "tool-result"})
RESULT_INDEX: Final = 4_000_000
"""First index in the ids of results for calls that have none; other events that no line caused use lower ones."""
STOPPED: Final = frozenset({"cancelled", "interrupted"})


class Said(NamedTuple):
    """A call that a tap has reported."""

    name: str
    is_stopped: bool
    """It has no result, or one that says it was stopped."""


class CallsOfTaps:
    """Reads from the journal which calls taps have reported; each question reads on where the last one ended."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._read_to: dict[tuple[str, str], int] = {}
        self._calls: dict[tuple[str, str], dict[str, Said]] = {}

    async def of(self, session: str, tap: str) -> Mapping[str, Said]:
        """Return id -> call, for those that a tap has reported in a session. Raises `JournalError`."""
        key = session, tap
        calls = self._calls.setdefault(key, {})
        wanted = Filter(kind=("tool-call", "tool-result"), session=(session,), stream=(tap,))
        after, latest = self._read_to.get(key, 0), self._journal.latest
        while after < latest:
            stored, after = await self._journal.read(after, wanted, up_to=latest)
            for event in (decode(one.body) for one in stored):
                if isinstance(event, ToolCall | ToolResult):
                    calls[event.call_id] = Said(event.name, isinstance(event, ToolCall) or event.status in STOPPED)
        self._read_to[key] = after
        return calls


def is_of_call(item: Item) -> bool:
    """Return whether an item is about a call of the main agent."""
    return isinstance(item, Produced) and item.kind in KINDS and not (item.partial or item.replay or item.agent)


def own(info: StreamInfo, items: Iterable[Item]) -> list[Item]:
    """Return items of a file's stream, in which results of the calls that it has reported for itself replace those
    that were inferred."""
    kept: list[Item] = []
    for item in items:
        if not isinstance(item, Produced) or not is_own(info, item):
            kept.append(item)
        elif item.kind == "tool-result" and not item.synthetic:
            call_id = item.fields.call_id
            replaced = info.own_calls[call_id]
            info.own_calls = {key: value for key, value in info.own_calls.items() if key != call_id}
            kept.append(Produced.of(msgspec.structs.replace(item.event, replaces=replaced)))
    return kept


def is_own(info: StreamInfo, event: Produced) -> bool:
    """Return whether an event is about a call that a file's stream has reported for itself, with an inferred result."""
    return is_of_call(event) and event.fields.call_id in info.own_calls


def keep_unsaid(
    info: StreamInfo, left_out: Sequence[Item], taps: Sequence[str], said: Iterable[Mapping[str, Said]], *, alone: bool
) -> None:
    """Keep the calls among the items that were left out of a line, unless the taps have reported them. `alone`: all of
    the line was left out."""
    reported = [one for one in said if one]
    unsaid = {one.call_id: one for one in info.unsaid}
    for item in left_out:
        if not isinstance(item, Produced) or not is_of_call(item):
            continue
        call_id = item.fields.call_id
        if any(call_id in one for one in reported):
            info.shared_ids = sorted({*info.shared_ids, *taps})[-MOST_CALLS:]
            unsaid.pop(call_id, None)
            continue
        call = unsaid.get(call_id) or Unsaid(call_id, item.fields.name, item.session, list(taps))
        if item.kind != "tool-call" and not call.events:
            continue  # its call was reported, or was too long ago
        body = item.body.decode()
        if body in call.events:  # the line is read again, because its commit failed
            continue
        place = item.id.rpartition(":")[0]
        unsaid[call_id] = msgspec.structs.replace(
            call,
            events=[*call.events, body],
            bodies=[*call.bodies, *_bodies_of(item, left_out)],
            lines=[*call.lines, place] if alone and place not in call.lines else call.lines,
            is_stopped=item.fields.status in STOPPED if item.kind == "tool-result" else call.is_stopped,
        )
    calls = [one for one in unsaid.values() if not any(one.call_id in calls for calls in reported)]
    if reported and not set(taps) & set(info.shared_ids) and min(map(len, reported)) >= len(calls):
        # The tap has ids of its own, so only calls that were stopped will be compared.
        calls = [one for one in calls if one.taps != list(taps) or one.is_stopped]
    info.unsaid = _newest(calls)


def take_unsaid(
    info: StreamInfo, statistics: Statistics, said: Mapping[tuple[str, str], Mapping[str, Said]]
) -> list[Produced | OutputChunk] | None:
    """Take the calls whose taps have all ended out of what a stream keeps, and return the events of those that no tap
    has reported; None if there is nothing to take. `said`: session and tap -> its calls, for taps that have ended."""
    due = [one for one in info.unsaid if all((one.session, tap) in said for tap in one.taps)]
    if not due:
        return None
    info.unsaid = [one for one in info.unsaid if one not in due]
    outputs: list[Produced | OutputChunk] = []
    lines: set[str] = set()
    for call in _unreported(info, due, said):
        outputs += [OutputChunk(one.output_id, one.offset, one.data, one.mime_type) for one in call.bodies]
        events = [decode(body) for body in call.events]
        if not any(isinstance(one, ToolResult) for one in events) and isinstance(events[0], ToolCall):
            events.append(_interrupted(events[0]))
        if (last := events[-1]).synthetic:
            put(own_calls := {**info.own_calls}, call.call_id, last.id, MOST_CALLS)
            info.own_calls = own_calls
        # Their turn is one of the file's, which are not reported.
        outputs += [Produced.of(msgspec.structs.replace(one, turn=None)) for one in events]
        lines |= {*call.lines}
    for one in outputs:
        if isinstance(one, Produced):
            statistics.adjust(one.kind, one.tool, one.raw_tool, 1)
    statistics.with_events += len(lines)
    statistics.count_skip(REPORTED_ELSEWHERE, -len(lines))
    return outputs


def _unreported(
    info: StreamInfo, due: Sequence[Unsaid], said: Mapping[tuple[str, str], Mapping[str, Said]]
) -> Iterable[Unsaid]:
    """Return the calls that no tap has reported."""
    stopped: dict[str, list[str]] = {}
    """Names of the calls that taps with ids of their own have reported as stopped, by session."""
    for (session, _), calls in said.items():
        stopped.setdefault(session, []).extend(one.name for one in calls.values() if one.is_stopped)
    for call in due:
        of_taps = [said[call.session, tap] for tap in call.taps]
        if any(call.call_id in one for one in of_taps):
            continue
        if set(call.taps) & set(info.shared_ids) or not any(of_taps):
            yield call
        elif call.is_stopped:
            names, name = stopped[call.session], call.name
            if names:
                names.remove(name if name in names else names[0])
            else:
                yield call


def _interrupted(call: ToolCall) -> ToolResult:
    """Return the result of a call that has none because its agent has ended."""
    place, _, index = call.id.rpartition(":")
    return ToolResult(
        v=call.v,
        id=f"{place}d:{RESULT_INDEX + int(index)}",
        stream=call.stream,
        line=call.line,
        session=call.session,
        protocol=call.protocol,
        provider=call.provider,
        dialect=call.dialect,
        ts=call.ts,
        call_id=call.call_id,
        name=call.name,
        output={"_happy": call.input.get("_happy", {}), "_raw": {}},
        status="interrupted",
        is_error=False,
        synthetic=True,
    )


def _bodies_of(event: Produced, items: Iterable[Item]) -> list[UnsaidBody]:
    return [
        UnsaidBody(one.output_id, one.offset, one.data, one.mime_type)
        for one in items
        if isinstance(one, OutputChunk) and one.output_id.encode() in event.body
    ]


def _newest(calls: Sequence[Unsaid]) -> list[Unsaid]:
    """Return the latest calls that fit the bounds."""
    kept: list[Unsaid] = []
    size = 0
    for call in reversed(calls[-MOST_CALLS:]):
        size += sum(map(len, call.events)) + sum(len(one.data) for one in call.bodies)
        if size > MOST_BYTES:
            break
        kept.append(call)
    return kept[::-1]
