"""Exchanges (request and answer) with a model's server: each is converted to lines of a stream while it passes, in the
thread of the gateway's tap.

A request is one line, and so are a whole answer and each event of a streamed one. Where the exchange ends, a line of
the gateway says how (`ExchangeEnd`). Compressed bodies are decoded. Headers are not recorded.

A request that asks for a response by its id, or cancels it, is no line: the response belongs to the conversation that
has its id, and says itself how far it is. Such a request that fails says nothing of the response.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.system.content_coding import CodingError, decoder
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.taps.gateway.conversations import Conversation, Conversations
from tooltap.daemon.taps.gateway.histories import (
    ChatAnswer,
    GeminiAnswer,
    History,
    MessagesAnswer,
    ModelAnswer,
    ResponsesAnswer,
    chat_history,
    gemini_history,
    messages_history,
    responses_history,
)
from tooltap.normalizers.catalog.registry import apis
from tooltap.normalizers.tools.payload import objects
from tooltap.normalizers.wire.exchange import ERRORS, EventSplitter, ExchangeEnd
from tooltap.normalizers.wire.framing import LongLine, Splitter
from tooltap.protocol.inputs import Direction

_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""JSON contains line breaks only between its tokens, so spaces can replace them."""
BODY_BYTES = 16_384
"""Most bytes that are kept of a body that is no answer of the API."""
MOST_LINES = 16
"""Most bytes of a decoded body, as a multiple of the longest line."""

By: TypeAlias = Literal["server", "client", "tap"]


class Ended(NamedTuple):
    """How an exchange ended, as the proxy saw it; for the fields see `ExchangeEnd`."""

    by: By
    complete: bool
    problem: str | None = None


class API(NamedTuple):
    dialect: str
    history: Callable[[dict[str, Any]], History]
    answer: Callable[[], ModelAnswer]
    response: str | None = None
    """Id of the response that is asked for."""
    model: str | None = None
    """The model, where the path names it."""


_APIS = {
    path: API(apis()[path], history, answer)
    for path, history, answer in (
        ("/chat/completions", chat_history, ChatAnswer),
        ("/responses", responses_history, ResponsesAnswer),
        ("/v1/messages", messages_history, MessagesAnswer),
        (":generateContent", gemini_history, GeminiAnswer),
        (":streamGenerateContent", gemini_history, GeminiAnswer),
    )
}


_RESPONSE = re.compile(r"/responses/([^/]{1,500})(/cancel)?/*\Z")
"""End of the path of a response (GET), or of its cancellation (POST)."""
_MODEL = re.compile(r"/models/([^/:]{1,200}):\w+/*\Z")
"""End of a path of the Gemini API."""


def api_of(method: str, path: str) -> API | None:
    """Return the API at a path, whatever its prefix; None if it is not tapped."""
    asked = _RESPONSE.search(path)
    if asked is not None and method == ("POST" if asked[2] else "GET"):
        return _APIS["/responses"]._replace(response=asked[1])
    api = next((api for end, api in _APIS.items() if method == "POST" and path.rstrip("/").endswith(end)), None)
    named = None if api is None else _MODEL.search(path)
    return api if api is None or named is None else api._replace(model=named[1])


