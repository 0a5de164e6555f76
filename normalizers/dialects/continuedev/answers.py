"""The answers of Continue's tools: texts. What went wrong begins with the name of the tool; commands that fail show
what they printed as errors, or else nothing."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.tools.outcome import status_in_words, status_word
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import records, string

_FAILED_COMMAND = re.compile(r"Error executing tool \w{1,80}: Error \(exit code (-?\d{1,9})\): ?", re.ASCII)
_FILE = re.compile(r"Content of [^\n]{1,4096}:\n", re.ASCII)
_FOLDER = re.compile(r"Files in [^\n]{1,4096}:\n", re.ASCII)
_ENTRY = re.compile(r"^(.+) \((?:file, \d+ bytes|directory|file)\)$", re.ASCII | re.MULTILINE)


def blocks_of(state: dict[str, Any]) -> list[Any]:
    """The output in the state of a call: a text, or what an MCP server returned, which is a text in JSON."""
    return [{**one, "content": decode_json(one.get("content"))} for one in records(state.get("output"))]


def read_result(name: str, state: dict[str, Any]) -> Answer:
    """The answer in the state of a call of the canonical tool `name`, with its `blocks_of` and no output bodies."""
    content = [one.get("content") for one in state["output"]]
    text = "\n".join(part for one in content if (part := string(one)))
    status = status_word(state.get("status")) or "completed"
    if status == "cancelled":  # also a call that was not allowed
        status = status_in_words(text, "continuedev") or status
    if name == "Bash" and (failed := _FAILED_COMMAND.match(text)) is not None:
        code = int(failed[1])
        return Answer({"stderr": text[failed.end() :], "exit_code": code}, "failed", f"exit code {code}", model=text)
    if status != "completed":
        return Answer(None, status, text or None, model=text)
    return Answer(_value(name, text), model=text)


def _value(name: str, text: str) -> Any:
    if name == "Bash":
        return {"stdout": text}
    if name == "Read" and (head := _FILE.match(text)) is not None:
        return {"content": text[head.end() :]}
    if name == "LS" and (head := _FOLDER.match(text)) is not None:
        return {"entries": _ENTRY.findall(text, head.end())}
    if name == "TodoWrite":
        return None
    return decode_json(text)
