"""Decides which events of a followed file are left out, because another stream of the session reports them.

`sessions/joining.py` has the rules for a session on several streams. A tap that owns a session covers the time during
which its agent ran. Of the file's lines from that time are ingested:

- Prompts that the tap has not reported.
- Usage, with the tap in `beside`: either may state more of it, and sums count once what both state.
- Facts of the session (`FACTS`), as an update of it. A tap's stream may lack its folder, branch, model or title.
- Events of subagents, if the tap's dialect never shows them.
- Calls that the tap has not reported when it has ended (`sessions/unsaid.py`).

Of its lines from later on, results that the tap has reported are left out, and those that say a call was stopped which
the tap's stream has ended: what Qwen Code started writes them when Qwen Code itself has been killed. Another result of
such a call is the file's own: its agent has worked on without the tap.

All times come from the clock of one machine: the agent
writes the time into each line of its file, and `run` and `proxy` report the start and the end of the agent. So it does
not matter how late either stream reaches the daemon.

- If a publisher does not state the start of the agent, its span is extended by `grace` before its first line and after
  its end, because an agent prints and writes an event at slightly different times.
- A tap that joins a session in the middle of a turn reports that turn from its start, so its span begins there.
- Telemetry that was not deleted when the file came (`sessions/joining.py`) counts as a tap, which ran from the first to
  the last event that it has reported, extended by `grace`.
- A line with a time before its file existed was written at an unknown time since then.
- A line before the first that states a time was written when the file was last changed.
- An open tap covers everything from its start on. A suspended one may be resumed, so nothing can be decided, and the
  file waits. It also waits while the role of a tap in the session is not durable yet.
- Another file stream of the same agent with the same file name is an earlier state of the same file, which was
  truncated or moved, and so got a new stream; or it is the session in the tables of an older version of the agent. It
  covers everything up to its last line. If both streams grow, the younger one yields: otherwise each would be left out
  in favor of the other. Files of different agents of a session may have the same name, and cover nothing of each other.

A subagent's lines may be in a file of its own, and repeated in the session's. There they are left out.

All other events of the file are ingested: those from before the tap began, and those after it ended. If the file itself
names no session, the session is unknown, and nothing is left out.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tooltap.daemon.journal.interface import StreamInfo
from tooltap.daemon.sessions.joining import is_file, is_prompt, is_repeated, is_silent_gateway, is_tap, is_telemetry
from tooltap.daemon.sessions.unsaid import STOPPED, Said, is_of_call, is_own, keep_unsaid, own
from tooltap.daemon.taps.stream_ids import name_of_id
from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Item, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import Keep
from tooltap.protocol.events import Event, SessionEvent
from tooltap.protocol.stats import Statistics

FACTS = ("cwd", "root", "branch", "model", "title", "agent_version", "forked_from", "parent_session", "resumes")
"""Fields of a `session` event that describe the session, whichever stream states them."""

_NAME = re.compile(r"[\w-]{1,200}")


class Span(NamedTuple):
    """A span of time, in ms since the epoch, both ends inclusive."""

    first: float
    last: float
    tap: str | None = None
    """The tap that covers it; None: an earlier stream of the same file."""

    def has(self, first: float, last: float) -> bool:
        """Return whether the span overlaps this time."""
        return self.first <= last and first <= self.last


def spans(
    others: Iterable[StreamInfo],
    session: str,
    stream: str,
    first_t: int,
    grace: int,
    *,
    agent: str | None = None,
    older: str | None = None,
) -> list[Span] | None:
    """Return the spans that other streams of the session cover, for the file stream `stream`, which begins at
    `first_t`. None while that is undecided, because a publisher may come back.

    `others`: all streams of the session. `grace`: ms by which the times in an agent's file and output may differ.
    `agent`: the subagent whose file it is; `older`: the stream of the session in tables of an older version.
    """
    found = []
    for one in others:
        first, last = one.first_t or 0, one.last_t or one.updated
        if one.stream == stream:
            continue
        if is_file(one):
            # The younger of two gives way, never both.
            is_of_same = one.agent == agent and name_of_id(one.stream) == name_of_id(stream)
            if (is_of_same and (first, one.stream) < (first_t, stream)) or one.stream == older:
                found.append(Span(0, last))
        elif is_telemetry(one):
            if session in one.begins and one.last_reported_ts is not None:
                found.append(Span(one.begins[session] - grace, one.last_reported_ts + grace, one.stream))
        elif not is_tap(one) or one.roles.get(session) == "guest" or is_silent_gateway(one):
            continue
        elif one.state == "suspended":
            return None
        else:
            first = one.begins.get(session, first)
            start, slack = (first, grace) if one.started is None else (one.started, 0)
            found.append(Span(start - slack, math.inf if one.state == "open" else last + slack, one.stream))
    return found


def covering(connected: Iterable[StreamInfo], stored: Iterable[StreamInfo], session: str) -> list[StreamInfo] | None:
    """Return the current streams of a session. None while the role of a tap in it is not durable, or telemetry of it is
    being stored.

    `connected`: the streams that have a connection; `stored`: those of the session in the journal.
    """
    known = {one.stream: one for one in stored}
    for one in connected:
        if one.stream in known:
            known[one.stream] = one
        elif (is_tap(one) or is_telemetry(one)) and _may_own(one, session):
            return None
    return list(known.values())


def _may_own(tap: StreamInfo, session: str) -> bool:
    """Return whether a tap owns a session, or may become its owner once its role is decided. Guests need not be waited
    for: they may have nothing to report."""
    role = tap.roles.get(session)
    return role == "owner" if role is not None else session in (tap.last_session, tap.session)


def is_too_old(items: Sequence[Item], statistics: Statistics, horizon: int) -> bool:
    """Return whether a line is older than `horizon` and nothing before it was ingested. `statistics`: of its stream."""
    ts = _time(items)
    return ts is not None and ts < horizon and not statistics.events


class OwnFiles:
    """Finds the subagents of a session that have a file of their own. `paths`: where it may be, with `{agent}`."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._found: set[str] = set()

    def without_copies(self, items: list[Item], of_file: str | None) -> list[Item]:
        """Leave out what a line of the session's file repeats of such subagents. `of_file`: the agent whose file it
        is."""
        if not self._paths or not any(isinstance(item, Produced) and self._is_copy(item, of_file) for item in items):
            return items
        return [item for item in items if isinstance(item, Produced) and not self._is_copy(item, of_file)]

    def _is_copy(self, item: Produced, of_file: str | None) -> bool:
        agent = item.agent
        if agent is None or agent == of_file:
            return False
        if agent not in self._found:
            # What an agent prints is hostile: a name is no path.
            if not _NAME.fullmatch(agent) or not any(
                os.path.exists(path.replace("{agent}", agent)) for path in self._paths
            ):
                return False
            self._found.add(agent)
        return True