class Exchange:
    """One exchange. Its methods are called in order; `t` is the time in ms since the epoch.

    `client`: the agent that makes the request, if it says so; `session`: its session, if a header states it."""

    def __init__(
        self,
        api: API,
        conversations: Conversations,
        coding: str,
        max_line: int,
        client: str | None = None,
        session: str | None = None,
    ) -> None:
        self._api = api
        self._client = client
        self._session = session
        self._conversations = conversations
        self._max_line = max_line
        self._conversation: Conversation | None = None
        self._request = _Body(coding, max_line, streamed=False)
        self._response: _Body | None = None
        self._answer = api.answer()
        self._wants_stream = False
        self._status: int | None = None
        self._is_streamed = False
        self._unread = 0
        """Bytes of the answer that are not in the stream."""
        self._is_cut = False

    def request_data(self, t: int, data: bytes) -> None:
        """Add the next bytes of the request's body."""
        self._request.feed(data)

    def request_complete(self, t: int) -> None:
        """Handle the end of the request: find its conversation, and put its line there."""
        if self._conversation is not None:
            return
        if self._api.response is not None:
            self._conversation = self._conversations.rejoin(self._api.response)
            self._is_cut |= self._conversation is None
            return
        lines = self._request.finish()
        request = next(iter(_objects(lines[0])), None) if lines and not self._is_cut else None
        self._wants_stream = request is not None and request.get("stream") is True
        history = History([])
        if request is not None:
            history = self._api.history(request)
            stated, model = history.session or self._session, request.get("model") or self._api.model
            history = history._replace(session=stated, model=model)
        self._conversation = self._conversations.enter(self._api.dialect, history, self._client)
        if not self._is_cut:
            self._put(t, lines, "in")
            self._report_problem(self._request)

    def response_started(self, t: int, status: int, kind: str, coding: str) -> None:
        """Handle the beginning of the answer. `status`: its HTTP status; `kind`: its `Content-Type`; `coding`: its
        `Content-Encoding`."""
        self.request_complete(t)
        self._status = status
        # Some servers send no `Content-Type`, or a wrong one, for a requested stream.
        may_be_stream = self._wants_stream and status < ERRORS and "json" not in kind and "html" not in kind
        self._is_streamed = "event-stream" in kind or may_be_stream
        self._response = _Body(coding, self._max_line, streamed=self._is_streamed)
        self._is_cut |= self._api.response is not None and status >= ERRORS

    def response_data(self, t: int, data: bytes) -> None:
        """Add the next bytes of the answer's body."""
        if self._response is not None and not self._is_cut:
            self._take(t, self._response.feed(data))

    def cut(self, t: int) -> None:
        """Discard the rest of the exchange, including an unfinished line: it is lost."""
        self._is_cut = True

    def finished(self, t: int, ended: Ended, lines: int, size: int, reason: str) -> None:
        """Handle the end of the exchange. `lines` lines of it, `size` bytes, were lost for `reason`."""
        if lines:
            self.request_complete(t)
        if self._conversation is None:  # the client left before its request was complete
            return
        body: str | None = None
        if self._response is not None and not self._is_cut:
            last = self._response.finish()
            if last and not ended.complete and not _is_json(last[-1]):
                self._unread += _size_of(last.pop())
            if last and not self._is_streamed and not self._is_answer(last[0]):
                body = _text_of(last.pop())
            self._take(t, last)
            self._report_problem(self._response)
        if lines:
            self._unread += size
            self._conversation.tap.lose(lines, size, reason)
        if self._api.response is None:
            end = ExchangeEnd(ended.by, ended.complete, self._status, body, self._unread, ended.problem)
            self._put(t, [end.write()], "out")
        self._conversations.leave(self._conversation, self._answer, complete=ended.complete)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _is_answer(self, line: bytes | LongLine) -> bool:
        """Whether a whole body is JSON and, if the status is an error, has the form of the API's errors."""
        if isinstance(line, LongLine):
            return self._status is None or self._status < ERRORS
        if self._status is None or self._status < ERRORS:
            return _is_json(line)
        return _is_error(line)

    def _take(self, t: int, lines: list[bytes | LongLine]) -> None:
        """Put lines of the answer."""
        for line in lines:
            if isinstance(line, LongLine):
                self._unread += line.size
                continue
            for value in _objects(line):
                self._answer.read(value)
        self._put(t, lines, "out")

    def _put(self, t: int, lines: list[bytes | LongLine], direction: Direction) -> None:
        if lines and self._conversation is not None:
            self._conversation.tap.put(lines, direction, t)

    def _report_problem(self, body: _Body) -> None:
        if body.problem is not None and self._conversation is not None:
            if body is self._response:
                self._unread += body.pending
            self._conversation.tap.lose(1, body.pending, body.problem)


class _Body:
    """Decodes a body and splits it into lines."""

    def __init__(self, coding: str, max_line: int, *, streamed: bool) -> None:
        self.pending = 0
        """Number of bytes since the last complete line."""
        self.problem: str | None = None
        """The reason why the rest of the body is ignored, or None."""
        self._streamed = streamed
        self._room = MOST_LINES * max_line
        """Bytes that it may still decode to."""
        self._events = EventSplitter(max_line)
        self._whole = Splitter(max_line)
        try:
            self._decode = decoder(coding)
        except CodingError as error:
            self.problem = str(error)

    def feed(self, data: bytes) -> list[bytes | LongLine]:
        """Add bytes and return the lines that they complete."""
        self.pending += len(data)
        lines: list[bytes | LongLine] = []
        try:
            for piece in self._decode(data) if self.problem is None else ():
                self._room -= len(piece)
                if self._room < 0:
                    raise CodingError("it is too long to be read")
                lines += self._events.feed(piece) if self._streamed else self._whole.feed(piece.translate(_ONE_LINE))
        except CodingError as error:
            self.problem = str(error)
        if lines:
            self.pending = 0
        return lines

    def finish(self) -> list[bytes | LongLine]:
        """Return what is left: the whole body, or the last event of a stream; if the body cannot be decoded to its
        end, only if that is complete."""
        if self.problem is None:
            try:
                deque(self._decode(b""), maxlen=0)
            except CodingError as error:
                self.problem = str(error)
        whole = None if self._streamed else self._whole.finish()
        rest = self._events.finish() if whole is None else [whole]
        return rest if self.problem is None else [line for line in rest if _is_json(line)]


def _objects(line: bytes | LongLine) -> list[dict[str, Any]]:
    """The object of a line, or those of an array: a stream of the Gemini API that is no stream of events."""
    if isinstance(line, LongLine):
        return []
    try:
        value = orjson.loads(line.removeprefix(b"data:"))
    except orjson.JSONDecodeError:
        return []
    return objects(value if isinstance(value, list) else [value])


