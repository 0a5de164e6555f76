"""Answers, prompts and interrupts of clients: which stream they are for, and which of several answers is the first.

The daemon that has the publisher's connection decides. `IngestConnection.dispatch` compares and claims between two
awaits, and journals the claim in one commit with a notice about it, before the publisher gets a frame. So of two
answers one is the first, and a claim that a client was told of survives any crash. A daemon that shares the journal and
does not have the connection forwards the request to the one that has it.

A connection may be dead without this daemon knowing, while the publisher has reconnected to another daemon. So before
a connection decides, the journal says whether another daemon has committed to the stream since (`is_current`). If one
does so in the same moment, the journal refuses the claim, and the answer is given again, with the same id, to the
daemon that has the publisher now.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar

import msgspec

from tooltap.daemon.ingest.connection import ANSWER_PATIENCE, IngestConnection
from tooltap.daemon.ingest.live_stream import MASKED_INPUT, LiveStream
from tooltap.daemon.journal.interface import NEWEST, Dispatch, Journal, JournalError, StoredEvent
from tooltap.daemon.sessions.stored import check_not_lost
from tooltap.daemon.sessions.waiting import ago, first_was, way_to_agent
from tooltap.daemon.system.clock import Clock
from tooltap.daemon.system.logs import faults
from tooltap.daemon.system.sanitize import one_line
from tooltap.normalizers.core.answers import CannotWriteError, Chosen, NotOfferedError, choose
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.answers import ForAgent
from tooltap.protocol.events import with_seq
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import AnswerRequest, ErrorCode, FrameError, InterruptRequest, SendRequest
from tooltap.protocol.replies import AnswerResult, SendResult
from tooltap.traces.recording.secrets import MASK, mask_secrets

Wanted: TypeAlias = AnswerRequest | SendRequest | InterruptRequest

T = TypeVar("T")

FORWARD_PATIENCE = ANSWER_PATIENCE + 5.0
"""Timeout in seconds for the daemon that has the publisher's connection."""
ATTEMPTS = 3
"""How often an answer is given at most, while its publisher changes from one daemon to another."""
NAME_LENGTH = 300
"""Most characters kept of who sends a request, and how it came."""
MASKED_KEY = "the prompt's key has a secret, and no secret is stored here: choose another key"
ENDS_READ = 500
"""Latest ends of questions, and latest notices, that are searched for those of a question which is not open."""


class _Forwarded(msgspec.Struct):
    """A request that another daemon passes on."""

    request: Wanted
    id: str = ""
    """Id of the answer, prompt or interrupt; empty: the other daemon makes one."""


class _Answered(msgspec.Struct):
    """The reply to it: `result`, or the code and the sentence of an error."""

    result: msgspec.Raw = msgspec.Raw(b"null")
    code: ErrorCode | None = None
    message: str = ""


class _SettledError(FrameError):
    """The question has an end since it was found."""


