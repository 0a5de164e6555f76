"""Requests: one frame in, one reply out. The size of every reply is bounded.

Bodies of display outputs are cached in memory for a limited time (`OutputCache`), and fetched like output bodies in the
journal.
"""

from __future__ import annotations

import re
import secrets
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypeVar

import anyio
import msgspec

from tooltap.daemon.ingest.answering import Answering, name_of
from tooltap.daemon.journal.interface import (
    MAX_SLICE,
    CorruptError,
    Journal,
    JournalError,
    NotEndedError,
    OutputSlice,
    StoredEvent,
    count_lines,
    output_ids,
    place_of_output,
    whole_lines,
)
from tooltap.daemon.search.query import Tally, Wanted, expression_of, phrases_of
from tooltap.daemon.search.search import Answer, FoundCall, Search, UnavailableError
from tooltap.daemon.sessions.listing import NAMED, RUNNING, SessionFilter, SessionPlace, place_of
from tooltap.daemon.sessions.resuming import fork_of, resume_of
from tooltap.daemon.sessions.stored import SessionEvents, check_not_lost, present_id, present_ids
from tooltap.daemon.sessions.usage import zone_of
from tooltap.daemon.sessions.waiting import find_waiting
from tooltap.daemon.show.bodies import milliseconds_of
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.system.loop import name_task
from tooltap.daemon.views.select import put_together, view_of, with_later_view
from tooltap.normalizers.changes.session_files import KINDS, SessionFiles
from tooltap.protocol.events import with_seq
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import (
    AnswerRequest,
    CallsRequest,
    ChangedFilesRequest,
    EndedCallsRequest,
    EndRequest,
    ErrorCode,
    EventRequest,
    FilesRequest,
    FrameError,
    InterruptRequest,
    OutputRequest,
    PingRequest,
    PinRequest,
    Problem,
    RemoveRequest,
    Reply,
    Request,
    RequestId,
    RereadRequest,
    SearchRequest,
    SendRequest,
    SessionsRequest,
    StatsRequest,
    StoreRequest,
    ToAgentRequest,
    UsageRequest,
    WaitingRequest,
)
from tooltap.protocol.replies import (
    ChangedFilesResult,
    EndedCall,
    EndedCallsResult,
    FileChange,
    FileDiff,
    FilesResult,
    FoundEvent,
    FoundSession,
    RereadResult,
    SearchResult,
    WaitingResult,
)
from tooltap.protocol.stats import Statistics
from tooltap.traces.recording.secrets import mask_body, mask_secrets

MAX_REPLY = 1_048_576
"""Most bytes of a reply's result."""
MOST_RUNNING = 1_000
"""Sessions that run or wait, of which it is asked what waits: those with the latest events."""
BODY_CHUNK = 65_536
BODY_STALL = 10.0
"""Seconds without a byte after which receiving a body fails."""

LOST_BODY = "output {!r} is missing in the journal, though its event is there"

T = TypeVar("T")
_log = get_logger("requests")


class Part(NamedTuple):
    """A slice of an output body, and metadata of the output: `type`, `path`, `language`."""

    slice: OutputSlice
    about: dict[str, str]


