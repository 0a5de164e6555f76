"""Answers of agents that put their own tools' results into ACP's: the same answers as in their own dialects.

Qwen Code's content is the text that its other streams have, and its raw output a summary, or an object for clients of
its own. Copilot's and Vibe's raw outputs are their results. Kimi's text is its output. Auggie's has tags.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.dialects.acp.content import text_of
from tooltap.normalizers.dialects.copilot.answers import read_result as read_copilot_result
from tooltap.normalizers.dialects.kimi.answers import Stated
from tooltap.normalizers.dialects.kimi.answers import read_result as read_kimi_result
from tooltap.normalizers.dialects.qwen.answers import read_qwen_answer
from tooltap.normalizers.dialects.vibe.answers import read_state
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.wire.marks import between
from tooltap.normalizers.wire.values import first_string, record, records, string, whole
from tooltap.protocol.events import Display

__all__ = ["Relayed", "ended_shells", "relaying", "started_shell"]


class Relayed(NamedTuple):
    """What the last update of a call states of its result."""

    raw: Any
    """The raw output."""
    texts: list[str]
    """The content's texts."""
    status: str
    printed: str | None
    """What the call showed while it ran."""
    given: dict[str, Any]
    """The raw input."""

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


# -- Qwen Code 0.24.4 -----------------------------------------------------------------------------------------------

_OF_TASK = ("type", "toolCalls", "taskPrompt", "taskDescription", "result", "subagentSessionReady")
"""What the subagent's own calls, and the call's input and text, have."""


def _read_qwen(name: str, stated: Relayed) -> Answer | None:
    raw = stated.raw
    text = stated.text or (raw if isinstance(raw, str) else "")
    answer = read_qwen_answer(name, {"content": text, "is_error": stated.status == "failed"})
    if not isinstance(raw, dict):
        return answer
    kind = raw.get("type")
    if kind == "shell_result":
        return _qwen_shell(answer, raw, text)
    if kind == "task_execution":
        report = {key: item for key, item in raw.items() if key not in _OF_TASK and item is not None}
        status = _ended(raw.get("status"), answer.status)
        return answer.replace(value={**report, "content": text or raw.get("result")}, status=status)
    if isinstance(raw.get("fileDiff"), str):
        changed = {key: item for key, item in raw.items() if key != "fileDiff"}
        return answer.replace(value={**changed, "diff": raw["fileDiff"], **({"message": text} if text else {})})
    return answer.replace(value=raw) if answer.value in (None, "") else answer


def _ended(word: Any, stated: str) -> str:
    """The status, where a word says that something went wrong, or the one that is stated."""
    status = status_word(word)
    return stated if status in (None, "completed") else str(status)


def _qwen_shell(answer: Answer, raw: dict[str, Any], text: str) -> Answer:
    """The text for the model has the command's fields, unless it is too long, or the command was stopped."""
    value = answer.value if isinstance(answer.value, dict) and "exit_code" in answer.value else {"message": text}
    for key, ours in (("output", "stdout"), ("exitCode", "exit_code"), ("signal", "signal")):
        if raw.get(key) is not None:
            value[ours] = raw[key] if ours != "signal" else str(raw[key])
    status = _ended(raw.get("outcome"), answer.status)
    error = answer.error or string(raw.get("error")) or (text if status != "completed" else None)
    return answer.replace(value=value, status=status, error=error or None)


# -- Copilot CLI 1.0.102 --------------------------------------------------------------------------------------------

_SHELL_ENDED = "shell_exit"


def _read_copilot(name: str, stated: Relayed) -> Answer | None:
    """`content`, `detailedContent`, and marks of what happened in `contents`; a replayed call has `content` alone."""
    raw = stated.raw
    if not isinstance(raw, dict) or ("content" not in raw and "message" not in raw):
        return None
    marks = records(raw.get("contents"))
    ended = next((mark for mark in marks if mark.get("type") == _SHELL_ENDED), {})
    viewed = None
    if name == "Read" and any(one.get("type") == "image" for one in records(raw.get("binaryResultsForLlm"))):
        viewed = "image"
    elif name == "Read" and "\ncreate file mode " in (string(raw.get("detailedContent")) or ""):
        viewed = "directory"
    data = {
        "success": stated.status == "completed",
        "result": {
            "content": first_string(raw, "content") or stated.text,
            "detailedContent": raw.get("detailedContent"),
        },
        "error": {"message": raw.get("message") or stated.text, "code": raw.get("code")},
        "shellExecution": {"exitCode": ended.get("exitCode")},
        "toolTelemetry": {"properties": {"viewType": viewed}},
    }
    printed = {"stdout": stated.printed} if stated.printed and name == "Bash" else None
    answer = read_copilot_result(name, data, printed, None)
    if name.startswith("mcp__") and (blocks := [mark for mark in marks if mark.get("type") != _SHELL_ENDED]):
        return answer.replace(value={"content": blocks}, display=None)
    return answer


