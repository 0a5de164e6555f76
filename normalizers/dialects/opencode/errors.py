"""OpenCode's errors: `{name, data: {message, …}}`, on messages, sessions and answers."""

from __future__ import annotations

from typing import Any, NamedTuple

from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.dialects.opencode.state import Msg, object_of, text_of
from tooltap.protocol.events import Notice

__all__ = ["Failure", "error_words", "notice_failure", "outcome_of_reason"]

_ABORTED = "MessageAbortedError"

_FAILED_REASONS = ("content-filter", "error")


class Failure(NamedTuple):
    """How an error ends its turn."""

    outcome: str
    reason: str


def outcome_of_reason(reason: str | None) -> str:
    """How a turn ended whose last step gave this reason."""
    return "failed" if reason in _FAILED_REASONS else "completed"


def error_words(error: Msg) -> tuple[str, dict[str, Any]]:
    """What an error says, and all there is of it."""
    name, data = text_of(error, "name") or "error", object_of(error, "data")
    return text_of(data, "message") or text_of(error, "message") or name, {"name": name, **data}


def notice_failure(parser: Parser, error: Msg) -> Failure:
    """Tell of the error; a stop the user wanted is one, too."""
    name = text_of(error, "name") or "error"
    words, shown = error_words(error)
    if name == _ABORTED:
        parser.emit(Notice, level="info", code="interrupt", text=words, data=shown)
        return Failure("cancelled", name)
    parser.emit(Notice, level="error", code="provider-error", text=words, data=shown)
    return Failure("failed", name)
