"""What the tests of Gemini's dialects share."""

from typing import Any

from tests.normalizers.reading import recording
from tooltap.normalizers.contract import normalize
from tooltap.normalizers.items import Context
from tooltap.protocol.events import Event

RECORDED = "gemini-0.61.0"
WRITTEN = "gemini-written"


def stream(name: str, version: str = RECORDED, **context: Any) -> list[Event]:
    return normalize("gemini-stream", recording("gemini-stream", name, version), Context(stream="s", **context))


def chat(name: str, version: str = RECORDED, **context: Any) -> list[Event]:
    return normalize("gemini-chat", recording("gemini-chat", name, version), Context(stream="s", **context))