_SHELL_STARTED = re.compile(r"<command started in (?:\w+ )?background with shellId: (\S+)>")


def started_shell(update: Line) -> str | None:
    """The shell in which a command of Copilot's runs on, from the result that acknowledges it."""
    found = _SHELL_STARTED.search(text_of(update.get("content")) or "")
    return found[1] if found else None


def ended_shells(name: str, raw_input: Any, raw_output: Any) -> Iterator[tuple[str, Answer]]:
    """The shells that have ended as another call's result states it, and how the command in them did."""
    for mark in records(record(raw_output).get("contents")):
        shell, code = string(mark.get("shellId")), whole(mark.get("exitCode"))
        if mark.get("type") == _SHELL_ENDED and shell is not None:
            stated = {} if code is None else {"exit_code": code}
            error = f"shellId: {shell} completed with exit code {code}" if code else None
            yield shell, Answer({"stdout": string(mark.get("outputPreview")) or "", **stated}, error=error)
    shell = string(record(raw_input).get("shellId"))
    if name == "KillShell" and shell is not None:
        yield shell, Answer(None, "cancelled")


# -- Vibe 3.0.2 -----------------------------------------------------------------------------------------------------


def _read_vibe(name: str, stated: Relayed) -> Answer | None:
    """The tool's output, or a failure; the last text is the line that the user sees, the one before it the output."""
    raw = stated.raw
    if not isinstance(raw, dict):
        return None
    failed = raw.get("type") == "failure"
    state = {
        "status": stated.status,
        "output": None if failed else raw,
        "outputText": stated.text,
        "error": raw.get("error") if failed else None,
        "decision": record(record(raw.get("_meta")).get("approval")).get("decision") if failed else None,
    }
    answer = read_state(name, state, stated.status)
    line = stated.texts[-1] if stated.texts else None
    if failed or line is None or line in raw.values():
        return answer
    value = {"message": line, **answer.value} if isinstance(answer.value, dict) else answer.value
    return answer.replace(value=value, display=Display(origin="provider", text=line))


# -- Kimi -----------------------------------------------------------------------------------------------------------


def _read_kimi(name: str, stated: Relayed) -> Answer | None:
    """The output alone (Kimi Code 2.1); its last line says whether the command failed."""
    text = stated.text
    if not text or (stated.status != "completed" and name != "Bash"):
        return None
    parts = [{"type": "text", "text": text}]
    is_search = name == "Grep" and stated.given.get("output_mode", "files_with_matches") == "files_with_matches"
    answer = read_kimi_result(name, Stated(parts, is_bare=name == "Bash"), lists_files=is_search)
    failed = stated.status != "completed" and answer.status == "completed"
    return answer.replace(status=stated.status, error=text) if failed else answer


# -- Auggie ---------------------------------------------------------------------------------------------------------

_RETURN_CODE = ("<return-code>", "</return-code>")
_OUTPUT = ("<output>", "</output>")


def _read_auggie(name: str, stated: Relayed) -> Answer | None:
    """A command: `<return-code>0</return-code><output>…</output>`."""
    raw = stated.raw
    output = raw.get("output") if isinstance(raw, dict) else raw
    text = output if isinstance(output, str) and output else stated.text
    code = between(text, *_RETURN_CODE) if name == "Bash" else None
    if code is None or len(code) > 20 or not code.strip().isdecimal():
        return None
    value: dict[str, Any] = {"exit_code": int(code)}
    if (printed := between(text, *_OUTPUT)) is not None:
        value["stdout"] = printed.strip()
    return Answer(value, stated.status, None if stated.status == "completed" else text)


_Reader: TypeAlias = Callable[[str, Relayed], Answer | None]
"""Reads the result of the canonical tool of this name; None: it is like any agent's."""

_READERS: dict[str, _Reader] = {
    "auggie": _read_auggie,
    "copilot": _read_copilot,
    "kimi": _read_kimi,
    "qwen": _read_qwen,
    "vibe": _read_vibe,
}
_SIGNS: tuple[tuple[str, str, _Reader], ...] = (
    ("rawOutput", "detailedContent", _read_copilot),
    ("_meta", "provenance", _read_qwen),
    ("_meta", "effect_kind", _read_vibe),
)
"""Where the agent did not say who it is: a part of its updates, and a key in it."""


def relaying(provider: str, update: Line) -> _Reader | None:
    """How the agent's tools answer, if it relays their results."""
    if provider != "acp":
        return _READERS.get(provider)
    return next((read for part, key, read in _SIGNS if key in record(update.get(part))), None)
