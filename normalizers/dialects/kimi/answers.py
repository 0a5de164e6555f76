"""Results of Kimi's tools.

A printed result is text, or parts. The first part may be a note of Kimi CLI, `<system>…</system>`; a note that begins
with `ERROR` states that the tool failed, and why. Before 1.0, `ERROR` and the reason were two notes. In the wire mode,
the note and whether the tool failed are fields beside the output.

Kimi Code 2.1 prints only the output: a failure shows only in the program's own sentence, which is matched against the
sentences of that version.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Self

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.outcome import empty_output, failure_or, is_nothing, status_in_words, status_word
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.tools.registry import CANONICAL_TOOLS
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.events import Display

_NOTE = re.compile(r"<system>(.*)</system>", re.DOTALL)
_EXIT_CODE = re.compile(r"Command failed with exit code: (-?\d+)\.?", re.ASCII)
_TOTAL_LINES = re.compile(r"Total lines in file: (\d+)\.", re.ASCII)
"""Total number of lines in the note of `ReadFile` (1.40)."""
_SUCCESS = "Command executed successfully."


class StatedResult(NamedTuple):
    """The parts of a result, whichever form it has."""

    output: list[dict[str, Any]]
    """The parts that the tool returned."""
    message: str = ""
    """The program's note about the output."""
    failed: bool = False
    display: Display | None = None
    is_bare: bool = False
    """The result is an output alone: neither a note nor a field states whether the tool failed."""
    content: Any = None
    """The content of a message, as the model sees it."""

    @classmethod
    def of(cls, value: Any, bodies: Bodies) -> Self:
        """Read the content of a message, or a return value of the wire mode."""
        if isinstance(value, dict):
            return cls._returned(value)
        parts = _parts(value, bodies)
        content = value if isinstance(value, str) and not bodies.attachments else parts
        notes: list[str] = []
        while len(notes) < len(parts) and (note := _NOTE.fullmatch(string(parts[len(notes)].get("text")) or "")):
            notes.append(note[1])
        failed = bool(notes) and notes[0].startswith("ERROR")
        message = "\n".join(notes)
        if failed:
            message = message.removeprefix("ERROR").lstrip(": \n")
        return cls(parts[len(notes) :], message, failed, is_bare=isinstance(value, str) and not notes, content=content)

    @classmethod
    def _returned(cls, value: dict[str, Any]) -> Self:
        output = value.get("output")
        parts = [{"type": "text", "text": output}] if isinstance(output, str) and output else records(output)
        failed = value.get("is_error") is True or value.get("isError") is True  # the latter in Kimi Code's files
        message = string(value.get("message")) or ""
        briefs = [string(one.get("text")) for one in records(value.get("display")) if one.get("type") == "brief"]
        brief = "\n".join(text for text in briefs if text)
        shown = Display(origin="provider", text=brief) if brief and brief != message else None
        is_bare = isinstance(output, str) and value.keys().isdisjoint(("message", "display"))
        return cls(parts, message, failed, shown, is_bare)


def _parts(content: Any, bodies: Bodies) -> list[dict[str, Any]]:
    """The parts of a message. Kimi Code 2.1 prints an output of several parts as a string of JSON."""
    if not isinstance(content, str):
        return records(content)
    decoded = decode_json(content) if content.startswith('[{"type":"') else None
    if isinstance(decoded, list) and all(isinstance(part, dict) and "type" in part for part in decoded):
        return records(bodies.take(decoded))
    return [{"type": "text", "text": content}]


def read_result(name: str, stated: StatedResult, *, lists_files: bool = False) -> Answer:
    """The answer of tool `name`, without the program's notes. `lists_files`: a search that was asked for names only."""
    answer = _read(name, stated)
    text = blocks_text(stated.output)
    if name == "Task" and answer.status == "completed" and text and text.startswith(_OF_AGENT):
        header = _header(text.partition("\n\n")[0])
        status = failure_or(header.get("status"), answer.status)
        return answer.replace(status=status, error=header.get("stop_reason") if status != "completed" else None)
    if lists_files and answer.status == "completed" and text and not _MATCH.match(text):
        found = _files(text)
        return answer.replace(value={**found, "message": stated.message} if stated.message else found)
    return answer


def _read(name: str, stated: StatedResult) -> Answer:
    output, message, failed, display = stated[:4]
    text = blocks_text(output)
    if not failed and is_nothing(message or text or "", "kimi"):
        return Answer(empty_output(name), display=display)
    if stated.is_bare and text is not None:
        answer = _read_bare(name, output, text)
        if not failed or answer.status != "completed":
            return answer
        return Answer(None, status_in_words(text, "kimi") or "failed", text)
    if name == "Bash":
        value: Any = _shell(message, text or "", failed)
    else:
        value = _value(name, "" if failed else message, output)
    if not failed:
        return Answer(value, display=display)
    status = status_in_words(message, "kimi") or "failed"
    return Answer(value, status, message or text or "", display=display)


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
    if name == "change_title" and text is not None:  # the rules take only the title out of a bare text
        return {**stated, "message": text}
    if name not in CANONICAL_TOOLS and not name.startswith("mcp__"):
        return {**stated, **({"value": text} if text is not None else {}), **({"content": others} if others else {})}
    if not output:
        return stated or ""
    if stated and name == "AskUserQuestion" and isinstance(answers := decode_json(text), dict):
        return {**stated, **answers}
    content = output if others else text
    return {**stated, "content": content} if stated else content


_MATCH = re.compile(r"[^\n:]+:\d+:", re.ASCII)
_NOTE_OF_SEARCH = re.compile(
    r"No (?:non-sensitive )?matches found|Filtered \d+ sensitive|Results truncated|\[?Output truncated|Grep timed out",
    re.ASCII,
)


