"""The daemon's long-lived connection to the NATS server, with retries, and its requests to JetStream.

Every request has a time limit, because a server that is killed leaves requests unanswered forever. A request without an
answer may have been carried out (`AwayError`). `retry` repeats it once the server is back, so everything passed to
`retry` must be safe to repeat. Reads are, and a publish is because `expected` fences it: the server stores the messages
only if the last message of their subject is the expected one. When a repeated publish is refused (`FencedError`),
either it was stored the first time, or another daemon was faster; the caller finds out by reading the last message
(`commits.py`, `state.py`). The time limit adapts: it doubles at each timeout, so that a server that is slow, but
answers, is not asked the same again and again.

The reason for waiting is visible: `waits_for` is one sentence for `stats` and `doctor`, logged after a second.

The server may come back with another store. So after each reconnect, and after an error that says the journal may be
missing (`GoneError`), `verify_journal` is called before any request is repeated: see `identity.py`.

nats-py 2.16 has no call for reading in batches without a consumer ("direct get", nats-server 2.11) or for atomic
batches (2.12); both protocols are implemented here.
"""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

import nats
import nats.errors
import orjson
from nats.aio.client import Client, Srv
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from tooltap.daemon.journal.interface import JournalError, PlaceError
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.system.optional_packages import how_to_install

CLOSE_TIMEOUT = 0.3
"""Longest time in seconds for closing a connection whose server no longer reads."""


ANSWER_TIMEOUT, LONGEST_ANSWER = 5.0, 60.0
"""Initial and longest timeout of a request, in seconds. Each timeout doubles it."""
ANSWER_TIMEOUT_DECAY = 0.9
"""Factor by which each answer shortens the timeout again, down to `ANSWER_TIMEOUT`. It decays slowly because other
requests may still be slow."""
RECONNECT_WAIT = 0.2
RETRY_FIRST, RETRY_MOST = 0.05, 1.0
"""Shortest and longest backoff between two attempts, in seconds."""
SILENCE = 12.0
"""Seconds without any answer, or without a connection, after which the NATS client is replaced."""
NO_ANSWER = "no answer in time"
READ_TIMEOUT = 15.0
"""Seconds that a read waits for an unreachable server."""
LOG_WAITING_AFTER = 1.0
"""Seconds of waiting after which it is logged."""
OLDEST_SERVER = (2, 12)
UNAVAILABLE = 503
WRONG_LAST_SEQUENCE = {10071, 10164}
NO_STREAM = 10059
NO_ROOM = {10023, 10077}
"""NATS error codes of a full server, stream, or disk: retrying is no use."""

ASKED_AT_ONCE = 64
"""Most requests of other daemons that are answered at once."""
BATCH_MESSAGES = 1_000
NOT_FOUND = 404
NOTHING_ANSWERS = "503"
EXPECTED_HEADER = "Nats-Expected-Last-Subject-Sequence"
"""Header with the expected sequence of the subject's last message. The server stores it with the message."""

T = TypeVar("T")
_log = get_logger("journal")


class AwayError(Exception):
    """No answer from the server: the request may or may not have been carried out."""


class GoneError(AwayError):
    """No server is responsible for the journal's stream, or the stream does not exist."""


class RefusedError(JournalError):
    """The server refused a request. `code`: its HTTP-like status code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class FencedError(Exception):
    """A publish was refused: the subject's last message is not the expected one."""


class StoredMessage(NamedTuple):
    """A message of a JetStream stream."""

    seq: int
    subject: str
    data: bytes
    before: int | None = None
    """Sequence of the previous message on the same subject, if known."""


class NatsClient(Client):
    """The client of nats-py, with fixes for how version 2.16 ends connections.

    nats-py does not close a connection on which the server never answered the greeting before it opens the next one. It
    flushes a connection before giving it up, which takes a quarter of an hour if the peer is dead. And an error while
    it closes or reconnects can end it without a message.
    """

    is_ended = False

    def drop(self) -> None:
        """Close the socket at once, discarding unsent data."""
        for name in ("_io_writer", "_bare_io_writer"):
            writer: asyncio.StreamWriter | None = getattr(self._transport, name, None)
            if writer is not None:
                writer.transport.abort()

    async def end(self, *, is_lost: bool = False) -> None:
        """Close the client within a short time. `is_lost`: the connection is dead, so unsent data is discarded."""
        self.is_ended = True
        if is_lost:
            self._pending, self._pending_data_size = [], 0
            self.drop()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self.close()
        except OSError:  # the server went away at this moment; a `TimeoutError` is one: it takes nothing any more
            pass
        finally:
            self.drop()

    async def _connect_to_server(self, s: Srv) -> None:
        self.drop()
        await super()._connect_to_server(s)
        if self.is_ended:  # `wait_for` in Python 3.11 may return a result instead of being cancelled
            self.drop()
            raise asyncio.CancelledError

    async def _process_op_err(self, e: Exception) -> None:
        if self.is_connected or self.is_connecting:
            self.drop()
        await super()._process_op_err(e)


