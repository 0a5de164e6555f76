"""One connection to NATS that lasts as long as the daemon, and how a request is repeated until it is answered.

Every request has a time limit, because a server that is killed leaves requests unanswered forever. A request without an
answer may have been carried out (`AwayError`). `retry` repeats it once the server is back. So everything passed to
`retry` must be safe to repeat (`link.py` says why it is). A server that is slow, but answers, is given more and more
time: else it would be asked the same again and again.

Whoever waits says for what: `waits_for` is one sentence, for `stats` and `doctor`, and after a second for the log.

The server may be back with another store. So after each new connection, and where a request says that the journal may
be gone (`GoneError`), `on_doubt` is called before anything is repeated: see `identity.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Self, TypeVar

import nats
import nats.errors
import orjson

from tooltap.daemon.journal.interface import JournalError, PlaceError
from tooltap.daemon.journal.nats.client import CLOSE_TIMEOUT, NatsClient
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.system.optional_packages import how_to_install

__all__ = ["AwayError", "Connection", "FencedError", "GoneError", "RefusedError"]

ANSWER_TIMEOUT, LONGEST_ANSWER = 5.0, 60.0
"""Seconds that an answer may take, at first and at most."""
PATIENCE_LEFT = 0.9
"""After an answer: others may still be slow."""
RECONNECT_WAIT = 0.2
RETRY_FIRST, RETRY_MOST = 0.05, 1.0
"""Seconds."""
SILENCE = 12.0
"""Seconds without any answer, or without a connection, after which the NATS client is left for a new one."""
NO_ANSWER = "no answer in time"
READ_TIMEOUT = 15.0
"""Seconds that a read waits for a server that is away."""
TELL_AFTER = 1.0
"""Seconds of waiting after which the log says so."""
OLDEST_SERVER = (2, 12)
UNAVAILABLE = 503
WRONG_LAST_SEQUENCE = {10071, 10164}
NO_STREAM = 10059
NO_ROOM = {10023, 10077}
"""A limit of the server, the stream, or the disk: it does not go away by waiting."""

T = TypeVar("T")
_log = get_logger("journal")


class AwayError(Exception):
    """No answer: the request may or may not have been carried out."""


class GoneError(AwayError):
    """Nothing answers for the journal, or the server says that it has none."""


class RefusedError(JournalError):
    """The server refused. `code`: the HTTP-like one."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class FencedError(Exception):
    """The subject's last message is not the expected one."""