def own_files(path: str, templates: Sequence[str]) -> tuple[str, ...]:
    """Return the paths for `OwnFiles` of a session's file. `templates`: as in `Store.subagents`."""
    folder, name = os.path.split(path)
    session = os.path.splitext(name)[0]
    return tuple(os.path.join(folder, one.replace("{session}", session)) for one in templates)


def keeps(
    info: StreamInfo,
    statistics: Statistics,
    horizon: int,
    covered: Sequence[Span],
    taps: Mapping[str, StreamInfo],
    mtime: int,
    now: int,
    own_files: OwnFiles,
    said: Mapping[str, Mapping[str, Said]],
) -> Keep:
    """Return a filter for the items of each line of a file stream. The filter updates `info`.

    `statistics`: statistics of the stream, updated meanwhile; `covered`: spans covered by other streams; `taps`: stream
    id -> info of the taps in `covered`; `mtime`: time of the file's last change; `own_files`: those of subagents;
    `said`: tap -> the calls that it has reported.
    """

    def keep(items: list[Item]) -> list[Item]:
        items = own_files.without_copies(items, info.agent)
        if is_too_old(items, statistics, horizon):
            info.left_out = True
            return []
        if not items:
            return items
        if (ts := _time(items)) is None:
            ts = mtime
        first, last = (info.missing_at, now) if info.missing_at is not None and ts < info.missing_at else (ts, ts)
        covers = [span for span in covered if span.has(first, last)]
        info.left_out = bool(covers)
        if not covers:
            ended = [said.get(span.tap, {}) for span in covered if span.tap is not None and span.last < first]
            if _are_results_of(items, ended):
                info.left_out = True
                return []
            info.last_reported_ts = last if info.last_reported_ts is None else max(info.last_reported_ts, last)
            return own(info, items)
        present = [taps[span.tap] for span in covers if span.tap is not None]
        if len(present) == len(covers):
            return _unreported(items, info, present, taps.values(), said)
        return [item for item in items if _is_title(item)]

    return keep