class Requests:
    """Answers requests. `statistics` returns those of the daemon, and `following` only this part. `end_stream` raises
    `FrameError` for an unknown stream, `to_agent` if the payload does not reach the agent, `reread` if no session files
    are followed. `masks`: mask secrets in display outputs, as in the journal."""

    def __init__(
        self,
        journal: Journal,
        outputs: OutputCache,
        search: Search,
        *,
        statistics: Callable[..., Awaitable[dict[str, Any]]],
        following: Callable[[], dict[str, Any]],
        end_stream: Callable[[str], Awaitable[Statistics]],
        to_agent: Callable[[str, Any, str], Awaitable[None]],
        answering: Answering,
        reread: Callable[[RereadRequest], Awaitable[RereadResult]],
        masks: bool,
    ) -> None:
        self._journal = journal
        self._outputs = outputs
        self._search = search
        self._statistics = statistics
        self._following = following
        self._end_stream = end_stream
        self._to_agent = to_agent
        self._answering = answering
        self._reread = reread
        self._masks = masks

    async def reply_to(self, request: Request) -> Reply:
        name_task(f"request {request.__struct_config__.tag}")
        try:
            return Reply(id=request.id, ok=True, result=await self._result(request))
        except FrameError as error:
            return failure(request.id, error.code, str(error))
        except CorruptError as error:
            return failure(request.id, "corrupt", str(error))
        except JournalError as error:
            return failure(request.id, "journal", str(error))
        except OSError as error:
            return failure(request.id, "internal", f"the request failed: {error.strerror or error}")
        except Exception:
            _log.exception("a request failed", op=request.__struct_config__.tag)
            return failure(request.id, "internal", "the request failed; the daemon's log says why")

    async def store(self, request: StoreRequest, receive: Callable[[int], Awaitable[bytes]]) -> Reply:
        """Receive and store a body. `receive(n)` returns up to n of its bytes, none at the end. Raises `FrameError`,
        which is fatal: the rest of the body cannot be distinguished from frames."""
        path = request.path
        try:
            with self._outputs.room(request.bytes):
                body = await _receive_body(request, receive)
                if self._masks:
                    body = await anyio.to_thread.run_sync(mask_body, body)
                    path = None if path is None else mask_secrets(path.encode()).decode()
            output_id = self._outputs.put(body, request.mime_type, request.type, path, request.language)
        except CannotFitError as error:
            raise FrameError("too-large", f"store: {error}", request_id=request.id, fatal=True) from None
        return Reply(id=request.id, ok=True, result={"outputId": output_id})

    async def _by_present_ids(self, request: Request) -> None:
        """Let a request that asks by earlier ids of sessions ask by the present ones."""
        match request:
            case (
                SearchRequest(session=tuple(names))
                | EndedCallsRequest(session=tuple(names))
                | UsageRequest(session=tuple(names))
                | ChangedFilesRequest(session=tuple(names))
                | WaitingRequest(session=tuple(names))
            ):
                request.session = await present_ids(self._journal, names)
            case CallsRequest(session=str(name)) | SendRequest(session=str(name)) | InterruptRequest(session=str(name)):
                request.session = await present_id(self._journal, name)

    async def _result(self, request: Request) -> Any:
        await self._by_present_ids(request)
        match request:
            case SessionsRequest():
                return await self._sessions(request)
            case SearchRequest():
                return await search_result(self._search, self._journal, request)
            case UsageRequest():
                return await self._usage(request)
            case EventRequest():
                return await self._event(request)
            case ChangedFilesRequest():
                return await self._changed_files(request)
            case FilesRequest():
                return await files_of(self._journal, request, MAX_REPLY)
            case CallsRequest():
                return await self._calls(request)
            case WaitingRequest():
                return await self._waiting(request)
            case EndedCallsRequest():
                return await ended_calls(self._search, self._journal, request)
            case OutputRequest():
                return await self._output(request)
            case StatsRequest():
                if request.part == "following":
                    return self._following()
                return await self._stats(with_streams=request.part is None, stream=request.stream)
            case EndRequest():
                return await self._end_stream(request.stream)
            case ToAgentRequest():
                await self._to_agent(request.stream, request.payload, name_of(request.by))
                return {}
            case AnswerRequest():
                return await self._answering.answer(request)
            case SendRequest() | InterruptRequest():
                return await self._answering.send(request)
            case RemoveRequest():
                return await self._remove(request)
            case PinRequest():
                return await self._pin(request)
            case RereadRequest():
                return msgspec.to_builtins(await self._reread(request))
            case PingRequest():
                return {}

    async def _sessions(self, request: SessionsRequest) -> dict[str, Any]:
        before = None if request.before is None else SessionPlace(request.before)
        if request.cursor is not None:
            try:
                before = SessionPlace.of_cursor(request.cursor)
            except ValueError:
                raise FrameError("bad-frame", "sessions: `cursor` is not one of a page of sessions") from None
        elif before is not None and request.order != "seq":
            raise FrameError("bad-frame", "sessions: `before` is for the order seq; continue with `cursor`")
        wanted = _wanted(request)
        found = await self._journal.sessions(limit=request.limit, before=before, order=request.order, wanted=wanted)
        facets = await self._journal.count_sessions(wanted) if request.facets else None
        found = [_with_commands(one) for one in found]
        sessions = _fitting(found, MAX_REPLY if facets is None else MAX_REPLY // 2)
        result: dict[str, Any] = {"sessions": sessions}
        if sessions and (len(sessions) < len(found) or len(found) == request.limit):
            last = place_of(sessions[-1])
            result["cursor"] = last.cursor
            if request.order == "seq":
                result["next"] = last.last_seq
        if facets is not None:
            result["facets"] = facets
        return result

    async def _usage(self, request: UsageRequest) -> dict[str, Any]:
        try:
            zone_of(request.zone)
        except ValueError as error:
            raise FrameError("bad-frame", f"usage: {error}") from None
        result: dict[str, Any] = msgspec.to_builtins(await self._journal.usage(request))
        rows = _fitting(result["rows"])
        return {**result, "rows": rows, "complete": len(rows) == len(result["rows"])}

    async def _changed_files(self, request: ChangedFilesRequest) -> ChangedFilesResult:
        result = await self._journal.changed_files(request)
        files = await anyio.to_thread.run_sync(_fitting, result.files)
        return ChangedFilesResult(
            files=files,
            total=result.total,
            complete=result.complete and len(files) == len(result.files),
            uncounted=result.uncounted,
        )

    async def _event(self, request: EventRequest) -> dict[str, Any]:
        stored = await self._journal.event(request.seq)
        if stored is None:
            raise FrameError("not-found", f"there is no event {request.seq}")
        event = msgspec.json.decode(with_seq(stored.seq, stored.body))
        if request.view == "display":
            event = await with_later_view(event, self._journal)
        if request.view == "assistant":
            event = await put_together(event, self._journal, MAX_REPLY // 2)
        removed = await self._journal.removed_bodies(output_ids(stored.body))
        reasons = {"removedOutputs": {name: one.reason for name, one in removed.items()}} if removed else {}
        return {"view": request.view, "event": view_of(event, request.view), **reasons}

    async def _calls(self, request: CallsRequest) -> dict[str, Any]:
        found = await self._journal.open_calls(request.session)
        fitting = {name: _fitting(rows, MAX_REPLY // 2) for name, rows in found.items()}
        return {**fitting, "complete": fitting == found}

    async def _waiting(self, request: WaitingRequest) -> WaitingResult:
        wanted = SessionFilter(
            session=request.session,
            status=RUNNING,
            provider=request.provider,
            project=request.project,
            host=request.host,
        )
        sessions = await self._journal.sessions(limit=MOST_RUNNING, order="time", wanted=wanted)
        opened = await self._journal.open_calls()
        streams = {one.stream: one for one in await self._journal.streams("open")}
        now = wall_clock()
        found = find_waiting(sessions, opened, streams, before=now - request.may_after, now=now)
        fitting = _fitting(found)
        return WaitingResult(waiting=fitting, complete=len(fitting) == len(found) and len(sessions) < MOST_RUNNING)

    async def part(self, request: OutputRequest) -> Part:
        """The requested slice of an output body, not yet encoded. Raises `FrameError` and `JournalError`."""
        if (cached := self._outputs.get(request.output_id)) is not None:
            known = {"type": cached.type, "path": cached.path, "language": cached.language}
            about = {key: value for key, value in known.items() if value is not None}
            return Part(cached.slice(request.offset, request.length, request.unit), about)
        part = await self._journal.output(request.output_id, request.offset, request.length, request.unit)
        if part is None:
            raise await self._no_output(request.output_id)
        return Part(part, {})

    async def _output(self, request: OutputRequest) -> dict[str, Any]:
        part, about = await self.part(request)
        return {**(_lines(part) if request.unit == "lines" else _bytes(part)), **about}

    async def _no_output(self, output_id: str) -> FrameError:
        if self._outputs.has_expired(output_id):
            return FrameError("expired", f"output {output_id!r} has expired: it was held in memory for a limited time")
        for removed in (await self._journal.removed_bodies((output_id,))).values():
            return FrameError("expired", f"output {output_id!r} {removed.reason}; its event is there")
        if (place := place_of_output(output_id)) is not None:
            stream, line = place
            events, _ = await self._journal.read(0, Filter(stream=(stream,)), max_bytes=1)
            stored = await self._journal.load_stream(stream)
            if stored is not None and line <= stored.info.lines:
                if not events:
                    return FrameError("expired", f"output {output_id!r} has expired, and so has its event")
                if stored.info.state == "ended":
                    return FrameError("expired", LOST_BODY.format(output_id))
        return FrameError("not-found", f"there is no output {output_id!r}")

    async def _remove(self, request: RemoveRequest) -> dict[str, Any]:
        if (present := await present_id(self._journal, request.session)) != request.session:
            raise FrameError("not-found", f"there is no session {request.session!r}: it is {present!r} by now")
        # Of a session whose removal was interrupted, only its row and its streams may be left.
        known = await self._journal.streams_of(request.session)
        try:
            events = await self._journal.remove_session(request.session)
        except NotEndedError as error:
            raise FrameError("not-ended", str(error)) from None
        self._search.note_deleted(soon=True)
        if not events and not known:
            check_not_lost(self._journal, request.session)
            raise FrameError("not-found", f"there is no session {request.session!r}")
        return {"events": events}

    async def _pin(self, request: PinRequest) -> dict[str, Any]:
        wanted = SessionFilter(session=(request.session,))
        if request.pinned and not await self._journal.sessions(limit=1, wanted=wanted):
            check_not_lost(self._journal, request.session)
            raise FrameError("not-found", f"there is no session {request.session!r}")
        await self._journal.pin(request.session, pinned=request.pinned)
        return {"pinned": request.pinned}

    async def _stats(self, *, with_streams: bool, stream: str | None) -> dict[str, Any]:
        statistics = await self._statistics(with_streams=with_streams, stream=stream)
        return {
            key: _fitting(value, MAX_REPLY // 4) if isinstance(value, list) else value
            for key, value in statistics.items()
        }


def failure(request_id: RequestId, code: ErrorCode, message: str) -> Reply:
    return Reply(id=request_id, ok=False, error=Problem(code=code, message=message))


def _fitting(rows: list[T], limit: int = MAX_REPLY) -> list[T]:
    """The first rows, as many as fit into a reply."""
    size = 0
    for number, row in enumerate(rows):
        size += len(msgspec.json.encode(row)) + 1
        if size > limit:
            return rows[:number]
    return rows


def _with_commands(session: dict[str, Any]) -> dict[str, Any]:
    commands = {"resume": resume_of(session), "fork": fork_of(session)}
    return {**session, **{name: words for name, words in commands.items() if words is not None}}


def _wanted(request: SessionsRequest) -> SessionFilter:
    named = {key: getattr(request, key) for key in NAMED}
    return SessionFilter(
        **named,
        since=request.since,
        until=request.until,
        changed_after=request.changed_after,
        origin=request.origin,
        with_empty=request.empty or request.session is not None,
    )


async def _receive_body(request: StoreRequest, receive: Callable[[int], Awaitable[bytes]]) -> bytes:
    body = bytearray()
    while len(body) < request.bytes:
        data = b""
        with anyio.move_on_after(BODY_STALL):
            data = await receive(min(BODY_CHUNK, request.bytes - len(body)))
        if not data:
            received = f"only {len(body)} of {request.bytes} bytes were received"
            raise FrameError("bad-frame", f"store: {received}", request_id=request.id, fatal=True)
        body += data
    return bytes(body)


def _bytes(part: OutputSlice) -> dict[str, Any]:
    data = part.data
    body = _body(data, part.offset + len(data) >= part.total)
    while len(msgspec.json.encode(body)) > MAX_REPLY:
        data = data[: len(data) * 2 // 3]  # JSON may need six bytes for one
        body = _body(data, False)
    length = len(body["text"].encode()) if "text" in body else len(body["b64"])
    return _slice(part, body, length, "bytes")


def _lines(part: OutputSlice) -> dict[str, Any]:
    """Encode a slice in lines, shortened to whole lines that fit into a reply. Raises `FrameError`."""
    lines = [line + b"\n" for line in part.data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1] or part.offset + len(lines) < part.total:  # empty, or the head of a line too long for a slice
        lines.pop()
    body = _body(b"".join(lines), True)
    while len(msgspec.json.encode(body)) > MAX_REPLY:
        lines = lines[: len(lines) * 2 // 3]
        body = _body(b"".join(lines), True)
    if not lines and part.offset < part.total:
        raise FrameError("too-large", f"line {part.offset} alone is longer than a reply; request it in bytes")
    return _slice(part, body, len(lines), "lines")


def _slice(part: OutputSlice, body: dict[str, Any], length: int, unit: str) -> dict[str, Any]:
    return {
        **body,
        "offset": part.offset,
        "length": length,
        "total": part.total,
        "unit": unit,
        "mimeType": part.mime_type,
    }


def _body(data: bytes, complete: bool) -> dict[str, Any]:
    """Encode bytes: UTF-8 as `text`, anything else as `b64`. If not `complete`, a code point cut off at the end is
    dropped."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError as error:
        if not complete and error.reason == "unexpected end of data" and error.start > 0:
            return {"text": data[: error.start].decode()}
        return {"b64": data}


SESSIONS = 100
"""Most sessions in a search result."""
MOST_SESSIONS = 5_000
"""Most sessions with hits whose status and host are looked up: those with the newest hits."""


async def search_result(search: Search, journal: Journal, request: SearchRequest) -> dict[str, Any]:
    """Answer a `search` request: a `SearchResult` as a JSON object. Raises `FrameError`, `JournalError`."""
    expression = expression_of(request.query)
    if request.query.strip() and not expression:
        raise FrameError("bad-frame", "search: `query` needs at least one letter or digit, or nothing at all")
    wanted = Wanted(
        expression,
        sessions=request.session,
        providers=request.provider,
        kinds=request.kind,
        tools=request.tool,
        folders=request.project,
        since=request.since,
        until=request.until,
        outcomes=request.outcome,
        phrases=phrases_of(request.query),
        everything=not expression,
    )
    is_matched = True
    try:
        if request.status is not None or request.host is not None:
            wanted, is_matched = await _of_matching(
                search, journal, wanted, request.before, request.status, request.host
            )
        answer = await search.find(
            wanted,
            before=request.before,
            limit=request.limit,
            most_of_session=request.per_session,
            counts=request.counts,
        )
    except UnavailableError as error:
        raise FrameError("no-index", str(error)) from None
    tallies = answer.tallies if request.counts else _tallies(answer)
    rows = await _rows(journal, [one.session for one in tallies[:SESSIONS]])
    result = SearchResult(
        hits=[
            FoundEvent(
                seq=one.seq,
                session=one.session,
                stream=one.event.stream,
                kind=one.event.kind,
                ts=one.event.ts,
                tool=one.event.tool,
                text=one.snippet.text,
                ranges=[list(found) for found in one.snippet.ranges],
                argument=one.argument,
            )
            for one in answer.hits
        ],
        # A session that is not in the journal any more has no hits: what the index has of it is about to be deleted.
        sessions=[
            FoundSession(
                session=one.session,
                provider=row["provider"],
                title=row.get("title"),
                project=row.get("project"),
                host=row.get("host"),
                status=row.get("status"),
                last_ts=row.get("lastTs"),
                hits=one.hits if request.counts else None,
                latest=one.latest,
            )
            for one in tallies[:SESSIONS]
            if (row := rows.get(one.session)) is not None
        ],
        total=sum(one.hits for one in tallies) if request.counts else None,
        found_in=len(tallies) if request.counts else None,
        next=answer.next,
        complete=answer.complete and is_matched,
        upto=answer.upto,
        behind=answer.behind,
        floor=answer.floor or None,
    )
    described: dict[str, Any] = msgspec.to_builtins(result)
    return described


async def _of_matching(
    search: Search,
    journal: Journal,
    wanted: Wanted,
    before: int | None,
    status: tuple[str, ...] | None,
    host: tuple[str, ...] | None,
) -> tuple[Wanted, bool]:
    """Restrict the search to sessions that have hits, and one of the requested statuses and hosts; and return whether
    these are all such sessions."""
    tallies, is_counted = await search.count(wanted, before=before)
    rows = await _rows(journal, [one.session for one in tallies[:MOST_SESSIONS]], status, host)
    return wanted._replace(sessions=list(rows)), is_counted and len(tallies) <= MOST_SESSIONS


async def _rows(
    journal: Journal,
    names: Sequence[str],
    status: tuple[str, ...] | None = None,
    host: tuple[str, ...] | None = None,
) -> dict[str, dict[str, Any]]:
    wanted = SessionFilter(session=tuple(names), status=status, host=host)
    found = await journal.sessions(limit=len(names), wanted=wanted) if names else []
    return {one["session"]: one for one in found}


def _tallies(answer: Answer) -> list[Tally]:
    """The sessions of the returned hits, without counts."""
    found: dict[str, Tally] = {}
    for one in answer.hits:
        found.setdefault(one.session, Tally(one.session, one.event.provider, None, 0, one.seq))
    return list(found.values())


async def ended_calls(search: Search, journal: Journal, request: EndedCallsRequest) -> dict[str, Any]:
    """Answer an `ended-calls` request: an `EndedCallsResult` as a JSON object. Raises `FrameError`, `JournalError`."""
    named = None if request.file is None else expression_of(f'"{request.file.replace(chr(34), " ")}"')
    if named == "":
        raise FrameError("bad-frame", "ended-calls: `file` needs at least one letter or digit")
    wanted = Wanted(
        "",
        sessions=request.session,
        providers=request.provider,
        kinds=("tool-result",),
        tools=request.tool,
        folders=request.project,
        since=request.since,
        until=request.until,
        outcomes=request.outcome,
        file=named,
    )
    is_matched = True
    try:
        if request.host is not None:
            wanted, is_matched = await _of_matching(search, journal, wanted, request.before, None, request.host)
        found = await search.calls(wanted, file=request.file, before=request.before, limit=request.limit)
    except UnavailableError as error:
        raise FrameError("no-index", str(error)) from None
    rows = await _rows(journal, list(dict.fromkeys(one.session for one in found.calls)))
    result = EndedCallsResult(
        calls=[_ended_call(one, rows.get(one.session, {})) for one in found.calls],
        next=found.next,
        complete=found.complete and is_matched,
        upto=found.upto,
        behind=found.behind,
        floor=found.floor or None,
    )
    described: dict[str, Any] = msgspec.to_builtins(result)
    return described


ERROR_LENGTH = 200
"""Code points of an error in a list of calls."""


def _ended_call(found: FoundCall, session: dict[str, Any]) -> EndedCall:
    outcome, call = found.outcome.head, None if found.call is None else found.call.head
    error = outcome.payload.get("errorMessage")
    text = "" if error is None else " ".join(str(msgspec.json.decode(error)).split())
    return EndedCall(
        session=found.session,
        title=session.get("title"),
        project=session.get("project"),
        host=session.get("host"),
        provider=outcome.provider,
        stream=outcome.stream,
        call_id=outcome.call_id or "",
        seq=None if found.call is None else found.call.seq,
        result_seq=found.outcome.seq,
        ts=outcome.ts,
        name=outcome.name or "",
        call_title=None if call is None else call.title,
        preview=None if call is None else call.preview,
        outcome=outcome.status,  # type: ignore[arg-type]
        error=(text if len(text) <= ERROR_LENGTH else f"{text[: ERROR_LENGTH - 1]}…") or None,
        duration_ms=milliseconds_of(outcome, None if call is None else call.ts),
        agent=outcome.agent,
    )


async def files_of(journal: Journal, request: FilesRequest, max_bytes: int) -> FilesResult:
    """Answer a `files` request. `max_bytes`: limit of the encoded result. Raises `FrameError` and `JournalError`."""
    files = SessionFiles()
    stored, wanted = await SessionEvents.of(journal, (request.session,)), Filter(kind=KINDS)
    after, last = journal.oldest - 1, journal.latest
    is_known = False
    while after < last:
        found, after = await stored.read(after, wanted, up_to=last)
        is_known = is_known or bool(found)
        await anyio.to_thread.run_sync(_note, files, found)
    if not is_known and not await journal.streams_of(request.session):
        check_not_lost(journal, request.session)
        raise FrameError("not-found", f"there is no session {request.session!r}")
    if request.file is None:
        return await anyio.to_thread.run_sync(_list, files, max_bytes)
    one = await anyio.to_thread.run_sync(files.diff, request.file)
    if one is None:
        raise FrameError("not-found", f"session {request.session!r} has not changed {request.file!r}")
    result = FilesResult(files=[_without_diff(one)], complete=True, file=one)
    if len(msgspec.json.encode(result)) > max_bytes:
        raise FrameError("too-large", f"the diff of {request.file!r} does not fit into a reply")
    return result


def _note(files: SessionFiles, found: list[StoredEvent]) -> None:
    for stored in found:
        files.note(stored.seq, msgspec.json.decode(stored.body))


def _list(files: SessionFiles, max_bytes: int) -> FilesResult:
    result = FilesResult(files=files.changes(), complete=files.complete)
    while len(msgspec.json.encode(result)) > max_bytes:
        result = FilesResult(files=result.files[: len(result.files) // 2], complete=False)
    return result


def _without_diff(one: FileDiff) -> FileChange:
    return FileChange(**{name: getattr(one, name) for name in FileChange.__struct_fields__})


# -- display outputs --------------------------------------------------------------------------------------------------

_ID = re.compile(r"display-([0-9a-f]{16})-([0-9a-f]{8})")


class CannotFitError(Exception):
    """The body is too large for the cache; the message is one sentence for its sender."""


class CachedOutput(NamedTuple):
    data: bytes
    mime_type: str
    type: str
    path: str | None
    language: str | None
    lines: int
    expires: float

    def slice(self, offset: int, length: int, unit: Literal["bytes", "lines"]) -> OutputSlice:
        if unit == "bytes":
            part = self.data[offset : offset + min(length, MAX_SLICE)]
            return OutputSlice(part, offset, len(self.data), self.mime_type)
        return OutputSlice(self._lines(offset, length), offset, self.lines, self.mime_type)

    def _lines(self, offset: int, count: int) -> bytes:
        if offset >= self.lines:
            return b""
        start = len(self.data) - len(self.data.split(b"\n", offset)[-1])
        return whole_lines(self.data[start : start + MAX_SLICE], count)


OUTPUT_CACHE_BYTES = 64 * 1024 * 1024
"""Bytes of display outputs held in memory; beyond this, the oldest are evicted."""
OUTPUT_TTL = 1_800.0
"""Seconds after which a display output expires."""


class OutputCache:
    """Cache of the bodies of display outputs. They expire, and the oldest are evicted beyond `max_bytes`. An id has a
    checksum that proves it was issued for this journal. So an expired body, even one of an earlier process, can be
    distinguished from one that never existed.

    `journal`: id of the journal. `ttl`: time to live in seconds. `clock`: monotonic, in seconds.
    """

    def __init__(
        self,
        journal: str,
        *,
        max_bytes: int = OUTPUT_CACHE_BYTES,
        ttl: float = OUTPUT_TTL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._journal = journal
        self._max_bytes = max_bytes
        self._ttl = ttl
        self._clock = clock
        self._cached: dict[str, CachedOutput] = {}
        """Output id -> body, oldest first."""
        self._bytes = 0
        self._reserved = 0
        """Bytes reserved for bodies that are being received."""
        self._stored = self._expired = self._evicted = 0

    @contextmanager
    def room(self, size: int) -> Iterator[None]:
        """Reserve room for a body that is being received. Raises `CannotFitError`."""
        self._make_room(size)
        self._reserved += size
        try:
            yield
        finally:
            self._reserved -= size

    def put(self, data: bytes, mime_type: str, kind: str, path: str | None = None, language: str | None = None) -> str:
        """Store a body and return its id. Raises `CannotFitError`."""
        self._make_room(len(data))
        nonce = secrets.token_hex(8)
        output_id = f"display-{nonce}-{self._check(nonce)}"
        cached = CachedOutput(data, mime_type, kind, path, language, count_lines(data), self._clock() + self._ttl)
        self._cached[output_id] = cached
        self._bytes += len(data)
        self._stored += 1
        return output_id

    def get(self, output_id: str) -> CachedOutput | None:
        self.sweep()
        return self._cached.get(output_id)

    def has_expired(self, output_id: str) -> bool:
        """Whether an id was issued for this journal; if `get` does not find it, it has expired."""
        match = _ID.fullmatch(output_id)
        return match is not None and match[2] == self._check(match[1])

    def sweep(self) -> None:
        """Drop expired bodies. Call this regularly, to free their memory."""
        now = self._clock()
        while self._cached and next(iter(self._cached.values())).expires <= now:
            self._drop()
            self._expired += 1

    def statistics(self) -> dict[str, int]:
        """Counters: current `kept` and `bytes`; `stored`, `expired` and `evicted` since startup."""
        self.sweep()
        return {
            "kept": len(self._cached),
            "bytes": self._bytes,
            "stored": self._stored,
            "expired": self._expired,
            "evicted": self._evicted,
        }

    def _make_room(self, size: int) -> None:
        self.sweep()
        if self._reserved + size > self._max_bytes:
            raise CannotFitError(f"{size} bytes do not fit: display outputs may have {self._max_bytes} bytes in all")
        while self._bytes + self._reserved + size > self._max_bytes:
            self._drop()
            self._evicted += 1

    def _drop(self) -> None:
        oldest = next(iter(self._cached))
        self._bytes -= len(self._cached.pop(oldest).data)

    def _check(self, nonce: str) -> str:
        return f"{zlib.crc32(f'{self._journal}:{nonce}'.encode()):08x}"