class Connection:
    """Created by `open`. Calls raise `AwayError` and `RefusedError`; `retry` repeats a call until it is answered."""

    def __init__(self, place: NatsPlace) -> None:
        self.place = place
        self.connections = 0
        """Number of connections made so far. What the server held for an earlier one may be gone."""
        self.journals = 1
        """Number of journals that there were on the server under this name, as far as this daemon knows."""
        self.problem = ""
        """The NATS client's last error about the connection."""
        self.on_doubt: Callable[[], Awaitable[None]] | None = None
        """Finds out whether this is still the same journal. Raises `AwayError` and `JournalError`."""
        self.came_back = asyncio.Event()
        """Set with each connection; whoever waits for it clears it."""
        self._client: NatsClient
        self._limits: set[asyncio.Timeout] = set()
        """Time limits of the requests that wait for an answer."""
        self._patience = ANSWER_TIMEOUT
        self._waits: dict[object, str] = {}
        """Whatever waits in `retry` -> why."""
        self._unanswered = ""
        """Why the last request was not answered; empty if it was."""
        self._told = False
        """The log says that the daemon waits for the journal."""
        self._settled = 0
        """Number of the connection for which `on_doubt` has answered."""
        self._settling = asyncio.Lock()
        self._ready = asyncio.Event()
        self._refused = asyncio.Event()
        self._closed = asyncio.Event()
        self._hurried = False
        self._heard = 0.0
        """When the last answer came."""
        self._reopening: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, place: NatsPlace) -> Self:
        """Connect. Raises `JournalError` if no suitable server can be reached in time."""
        link = cls(place)
        try:
            async with asyncio.timeout(place.options.connect_timeout):
                await link._connect()
        except TimeoutError:
            raise JournalError(link._unreachable(link.problem or NO_ANSWER)) from None
        except PlaceError as error:
            raise JournalError(str(error)) from None
        link._watching = asyncio.create_task(link._watch_client())
        return link

    @property
    def connected(self) -> bool:
        return self._ready.is_set()

    @property
    def max_payload(self) -> int:
        return self._client.max_payload

    @property
    def waits_for(self) -> str:
        """What a request waits for, as one sentence; empty if none waits."""
        if not self.connected:
            return self._unreachable(self.problem or "the connection is lost")
        return next(iter(self._waits.values()), self._unanswered)

    async def close(self) -> None:
        self._closed.set()
        self._ready.set()  # wakes `retry`, which sees `_closed`
        tasks = [task for task in (self._reopening, self._watching) if task is not None]
        for task in tasks:
            task.cancel()
        await self._client.end()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)

    def doubt(self) -> None:
        """Have `on_doubt` called before the next request is repeated."""
        self._settled = 0

    def hurry(self) -> None:
        """The daemon is to end: nothing waits for the server any more, be it for an answer or for its return."""
        self._hurried = True
        self._ready.set()
        self._give_up_answers()

    async def retry(self, ask: Callable[..., Awaitable[T]], *arguments: Any, timeout: float | None = READ_TIMEOUT) -> T:
        """Repeat a call until it is answered. Raises `JournalError` after `timeout` seconds (None: never)."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        deadline = None if timeout is None else begun + timeout
        wait = RETRY_FIRST
        me = object()
        try:
            while not self._closed.is_set():
                try:
                    async with asyncio.timeout_at(deadline):
                        await self._ready.wait()
                        if self._settled != self.connections:
                            await self._settle()
                        if self._client.is_connected:  # else `_disconnected` is about to be called
                            return await ask(*arguments)
                except (AwayError, TimeoutError) as error:
                    why = self._unanswered = self._unreachable(self.problem or str(error) or NO_ANSWER)
                    self._wait(me, why, clock() - begun)
                    if self._hurried or (deadline is not None and clock() > deadline - wait):
                        raise JournalError(why) from None
                    if isinstance(error, GoneError):
                        self.doubt()
                if self._hurried:
                    raise JournalError(self._unreachable(self.problem or NO_ANSWER))
                await asyncio.sleep(wait)
                wait = min(2 * wait, RETRY_MOST)
            raise JournalError("the journal is closed")
        finally:
            self._waits.pop(me, None)
            if self._told and not self._waits and self.connected:
                self._told = False
                _log.info("the journal answers again", journal=str(self.place))

    def _wait(self, who: object, why: str, seconds: float) -> None:
        self._waits[who] = why
        if seconds > TELL_AFTER and not self._told and not self._closed.is_set():
            self._told = True
            _log.warning("waiting for the journal", reason=why)

    async def _settle(self) -> None:
        """Find out once, for everything that waits, whether this is the same journal."""
        if self.on_doubt is None:
            self._settled = self.connections
            return
        async with self._settling:
            connection = self.connections
            if self._settled != connection:
                await self.on_doubt()
                self._settled = connection

    # -- requests -----------------------------------------------------------------------------------------------

    async def _request(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
        # The client's own limit is for where it swallows what `_answered` does at its limit.
        limit = self._patience + 1
        message = await self._answered(self._client.request(subject, data, timeout=limit, headers=headers or None))
        answer: dict[str, Any] = orjson.loads(message.data) if message.data else {}
        error = answer.get("error")
        if error is None:
            return answer
        number = error.get("err_code")
        if number in WRONG_LAST_SEQUENCE:
            raise FencedError
        what = f"{error.get('description')} (NATS error {number or error['code']})"
        if number == NO_STREAM:
            raise GoneError(what)
        if error["code"] == UNAVAILABLE and number not in NO_ROOM:
            raise AwayError(what)
        raise RefusedError(f"the journal {self.place} refused: {what}", error["code"])

    async def _answered(self, request: Awaitable[T]) -> T:
        """Wait for an answer of the server. Raises `AwayError`, `RefusedError`."""
        answer = await self._sent(request)
        self._unanswered = ""
        self._heard = asyncio.get_running_loop().time()
        self._patience = max(PATIENCE_LEFT * self._patience, ANSWER_TIMEOUT)
        return answer

    async def _sent(self, request: Awaitable[T]) -> T:
        """Wait for what needs no answer. Raises `AwayError`, `RefusedError`."""
        patience = self._patience
        try:
            async with asyncio.timeout(0 if self._hurried else patience) as limit:
                self._limits.add(limit)
                try:
                    return await request
                finally:
                    self._limits.discard(limit)
        except nats.errors.MaxPayloadError:  # the limit was lowered after the message was encoded
            raise RefusedError(f"the journal {self.place} no longer accepts messages of this length", 400) from None
        except nats.errors.NoRespondersError as error:
            raise GoneError(_sentence(error)) from error
        except (nats.errors.Error, TimeoutError, OSError) as error:
            if isinstance(error, TimeoutError) and self.connected:
                self._patience = max(self._patience, min(2 * patience, LONGEST_ANSWER))  # once for many at once
                self._leave_if_silent()
            raise AwayError(_sentence(error)) from error

    def _leave_if_silent(self) -> None:
        """Reconnect if there is a connection but no answers arrive on it; to another server if there is one."""
        now = asyncio.get_running_loop().time()
        if now - self._heard > SILENCE and not self._closed.is_set():
            self._heard = now
            _log.warning("the journal does not answer on this connection", journal=str(self.place))
            self._leave()

    # -- the connection -----------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        """Wait for a connection. Raises `JournalError` and `PlaceError` where retrying is no use."""
        client = self._client = NatsClient()
        self._refused.clear()
        connecting = asyncio.ensure_future(
            client.connect(
                **self.place.connect_options(),
                name="tooltap",
                max_reconnect_attempts=-1,
                reconnect_time_wait=RECONNECT_WAIT,  # type: ignore[arg-type]  # only passed to `sleep`
                error_cb=partial(self._failed, client),
                disconnected_cb=partial(self._disconnected, client),
                reconnected_cb=partial(self._connected, client),
                closed_cb=partial(self._given_up, client),
            )
        )
        refused = asyncio.ensure_future(self._refused.wait())
        try:
            await asyncio.wait([connecting, refused], return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                raise JournalError(f"the journal {self.place} refuses the login: {self.problem}")
            try:
                connecting.result()
            except ImportError as error:
                raise PlaceError(f"`creds` and `nkey` need the package nkeys: {how_to_install('nats')}") from error
            except (OSError, ValueError, nats.errors.Error) as error:
                raise JournalError(self._unreachable(_sentence(error))) from error
            version = client.connected_server_version
            if (version.major, version.minor) < OLDEST_SERVER:
                raise JournalError(
                    f"the journal {self.place} is on nats-server {version.major}.{version.minor};"
                    f" {'.'.join(map(str, OLDEST_SERVER))} or later is required"
                )
        except BaseException:
            connecting.cancel()
            await client.end(is_lost=True)
            raise
        finally:
            refused.cancel()
        await self._connected(client)

    async def _connected(self, client: NatsClient) -> None:
        if client is not self._client or self._closed.is_set():
            return
        self.connections += 1
        if self.connections > 1:
            _log.info("the journal can be reached again", journal=str(self.place))
        self.problem = ""
        self._heard = asyncio.get_running_loop().time()
        self.came_back.set()
        self._ready.set()

    async def _disconnected(self, client: NatsClient) -> None:
        if client is self._client:
            self._is_away()

    def _is_away(self) -> None:
        if self._closed.is_set():
            return
        if self._ready.is_set():
            _log.warning("the journal cannot be reached", journal=str(self.place))
        if not self._hurried:  # else nothing waits for its return
            self._ready.clear()
        self._give_up_answers()

    def _give_up_answers(self) -> None:
        """The requests that wait will not be answered."""
        for limit in self._limits:
            if not limit.expired():  # else it has ended the request already, and must not be changed any more
                limit.reschedule(0)

    def _unreachable(self, why: str) -> str:
        return f"the journal {self.place} cannot be reached: {why}"

    async def _failed(self, client: NatsClient, error: Exception) -> None:
        if client is not self._client:
            return
        self.problem = _sentence(error)
        if isinstance(error, nats.errors.AuthorizationError) or "authorization" in self.problem.lower():
            self._refused.set()

    async def _given_up(self, client: NatsClient) -> None:
        """The NATS client takes an error for final, such as a revoked login."""
        if client is self._client:
            self._leave()

    async def _watch_client(self) -> None:
        """Leave a client that stays without a connection: not all that ends its attempts is reported."""
        clock = asyncio.get_running_loop().time
        seen = clock()
        while True:
            await asyncio.sleep(RETRY_MOST)
            if self._client.is_connected:
                seen = clock()
            elif clock() - seen > SILENCE:
                seen = clock()
                self._leave()

    def _leave(self) -> None:
        """Reconnect with another client."""
        if not self.connections or self._closed.is_set() or (self._reopening and not self._reopening.done()):
            return
        self._is_away()
        self._reopening = asyncio.create_task(self._reopen())

    async def _reopen(self) -> None:
        while True:
            await self._client.end(is_lost=True)
            await asyncio.sleep(RETRY_MOST)
            try:
                async with asyncio.timeout(SILENCE):
                    await self._connect()
            except TimeoutError:
                pass
            except (JournalError, PlaceError) as error:
                self.problem = str(error)
            if self._client.is_connected:
                break


def _sentence(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return NO_ANSWER
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    if isinstance(error, nats.errors.NoRespondersError):
        return "JetStream does not answer; is it enabled on the server?"
    return str(error).removeprefix("nats: ") or type(error).__name__
