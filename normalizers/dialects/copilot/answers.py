"""Results of Copilot CLI's tools: `content` for the model, `detailedContent` for the user, or an error.

`success` says that the tool ran, not that the command succeeded: the command's exit code is in `shellExecution`, and
again in a line below its output. Output over 20 kB is replaced by a note that says where it was saved; the lines that
arrived while the command ran have the whole output.
"""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.background import STOPS
from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.tools.outcome import error_words, stated_status, status_in_words, status_word
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Display, OutputRef

_SHELL_ENDED = re.compile(
    r"<((?:shellId: \S+ completed|command with id: \S+ exited) with exit code (-?\d+))>\s*\Z", re.ASCII
)
"""Last line of a command's output; of `read_bash`, `command with id: 7 exited with exit code 1`, as exported sessions
of other versions in public repositories have it."""
_SHELL_RUNS = re.compile(r"<command [^<>]*(?:in (?:\w+ )?background|is still running)[^<>]*>\s*\Z")
_SHELL_ID = re.compile(r"(?:shellId|sessionId): ([^\s<>]+)")
_SHELL_UNKNOWN = "Invalid "
"""Beginning of the text where a call names a shell that does not exist: `Invalid shell ID: 0. Please supply …`."""
_AGENT_STARTED = re.compile(r"Agent started in background with agent_id: (?P<id>[^\s,]+?)\.?(?=\s|\Z)")
_AGENT_REPORT = re.compile(r"Agent [a-z ]{1,40}\. agent_id: [^\n]*?\bstatus: (?P<status>\w+)")
"""First line of `read_agent`: `Agent completed. agent_id: explore-1, agent_type: explore, status: completed, …`, as
exported sessions in public repositories have it. The agent's answer follows below an empty line."""
_TOO_LARGE = "Output too large to read at once"


def read_result(
    name: str, data: dict[str, Any], printed: dict[str, str] | None, outputs: dict[str, OutputRef] | None
) -> Answer:
    """Read a `tool.execution_complete`. `printed`, `outputs`: the output that the tool printed while it ran, and its
    output bodies."""
    result, error = record(data.get("result")), data.get("error")
    content = string(result.get("content"))
    shell = record(data.get("shellExecution"))
    code = whole(shell.get("exitCode"))
    if data.get("success") is False or (error and data.get("success") is not True):
        words = error_words(error)
        status = status_word(record(error).get("code"))
        if status not in ("cancelled", "denied"):
            status = status_in_words(words, "copilot") or "failed"
        output = {**(printed or {}), **({} if code is None else {"exit_code": code})}
        return Answer(output or None, status, words, outputs=outputs)
    if name == "Bash":
        answer, status, words = _read_shell(content or "", code, printed, outputs), stated_status(shell), None
    else:
        answer, status, words = _read_content(name, data, content), stated_status(result), content
        if name == "Task" and content is not None and _AGENT_STARTED.match(content):
            answer = answer.replace(is_async=True)
    if status not in (None, "completed") and answer.status == "completed":
        answer = answer.replace(status=status, error=answer.error or words)
    return answer if content is None else answer.replace(model=content)


def _read_content(name: str, data: dict[str, Any], content: str | None) -> Answer:
    """Answer of a tool other than a shell."""
    result = record(data.get("result"))
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


def read_shell_text(text: str) -> Answer | None:
    """Read the model's text of a command; None if it lacks the line that states how the command ended."""
    ended = _SHELL_ENDED.search(text)
    return _read_shell(text, None, None, None) if ended else None


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


def started_task(text: str) -> str | None:
    """Return the id of the background shell or agent that an acknowledgement names."""
    if agent := _AGENT_STARTED.match(text):
        return agent["id"]
    runs = _SHELL_RUNS.search(text)
    shell = _SHELL_ID.search(runs[0]) if runs else None
    return shell[1] if shell else None


def task_end(tool: str, text: str, of: str) -> Answer | None:
    """Read the end of a background task from the model's text of another call; None while the task runs.

    `tool`: the canonical tool of that call, which stopped the task or asked for its output; `of`: that of the call that
    started the task."""
    if of == "Task":
        report = _AGENT_REPORT.match(text)
        status = status_word(report["status"]) if report else None
        if status is not None:
            said = text.partition("\n\n")[2]
            return Answer({"content": said} if said else None, status, said or None)
    elif (ended := read_shell_text(text)) is not None:
        return ended
    return Answer(None, "cancelled") if tool in STOPS and not text.startswith(_SHELL_UNKNOWN) else None


def notified_end(kind: dict[str, Any]) -> tuple[str, Answer] | None:
    """Read the `kind` of a `system.notification` (SDK: `shell_completed`, `shell_detached_completed`,
    `agent_completed`): (task, answer of the call that started it), or None if it states no end."""
    what = kind.get("type")
    if what in ("shell_completed", "shell_detached_completed") and (shell := string(kind.get("shellId"))):
        code = whole(kind.get("exitCode"))
        error = f"exit code {code}" if code else None
        return shell, Answer(None if code is None else {"exit_code": code}, error=error)
    if what == "agent_completed" and (agent := string(kind.get("agentId"))):
        return agent, Answer(None, status_word(kind.get("status")) or "completed")
    return None
