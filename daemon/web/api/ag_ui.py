"""What AG-UI's clients send to run an agent, as requests: its answers to interrupts, or the user's last message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from tooltap.daemon.web.http.endpoints import RunAgentInput
from tooltap.daemon.web.http.requests import WebError, parse_body
from tooltap.protocol.frames import AnswerRequest, SendRequest, sentence_of


class ResumeEntry(msgspec.Struct, rename="camel"):
    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None
    """If resolved, the keys of the request `answer` that are not `permissionId`."""


def read_run(body: bytes) -> RunAgentInput:
    """Parse a body. Keys that are not known have no effect: AG-UI's clients send more. Raises `WebError`."""
    try:
        return msgspec.json.decode(body, type=RunAgentInput)
    except msgspec.ValidationError as error:
        raise WebError(400, "bad-body", sentence_of(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise WebError(400, "bad-body", "the body is not a JSON object, or too deep") from None


def tellings(session: str, given: RunAgentInput) -> list[AnswerRequest | SendRequest]:
    """Return what the agent is to be told. Raises `WebError`."""
    if given.resume:
        return [_answer(one) for one in given.resume]
    last = given.messages[-1] if given.messages else {}
    if last.get("role") != "user":
        raise WebError(400, "bad-body", "a run needs `resume`, or the user's message as the last of `messages`")
    key = last.get("id")
    more = {"key": key} if isinstance(key, str) and 1 <= len(key) <= 100 else {}
    return [parse_body(msgspec.json.encode({"session": session, "text": _text_of(last), **more}), SendRequest, id=None)]


def _answer(entry: dict[str, Any]) -> AnswerRequest:
    try:
        one = msgspec.convert(entry, ResumeEntry)
    except msgspec.ValidationError as error:
        raise WebError(400, "bad-body", f"`resume`: {sentence_of(str(error))}") from None
    if one.status == "cancelled":
        return AnswerRequest(permission_id=one.interrupt_id, outcome="cancelled")
    if not isinstance(one.payload, dict):
        raise WebError(400, "bad-body", "`payload` of a resolved interrupt is an object, with the `outcome`")
    return parse_body(msgspec.json.encode(one.payload), AnswerRequest, id=None, permissionId=one.interrupt_id)


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(_texts_of(content if isinstance(content, list) else []))


def _texts_of(parts: list[Any]) -> Iterator[str]:
    for part in parts:
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            raise WebError(400, "bad-body", "an agent can be sent text alone, and the message has something else")
        yield part["text"]
