"""Helpers of the tests of Gemini's dialects."""

from typing import Any

from tests.normalizers.reading import recording
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Event
from tooltap.testing import normalize

RECORDED = "gemini-0.61.0"
WRITTEN = "gemini-written"
NOW = "2026-11-21T20:45:09.996Z"
HEADER = {"sessionId": "one", "projectHash": "h", "startTime": NOW, "lastUpdated": NOW, "kind": "main"}
ECHO = {"output": "hi"}


def stream(name: str, version: str = RECORDED, **context: Any) -> list[Event]:
    return normalize("gemini-stream", recording("gemini-stream", name, version), Context(stream="s", **context))


def chat(name: str, version: str = RECORDED, **context: Any) -> list[Event]:
    return normalize("gemini-chat", recording("gemini-chat", name, version), Context(stream="s", **context))


# -- lines of a chat, made by hand ------------------------------------------------------------------------------------


def message(message_id: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": message_id, "timestamp": NOW, "type": kind, "content": content, **more}


def call(call_id: str, name: str, status: str = "success", **more: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "args": {}, "status": status, "timestamp": NOW, **more}


def response(call_id: str, name: str, **answered: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": call_id, "name": name, "response": answered}}
