"""One connection to NATS that lasts as long as the daemon, and what a journal asks of JetStream through it.

Every request has a time limit, because a server that is killed leaves requests unanswered forever. A request without an
answer may have been carried out (`AwayError`). `retry` repeats it once the server is back. So everything passed to
`retry` must be safe to repeat: reads are, and a publish is because `expected` fences it. The server stores the
messages only if the last message of their subject is the expected one. When a repeated publish is refused
(`FencedError`), either it was stored the first time, or another daemon was faster; the caller finds out by reading the
last message (`journal.py`, `state.py`).

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
from typing import Any, NamedTuple, Self, TypeVar

import nats
import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from tooltap.daemon.journal.interface import JournalError, PlaceError
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.system.logs import get_logger

__all__ = ["AwayError", "FencedError", "Link", "RefusedError", "StoredMessage"]

ANSWER_TIMEOUT = 5.0
RECONNECT_WAIT = 0.2
RETRY_FIRST, RETRY_MOST = 0.05, 1.0
"""Seconds."""
NO_ANSWER = "no answer in time"
READ_TIMEOUT = 15.0
"""Seconds that a read waits for a server that is away."""
OLDEST_SERVER = (2, 12)
BATCH_MESSAGES = 1_000
NOT_FOUND = 404
UNAVAILABLE = 503
WRONG_LAST_SEQUENCE = {10071, 10164}

T = TypeVar("T")
_log = get_logger("journal")


class AwayError(Exception):
    """No answer: the request may or may not have been carried out."""


class RefusedError(JournalError):
    """The server refused. `code`: the HTTP-like one."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class FencedError(Exception):
    """The subject's last message is not the expected one."""


class StoredMessage(NamedTuple):
    seq: int
    subject: str
    data: bytes


