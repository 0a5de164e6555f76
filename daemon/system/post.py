"""Posts a request to a server, a collector or one of webhooks, which may be slow, broken or hostile: it gets no key and
no message for another address, and takes neither more time nor more memory than it may.

It is imported only by daemons that send something, because they alone need an HTTP client.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

from tooltap.daemon.system.sanitize import one_line

AGAIN = frozenset((429, 502, 503, 504))
"""Answers after which a request may be taken if it is sent again."""
MOST_ANSWERED = 65_536
"""Bytes of an answer that are read."""


class Answer(NamedTuple):
    problem: str | None = None
    """Why the request was not taken."""
    is_again: bool = False
    """Whether it is to be sent again."""
    pause: float | None = None
    """Seconds to wait before that, if the server says so."""
    code: int | None = None
    """The status of an answer that is a refusal."""
    kind: str = ""
    """Media type of what it has answered."""
    body: bytes = b""
    """The beginning of it, if the request was taken."""


class _Deadline:
    """Ends the connections of one request after `seconds`, however slowly bytes come: a timeout of a socket begins
    again with each of them."""

    def __init__(self, seconds: float) -> None:
        self.has_passed = False
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()

    def add(self, opened: socket.socket) -> None:
        with self._lock:
            self._sockets.append(opened)
            if self.has_passed:
                _end(opened)

    def _pass(self) -> None:
        with self._lock:
            self.has_passed = True
            for one in self._sockets:
                _end(one)


def _end(opened: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(opened, socket.SHUT_RDWR)  # of TLS, too: its own method waits for the other side


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Nothing is sent to another address, neither a key nor a message."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opener(deadline: _Deadline) -> urllib.request.OpenerDirector:
    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            deadline.add(self.sock)

    class Secure(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            deadline.add(self.sock)

    class PlainHandler(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Plain, req)

    class SecureHandler(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Secure, req)

    return urllib.request.build_opener(_NoRedirects, PlainHandler, SecureHandler)


def post(address: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Answer:
    """Send a request once. `timeout`: seconds that it may take in all."""
    request = urllib.request.Request(address, body, dict(headers), method="POST")
    with _Deadline(timeout) as deadline:
        try:
            with _opener(deadline).open(request, timeout=timeout) as answer:
                kind, read = answer.headers.get_content_type(), answer.read(MOST_ANSWERED)
            if not deadline.has_passed:
                return Answer(kind=kind, body=read)
        except urllib.error.HTTPError as error:
            with error:
                pause = _seconds(error.headers.get("Retry-After"))
            return Answer(f"it answered {error.code}", is_again=error.code in AGAIN, pause=pause, code=error.code)
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if not deadline.has_passed and not isinstance(reason, TimeoutError):
                return Answer(_problem(reason), is_again=True)
    return Answer(f"it has not answered within {timeout:g} s", is_again=True)


def _problem(reason: object) -> str:
    """Return in one line why there is no answer. What the other side has written may be in it."""
    if isinstance(reason, http.client.BadStatusLine) and not isinstance(reason, http.client.RemoteDisconnected):
        return one_line(f"it does not speak HTTP: {reason}")
    if isinstance(reason, http.client.HTTPException) and not isinstance(reason, OSError):
        return one_line(f"its answer cannot be read: {reason or type(reason).__name__}")
    return one_line(f"it cannot be reached: {reason}", 300)


def _seconds(stated: str | None) -> float | None:
    """Read `Retry-After`: seconds, or a date; None for anything else."""
    if stated is None:
        return None
    try:
        return max(
            0.0, float(stated) if stated.strip().isdigit() else parsedate_to_datetime(stated).timestamp() - time.time()
        )
    except (TypeError, ValueError, OverflowError):
        return None
