"""Reads the results of Copilot CLI's tools: `content` for the model, `detailedContent` for the user, or an error.

`success` says that the tool ran, not that the command succeeded: the command's exit code is in `shellExecution`, and
again in a line below its output. A note replaces output over 20 kB and says where it was saved; the whole output is in
the lines that arrived while the command ran.
"""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Display, OutputRef

__all__ = ["read_result"]

_SHELL_ENDED = re.compile(r"<(shellId: \S+ completed with exit code (-?\d+))>\s*\Z", re.ASCII)
_SHELL_RUNS = re.compile(r"<command [^<>]*(?:in (?:\w+ )?background|is still running)[^<>]*>\s*\Z")
_TOO_LARGE = "Output too large to read at once"
_DENIED = ("denied", "rejected")


def read_result(
    name: str, data: dict[str, Any], printed: dict[str, str] | None, outputs: dict[str, OutputRef] | None
) -> Answer:
    """Read a `tool.execution_complete`. `printed`, `outputs`: what the tool printed while it ran."""
    result = record(data.get("result"))
    content = string(result.get("content"))
    code = whole(record(data.get("shellExecution")).get("exitCode"))
    if data.get("success") is False:
        error = record(data.get("error"))
        status = "denied" if error.get("code") in _DENIED else "failed"
        output = {**(printed or {}), **({} if code is None else {"exit_code": code})}
        return Answer(output or None, status, string(error.get("message")), outputs=outputs)
    if name == "Bash":
        return _read_shell(content or "", code, printed, outputs)
    kind = record(record(data.get("toolTelemetry")).get("properties")).get("viewType")
    value: Any = content
    if name == "Read" and kind == "image":
        value = {"message": content}
    elif name == "Read" and kind == "directory":
        value = {"entries": (content or "").splitlines()}
    elif content is None and isinstance(result.get("contents"), list):
        value = result["contents"]
    shown = string(result.get("detailedContent"))
    if not shown or shown == content:
        return Answer(value)
    mime_type = "text/x-diff" if shown.lstrip().startswith("diff --git ") else None
    return Answer(value, display=Display(origin="provider", text=shown, mime_type=mime_type))


def _read_shell(
    content: str, code: int | None, printed: dict[str, str] | None, outputs: dict[str, OutputRef] | None
) -> Answer:
    ended = _SHELL_ENDED.search(content)
    if ended and code is None:
        code = int(ended[2])
    stated = {} if code is None else {"exit_code": code}
    error = (ended[1] if ended else f"exit code {code}") if code else None
    if content.startswith(_TOO_LARGE) and printed:
        return Answer({**printed, **stated, "message": content}, error=error, outputs=outputs)
    text = content[: ended.start()] if ended else content
    is_async = code is None and _SHELL_RUNS.search(content) is not None
    return Answer({"stdout": text, **stated}, error=error, is_async=is_async)
