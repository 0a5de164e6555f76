"""What a tool of Copilot CLI answered: `content` for the model, `detailedContent` for the user, or an error.

`success` says that the tool ran, not that the command did: its exit code is in `shellExecution`, and once more in a
line below its output. Output over 20 kB is replaced by a note where it was saved; what the command printed is whole in
the lines that came while it ran.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Display

__all__ = ["Answer", "read_result"]

_SHELL_ENDED = re.compile(r"<(shellId: \S+ completed with exit code (-?\d+))>\s*\Z", re.ASCII)
_SHELL_RUNS = re.compile(r"<command [^<>]*(?:in (?:\w+ )?background|is still running)[^<>]*>\s*\Z")
_TOO_LARGE = "Output too large to read at once"
_DENIED = ("denied", "rejected")


class Answer(NamedTuple):
    value: Any
    status: str = "completed"
    error: str | None = None
    display: Display | None = None
    is_async: bool = False
    is_printed: bool = False
    """The value is what was printed while the command ran."""


def read_result(name: str, data: dict[str, Any], printed: dict[str, str] | None) -> Answer:
    """Of a `tool.execution_complete`, and what the tool printed while it ran."""
    result = record(data.get("result"))
    content = string(result.get("content"))
    code = whole(record(data.get("shellExecution")).get("exitCode"))
    if data.get("success") is False:
        error = record(data.get("error"))
        status = "denied" if error.get("code") in _DENIED else "failed"
        value = {**(printed or {}), **({} if code is None else {"exit_code": code})}
        return Answer(value or None, status, string(error.get("message")), is_printed=bool(printed))
    if name == "Bash":
        return _shell(content or "", code, printed)
    shown = string(result.get("detailedContent"))
    display = _display(shown) if shown and shown != content else None
    kind = record(record(data.get("toolTelemetry")).get("properties")).get("viewType")
    return Answer(_value(name, content, kind, result), display=display)


def _value(name: str, content: str | None, kind: Any, result: dict[str, Any]) -> Any:
    if name == "Read" and kind == "image":
        return {"message": content}
    if name == "Read" and kind == "directory":
        return {"entries": (content or "").splitlines()}
    contents = result.get("contents")
    return contents if content is None and isinstance(contents, list) else content


def _shell(content: str, code: int | None, printed: dict[str, str] | None) -> Answer:
    ended = _SHELL_ENDED.search(content)
    if ended and code is None:
        code = int(ended[2])
    stated = {} if code is None else {"exit_code": code}
    error = (ended[1] if ended else f"exit code {code}") if code else None
    if content.startswith(_TOO_LARGE) and printed:
        return Answer({**printed, **stated, "message": content}, error=error, is_printed=True)
    text = content[: ended.start()] if ended else content
    is_async = code is None and _SHELL_RUNS.search(content) is not None
    return Answer({"stdout": text, **stated}, error=error, is_async=is_async)


def _display(shown: str) -> Display:
    is_diff = shown.lstrip().startswith("diff --git ")
    return Display(origin="provider", text=shown, mime_type="text/x-diff" if is_diff else None)