class Connection:
    """The connection to the server that has the journal. Created by `open`. Calls raise `AwayError` and `RefusedError`;
    `retry` repeats a call until it is answered."""

    def __init__(self, place: NatsPlace) -> None:
        self.place = place
        self.connections = 0
        """Number of connections made so far. Server-side state of an earlier one (consumers) may be lost."""
        self.journals = 1
        """Number of different journals that this daemon has seen under this name: raised when the journal is
        replaced."""
        self.problem = ""
        """The NATS client's last error about the connection."""
        self.verify_journal: Callable[[], Awaitable[None]] | None = None
        """Checks whether the server still has the same journal. Raises `AwayError` and `JournalError`."""
        self.reconnected = asyncio.Event()
        """Set by each new connection; the waiting task clears it."""
        self._client: NatsClient
        self._limits: set[asyncio.Timeout] = set()
        """Timeouts of the pending requests."""
        self._answer_timeout = ANSWER_TIMEOUT
        self._waiting: dict[object, str] = {}
        """Caller of `retry` -> the reason why it waits."""
        self._unanswered = ""
        """Reason why the last request was not answered; empty if it was."""
        self._logged_waiting = False
        """True if it was logged that the daemon waits for the journal."""
        self._verified = 0
        """Number of the connection that `verify_journal` has verified; 0: none."""
        self._verifying = asyncio.Lock()
        self._ready = asyncio.Event()
        self._refused = asyncio.Event()
        self._closed = asyncio.Event()
        self._stops_waiting = False
        self._last_answer_at = 0.0
        """Time of the last answer, by the event loop's clock."""
        self._reopening: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._serves: tuple[str, Callable[[bytes], Awaitable[bytes]]] | None = None
        self._serving: NatsClient | None = None
        """The client that has subscribed to the subject of `serve`."""
        self._asked: set[asyncio.Task[None]] = set()
        """Requests of others that are being answered."""
        self._asked_at_once = asyncio.Semaphore(ASKED_AT_ONCE)

    @classmethod
    async def open(cls, place: NatsPlace) -> Self:
        """Connect. Raises `JournalError` if no suitable server can be reached in time."""
        connection = cls(place)
        try:
            async with asyncio.timeout(place.options.connect_timeout):
                await connection._connect()
        except TimeoutError:
            raise JournalError(connection._unreachable(connection.problem or NO_ANSWER)) from None
        except PlaceError as error:
            raise JournalError(str(error)) from None
        connection._watching = asyncio.create_task(connection._watch_client())
        return connection

    @property
    def connected(self) -> bool:
        return self._ready.is_set()

    @property
    def max_payload(self) -> int:
        return self._client.max_payload

    @property
    def waits_for(self) -> str:
        """The reason why a request waits, one sentence; empty if none does."""
        if not self.connected:
            return self._unreachable(self.problem or "the connection is lost")
        return next(iter(self._waiting.values()), self._unanswered)

    async def close(self) -> None:
        self._closed.set()
        self._ready.set()  # wakes `retry`, which sees `_closed`
        tasks = [task for task in (self._reopening, self._watching, *self._asked) if task is not None]
        for task in tasks:
            task.cancel()
        await self._client.end()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)

    def require_verification(self) -> None:
        """Have `verify_journal` called before the next request is repeated."""
        self._verified = 0

    def stop_waiting(self) -> None:
        """Cancel all waiting for the server, for answers and for reconnects: the daemon is shutting down."""
        self._stops_waiting = True
        self._ready.set()
        self._give_up_answers()

    async def retry(self, ask: Callable[..., Awaitable[T]], *arguments: Any, timeout: float | None = READ_TIMEOUT) -> T:
        """Repeat a call until it is answered. Raises `JournalError` after `timeout` seconds (None: never)."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        deadline = None if timeout is None else begun + timeout
        wait = RETRY_FIRST
        me = object()
        has_answered = False
        try:
            while not self._closed.is_set():
                try:
                    async with asyncio.timeout_at(deadline):
                        await self._ready.wait()
                        if self._verified != self.connections:
                            await self._verify()
                        if self._client.is_connected:  # else `_disconnected` is about to be called
                            answer = await ask(*arguments)
                            has_answered = True
                            return answer
                except (AwayError, TimeoutError) as error:
                    why = self._unanswered = self._unreachable(self.problem or str(error) or NO_ANSWER)
                    self._wait(me, why, clock() - begun)
                    if self._stops_waiting or (deadline is not None and clock() > deadline - wait):
                        raise JournalError(why) from None
                    if isinstance(error, GoneError):
                        self.require_verification()
                if self._stops_waiting:
                    raise JournalError(self._unreachable(self.problem or NO_ANSWER))
                await asyncio.sleep(wait)
                wait = min(2 * wait, RETRY_MOST)
            raise JournalError("the journal is closed")
        finally:
            self._waiting.pop(me, None)
            if has_answered and self._logged_waiting and not self._waiting:
                self._logged_waiting = False
                _log.info("the journal answers again", journal=str(self.place))

    def _wait(self, who: object, why: str, seconds: float) -> None:
        self._waiting[who] = why
        if seconds > LOG_WAITING_AFTER and not self._logged_waiting and not self._closed.is_set():
            self._logged_waiting = True
            _log.warning("waiting for the journal", reason=why)

    async def _verify(self) -> None:
        """Call `verify_journal` once per connection, however many requests wait for it."""
        if self.verify_journal is None:
            self._verified = self.connections
            return
        async with self._verifying:
            number = self.connections
            if self._verified != number:
                await self.verify_journal()
                self._verified = number

    # -- JetStream ----------------------------------------------------------------------------------------------

    @property
    def _prefix(self) -> str:
        domain = self.place.options.domain
        return f"$JS.{domain}.API" if domain else "$JS.API"

    async def api(self, call: str, **arguments: Any) -> dict[str, Any]:
        """Send a request to the JetStream API, such as `STREAM.INFO.<name>`."""
        return await self._request(f"{self._prefix}.{call}", orjson.dumps(arguments) if arguments else b"")

    async def publish(
        self, subject: str, messages: Sequence[bytes], *, expected: int | None = None, seconds: int | None = None
    ) -> int:
        """Store the messages atomically, with consecutive sequences; returns the last sequence. `expected`: required
        sequence of the subject's last message, 0 for no message; otherwise raises `FencedError`. `seconds`: time to
        live."""
        headers = {} if expected is None else {EXPECTED_HEADER: str(expected)}
        if seconds is not None:
            headers["Nats-TTL"] = f"{seconds}s"
        batch = {} if len(messages) == 1 else {"Nats-Batch-Id": secrets.token_hex(8)}
        for number, message in enumerate(messages[:-1], 1):
            part = {**headers, **batch, "Nats-Batch-Sequence": str(number)}
            if number == 1:
                await self._request(subject, message, part)
            else:
                await self._sent(self._client.publish(subject, message, headers=part))
            headers = {}
        if batch:
            headers = {**batch, "Nats-Batch-Sequence": str(len(messages)), "Nats-Batch-Commit": "1"}
        answer = await self._request(subject, messages[-1], headers)
        return int(answer["seq"])

    async def last(self, stream: str, subject: str) -> StoredMessage | None:
        """The subject's last message, from the stream's leader."""
        return await self._get(stream, last_by_subj=subject)

    async def next(self, stream: str, first: int, subject: str) -> StoredMessage | None:
        """The subject's first message from `first` on, from the stream's leader."""
        return await self._get(stream, seq=first, next_by_subj=subject)

    async def read(self, stream: str, first: int, subject: str, max_bytes: int) -> list[StoredMessage]:
        """The subject's messages from `first` on, about `max_bytes`; may be empty. Any replica may answer, even one
        that lags behind."""
        found: list[StoredMessage] = []
        end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def arrived(message: Msg) -> None:
            headers = message.headers or {}
            if (status := headers.get("Status")) is not None:
                if not end.done():
                    end.set_result(status)
            else:
                before = headers.get(EXPECTED_HEADER)
                found.append(
                    StoredMessage(
                        int(headers["Nats-Sequence"]),
                        headers["Nats-Subject"],
                        message.data,
                        int(before) if before is not None else None,
                    )
                )

        request = {"seq": first, "next_by_subj": subject, "batch": BATCH_MESSAGES, "max_bytes": max_bytes}
        client = self._client
        inbox = client.new_inbox()
        subscription = await self._sent(client.subscribe(inbox, cb=arrived))
        try:
            call = f"{self._prefix}.DIRECT.GET.{stream}"
            await self._sent(client.publish(call, orjson.dumps(request), reply=inbox))
            status = await self._answered(end)
        finally:
            await self._unsubscribe(subscription)
        if status == NOTHING_ANSWERS:
            raise GoneError("nothing answers for the journal")
        if status not in ("204", "404"):
            raise AwayError(f"a read was answered with {status}")
        return found

    async def push(
        self, stream: str, first: int, subject: str, heartbeat: float, arrived: Callable[[Msg], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        """Create a push consumer: the server sends the messages from `first` on to `arrived`, and a heartbeat every
        `heartbeat` seconds. Returns a function that deletes it. The server may skip messages."""
        client = self._client
        inbox = client.new_inbox()
        subscription = await self._sent(client.subscribe(inbox, cb=arrived))
        consumer = {
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": first,
            "filter_subject": subject,
            "ack_policy": "none",
            "max_deliver": 1,
            "idle_heartbeat": int(heartbeat * 1e9),
            "mem_storage": True,
            "num_replicas": 1,
        }
        try:
            created = await self.api(f"CONSUMER.CREATE.{stream}", stream_name=stream, config=consumer)
        except BaseException:
            await self._unsubscribe(subscription)
            raise

        async def end() -> None:
            await self._unsubscribe(subscription)
            if client.is_connected:
                with suppress(AwayError):
                    await self._sent(client.publish(f"{self._prefix}.CONSUMER.DELETE.{stream}.{created['name']}"))

        return end

    async def _unsubscribe(self, subscription: Subscription) -> None:
        with suppress(AwayError):  # its connection is gone
            await self._sent(subscription.unsubscribe())

    async def _get(self, stream: str, **which: Any) -> StoredMessage | None:
        try:
            message = (await self.api(f"STREAM.MSG.GET.{stream}", **which))["message"]
        except RefusedError as error:
            if error.code == NOT_FOUND:
                return None
            raise
        return StoredMessage(message["seq"], message["subject"], base64.b64decode(message.get("data", "")))

    # -- between daemons ----------------------------------------------------------------------------------------

    async def ask(self, subject: str, data: bytes, timeout: float) -> bytes | None:
        """Ask whoever serves a subject. Returns None if nobody does, or answers in time."""
        try:
            message = await self._client.request(subject, data, timeout=timeout)
        except (nats.errors.Error, TimeoutError, OSError):
            return None
        return bytes(message.data)

    async def serve(self, subject: str, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        """Answer the requests on a subject, on this connection and on later ones."""
        self._serves = subject, answer
        await self._serve()

    async def _serve(self) -> None:
        client = self._client
        if self._serves is None or self._serving is client:
            return
        self._serving = client
        subject, answer = self._serves

        async def reply(message: Msg) -> None:
            try:
                data = await answer(message.data)
                with suppress(nats.errors.Error, TimeoutError, OSError):  # whoever asks gives up
                    await client.publish(message.reply, data)
            finally:
                self._asked_at_once.release()

        async def asked(message: Msg) -> None:
            await self._asked_at_once.acquire()
            task = asyncio.create_task(reply(message))
            self._asked.add(task)
            task.add_done_callback(self._asked.discard)

        try:
            await client.subscribe(subject, cb=asked)
        except (nats.errors.Error, OSError):  # it is lost again, and the next connection subscribes
            self._serving = None

    # -- requests -----------------------------------------------------------------------------------------------

    async def _request(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
        # The client's own limit is for where it swallows what `_answered` does at its limit.
        limit = self._answer_timeout + 1
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
        """Await a request that the server answers. Raises `AwayError`, `RefusedError`."""
        answer = await self._sent(request)
        self._unanswered = ""
        self._last_answer_at = asyncio.get_running_loop().time()
        self._answer_timeout = max(ANSWER_TIMEOUT_DECAY * self._answer_timeout, ANSWER_TIMEOUT)
        return answer

    async def _sent(self, request: Awaitable[T]) -> T:
        """Await an operation of the client under the current timeout; completion does not prove that the server is
        alive. Raises `AwayError`, `RefusedError`."""
        patience = self._answer_timeout
        try:
            async with asyncio.timeout(0 if self._stops_waiting else patience) as limit:
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
                self._answer_timeout = max(
                    self._answer_timeout, min(2 * patience, LONGEST_ANSWER)
                )  # once for many at once
                self._leave_if_silent()
            raise AwayError(_sentence(error)) from error

    def _leave_if_silent(self) -> None:
        """Reconnect, to another server if there is one, if the connection stands but no answers arrive on it."""
        now = asyncio.get_running_loop().time()
        if now - self._last_answer_at > SILENCE and not self._closed.is_set():
            self._last_answer_at = now
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
        self._last_answer_at = asyncio.get_running_loop().time()
        self.reconnected.set()
        self._ready.set()
        await self._serve()

    async def _disconnected(self, client: NatsClient) -> None:
        if client is self._client:
            self._is_away()

    def _is_away(self) -> None:
        if self._closed.is_set():
            return
        if self._ready.is_set():
            _log.warning("the journal cannot be reached", journal=str(self.place))
        if not self._stops_waiting:  # else nothing waits for its return
            self._ready.clear()
        self._give_up_answers()

    def _give_up_answers(self) -> None:
        """Make all pending requests time out now."""
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
        """Called when the NATS client stops reconnecting, for example after a revoked login: replace it."""
        if client is self._client:
            self._leave()

    async def _watch_client(self) -> None:
        """Replace a client that stays disconnected: nats-py does not always report that it has stopped reconnecting."""
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
