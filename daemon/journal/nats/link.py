"""What a journal asks of JetStream: to store messages, to read them, and to push them as they come.

Everything here is safe to repeat, as `retry` does (`connection.py`): reads are, and a publish is because `expected`
fences it. The server stores the messages only if the last message of their subject is the expected one. When a repeated
publish is refused (`FencedError`), either it was stored the first time, or another daemon was faster; the caller finds
out by reading the last message (`commits.py`, `state.py`).

nats-py 2.16 has no call for reading in batches without a consumer ("direct get", nats-server 2.11) or for atomic
batches (2.12); both protocols are implemented here.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import orjson
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from tooltap.daemon.journal.nats.connection import AwayError, Connection, FencedError, GoneError, RefusedError

__all__ = ["AwayError", "FencedError", "GoneError", "Link", "RefusedError", "StoredMessage"]

BATCH_MESSAGES = 1_000
NOT_FOUND = 404
NOTHING_ANSWERS = "503"
EXPECTED_HEADER = "Nats-Expected-Last-Subject-Sequence"
"""Is stored with the message."""


class StoredMessage(NamedTuple):
    seq: int
    subject: str
    data: bytes
    before: int | None = None
    """Sequence of the subject's message before it, if it is known."""


class Link(Connection):
    """A connection to the server that has the journal."""

    @property
    def _prefix(self) -> str:
        domain = self.place.options.domain
        return f"$JS.{domain}.API" if domain else "$JS.API"

    async def api(self, call: str, **arguments: Any) -> dict[str, Any]:
        """A request to the JetStream API, such as `STREAM.INFO.<name>`."""
        return await self._request(f"{self._prefix}.{call}", orjson.dumps(arguments) if arguments else b"")

    async def publish(
        self, subject: str, messages: Sequence[bytes], *, expected: int | None = None, seconds: int | None = None
    ) -> int:
        """Store all the messages or none, with consecutive sequences; returns the last one's. `expected`: the sequence
        of the subject's last message, 0 if there is none; any other is refused with `FencedError`. `seconds`:
        lifetime."""
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
        """Have the server push the messages from `first` on to `arrived`, and a heartbeat every `heartbeat` seconds.
        Returns a function that ends it. The server may skip messages."""
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
