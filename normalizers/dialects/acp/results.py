"""What the tool of an ACP call answered: the terminal update and what came before it -> one `Answer`.

The raw output where there is one, in the forms of the agents that send it; else the content, the terminal, or what the
call showed while it ran. Claude's agent sends Claude's own result, which `claude_answers` reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tooltap.normalizers.dialects.acp.content import blocks, decoded, text_of, unfence
from tooltap.normalizers.dialects.acp.inputs import ToolUse
from tooltap.normalizers.dialects.acp.state import Terminal
from tooltap.normalizers.dialects.claude.answers import read_answer
from tooltap.normalizers.dialects.opencode.results import listing
from tooltap.normalizers.tools.views import by_audience, by_structure, printed
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Display

__all__ = ["Result", "printed_so_far", "read_result"]

_ABORTED_KINDS = ("interrupted", "cancelled")
"""claude-agent-acp 0.100: `nonExecutionKind` of a run that was stopped; the others are refusals."""


class Result(NamedTuple):
    value: Any
    """As the tool's family reads it; None where the wire states nothing but the error."""
    status: str
    error: str | None = None
    is_async: bool = False
    duration_ms: int | None = None
    display: Display | None = None
    is_shown: bool = False
    """The wire has only what the user is shown; what the model saw is not known."""


def read_result(
    name: str, use: ToolUse, update: dict[str, Any], terminal: Terminal | None, *, provider: str, stopping: bool
) -> Result:
    """The answer of the canonical tool `name`. `stopping`: the client had asked to stop the turn."""
    claude = record(update.get("_meta")).get("claudeCode")
    if isinstance(claude, dict):
        result = _read_claude(name, use, update, terminal, claude, stopping)
    else:
        result = _read_plain(name, use, update, terminal, provider)
    if update.get("status") == "cancelled" or (stopping and result.status == "failed"):
        result = result._replace(status="cancelled")
    return result


def printed_so_far(use: ToolUse, terminal: Terminal | None) -> dict[str, Any] | None:
    """What a call that ends without a result had shown."""
    said = _shell(_Said(None, None, use.running, terminal))
    return said or None


# -- Claude ---------------------------------------------------------------------------------------------------------


def _read_claude(
    name: str,
    use: ToolUse,
    update: dict[str, Any],
    terminal: Terminal | None,
    meta: dict[str, Any],
    stopping: bool,
) -> Result:
    """The block the model saw is `rawOutput`; for a client that shows terminals, what the terminal printed."""
    content = update.get("rawOutput")
    if content is None:
        content = terminal.printed.head if terminal is not None else unfence(text_of(update.get("content")) or "")
    kind = meta.get("nonExecutionKind")
    result = Result(
        *read_answer(
            name,
            {"content": content, "is_error": update.get("status") == "failed"},
            use.response,
            {"non_execution_kind": kind},
            stopped=stopping or kind in _ABORTED_KINDS,
        )
    )
    if terminal is not None and terminal.exit_code is not None and isinstance(result.value, dict):
        return result._replace(value={"exit_code": terminal.exit_code, **result.value})
    return result


_REFUSED = "The user rejected permission to use this specific tool call"
"""OpenCode 1.18; the only sign where the client's answer is not on the wire."""


# -- other agents ---------------------------------------------------------------------------------------------------


class _Said(NamedTuple):
    """Where an answer may be."""

    raw: Any
    content: list[dict[str, Any]] | None
    text: str | None
    terminal: Terminal | None