def _is_json(line: bytes | LongLine) -> bool:
    if isinstance(line, LongLine):
        return False
    try:
        orjson.loads(line.removeprefix(b"data:"))
    except orjson.JSONDecodeError:
        return line.endswith(b"[DONE]")
    return True


def _is_error(line: bytes) -> bool:
    """Whether a body has the form of an error of the API: an object with `error`, or a list of them (Gemini)."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    errors = value if isinstance(value, list) and value else [value]
    return all(isinstance(one, dict) and isinstance(one.get("error"), dict) for one in errors)


def _size_of(line: bytes | LongLine) -> int:
    return line.size if isinstance(line, LongLine) else len(line)


def _text_of(line: bytes | LongLine) -> str:
    head = line.head if isinstance(line, LongLine) else line[:BODY_BYTES]
    return head.decode("utf-8", "replace")


# -- the tap ----------------------------------------------------------------------------------------------------------

OVERFLOW = "the gateway's tap did not keep up"
LOOK = 1.0
"""Seconds between checks for idle conversations."""

_log = get_logger("gateway")


class GatewayTap:
    """Processes exchanges in its own thread, so that the proxy never waits for it. The queue of the thread is bounded:
    if it is full, the rest of an exchange is dropped, and its stream gets a loss.

    `max_bytes`: limit for queued data; `max_line`: longest line that is recorded whole, in bytes; `idle`: seconds after
    which an unused conversation is closed.
    """

    def __init__(self, conversations: Conversations, *, max_bytes: int, max_line: int, idle: float) -> None:
        self._conversations = conversations
        self._max_bytes = max_bytes
        self._max_line = max_line
        self._idle = idle
        self._work: queue.SimpleQueue[tuple[int, Callable[[], None]] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="gateway-tap", daemon=True)
        self._thread.start()

    def watch(self, api: API, coding: str, client: str | None, session: str | None) -> Watch:
        """Begin to record an exchange. `coding`: the request's `Content-Encoding`; `client`, `session`: see
        `Exchange`."""
        return Watch(self, Exchange(api, self._conversations, coding, self._max_line, client, session))

    def post(self, size: int, work: Callable[[], None]) -> bool:
        """Queue work for the thread. `size`: bytes held by the work. Returns False if the queue has no room for
        them."""
        with self._lock:
            if size and self._waiting + size > self._max_bytes:
                return False
            self._waiting += size
        self._work.put((size, work))
        return True

    @property
    def problem(self) -> str | None:
        """The reason why no lines reach the daemon at the moment, or None."""
        return self._conversations.problem

    def close(self) -> None:
        """Process queued work, and close all conversations."""
        self._work.put(None)
        self._thread.join()
        self._conversations.close()

    def _run(self) -> None:
        checked = time.monotonic()
        while True:
            try:
                item = self._work.get(timeout=LOOK)
            except queue.Empty:
                pass
            else:
                if item is None:
                    return
                self._do(*item)
            if time.monotonic() - checked > LOOK:
                checked = time.monotonic()
                self._conversations.close_idle(self._idle)

    def _do(self, size: int, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            _log.exception("an exchange could not be processed")
        finally:
            with self._lock:
                self._waiting -= size


class Watch:
    """The proxy's handle of one exchange in `GatewayTap`. Its methods never raise or block; see `Exchange`."""

    def __init__(self, tap: GatewayTap, exchange: Exchange) -> None:
        self._tap = tap
        self._exchange = exchange
        self._ended: Ended | None = None
        self._lost = 0
        self._lost_lines = 0

    def request_data(self, data: bytes) -> None:
        self._pass(self._exchange.request_data, data)

    def request_complete(self) -> None:
        self._tap.post(0, partial(self._exchange.request_complete, wall_clock()))

    def response_started(self, status: int, kind: str, coding: str) -> None:
        self._tap.post(0, partial(self._exchange.response_started, wall_clock(), status, kind, coding))

    def response_data(self, data: bytes) -> None:
        self._pass(self._exchange.response_data, data)

    def ended(self, by: By, *, complete: bool, problem: str | None = None) -> None:
        """Note how the exchange ended. The first note counts: whoever ends it, both sides see an end."""
        if self._ended is None:
            self._ended = Ended(by, complete, problem)

    def finished(self) -> None:
        """Record the end of the exchange; the gateway itself has ended it if nobody has noted an end."""
        ended = self._ended or Ended("tap", complete=False)
        lines = max(1, self._lost_lines) if self._lost else 0
        self._tap.post(0, partial(self._exchange.finished, wall_clock(), ended, lines, self._lost, OVERFLOW))

    def _pass(self, read: Callable[[int, bytes], None], data: bytes) -> None:
        if not self._lost and self._tap.post(len(data), partial(read, wall_clock(), data)):
            return
        if not self._lost:
            self._tap.post(0, partial(self._exchange.cut, wall_clock()))
        self._lost += len(data)
        self._lost_lines += data.count(b"\n")
