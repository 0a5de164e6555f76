"""What a tool of Cursor's agent answered: an object under the word that says how the call ended."""

from __future__ import annotations

from typing import Any, NamedTuple

from tooltap.normalizers.wire.values import record, string

__all__ = ["Answer", "read_result"]

_DENIED = frozenset({"permissionDenied", "rejected"})
_WORDS = ("errorMessage", "error", "reason", "message", "clientVisibleErrorMessage")
_SHELL_KEYS = {"stdout": "stdout", "stderr": "stderr", "exitCode": "exit_code"}


class Answer(NamedTuple):
    value: Any
    status: str
    error: str | None = None


def read_result(name: str | None, result: dict[str, Any]) -> Answer:
    """The answer of canonical tool `name`."""
    end = next((key for key in result if isinstance(result[key], dict)), "success")
    body = record(result.get(end))
    value: Any = body
    if name == "Bash":
        value = {key: body[told] for told, key in _SHELL_KEYS.items() if told in body}
    if end == "success":
        return Answer(value, "completed")
    words = next((text for key in _WORDS if (text := string(body.get(key)))), None)
    if name != "Bash":
        value = None if words else body
    if words is None and "exit_code" not in (value or {}):
        words = end
    return Answer(value, "denied" if end in _DENIED else "failed", words)
