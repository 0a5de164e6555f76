"""What the tool of an ACP call answered: the last update and what came before it -> one `Answer`.

It is read from the raw output, in the forms of the agents that send it; else from the content, the terminal, or what
the call showed while it ran. Claude's agent sends Claude's own result.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.dialects.acp.content import blocks, text_of
from tooltap.normalizers.dialects.acp.inputs import ToolUse, decoded
from tooltap.normalizers.dialects.acp.state import Terminal
from tooltap.normalizers.dialects.claude.answers import read_answer
from tooltap.normalizers.dialects.opencode.answers import listing
from tooltap.normalizers.tools.views import by_structure, by_view, printed
from tooltap.normalizers.wire.values import first_string, record, string, whole
from tooltap.protocol.events import Display

__all__ = ["printed_so_far", "read_result"]

_ABORTED_KINDS = ("interrupted", "cancelled")
"""claude-agent-acp 0.100: `nonExecutionKind` of a call that was stopped; other kinds are refusals."""
_REFUSED = "The user rejected permission to use this specific tool call"
"""OpenCode 1.18: the only sign of a denial if the client's answer is not on the wire."""
_FENCE = re.compile(r"(`{3,})[\w+-]*\n(?P<text>.*?)\n?\1\n?", re.DOTALL)


def read_result(
    name: str, use: ToolUse, update: Line, terminal: Terminal | None, *, provider: str, stopping: bool
) -> Answer:
    """The answer of the canonical tool `name`. `stopping`: the client had asked to stop the turn."""
    claude = record(update.get("_meta")).get("claudeCode")
    if isinstance(claude, dict):
        answer = _read_claude(name, use, update, terminal, claude, stopping)
    else:
        answer = _read_plain(name, use, update, terminal, provider)
    is_stopped = update.get("status") == "cancelled" or (stopping and answer.status == "failed")
    return answer.replace(status="cancelled") if is_stopped else answer


def printed_so_far(use: ToolUse, terminal: Terminal | None) -> dict[str, Any] | None:
    """The output of a call that ends without a result."""
    return _shell(_Stated(None, None, use.running, terminal)) or None


def _read_claude(
    name: str, use: ToolUse, update: Line, terminal: Terminal | None, meta: Line, stopping: bool
) -> Answer:
    """The block that the model saw is `rawOutput`; for a client that shows terminals, what the terminal printed."""
    content, kind = update.get("rawOutput"), meta.get("nonExecutionKind")
    if content is None:
        content = terminal.printed.head if terminal is not None else _unfence(text_of(update.get("content")) or "")
    block = {"content": content, "is_error": update.get("status") == "failed"}
    stopped = stopping or kind in _ABORTED_KINDS
    answer = read_answer(name, block, use.response, {"non_execution_kind": kind}, stopped=stopped)
    if terminal is not None and terminal.exit_code is not None and isinstance(answer.value, dict):
        return answer.replace(value={"exit_code": terminal.exit_code, **answer.value})
    return answer


class _Stated(NamedTuple):
    """The places where an answer may be."""

    raw: Any
    content: list[dict[str, Any]] | None
    text: str | None
    terminal: Terminal | None


def _read_plain(name: str, use: ToolUse, update: Line, terminal: Terminal | None, provider: str) -> Answer:
    content, display, text, shown = None, None, use.running, update.get("content")
    if shown is not None:
        content, display = by_view(blocks(shown))
        text = text_of(content)
    raw = decoded(update.get("rawOutput")) if provider == "vibe" else update.get("rawOutput")
    if provider == "codex" and isinstance(raw, dict):
        raw, display = _read_codex(raw, display)
    stated = _Stated(raw, content, _unfence(text) if text is not None else None, terminal)
    stated, note, status = _take_off_notes(stated, str(update.get("status")))
    if provider == "opencode" and update.get("title") == _OPENCODE_INVALID:
        return Answer(None, "failed", string(record(use.raw_input).get("error")) or _error(stated))
    duration = _duration(stated.raw["duration"]) if type(stated.raw) is dict and "duration" in stated.raw else None
    if status == "completed":
        is_shown = stated.raw is None and terminal is None and display is None
        value = _value(name, stated)
        if is_shown and provider == "gemini" and isinstance(value, str) and name != "Bash":
            value = {"message": value}  # a note for the user (`Read image file: logo.png`), not the tool's output
        return Answer(value, status, None, duration, display, "unknown" if is_shown else None)
    error = note or _error(stated)
    if status == "failed" and error is not None and error.startswith(_REFUSED):
        status = "denied"
    value = _shell(stated) if name == "Bash" else _failed_value(stated)
    if name == "Bash" and error is not None and value.get("stdout") == error and "exit_code" not in value:
        del value["stdout"]
    return Answer(value or None, status, error, duration)


def _read_codex(raw: dict[str, Any], display: Display | None) -> tuple[dict[str, Any], Display | None]:
    """Codex's own event (before 1.0 of its adapter), or an MCP server's answer in `result`."""
    answer, shown = by_structure(record(raw.get("result")))
    if shown is not None:
        raw = {**raw, "result": answer}
    return raw, display or shown or printed(raw)


def _value(name: str, stated: _Stated) -> Any:
    if name == "Bash":
        return _shell(stated) or None
    raw = stated.raw
    if isinstance(raw, dict):
        if isinstance(raw.get("output"), str) and isinstance(raw.get("metadata"), dict):
            return _read_opencode(name, raw["output"], raw["metadata"])
        if isinstance(raw.get("result"), dict) and "error" in raw:  # codex-acp: an MCP server's answer
            return _mcp_answer(raw["result"])
        printed = _shell(stated._replace(raw=None))
        return {**printed, **raw} if printed else raw
    if raw is not None:
        return raw
    if stated.terminal is not None:
        return _shell(stated) or None
    if name.startswith("mcp__") and stated.content:
        return {"content": stated.content}
    return stated.text