def _are_results_of(items: Sequence[Item], taps: Sequence[Mapping[str, Said]]) -> bool:
    """Whether a line has nothing but results that taps have reported. `taps`: the calls of each."""
    return all(
        isinstance(item, OutputChunk)
        or (is_of_call(item) and item.kind != "tool-call" and any(_is_said(item, said) for said in taps))
        for item in items
    )


def _is_said(item: Produced, said: Mapping[str, Said]) -> bool:
    """Whether a tap has reported a result, or what it says. A call that was stopped when the tap ended may have a
    result after all."""
    found = said.get(item.fields.call_id)
    is_news = item.kind == "tool-result" and item.fields.status not in STOPPED
    return found is not None and not (found.is_stopped and is_news)


def _is_title(item: Item) -> bool:
    """Whether an event gives the session a title. Such lines state no time, so they may be later than what precedes
    them; and no tap shows them."""
    return isinstance(item, Produced) and item.kind == "session" and item.fields.title is not None


def _unreported(
    items: Sequence[Item],
    info: StreamInfo,
    taps: Sequence[StreamInfo],
    others: Iterable[StreamInfo],
    said: Mapping[str, Mapping[str, Said]],
) -> list[Item]:
    """Return the items that none of these taps can have reported. `others`: all streams that may have reported a
    prompt; `said`: as in `keeps`. Calls are kept in `info`."""
    silent = all(_hides_subagents(tap) for tap in taps)
    kept: list[Item] = []
    for item in items:
        if not isinstance(item, Produced):
            continue
        # Its turn is one of the file's, which are not reported.
        if item.kind == "usage" and not item.replay:
            kept.append(Produced.of(msgspec.structs.replace(item.event, turn=None, beside=taps[0].stream)))
        elif item.agent is not None:
            if silent:
                kept.append(item)
        elif item.kind == "session":
            if (facts := _facts(item.event)) is not None:
                kept.append(Produced.of(facts))
        elif is_prompt(item) and not is_repeated(item, info, others):
            kept.append(Produced.of(msgspec.structs.replace(item.event, turn=None)))
        elif is_own(info, item):
            kept += own(info, [Produced.of(msgspec.structs.replace(item.event, turn=None))])
    streams = [tap.stream for tap in taps]
    keep_unsaid(info, items, streams, [said.get(one, {}) for one in streams], alone=not kept)
    bodies = [item.body for item in kept if isinstance(item, Produced)]
    chunks = (item for item in items if isinstance(item, OutputChunk))
    return [*(one for one in chunks if any(one.output_id.encode() in body for body in bodies)), *kept]


def _facts(event: Event) -> Event | None:
    """Return an update of the session with the facts of an event; None if it has none."""
    if all(getattr(event, field) is None for field in FACTS):
        return None
    others = {
        field: None for field in SessionEvent.__struct_fields__ if field not in (*FACTS, *Event.__struct_fields__)
    }
    return msgspec.structs.replace(event, **{**others, "turn": None, "state": "updated"})


def _hides_subagents(tap: StreamInfo) -> bool:
    dialect = builtin().get(tap.dialect or tap.asked_dialect)
    return dialect is not None and dialect.hides_subagents


def _time(items: Iterable[Item]) -> int | None:
    """Return when a line was written: the latest time of its events, as what ends with the line happened before it."""
    latest: int | None = None
    for item in items:
        if isinstance(item, Produced) and item.ts is not None and (latest is None or item.ts > latest):
            latest = item.ts
    return latest
