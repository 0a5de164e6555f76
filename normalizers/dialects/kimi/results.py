"""What a tool of Kimi CLI answered.

A result is text, or parts of which the first may be a note of the program, `<system>…</system>`; one that begins with
`ERROR` says that the tool failed, and how. Before 1.0 the word and the reason were two notes.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tooltap.normalizers.tools import FAMILIES
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import record, records, string

__all__ = ["TASK_STATUS", "Answer", "notified_result", "read_result"]

_NOTE = re.compile(r"<system>(.*)</system>", re.DOTALL)
_EXIT_CODE = re.compile(r"Command failed with exit code: (-?\d+)\.?", re.ASCII)
_TOTAL_LINES = re.compile(r"Total lines in file: (\d+)\.", re.ASCII)
"""In the note of `ReadFile` (1.40)."""
_REJECTED = "The tool call is rejected by the user"

TASK_STATUS = {
    "task.completed": "completed",
    "task.failed": "failed",
    "task.timed_out": "failed",
    "task.killed": "cancelled",
    "task.lost": "interrupted",
}
"""Type of a notification about a background task -> status of its call's final result."""


class Answer(NamedTuple):
    value: Any
    status: str = "completed"
    error: str | None = None
    text: str = ""
    """All that the tool printed, for a look inside."""


def read_result(name: str, content: Any) -> Answer:
    """The answer of tool `name`, the program's notes taken off."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else records(content)
    notes: list[str] = []
    while len(notes) < len(parts) and (note := _NOTE.fullmatch(string(parts[len(notes)].get("text")) or "")):
        notes.append(note[1])
    output = parts[len(notes) :]
    failed = bool(notes) and notes[0].startswith("ERROR")
    message = "\n".join(notes)
    if failed:
        message = message.removeprefix("ERROR").lstrip(": \n")
    text = blocks_text(output) or ""
    value = _shell(message, text, failed) if name == "Bash" else _value(name, "" if failed else message, output)
    if not failed:
        return Answer(value, text=text)
    status = "denied" if message.startswith(_REJECTED) else "failed"
    return Answer(value, status, message or text, text)


def _shell(message: str, text: str, failed: bool) -> dict[str, Any]:
    """What a command prints on both streams is one text; its exit code is told where it failed."""
    code = _EXIT_CODE.match(message)
    if code:
        return {"stdout": text, "exit_code": int(code[1])}
    if failed:
        return {"stdout": text} if text else {}
    return {"stdout": text, "message": message} if message else {"stdout": text}


def _value(name: str, message: str, output: list[dict[str, Any]]) -> Any:
    """What the tool gave, and what the program says of it; of a tool of somebody else's the text is `value`."""
    said: dict[str, Any] = {"message": message} if message else {}
    if name == "Read" and (total := _TOTAL_LINES.search(message)):
        said["totalLines"] = int(total[1])
    text = blocks_text(output)
    others = [part for part in output if part.get("type") != "text"]
    if name not in FAMILIES:
        return {**said, **({"value": text} if text is not None else {}), **({"content": others} if others else {})}
    if not output:
        return said or ""
    content = output if others else text
    return {**said, "content": content} if said else content


def notified_result(name: str, kind: str, value: dict[str, Any]) -> Answer:
    """The end of a background task, as its notification tells it."""
    payload = record(value.get("payload"))
    status = TASK_STATUS[kind]
    words = string(payload.get("failure_reason")) or string(value.get("title"))
    code = payload.get("exit_code")
    told: dict[str, Any] = {"message": string(value.get("body")) or ""}
    if name == "Bash" and isinstance(code, int) and not isinstance(code, bool):
        told["exit_code"] = code
    return Answer(told, status, words)