def _failed_value(stated: _Stated) -> dict[str, Any]:
    """What a failed call answered beside its error."""
    raw = stated.raw
    if not isinstance(raw, dict):
        return {}
    if isinstance(raw.get("result"), dict):
        return _mcp_answer(raw["result"])
    return {key: item for key, item in raw.items() if key not in ("error", "result", "message")}


def _mcp_answer(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in answer.items() if key != "_meta" and item is not None}


def _error(stated: _Stated) -> str | None:
    raw = stated.raw
    if isinstance(raw, str):
        return raw or None
    fields = record(raw)
    text = first_string(fields, "error", "message") or first_string(record(fields.get("error")), "error", "message")
    return text or text_of(record(fields.get("result")).get("content")) or stated.text or None


def _duration(stated: Any) -> int | None:
    """codex-acp before 1.0 sends Codex's own event, with a duration in seconds and nanoseconds."""
    duration = record(stated)
    seconds, nanoseconds = whole(duration.get("secs")), whole(duration.get("nanos"))
    return None if seconds is None or nanoseconds is None else seconds * 1_000 + nanoseconds // 1_000_000


_STREAMS = ("stdout", "aggregated_output", "formatted_output")


def _shell(stated: _Stated) -> dict[str, Any]:
    """What a command printed, and its exit code, as far as any place states them."""
    raw, terminal = stated.raw, stated.terminal
    value: dict[str, Any] = {}
    output = raw
    if isinstance(raw, dict):
        value = {key: item for key, item in raw.items() if key not in ("error", "message", "metadata", "output")}
        output, metadata = raw.get("output"), raw.get("metadata")
        if isinstance(metadata, dict):
            value |= {key: item for key, item in metadata.items() if key not in ("output", "exit") and item is not None}
            if (exit_code := whole(metadata.get("exit"))) is not None:
                value["exit_code"] = exit_code
            output = metadata.get("output", output)
    if not any(isinstance(value.get(key), str) for key in _STREAMS):
        if not isinstance(output, str):
            output = terminal.printed.head if terminal is not None else stated.text
        if isinstance(output, str):
            value["stdout"] = output
    if terminal is not None:
        ended = {"exit_code": terminal.exit_code, "signal": terminal.signal}
        value = {**{key: item for key, item in ended.items() if item is not None}, **value}
    return value


def _unfence(text: str) -> str:
    """Text without a code fence around the whole of it (claude-agent-acp, codex-acp)."""
    fenced = _FENCE.fullmatch(text) if text.startswith("```") else None
    return fenced["text"] if fenced else text


_GEMINI_STOPPED = re.compile(
    r"(?P<note>Command cancelled by user\.)(?:\s*Output before cancellation:\n(?P<rest>.*))?", re.S
)
_OPENCODE_NOTE = re.compile(r"\n*<shell_metadata>\n(?P<note>.*?)\n</shell_metadata>\s*\Z", re.S)
_OPENCODE_INVALID = "Invalid Tool"
"""The title of the tool that runs in place of one that does not exist or was called wrongly. It always succeeds."""


def _take_off_notes(stated: _Stated, status: str) -> tuple[_Stated, str | None, str]:
    """Gemini CLI 0.61 and OpenCode 1.18 report a stopped command as `completed`, with a note in its output."""
    if stated.text is not None and (found := _GEMINI_STOPPED.fullmatch(stated.text)):
        return stated._replace(text=found["rest"]), found["note"], "cancelled"
    raw = stated.raw
    output = raw.get("output") if type(raw) is dict else None
    if type(output) is str and "<shell_metadata>" in output and (found := _OPENCODE_NOTE.search(output)):
        status = "cancelled" if found["note"] == "User aborted the command" else status
        return stated._replace(raw={**raw, "output": output[: found.start()]}), found["note"], status
    return stated, None, status


_TASK_RESULT = re.compile(r"<task_result>\n?(?P<text>.*?)\n?</task_result>", re.S)


def _read_opencode(name: str, output: str, metadata: Line) -> Any:
    """OpenCode's `{output, metadata}`; for most tools the text is the answer."""
    if name == "Read":
        return _read_opencode_file(output, record(metadata.get("display")))
    if name in ("Edit", "Write"):
        diff = metadata.get("diff")
        return {"message": output, "diff": diff} if isinstance(diff, str) else {"message": output}
    if name == "TodoWrite" and isinstance(metadata.get("todos"), list):
        return {"todos": metadata["todos"]}
    if name != "Task":
        return output
    found, child = _TASK_RESULT.search(output), string(metadata.get("sessionId"))
    value = {"content": found["text"] if found else output}
    return {**value, "sessionId": child} if child is not None else value


def _read_opencode_file(output: str, display: Line) -> Any:
    """`display`: what the tool stores for users."""
    if not display:
        return output
    if (folder := listing(display)) is not None:
        return folder
    first, last = whole(display.get("lineStart")), whole(display.get("lineEnd"))
    file = {"content": display.get("text"), "filePath": display.get("path"), "totalLines": display.get("totalLines")}
    if first is not None and last is not None:
        file |= {"startLine": first, "numLines": last - first + 1}
    return {"file": {key: item for key, item in file.items() if item is not None}}
