"""The client's side of OpenCode's API: prompts, answers and stops; everything else asks or sets up.

A request is `{"POST": "/session/<id>/prompt_async", "body": {…}}`, or `{method, path or url, body}`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.dialects.opencode.errors import error_words
from tooltap.normalizers.dialects.opencode.state import Msg, object_of, text_of
from tooltap.protocol.events import Notice

if TYPE_CHECKING:
    from tooltap.normalizers.dialects.opencode.bus import OpencodeBus

__all__ = ["METHODS", "Requests", "method_and_path"]

METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


def method_and_path(value: Msg) -> tuple[str, str] | None:
    """What a request asks for; None if the object is none."""
    named = next((method for method in METHODS if isinstance(value.get(method), str)), None)
    if named is not None:
        return named, _path(value[named])
    method, path = text_of(value, "method"), text_of(value, "path", "url")
    if method is None or path is None or method.upper() not in METHODS:
        return None
    return method.upper(), _path(path)


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:  # an address with half a bracket
        return url


class Requests:
    def __init__(self, parser: OpencodeBus) -> None:
        self._parser = parser
        self._posts: dict[tuple[str, ...], Callable[[list[str], Msg], str]] = {
            ("permission", "*", "reply"): self._permission,
            ("question", "*", "reject"): self._dismiss,
            ("question", "*", "reply"): self._answer,
            ("session", "*", "abort"): self._abort,
            ("session", "*", "command"): self._command,
            ("session", "*", "message"): self._prompt,
            ("session", "*", "permissions", "*"): self._old_permission,
            ("session", "*", "prompt_async"): self._prompt,
        }

    def read(self, value: Msg) -> str:
        """A line of the client's."""
        request = method_and_path(value)
        if request is None:
            return self._parser.unparsed("unknown-type", value)
        method, path = request
        words = [word for word in path.split("/") if word]
        if method != "POST":
            return skip("request")
        handler = next((reader for pattern, reader in self._posts.items() if _fits(pattern, words)), None)
        if handler is None:
            return skip("request")
        if words[0] == "session":
            self._parser.sessions.enter(words[1])
        return handler(words, object_of(value, "body"))

    def answered(self, value: Any) -> str:
        """A line of the server's answers: events say the same, but for a refusal."""
        if isinstance(value, dict):
            failed = isinstance(value.get("name"), str) and isinstance(value.get("data"), dict) and "id" not in value
            if failed or value.get("success") is False:
                words, data = error_words(value)
                self._parser.emit(Notice, level="error", code="request-failed", text=words, data=data)
                return WITH_EVENTS
        return skip("answer")

    # -- requests -----------------------------------------------------------------------------------------------------

    def _prompt(self, words: list[str], body: Msg) -> str:
        if body.get("noReply") is True:
            return skip("request")
        return self._parser.prompts.sent(body.get("parts"))

    def _command(self, words: list[str], body: Msg) -> str:
        """A slash command, as the user types it."""
        command = text_of(body, "command")
        if command is None:
            return skip("request")
        text = f"/{command} {text_of(body, 'arguments') or ''}".rstrip()
        return self._parser.prompts.sent([{"type": "text", "text": text}])

    def _abort(self, words: list[str], body: Msg) -> str:
        self._parser.emit(Notice, level="info", code="interrupt", text="abort")
        self._parser.sessions.info.outcome = ["cancelled", "abort"]
        return WITH_EVENTS

    def _permission(self, words: list[str], body: Msg) -> str:
        return self._parser.asking.permission_answered(words[1], body)

    def _old_permission(self, words: list[str], body: Msg) -> str:
        return self._parser.asking.permission_answered(words[3], body)

    def _answer(self, words: list[str], body: Msg) -> str:
        return self._parser.asking.question_answered(words[1], body)

    def _dismiss(self, words: list[str], body: Msg) -> str:
        return self._parser.asking.question_dismissed(words[1])


def _fits(pattern: tuple[str, ...], words: list[str]) -> bool:
    return len(pattern) == len(words) and all(part in ("*", word) for part, word in zip(pattern, words, strict=True))