def _read_plain(name: str, use: ToolUse, update: dict[str, Any], terminal: Terminal | None, provider: str) -> Result:
    content, display = by_audience(blocks(update.get("content")))
    text = text_of(content)
    if text is None and update.get("content") is None:
        text = use.running
    raw = update.get("rawOutput")
    if provider == "vibe":  # a string of JSON
        raw = decoded(raw)
    if provider == "codex" and isinstance(raw, dict):
        raw, display = _read_codex(raw, display)
    said = _Said(raw, content, unfence(text) if text is not None else None, terminal)
    said, note, status = _take_off_notes(said, str(update.get("status")))
    if provider == "opencode" and update.get("title") == _OPENCODE_INVALID:
        return Result(None, "failed", string(record(use.raw_input).get("error")) or _error(said))
    if status == "completed":
        is_shown = said.raw is None and terminal is None and display is None
        value = _value(name, said)
        if is_shown and provider == "gemini" and isinstance(value, str) and name != "Bash":
            value = {"message": value}  # a note for the user (`Read image file: logo.png`), not what the tool gave
        return Result(value, status, duration_ms=_duration(said.raw), display=display, is_shown=is_shown)
    error = note or _error(said)
    if status == "failed" and error is not None and error.startswith(_REFUSED):
        status = "denied"
    value = _shell(said) if name == "Bash" else _failed_value(said)
    if name == "Bash" and error is not None and value.get("stdout") == error and "exit_code" not in value:
        del value["stdout"]
    return Result(value or None, status, error, duration_ms=_duration(said.raw))


def _read_codex(raw: dict[str, Any], display: Display | None) -> tuple[dict[str, Any], Display | None]:
    """Codex's own event (before 1.0 of its adapter), or an MCP server's answer in `result`."""
    answer, shown = by_structure(record(raw.get("result")))
    if shown is not None:
        raw = {**raw, "result": answer}
    return raw, display or shown or printed(raw)


def _value(name: str, said: _Said) -> Any:
    if name == "Bash":
        return _shell(said) or None
    raw = said.raw
    if isinstance(raw, dict):
        if isinstance(raw.get("output"), str) and isinstance(raw.get("metadata"), dict):
            return _FROM_OPENCODE.get(name, _opencode_text)(raw["output"], raw["metadata"])
        if isinstance(raw.get("result"), dict) and "error" in raw:  # codex-acp: an MCP server's answer
            return _mcp_answer(raw["result"])
        printed = _shell(said._replace(raw=None))
        return {**printed, **raw} if printed else raw
    if raw is not None:
        return raw
    if said.terminal is not None:
        return _shell(said) or None
    if name.startswith("mcp__") and said.content:
        return {"content": said.content}
    return said.text


def _failed_value(said: _Said) -> dict[str, Any]:
    """What a failed call answered beside its error."""
    raw = said.raw
    if not isinstance(raw, dict):
        return {}
    if isinstance(raw.get("result"), dict):
        return _mcp_answer(raw["result"])
    return {key: item for key, item in raw.items() if key not in ("error", "result", "message")}


def _mcp_answer(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in answer.items() if key != "_meta" and item is not None}


def _error(said: _Said) -> str | None:
    raw = said.raw
    if isinstance(raw, str):
        return raw or None
    if isinstance(raw, dict):
        for owner in (raw, record(raw.get("error"))):
            for key in ("error", "message"):
                if text := string(owner.get(key)):
                    return text
        if text := text_of(record(raw.get("result")).get("content")):
            return text
    return said.text or None


def _duration(raw: Any) -> int | None:
    """codex-acp before 1.0 sends Codex's own event, with a duration in seconds and nanoseconds."""
    duration = record(record(raw).get("duration"))
    seconds, nanoseconds = whole(duration.get("secs")), whole(duration.get("nanos"))
    if seconds is None or nanoseconds is None:
        return None
    return seconds * 1_000 + nanoseconds // 1_000_000


# -- shells ---------------------------------------------------------------------------------------------------------


