"""Results of Antigravity's tools: texts that begin with when the tool was called, and when it was done.

Learned from public readers of its transcripts, and a session in the tests of one of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import milliseconds, record

_TIMES = re.compile(r"Created At: (\S{1,40})\n(?:Completed At: (\S{1,40})\n)?", re.ASCII)
_COMMAND = re.compile(
    r"\s{0,40}The command (?:completed successfully|(?:failed with exit code:|exited with code) (-?\d{1,9}))\.?\n"
    r"([\t ]{0,16})Output:\n",
    re.ASCII,
)
_SHOWN = re.compile(r"^Showing lines (\d{1,9}) to (\d{1,9})$", re.ASCII | re.MULTILINE)
_NUMBERED = re.compile(r"^(\d{1,9}):(?: (.*))?$", re.ASCII | re.MULTILINE)
_SHORTENED = re.compile(r"<truncated \d{1,15} bytes>\Z", re.ASCII)
_TOTAL = re.compile(r"^Total Lines: (\d{1,9})$", re.ASCII | re.MULTILINE)


def shown_to_model(step: dict[str, Any]) -> Any:
    """What the model saw of a result: the text of its step, unless that was shortened."""
    content, shortened = step.get("content"), step.get("truncated_fields")
    if not isinstance(content, str) or (isinstance(shortened, list) and "content" in shortened):
        return msgspec.UNSET
    return msgspec.UNSET if _SHORTENED.search(content) else content


def read_result(kind: str, text: str, status: str) -> Answer:
    """Read a result. `kind`: the type of its step."""
    duration = None
    if (times := _TIMES.match(text)) is not None:
        start, end = map(milliseconds, times.groups())
        duration = max(0, end - start) if start is not None and end is not None else None
        text = text[times.end() :]
    if status != "completed":
        return Answer(None, status, text or None, duration_ms=duration)
    reader = _READERS.get(kind)
    value = None if reader is None else reader(text)
    return Answer(text if value is None else value, duration_ms=duration)


def _command(text: str) -> Any:
    found = _COMMAND.match(text)
    if found is None:
        return None
    output = text[found.end() :].removeprefix(found[2]).removesuffix("\n")
    return {"stdout": output, "exit_code": int(found[1] or 0)}


def _file(text: str) -> Any:
    """The lines of a file, each with its number."""
    shown, total = _SHOWN.search(text), _TOTAL.search(text)
    if shown is None:
        return None
    first, last = int(shown[1]), int(shown[2])
    lines = [line[2] or "" for line in _NUMBERED.finditer(text, shown.end()) if first <= int(line[1]) <= last]
    if not lines or len(lines) != last - first + 1:
        return None
    file = {"content": "\n".join(lines), "startLine": first, "numLines": len(lines)}
    return {"file": file if total is None else {**file, "totalLines": int(total[1])}}


def _entries(text: str) -> Any:
    names = [name for one in _objects(text) if isinstance(name := one.get("name"), str)]
    return {"entries": names} if names else None


def _matches(text: str) -> Any:
    keys = ("filePath", "File"), ("line", "LineNumber"), ("excerpt", "LineContent")
    found = [{key: one[own] for key, own in keys if own in one} for one in _objects(text) if "File" in one]
    return {"matches": found} if found else None


def _objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects that are lines of a text."""
    return [one for line in text.splitlines() if (one := record(decode_json(line)))]


_READERS: dict[str, Callable[[str], Any]] = {
    "GENERIC": _command,
    "GREP_SEARCH": _matches,
    "LIST_DIRECTORY": _entries,
    "RUN_COMMAND": _command,
    "VIEW_FILE": _file,
}
"""Type of a step -> the reader of its text, which returns None for a text of another form."""