class Answering:
    """Answers the requests `answer`, `send` and `interrupt`. `connections`: stream -> its publisher's connection."""

    def __init__(self, journal: Journal, connections: Mapping[str, IngestConnection], clock: Clock) -> None:
        self._journal = journal
        self._connections = connections
        self._clock = clock
        journal.on_ask = self._answer_daemon

    async def answer(self, request: AnswerRequest, answer_id: str = "", *, forwards: bool = True) -> AnswerResult:
        """`answer_id`: that of the answer, if it was forwarded. Raises `FrameError` and `JournalError`."""
        answer_id = answer_id or _new_id()
        lost: FrameError | None = None
        seq: int | None = None
        for _ in range(ATTEMPTS):
            row = await self._find_question(request)
            if lost is not None and row["seq"] != seq:  # an id that is used again
                break
            seq = row["seq"]
            try:
                return await self._answer(row, request, answer_id, forwards=forwards)
            except FrameError as error:
                if error.code != "no-publisher" or not forwards:
                    raise
                lost = error
        assert lost is not None
        raise lost

    async def _answer(
        self, row: dict[str, Any], request: AnswerRequest, answer_id: str, *, forwards: bool
    ) -> AnswerResult:
        """Give the answer to an open question. Raises `FrameError`; `no-publisher` if another daemon may have the
        publisher by now."""
        stream = str(row["stream"])
        if (owner := await self._owner(stream)) is None:
            return await self._forward(stream, request, answer_id, AnswerResult, forwards=forwards)
        if (stored := await self._journal.event(row["seq"])) is None:
            raise FrameError("not-found", f"the question {request.permission_id!r} was deleted")
        asked: dict[str, Any] = msgspec.json.decode(with_seq(stored.seq, stored.body))
        try:
            made = await owner.dispatch(lambda live: self._first(live, request, asked, answer_id))
        except _SettledError:
            await self._explain_end(request)
        return AnswerResult(
            session=made.session,
            stream=stream,
            seq=made.seq,
            permission_id=made.permission_id,
            outcome=made.outcome,
            option_id=made.option_id,
            remembers=made.remembers,
            by=made.by,
            ts=made.ts,
            delivered=made.frame is None,
        )

    async def send(
        self, request: SendRequest | InterruptRequest, send_id: str = "", *, forwards: bool = True
    ) -> SendResult:
        """`send_id`: that of the prompt or interrupt, if it was forwarded. Raises `FrameError` and `JournalError`."""
        send_id = send_id or _new_id()
        stream = await self._find_stream(request.session)
        if (owner := await self._owner(stream)) is None:
            return await self._forward(stream, request, send_id, SendResult, forwards=forwards)
        made = await owner.dispatch(lambda live: self._prompt(live, request, send_id))
        if isinstance(request, InterruptRequest) and made.frame is None and owner.live.normalizer.interrupt_cancels:
            await self._cancel_questions(stream, request)
        return SendResult(session=made.session, stream=stream, id=made.id, delivered=made.frame is None)

    async def _owner(self, stream: str) -> IngestConnection | None:
        """Return the publisher's connection, if this daemon has it. Raises `JournalError`."""
        owner = self._connections.get(stream)
        if owner is not None and not await self._journal.is_current(owner.live.info):
            await owner.supersede()
            owner = self._connections.get(stream)
        return owner

    async def _cancel_questions(self, stream: str, request: InterruptRequest) -> None:
        """Cancel what the agent asks in the turn that was interrupted. Raises `JournalError`."""
        for one in (await self._journal.open_calls(request.session, stream))["permissions"]:
            asked = AnswerRequest(permission_id=one["permissionId"], stream=stream, outcome="cancelled", by=request.by)
            with suppress(FrameError):  # it was answered, or its client was faster
                await self.answer(asked)

    # -- what it is for -----------------------------------------------------------------------------------------

    async def _find_question(self, request: AnswerRequest) -> dict[str, Any]:
        """Find the open question. Raises `FrameError`."""
        opened = (await self._journal.open_calls(stream=request.stream))["permissions"]
        found = [one for one in opened if one["permissionId"] == request.permission_id]
        if not found:
            await self._explain_end(request)
        if request.stream is None and len(found) == 1:  # what another daemon has of this stream may be newer
            return await self._find_question(msgspec.structs.replace(request, stream=found[0]["stream"]))
        infos = {one.stream: one for one in await self._journal.streams("open")}
        answerable = [one for one in found if way_to_agent(infos.get(one["stream"]), one) is None]
        if not answerable:
            info = infos.get(found[0]["stream"])
            raise FrameError("no-publisher" if info is None else "refused", str(way_to_agent(info, found[0])))
        if len(answerable) > 1:
            streams = ", ".join(repr(one["stream"]) for one in answerable[:10])
            raise FrameError("ambiguous", f"several streams ask {request.permission_id!r}: name one of {streams}")
        return answerable[0]

    async def _explain_end(self, request: AnswerRequest) -> NoReturn:
        """Say why there is no such open question. Raises `FrameError`."""
        for connection in list(self._connections.values()):
            await connection.until_durable()  # that it has an end may be read before `latest` covers that end
        stream = None if request.stream is None else (request.stream,)
        wanted = Filter(stream=stream, kind=("permission-response",))
        ends, _ = await self._journal.read_back(NEWEST, wanted, limit=ENDS_READ)
        for one in ends:
            if _names(one, request.permission_id):
                raise FrameError("already-answered", await self._how_it_ended(msgspec.json.decode(one.body)))
        raise FrameError("not-found", f"there is no open question {request.permission_id!r}")

    async def _how_it_ended(self, end: dict[str, Any]) -> str:
        wanted = Filter(stream=(end["stream"],), kind=("notice",))
        notices, _ = await self._journal.read_back(NEWEST, wanted, limit=ENDS_READ)
        for one in notices:
            notice = msgspec.json.decode(one.body) if _names(one, end["permissionId"]) else {}
            if notice.get("code") == "answer-failed":  # another one was the first, without us
                break
            if notice.get("code") == "answer":
                return first_was(notice["data"]["by"], notice["data"]["outcome"], self._clock() - notice["ts"])
        since = self._clock() - end.get("ts", 0)
        if end["outcome"] == "expired":
            return f"the question expired {ago(since)}: the agent has gone on without an answer"
        return first_was("somebody at the agent itself", end["outcome"], since)

    async def _find_stream(self, session: str) -> str:
        """Find the stream by which the session's agent can be reached. Raises `FrameError`."""
        infos = await self._journal.streams_of(session)
        if not infos:
            check_not_lost(self._journal, session)
            raise FrameError("not-found", f"there is no session {session!r}")
        infos.sort(key=lambda one: (one.state == "open", one.takes_answers, one.updated), reverse=True)
        own = next((one for one in infos if one.agent is None), infos[0])
        why_not = way_to_agent(own if own.state == "open" else None, {})
        if why_not is not None:
            raise FrameError("refused" if own.state == "open" else "no-publisher", why_not)
        return own.stream

    # -- what it becomes ----------------------------------------------------------------------------------------

    def _first(self, live: LiveStream, request: AnswerRequest, asked: dict[str, Any], new: str) -> Dispatch:
        """Make the answer, if it is the first, or return it if it was made before. Raises `FrameError`."""
        info, now = live.info, self._clock()
        if (first := info.answers.get(request.permission_id)) is not None:
            if first.id == new:
                return first
            raise FrameError("already-answered", first_was(first.by, first.outcome, now - first.ts))
        if not live.normalizer.is_pending(request.permission_id):
            raise _SettledError("not-found", "the question has just got its end")
        chosen = Chosen(
            id=new,
            outcome=request.outcome,
            option_id=request.option_id,
            answers=request.answers,
            message=request.message,
            remember=request.remember,
        )
        frame = _worded(lambda: live.normalizer.answer(asked, chosen))
        if live.masks and MASK in frame.line.encode() and MASK not in (request.message or "").encode():
            raise FrameError("refused", MASKED_INPUT)
        option = choose(asked, chosen) or {}
        return Dispatch(
            id=frame.id,
            what="answer",
            session=asked["session"],
            by=name_of(request.by),
            ts=now,
            frame=frame,
            permission_id=request.permission_id,
            responds=frame.answers,
            seq=asked["seq"],
            call_id=asked.get("callId"),
            agent=asked.get("agent"),
            parent=asked.get("parent"),
            turn=asked.get("turn"),
            outcome=request.outcome,
            option_id=option.get("id"),
            remembers=option.get("remembers"),
        )

    def _prompt(self, live: LiveStream, request: SendRequest | InterruptRequest, new: str) -> Dispatch:
        """Make the prompt or interrupt, or return the earlier one with its key. Raises `FrameError`."""
        key = request.key if isinstance(request, SendRequest) else None
        if key is not None and (known := next((one for one in live.info.sent.values() if one.key == key), None)):
            return known
        if key is not None and live.masks and mask_secrets(key.encode()) != key.encode():
            raise FrameError("refused", MASKED_KEY)
        session = request.session
        if isinstance(request, SendRequest):
            text = request.text
            frame = _worded(lambda: live.normalizer.prompt(session, text, new))
        else:
            frame = _worded(lambda: live.normalizer.interrupt(session, new))
        what: Literal["prompt", "interrupt"] = "prompt" if isinstance(request, SendRequest) else "interrupt"
        return Dispatch(
            id=frame.id, what=what, session=session, by=name_of(request.by), ts=self._clock(), frame=frame, key=key
        )

    # -- several daemons ----------------------------------------------------------------------------------------

    async def _forward(self, stream: str, request: Wanted, new: str, result: type[T], *, forwards: bool) -> T:
        """Have the daemon answer that has the publisher's connection. Raises `FrameError` and `JournalError`."""
        stored = await self._journal.load_stream(stream)
        if forwards and stored is not None and stored.info.daemon not in ("", self._journal.daemon):
            data = msgspec.json.encode(_Forwarded(_for_stream(request, stream), new))
            answer = await self._journal.ask_daemon(stored.info.daemon, data, FORWARD_PATIENCE)
            if answer is not None:
                answered = msgspec.json.decode(answer, type=_Answered)
                if answered.code is not None:
                    raise FrameError(answered.code, answered.message)
                return msgspec.json.decode(answered.result, type=result)
        raise FrameError("no-publisher", f"no publisher of stream {stream!r} is connected")

    async def _answer_daemon(self, data: bytes) -> bytes:
        """Answer a request that another daemon has forwarded."""
        try:
            forwarded = msgspec.json.decode(data, type=_Forwarded)
            request = forwarded.request
            if isinstance(request, AnswerRequest):
                result: Any = await self.answer(request, forwarded.id, forwards=False)
            else:
                result = await self.send(request, forwarded.id, forwards=False)
            answered = _Answered(msgspec.Raw(msgspec.json.encode(result)))
        except FrameError as error:
            answered = _Answered(code=error.code, message=str(error))
        except (JournalError, msgspec.MsgspecError) as error:
            answered = _Answered(code="journal", message=str(error))
        except Exception as error:
            faults.note("a request of another daemon failed", place_of(error), error)
            answered = _Answered(code="internal", message="the other daemon failed; its log says why")
        return msgspec.json.encode(answered)


def _new_id() -> str:
    return secrets.token_hex(8)


def _for_stream(request: Wanted, stream: str) -> Wanted:
    return msgspec.structs.replace(request, stream=stream) if isinstance(request, AnswerRequest) else request


def _names(stored: StoredEvent, permission_id: str) -> bool:
    return b'"permissionId":' + msgspec.json.encode(permission_id) in stored.body


def name_of(by: str | None) -> str:
    """What the journal calls who has sent something to an agent."""
    return one_line(by or "somebody", NAME_LENGTH)


def _worded(word: Callable[[], ForAgent]) -> ForAgent:
    """Raises `FrameError`."""
    try:
        return word()
    except NotOfferedError as error:
        raise FrameError("not-offered", str(error)) from None
    except CannotWriteError as error:
        raise FrameError("refused", str(error)) from None