def _shell(said: _Said) -> dict[str, Any]:
    """What a command printed, and its exit code, as far as any place states them."""
    raw = said.raw
    value: dict[str, Any] = {}
    if isinstance(raw, dict):
        value = {key: item for key, item in raw.items() if key not in ("error", "message", "metadata", "output")}
        metadata = raw.get("metadata")
        if isinstance(metadata, dict):
            value |= {key: item for key, item in metadata.items() if key not in ("output", "exit") and item is not None}
            if (exit_code := whole(metadata.get("exit"))) is not None:
                value["exit_code"] = exit_code
            raw = {"output": raw.get("output"), **metadata}
        printed = raw.get("output")
    else:
        printed = raw
    if not isinstance(printed, str) and not _has_streams(value):
        printed = said.terminal.printed.head if said.terminal is not None else said.text
    if isinstance(printed, str) and not _has_streams(value):
        value["stdout"] = printed
    if said.terminal is not None:
        stated = {"exit_code": said.terminal.exit_code, "signal": said.terminal.signal}
        value = {**{key: item for key, item in stated.items() if item is not None}, **value}
    return value


def _has_streams(value: dict[str, Any]) -> bool:
    return any(isinstance(value.get(key), str) for key in ("stdout", "aggregated_output", "formatted_output"))


# -- notes in the output --------------------------------------------------------------------------------------------

_GEMINI_STOPPED = re.compile(
    r"(?P<note>Command cancelled by user\.)(?:\s*Output before cancellation:\n(?P<rest>.*))?", re.S
)
_OPENCODE_NOTE = re.compile(r"\n*<shell_metadata>\n(?P<note>.*?)\n</shell_metadata>\s*\Z", re.S)
_OPENCODE_STOPPED = "User aborted the command"
_OPENCODE_INVALID = "Invalid Tool"
"""What it runs in place of a tool that does not exist, or was called wrongly; it always succeeds."""


def _take_off_notes(said: _Said, status: str) -> tuple[_Said, str | None, str]:
    """Two agents report a command that was stopped as `completed`, and say in its output that it was stopped: Gemini
    CLI 0.61 and OpenCode 1.18."""
    if said.text is not None and (found := _GEMINI_STOPPED.fullmatch(said.text)):
        return said._replace(text=found["rest"]), found["note"], "cancelled"
    raw = said.raw
    output = string(record(raw).get("output"))
    if output is not None and (found := _OPENCODE_NOTE.search(output)):
        if found["note"] == _OPENCODE_STOPPED:
            status = "cancelled"
        return said._replace(raw={**raw, "output": output[: found.start()]}), found["note"], status
    return said, None, status


# -- OpenCode -------------------------------------------------------------------------------------------------------

_TASK_RESULT = re.compile(r"<task_result>\n?(?P<text>.*?)\n?</task_result>", re.S)


def _opencode_text(output: str, metadata: dict[str, Any]) -> Any:
    return output


def _opencode_read(output: str, metadata: dict[str, Any]) -> Any:
    display = record(metadata.get("display"))
    if not display:
        return output
    if (folder := listing(display)) is not None:
        return folder
    first, last = whole(display.get("lineStart")), whole(display.get("lineEnd"))
    file = {"content": display.get("text"), "filePath": display.get("path"), "totalLines": display.get("totalLines")}
    if first is not None and last is not None:
        file |= {"startLine": first, "numLines": last - first + 1}
    return {"file": {key: item for key, item in file.items() if item is not None}}


def _opencode_change(output: str, metadata: dict[str, Any]) -> Any:
    return {"message": output, **{key: metadata[key] for key in ("diff",) if isinstance(metadata.get(key), str)}}


def _opencode_todos(output: str, metadata: dict[str, Any]) -> Any:
    return {"todos": metadata["todos"]} if isinstance(metadata.get("todos"), list) else output


def _opencode_task(output: str, metadata: dict[str, Any]) -> Any:
    found = _TASK_RESULT.search(output)
    child = string(metadata.get("sessionId"))
    value = {"content": found["text"] if found else output}
    return {**value, "sessionId": child} if child is not None else value


_FROM_OPENCODE: dict[str, Callable[[str, dict[str, Any]], Any]] = {
    "Edit": _opencode_change,
    "Read": _opencode_read,
    "Task": _opencode_task,
    "TodoWrite": _opencode_todos,
    "Write": _opencode_change,
}
"""Canonical name -> how OpenCode's `{output, metadata}` is read; the text alone for any other tool."""
