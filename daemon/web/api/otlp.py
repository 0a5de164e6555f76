"""The endpoints of OTLP/HTTP, at which agents send their telemetry, with the answers that its specification asks for.

An answer says success when the log records or spans are durable, and `Retry-After` where an exporter is to send them
again.
"""

from __future__ import annotations

from typing import NamedTuple

import anyio
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.system.content_coding import CodingError, decoder
from tooltap.daemon.taps.otlp.protobuf import status
from tooltap.daemon.taps.otlp.receiver import BodyError, BusyError, NotStoredError, Receiver, Signal
from tooltap.daemon.web.http.guard import OTLP_BYTES, OTLP_PATHS
from tooltap.daemon.web.http.requests import json_response
from tooltap.protocol.frames import FrameError

JSON, PROTOBUF = "application/json", "application/x-protobuf"
INVALID, EXHAUSTED, UNAVAILABLE = 3, 8, 14
"""Codes of `google.rpc.Status`."""
LATER = {"Retry-After": "5"}
"""Header that asks an exporter to send a batch again, in seconds."""


class _Refusal(NamedTuple):
    http: int
    code: int
    message: str


def routes(receiver: Receiver) -> list[Route]:
    # One body at a time: each may be `OTLP_BYTES` long when it is decoded.
    decoding = anyio.CapacityLimiter(1)

    async def take_in(signal: Signal, request: Request) -> Response:
        is_json = _is_json(request)
        if is_json is None:
            return _unsupported()
        try:
            coding = request.headers.get("content-encoding", "")
            body = await run_sync(_decoded, await request.body(), coding, limiter=decoding)
            await receiver.take_in(signal, body, is_json=is_json)
        except (BodyError, CodingError) as error:
            return _refused(is_json, _Refusal(400, INVALID, f"the body cannot be read: {error}"))
        except _TooLongError:
            message = f"the body has more than {OTLP_BYTES} bytes when it is decoded"
            return _refused(is_json, _Refusal(413, INVALID, message))
        except (BusyError, FrameError) as error:
            return _refused(is_json, _Refusal(429, EXHAUSTED, str(error)))
        except (NotStoredError, JournalError) as error:
            return _refused(is_json, _Refusal(503, UNAVAILABLE, str(error)))
        return _accepted(is_json)

    async def logs(request: Request) -> Response:
        return await take_in("logs", request)

    async def traces(request: Request) -> Response:
        return await take_in("traces", request)

    async def metrics(request: Request) -> Response:
        receiver.pass_over("metrics")
        is_json = _is_json(request)
        return _unsupported() if is_json is None else _accepted(is_json)

    return [Route(path, one, methods=["POST"]) for path, one in zip(OTLP_PATHS, (logs, traces, metrics), strict=True)]


class _TooLongError(Exception):
    """The body is too long when it is decoded."""


def _decoded(body: bytes, coding: str) -> bytes:
    """Decode a body. Blocks. Raises `CodingError` and `_TooLongError`."""
    decode, decoded = decoder(coding), bytearray()
    for data in (body, b""):
        for piece in decode(data):
            decoded += piece
            if len(decoded) > OTLP_BYTES:
                raise _TooLongError
    return bytes(decoded)


def _is_json(request: Request) -> bool | None:
    """Return whether a body is JSON, or Protobuf; None if it is neither."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return {JSON: True, PROTOBUF: False}.get(kind)


def _accepted(is_json: bool) -> Response:
    return json_response({}) if is_json else Response(b"", media_type=PROTOBUF)


def _unsupported() -> Response:
    return _refused(True, _Refusal(415, INVALID, f"a body is {JSON} or {PROTOBUF}"))


def _refused(is_json: bool, refusal: _Refusal) -> Response:
    headers = LATER if refusal.http in (429, 503) else None
    if is_json:
        return json_response({"code": refusal.code, "message": refusal.message}, refusal.http, headers)
    return Response(status(refusal.code, refusal.message), refusal.http, headers, media_type=PROTOBUF)
