"""Results of Kimi CLI's tools.

A result is text, or parts. The first part may be a note of the program, `<system>…</system>`; a note that begins with
`ERROR` states that the tool failed, and why. Before 1.0, `ERROR` and the reason were two notes.
"""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.tools import PAYLOAD_RULES
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import record, records, string

__all__ = ["TASK_STATUS", "notified_result", "output_text", "read_result"]

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


def read_result(name: str, content: Any) -> Answer:
    """The answer of tool `name`, without the program's notes."""
    notes, output = _split(content)
    failed = bool(notes) and notes[0].startswith("ERROR")
    message = "\n".join(notes)
    if failed:
        message = message.removeprefix("ERROR").lstrip(": \n")
    if name == "Bash":
        value: Any = _shell(message, blocks_text(output) or "", failed)
    else:
        value = _value(name, "" if failed else message, output)
    if not failed:
        return Answer(value)
    status = "denied" if message.startswith(_REJECTED) else "failed"
    return Answer(value, status, message or blocks_text(output) or "")


def output_text(content: Any) -> str:
    """Everything that the tool printed."""
    return blocks_text(_split(content)[1]) or ""


def _split(content: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """The program's notes before an output, and the parts of the output."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else records(content)
    notes: list[str] = []
    while len(notes) < len(parts) and (note := _NOTE.fullmatch(string(parts[len(notes)].get("text")) or "")):
        notes.append(note[1])
    return notes, parts[len(notes) :]


def _shell(message: str, text: str, failed: bool) -> dict[str, Any]:
    """Stdout and stderr are one text; the exit code is stated only if the command failed."""
    code = _EXIT_CODE.match(message)
    if code:
        return {"stdout": text, "exit_code": int(code[1])}
    if failed:
        return {"stdout": text} if text else {}
    return {"stdout": text, "message": message} if message else {"stdout": text}


def _value(name: str, message: str, output: list[dict[str, Any]]) -> Any:
    """The output, and the program's message about it; the text of a tool without a family is `value`."""
    stated: dict[str, Any] = {"message": message} if message else {}
    if name == "Read" and (total := _TOTAL_LINES.search(message)):
        stated["totalLines"] = int(total[1])
    text = blocks_text(output)
    others = [part for part in output if part.get("type") != "text"]
    if name not in PAYLOAD_RULES:
        return {**stated, **({"value": text} if text is not None else {}), **({"content": others} if others else {})}
    if not output:
        return stated or ""
    content = output if others else text
    return {**stated, "content": content} if stated else content


def notified_result(name: str, kind: str, value: dict[str, Any]) -> Answer:
    """The end of a background task, from its notification."""
    payload = record(value.get("payload"))
    status = TASK_STATUS[kind]
    words = string(payload.get("failure_reason")) or string(value.get("title"))
    code = payload.get("exit_code")
    stated: dict[str, Any] = {"message": string(value.get("body")) or ""}
    if name == "Bash" and isinstance(code, int) and not isinstance(code, bool):
        stated["exit_code"] = code
    return Answer(stated, status, words)