class Link:
    """Created by `open`. Calls raise `AwayError` and `RefusedError`; `retry` repeats a call until it is answered."""

    def __init__(self, place: NatsPlace) -> None:
        self.place = place
        self.connections = 0
        """Number of connections made so far. What the server held for an earlier one may be gone."""
        self.problem = ""
        """The NATS client's last error about the connection."""
        self._prefix = f"$JS.{place.options.domain}.API" if place.options.domain else "$JS.API"
        self._client: Client
        self._limits: set[asyncio.Timeout] = set()
        """Time limits of the requests that wait for an answer."""
        self._ready = asyncio.Event()
        self._refused = asyncio.Event()
        self._closed = asyncio.Event()
        self._reopening: asyncio.Task[None] | None = None

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
        return link

    @property
    def connected(self) -> bool:
        return self._ready.is_set()

    @property
    def max_payload(self) -> int:
        return self._client.max_payload

    async def close(self) -> None:
        self._closed.set()
        self._ready.set()  # wakes `retry`, which sees `_closed`
        if self._reopening is not None:
            self._reopening.cancel()
        with suppress(OSError):  # the server went away at this moment
            await self._client.close()

    async def retry(self, ask: Callable[..., Awaitable[T]], *arguments: Any, timeout: float | None = READ_TIMEOUT) -> T:
        """Repeat a call until it is answered. Raises `JournalError` after `timeout` seconds (None: never)."""
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        wait = RETRY_FIRST
        while not self._closed.is_set():
            try:
                async with asyncio.timeout_at(deadline):
                    await self._ready.wait()
                    if self._client.is_connected:  # else `_disconnected` is about to be called
                        return await ask(*arguments)
            except (AwayError, TimeoutError) as error:
                if deadline is not None and asyncio.get_running_loop().time() > deadline - wait:
                    raise JournalError(self._unreachable(self.problem or str(error) or NO_ANSWER)) from None
            await asyncio.sleep(wait)
            wait = min(2 * wait, RETRY_MOST)
        raise JournalError("the journal is closed")

    # -- requests -----------------------------------------------------------------------------------------------

    async def api(self, call: str, **arguments: Any) -> dict[str, Any]:
        """A request to the JetStream API, such as `STREAM.INFO.<name>`."""
        return await self._request(f"{self._prefix}.{call}", orjson.dumps(arguments) if arguments else b"")

    async def publish(
        self, subject: str, messages: Sequence[bytes], *, expected: int | None = None, seconds: int | None = None
    ) -> int:
        """Store all the messages or none, with consecutive sequences; returns the last one's. `expected`: the sequence
        of the subject's last message, 0 if there is none; any other is refused with `FencedError`. `seconds`:
        lifetime."""
        headers = {} if expected is None else {"Nats-Expected-Last-Subject-Sequence": str(expected)}
        if seconds is not None:
            headers["Nats-TTL"] = f"{seconds}s"
        batch = {} if len(messages) == 1 else {"Nats-Batch-Id": secrets.token_hex(8)}
        for number, message in enumerate(messages[:-1], 1):
            part = {**headers, **batch, "Nats-Batch-Sequence": str(number)}
            if number == 1:
                await self._request(subject, message, part)
            else:
                await self._answered(self._client.publish(subject, message, headers=part))
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
                found.append(StoredMessage(int(headers["Nats-Sequence"]), headers["Nats-Subject"], message.data))

        request = {"seq": first, "next_by_subj": subject, "batch": BATCH_MESSAGES, "max_bytes": max_bytes}
        client = self._client
        inbox = client.new_inbox()
        subscription = await self._answered(client.subscribe(inbox, cb=arrived))
        try:
            call = f"{self._prefix}.DIRECT.GET.{stream}"
            await self._answered(client.publish(call, orjson.dumps(request), reply=inbox))
            status = await self._answered(end)
        finally:
            if not client.is_closed:
                await subscription.unsubscribe()
        if status not in ("204", "404"):
            raise AwayError(f"a read was answered with {status}")
        return found

    async def push(
        self, stream: str, first: int, subject: str, heartbeat: float, arrived: Callable[[Msg], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        """Have the server push the messages from `first` on to `arrived`, and a heartbeat every `heartbeat` seconds.
        Returns a function that ends it. The server may skip messages."""
        client = self._client
        inbox = client.new_inbox()
        subscription = await self._answered(client.subscribe(inbox, cb=arrived))
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
            if not client.is_closed:
                await subscription.unsubscribe()
            raise

        async def end() -> None:
            if client.is_connected:
                await subscription.unsubscribe()
                await client.publish(f"{self._prefix}.CONSUMER.DELETE.{stream}.{created['name']}")

        return end

    async def _get(self, stream: str, **which: Any) -> StoredMessage | None:
        try:
            message = (await self.api(f"STREAM.MSG.GET.{stream}", **which))["message"]
        except RefusedError as error:
            if error.code == NOT_FOUND:
                return None
            raise
        return StoredMessage(message["seq"], message["subject"], base64.b64decode(message.get("data", "")))

    async def _request(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
        request = self._client.request(subject, data, timeout=2 * ANSWER_TIMEOUT, headers=headers or None)
        message = await self._answered(request)
        answer: dict[str, Any] = orjson.loads(message.data) if message.data else {}
        error = answer.get("error")
        if error is None:
            return answer
        if error.get("err_code") in WRONG_LAST_SEQUENCE:
            raise FencedError
        what = f"{error.get('description')} (NATS error {error.get('err_code', error['code'])})"
        if error["code"] == UNAVAILABLE:
            raise AwayError(what)
        raise RefusedError(f"the journal {self.place} refused: {what}", error["code"])

    async def _answered(self, request: Awaitable[T]) -> T:
        """Wait for an answer, at most `ANSWER_TIMEOUT`. Raises `AwayError`, `RefusedError`."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT) as limit:
                self._limits.add(limit)
                try:
                    return await request
                finally:
                    self._limits.discard(limit)
        except nats.errors.MaxPayloadError:  # the limit was lowered after the message was encoded
            raise RefusedError(f"the journal {self.place} no longer accepts messages of this length", 400) from None
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise AwayError(_sentence(error)) from error

    # -- the connection -----------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        """Wait for a connection. Raises `JournalError` and `PlaceError` where retrying is no use."""
        self._client = Client()
        self._refused.clear()
        connecting = asyncio.ensure_future(
            self._client.connect(
                **self.place.connect_options(),
                name="tooltap",
                max_reconnect_attempts=-1,
                reconnect_time_wait=RECONNECT_WAIT,  # type: ignore[arg-type]  # only passed to `sleep`
                error_cb=self._failed,
                disconnected_cb=self._disconnected,
                reconnected_cb=self._connected,
                closed_cb=self._given_up,
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
                raise PlaceError("`creds` and `nkey` need the package nkeys: pip install tooltap[nats]") from error
            except (OSError, ValueError, nats.errors.Error) as error:
                raise JournalError(self._unreachable(_sentence(error))) from error
        finally:
            for task in (connecting, refused):
                task.cancel()
            await asyncio.gather(connecting, refused, return_exceptions=True)
        version = self._client.connected_server_version
        if (version.major, version.minor) < OLDEST_SERVER:
            raise JournalError(
                f"the journal {self.place} is on nats-server {version.major}.{version.minor};"
                f" {'.'.join(map(str, OLDEST_SERVER))} or later is required"
            )
        await self._connected()

    async def _connected(self) -> None:
        self.connections += 1
        if self.connections > 1:
            _log.info("the journal is back", journal=str(self.place))
        self.problem = ""
        self._ready.set()

    async def _disconnected(self) -> None:
        if self._closed.is_set():
            return
        if self._ready.is_set():
            _log.warning("the journal is away", journal=str(self.place))
        self._ready.clear()
        for limit in self._limits:  # these requests will not be answered
            limit.reschedule(0)

    def _unreachable(self, why: str) -> str:
        return f"the journal {self.place} cannot be reached: {why}"

    async def _failed(self, error: Exception) -> None:
        self.problem = _sentence(error)
        if isinstance(error, nats.errors.AuthorizationError) or "authorization" in self.problem.lower():
            self._refused.set()

    async def _given_up(self) -> None:
        """The NATS client has given up, because it takes an error for final, such as a revoked login. Connect anew."""
        if self._closed.is_set():
            return
        self._ready.clear()
        if self.connections and (self._reopening is None or self._reopening.done()):
            self._reopening = asyncio.create_task(self._reopen())

    async def _reopen(self) -> None:
        while True:
            await asyncio.sleep(RETRY_MOST)
            try:
                return await self._connect()
            except (JournalError, PlaceError) as error:
                self.problem = str(error)


def _sentence(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return NO_ANSWER
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    if isinstance(error, nats.errors.NoRespondersError):
        return "JetStream does not answer; is it enabled on the server?"
    return str(error).removeprefix("nats: ") or type(error).__name__