def _files(text: str) -> dict[str, Any]:
    """Result of `Grep` in its default mode, `files_with_matches`: names alone, and notes."""
    lines = [line for line in text.splitlines() if line.strip()]
    names = [line for line in lines if not _NOTE_OF_SEARCH.match(line)]
    found: dict[str, Any] = {"matches": [{"filePath": name} for name in names]}
    return found if len(names) == len(lines) else {**found, "text": text}


def task_status(kind: str) -> str | None:
    """The status of a background task that a notification of this type states: `task.completed`, `task.lost`, …"""
    return status_word(kind.removeprefix("task.")) if kind.startswith("task.") else None


class TaskReport(NamedTuple):
    """Report of `TaskOutput` or `TaskStop` on a background task that has ended."""

    task: str
    status: str
    exit_code: int | None
    output: str

    @classmethod
    def of(cls, text: str) -> Self | None:
        """Read lines `key: value`, and the output below `[output]`; None while the task runs."""
        head, _, output = text.partition("\n\n[output]\n")
        stated = _header(head)
        status = status_word(stated.get("status"))
        if status is None or "task_id" not in stated:
            return None
        code = stated.get("exit_code", "")
        return cls(stated["task_id"], status, int(code) if _CODE.fullmatch(code) else None, output)

    def answer(self, name: str) -> Answer:
        """The final answer of the call that started the task."""
        if name != "Bash":
            return Answer(self.output or None, self.status)
        code = {} if self.exit_code is None else {"exit_code": self.exit_code}
        return Answer({"stdout": self.output, **code}, self.status)


_OF_AGENT = "agent_id: "
"""Beginning of the header that Kimi Code puts above a subagent's summary: `agent_id: …`, `status: failed`,
`stop_reason: provider_error`."""


def _header(text: str) -> dict[str, str]:
    """Read the lines `key: value` of a report."""
    return dict(line.split(": ", 1) for line in text[:REPORT].splitlines() if ": " in line)


REPORT = 8_000
"""Maximum length of the `key: value` lines of a report, in code points."""
_CODE = re.compile(r"-?\d{1,9}", re.ASCII)


def notified_result(name: str, status: str, value: dict[str, Any]) -> Answer:
    """The end of a background task, from its notification."""
    payload = record(value.get("payload"))
    words = string(payload.get("failure_reason")) or string(value.get("title"))
    code = payload.get("exit_code")
    stated: dict[str, Any] = {"message": string(value.get("body")) or ""}
    if name == "Bash" and isinstance(code, int) and not isinstance(code, bool):
        stated["exit_code"] = code
    return Answer(stated, status, words)


# -- Kimi Code ----------------------------------------------------------------------------------------------------

_ENDING = re.compile(
    r"(?:\A|\n)(?P<words>Command failed with exit code: (?P<code>-?\d+)\.|Command killed by timeout \([^()\n]{1,40}\)"
    r"|(?P<stopped>Interrupted by user|Session closed))\Z",
    re.ASCII,
)
"""Last line of a command's output that states how the command ended."""
_NO_OUTPUT = re.compile(r"Process exited with code -?\d+", re.ASCII)

_NEVER_RAN = re.compile(
    r'Tool "[^"\n]{1,200}" (?:not found\Z|failed: |returned (?:no|a) )|Invalid args for tool "[^"\n]{1,200}": '
    r"|Aborted before \w+ started\Z|Plan approval dismissed\.|Runtime changed before execution\."
)
"""Beginnings of the text of a call that failed before its tool ran, or outside of it."""

_FAILURES = {
    "Read": re.compile(r'"[^"\n]{1,4096}" (?:does not exist\.|is (?:not|empty|an?|\d+) )'),
    "Edit": re.compile(r"old_string (?:not found|is not unique) in |No changes to make: |[^\n]{1,4096} does not exist"),
    "Write": re.compile(r"Failed to write "),
    "Glob": re.compile(r"[^\n]{1,4096} (?:does not exist|is not a directory)\Z|Glob aborted\Z|ripgrep \(rg\) is not "),
    "Grep": re.compile(
        r"[^\n]{1,4096} does not exist\Z|Failed to grep: |Grep (?:aborted\Z|timed out )|ripgrep \(rg\) is not "
    ),
    "WebFetch": re.compile(r"Failed to fetch URL|The response body is empty\.\Z"),
    "Task": re.compile(r"subagent error: "),
}
"""Tool -> how its text begins if it failed."""
_SYSTEM_ERROR = re.compile(r"E[A-Z]{3,20}: ", re.ASCII)
"""An error of Node's file system: `ENOENT: no such file or directory, …`."""


def _read_bare(name: str, output: list[dict[str, Any]], text: str) -> Answer:
    refused = status_in_words(text, "kimi", flagged=False)
    if refused is not None or _NEVER_RAN.match(text):
        return Answer(None, refused or "failed", text)
    if name == "Bash":
        return _read_command(text)
    failure = _FAILURES.get(name)
    if failure is not None and (failure.match(text) or _SYSTEM_ERROR.match(text)):
        return Answer(None, "failed", text)
    return Answer(_value(name, "", output))


def _read_command(text: str) -> Answer:
    if text == _SUCCESS:
        return Answer({"stdout": "", "message": text})
    ending = _ENDING.search(text)
    if ending is None:
        return Answer({"stdout": text})
    printed = text[: ending.start("words")]
    value: dict[str, Any] = {"stdout": "" if _NO_OUTPUT.fullmatch(printed.strip()) else printed}
    if ending["code"]:
        value["exit_code"] = int(ending["code"])
    return Answer(value, "cancelled" if ending["stopped"] else "failed", ending["words"])
