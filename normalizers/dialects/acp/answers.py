"""Results of ACP tool calls: the answer is read from the call's last update and those before it.

Its source is the raw output, in the forms of the agents that send it; else the content, the terminal, or what the call
showed while it ran. Claude's agent sends Claude's own result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tooltap.normalizers.catalog.registry import original
from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.dialects.acp.content import blocks, text_of, texts_of
from tooltap.normalizers.dialects.acp.inputs import ToolUse, decoded
from tooltap.normalizers.dialects.acp.sessions import Terminal
from tooltap.normalizers.dialects.auggie.answers import read_command
from tooltap.normalizers.dialects.claude.answers import read_answer
from tooltap.normalizers.dialects.claude.answers import started_task as started_claude_task
from tooltap.normalizers.dialects.claude.answers import task_end as claude_task_end
from tooltap.normalizers.dialects.codex.answers import agent_end, agent_states, by_structure, printed
from tooltap.normalizers.dialects.copilot.answers import read_result as read_copilot_result
from tooltap.normalizers.dialects.copilot.answers import started_task as started_copilot_task
from tooltap.normalizers.dialects.copilot.answers import task_end as copilot_task_end
from tooltap.normalizers.dialects.gemini.answers import read_outcome
from tooltap.normalizers.dialects.kimi.answers import StatedResult
from tooltap.normalizers.dialects.kimi.answers import read_result as read_kimi_result
from tooltap.normalizers.dialects.opencode.answers import listing
from tooltap.normalizers.dialects.qwen.answers import read_qwen_answer
from tooltap.normalizers.dialects.qwen.answers import started_task as started_qwen_task
from tooltap.normalizers.dialects.vibe.answers import read_state
from tooltap.normalizers.tools.outcome import failure_or, stated_status, status_in_words, status_word
from tooltap.normalizers.tools.payload import by_view
from tooltap.normalizers.wire.values import between, first_string, last_part, record, records, string, whole
from tooltap.protocol.events import Display

_ABORTED_KINDS = ("interrupted", "cancelled")
"""claude-agent-acp 0.100: `nonExecutionKind` of a call that was stopped; other kinds are refusals."""
_STOPPED = ("Bash", "Task")
"""Tools that run long. Gemini CLI 0.61 and OpenCode 1.18 state `completed` where the client stopped one."""
_FENCE = re.compile(r"(`{3,})[\w+-]*\n")


def read_result(
    name: str, use: ToolUse, update: Line, terminal: Terminal | None, *, provider: str, stopping: bool
) -> Answer:
    """The answer of the canonical tool `name`. `stopping`: the client had asked to stop the turn."""
    meta, provider = record(update.get("_meta")), original(provider)
    claude = meta.get("claudeCode")
    if meta.get("preparationDiscarded") is True:  # Qwen Code 0.24.4: the model's request was given up before it ran
        return Answer(None, "cancelled")
    if isinstance(claude, dict):
        answer = _read_claude(name, use, update, terminal, claude, stopping)
    else:
        answer = _read_plain(name, use, update, terminal, provider)
    status = answer.status
    if status == "failed" and not (isinstance(answer.value, dict) and "exit_code" in answer.value):
        status = status_in_words(answer.error, provider) or status
    word = status_word(update.get("status"))
    if word == "cancelled" or (stopping and status == "failed"):
        status = "cancelled"
    elif word == "denied":
        status = word
    elif stopping and status == "completed" and name in _STOPPED and "exit_code" not in record(answer.value):
        status = "cancelled"
    if name == "Task" and status == "completed" and (states := agents_stated(use.raw_input)):
        runs = not any(agent_end(state) for state in states.values())
        answer = answer.replace(is_async=answer.is_async or runs)
    return answer.replace(status=status, model=msgspec.UNSET)  # ACP speaks to the client, whatever the agent relays


def decided_by_policy(use: ToolUse) -> bool:
    """Whether the agent says why it has refused the call itself (claude-agent-acp 0.101)."""
    return "decisionReasonType" in record(use.response)


def printed_so_far(use: ToolUse, terminal: Terminal | None) -> dict[str, Any] | None:
    """The output of a call that ends without a result."""
    return _shell(_AnswerSources(None, None, use.running, terminal)) or None


def _read_claude(
    name: str, use: ToolUse, update: Line, terminal: Terminal | None, meta: Line, stopping: bool
) -> Answer:
    """Read the result of Claude's agent: `rawOutput` is the block that the model saw; for a client that shows
    terminals, the terminal's output replaces it."""
    content, kind = update.get("rawOutput"), meta.get("nonExecutionKind")
    if content is None:
        content = terminal.printed.head if terminal is not None else _unfence(text_of(update.get("content")) or "")
    block = {"content": content, "is_error": status_word(update.get("status")) not in (None, "completed")}
    stopped = stopping or kind in _ABORTED_KINDS
    if block["is_error"] and decided_by_policy(use):
        return Answer(None, "denied", first_string(record(use.response), "message", "decisionReason"))
    answer = read_answer(name, block, use.response, {"non_execution_kind": kind}, stopped=stopped)
    if terminal is not None and terminal.exit_code is not None and isinstance(answer.value, dict):
        return answer.replace(value={"exit_code": terminal.exit_code, **answer.value})
    return answer


class _AnswerSources(NamedTuple):
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
    if terminal is None and (read := relaying(provider, update)) is not None:
        stated_so = status_word(update.get("status")) or "completed"
        relayed = read(name, RelayedResult(raw, texts_of(shown), stated_so, use.running, record(use.raw_input)))
        if relayed is not None:
            return relayed
    duration = None
    if isinstance(raw, dict) and (provider == "codex" or "call_id" in raw):
        duration = _duration(raw.get("duration"))
        raw, display = _read_codex(raw, display)
    elif raw is not None and text:
        raw = _fuller(name, raw, text)
    stated = _AnswerSources(raw, content, _unfence(text) if text is not None else None, terminal)
    stated, note, status = _take_off_notes(stated, status_word(update.get("status")) or "completed", provider)
    if status == "completed" and name != "Bash" and not name.startswith("mcp__"):  # what those answer is their own
        status = stated_status(raw) or status
    if provider == "opencode" and update.get("title") == _OPENCODE_INVALID:
        return Answer(None, "failed", string(record(use.raw_input).get("error")) or _error(stated))
    if status == "completed":
        is_shown = stated.raw is None and terminal is None and display is None
        value = _value(name, stated)
        if is_shown and provider == "gemini" and name == "Bash" and (outcome := read_outcome(text or "")):
            return outcome.replace(duration_ms=duration)
        if name == "Bash" and terminal is not None:
            status = stated_status(value) or status
        if is_shown and provider == "gemini" and isinstance(value, str) and name != "Bash":
            value = {"message": value}  # a note for the user (`Read image file: logo.png`), not the tool's output
        return Answer(value, status, None, duration, display)
    error = note or _error(stated)
    value = _shell(stated) if name == "Bash" else _failed_value(stated)
    if name == "Bash" and error is not None and value.get("stdout") == error and "exit_code" not in value:
        del value["stdout"]
    return Answer(value or None, status, error, duration)


def _fuller(name: str, raw: Any, text: str) -> Any:
    """Return the raw output, or the content's text if that holds more: a raw output may be empty, or a summary."""
    if isinstance(raw, dict):
        if raw.keys() == {"text"}:  # Droid 0.215
            raw = raw["text"]
        elif name != "Bash" and "content" not in raw and len(msgspec.json.encode(raw)) < len(text):
            return {**raw, "content": text}
    return text if isinstance(raw, str) and len(raw.strip()) < len(text.strip()) else raw


def _read_codex(raw: dict[str, Any], display: Display | None) -> tuple[dict[str, Any], Display | None]:
    """Codex's own event (before 1.0 of its adapter), or an MCP server's answer in `result`."""
    answer, shown = by_structure(record(raw.get("result")))
    if shown is not None:
        raw = {**raw, "result": answer}
    display = display or shown or printed(raw)
    return (_codex_event(raw) if "call_id" in raw else raw), display


def _codex_event(event: dict[str, Any]) -> dict[str, Any]:
    """The result in Codex's own event, without what it repeats of the call."""
    keys = ("stdout", "stderr", "success" if "changes" in event else "exit_code")
    value = {key: event[key] for key in keys if event.get(key) is not None}
    for key in ("aggregated_output", "formatted_output"):  # the model gets `formatted_output`
        if event.get(key) not in (None, value.get("stdout")):
            value[key] = event[key]
    return value


def _value(name: str, stated: _AnswerSources) -> Any:
    if name == "Bash":
        return _shell(stated) or None
    raw = stated.raw
    if isinstance(raw, dict):
        if isinstance(raw.get("output"), str) and isinstance(raw.get("metadata"), dict):
            return _read_opencode(name, raw["output"], raw["metadata"])
        if isinstance(raw.get("result"), dict) and "error" in raw:  # codex-acp: an MCP server's answer
            return _mcp_answer(raw["result"])
        if stated.terminal is not None:
            return {**_shell(stated._replace(raw=None)), **raw}
        is_new = stated.text and "content" not in raw and stated.text not in raw.values()
        return {"message": stated.text, **raw} if is_new else raw
    if raw is not None:
        return raw
    if stated.terminal is not None:
        return _shell(stated) or None
    if name.startswith("mcp__") and stated.content:
        return {"content": stated.content}
    return stated.text


def _failed_value(stated: _AnswerSources) -> dict[str, Any]:
    """The output of a failed call beside its error."""
    raw = stated.raw
    if not isinstance(raw, dict):
        return {}
    if isinstance(raw.get("result"), dict):
        return _mcp_answer(raw["result"])
    return {key: item for key, item in raw.items() if key not in ("error", "result", "message")}


def _mcp_answer(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in answer.items() if key != "_meta" and item is not None}


def _error(stated: _AnswerSources) -> str | None:
    raw = stated.raw
    if isinstance(raw, str):
        return raw or None
    fields = record(raw)
    text = first_string(fields, "error", "message") or first_string(record(fields.get("error")), "error", "message")
    return text or text_of(record(fields.get("result")).get("content")) or stated.text or None


def _duration(stated: Any) -> int | None:
    """Convert a duration to ms; codex-acp before 1.0 sends Codex's own event, with seconds and nanoseconds."""
    duration = record(stated)
    seconds, nanoseconds = whole(duration.get("secs")), whole(duration.get("nanos"))
    return None if seconds is None or nanoseconds is None else seconds * 1_000 + nanoseconds // 1_000_000


_STREAMS = ("stdout", "aggregated_output", "formatted_output")


def _shell(stated: _AnswerSources) -> dict[str, Any]:
    """The output of a command and its exit code, as far as any place states them."""
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
            if metadata.get("truncated") is not True:  # OpenCode 1.18: then it has less than the text for the model
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
    opening = _FENCE.match(text) if text.startswith("```") else None
    body = text.removesuffix("\n")
    if opening is None or len(body) < opening.end() + len(opening[1]) or not body.endswith(opening[1]):
        return text
    return body[opening.end() : len(body) - len(opening[1])].removesuffix("\n")


_GEMINI_STOPPED = re.compile(
    r"(?P<note>Command cancelled by user\.)(?:\s*Output before cancellation:\n(?P<rest>.*))?", re.S
)
_OPENCODE_NOTE = ("<shell_metadata>\n", "\n</shell_metadata>")
"""Begin and end of the note at the end of an output."""
_OPENCODE_INVALID = "Invalid Tool"
"""The title of the tool that runs in place of one that does not exist or was called wrongly. It always succeeds."""


def _take_off_notes(stated: _AnswerSources, status: str, provider: str) -> tuple[_AnswerSources, str | None, str]:
    """Strip the notes with which Gemini CLI 0.61 and OpenCode 1.18 report a stopped command as `completed`. Returns the
    remaining sources, the error and the corrected status."""
    if stated.text is not None and (found := _GEMINI_STOPPED.fullmatch(stated.text)):
        return stated._replace(text=found["rest"]), found["note"], "cancelled"
    raw = stated.raw
    output = raw.get("output") if type(raw) is dict else None
    if provider == "opencode" and type(output) is str and (ending := last_part(output, *_OPENCODE_NOTE)) is not None:
        printed, note = ending
        status = status_in_words(note, "opencode", flagged=False) or status
        return stated._replace(raw={**raw, "output": printed.rstrip("\n")}), note, status
    return stated, None, status


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
    found, child = between(output, "<task_result>", "</task_result>"), string(metadata.get("sessionId"))
    value = {"content": output if found is None else found.removeprefix("\n").removesuffix("\n")}
    return {**value, "sessionId": child} if child is not None else value


def _read_opencode_file(output: str, display: Line) -> Any:
    """Read the result of OpenCode's file tool. `display`: what the tool stores for users."""
    if not display:
        return output
    if (folder := listing(display)) is not None:
        return folder
    first, last = whole(display.get("lineStart")), whole(display.get("lineEnd"))
    file = {"content": display.get("text"), "filePath": display.get("path"), "totalLines": display.get("totalLines")}
    if first is not None and last is not None:
        file |= {"startLine": first, "numLines": last - first + 1}
    return {"file": {key: item for key, item in file.items() if item is not None}}


# -- what runs in the background --------------------------------------------------------------------------------------


def agents_stated(raw_input: Any) -> dict[str, Any]:
    """Return the states of Codex's agents (thread -> state) in a call that starts, waits for or closes them. codex-acp
    puts them into the raw input, as its public source has it."""
    stated = raw_input.get("agentsStates") if isinstance(raw_input, dict) else None
    return agent_states({"agents_states": stated}) if isinstance(stated, dict) else {}


def started_task(update: Line, answer: Answer) -> str | None:
    """Return the id of the task (a command or a subagent) that the result which acknowledges its start names."""
    text = text_of(update.get("content")) or ""
    return started_claude_task(answer) or started_copilot_task(text) or started_qwen_task(text)


def task_end(tool: str, task: str, of: str, update: Line, answer: Answer) -> Answer | None:
    """Read the end of a task from the result of another call; None while the task runs.

    `tool`: the canonical tool of that call, which polled or stopped `task`; `of`: that of the call that started it."""
    if answer.status != "completed":
        return None
    if isinstance(record(update.get("_meta")).get("claudeCode"), dict):
        return claude_task_end(tool, answer, of)
    raw = record(update.get("rawOutput"))
    for mark in records(raw.get("contents")):
        if mark.get("type") == _SHELL_ENDED and mark.get("shellId") == task:
            code = whole(mark.get("exitCode"))
            stated = {} if code is None else {"exit_code": code}
            error = f"shellId: {task} completed with exit code {code}" if code else None
            return Answer({"stdout": string(mark.get("outputPreview")) or "", **stated}, error=error)
    return copilot_task_end(tool, first_string(raw, "content") or text_of(update.get("content")) or "", of)


# -- agents that relay their own tools' results ---------------------------------------------------------------------
#
# The answers are the same as in their own dialects. Qwen Code's content is the text that its other streams have, and
# its raw output a summary, or an object for clients of its own. Copilot's and Vibe's raw outputs are their results.
# Kimi's text is its output. Auggie's has tags.


class RelayedResult(NamedTuple):
    """The result of a call as its last update states it."""

    raw: Any
    """The raw output."""
    texts: list[str]
    """Texts of the content."""
    status: str
    printed: str | None
    """Output that the call showed while it ran."""
    given: dict[str, Any]
    """The raw input."""

    @property
    def text(self) -> str:
        """The content's texts, one per line."""
        return "\n".join(self.texts)


# -- Qwen Code 0.24.4 -----------------------------------------------------------------------------------------------

_OF_TASK = ("type", "toolCalls", "taskPrompt", "taskDescription", "result", "subagentSessionReady")
"""Keys that repeat the subagent's own calls, or the call's input and text."""


def _read_qwen(name: str, stated: RelayedResult) -> Answer | None:
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
        status = failure_or(raw.get("status"), answer.status)
        return answer.replace(value={**report, "content": text or raw.get("result")}, status=status)
    if isinstance(raw.get("fileDiff"), str):
        changed = {key: item for key, item in raw.items() if key != "fileDiff"}
        return answer.replace(value={**changed, "diff": raw["fileDiff"], **({"message": text} if text else {})})
    return answer.replace(value=raw) if answer.value in (None, "") else answer


def _qwen_shell(answer: Answer, raw: dict[str, Any], text: str) -> Answer:
    """Complete Qwen's shell answer from the raw output: the text for the model has the command's fields, except for
    long output or a stopped command."""
    value = answer.value if isinstance(answer.value, dict) and "exit_code" in answer.value else {"message": text}
    for key, ours in (("output", "stdout"), ("exitCode", "exit_code"), ("signal", "signal")):
        if raw.get(key) is not None:
            value[ours] = raw[key] if ours != "signal" else str(raw[key])
    status = failure_or(raw.get("outcome"), answer.status)
    error = answer.error or string(raw.get("error")) or (text if status != "completed" else None)
    return answer.replace(value=value, status=status, error=error or None)


# -- Copilot CLI 1.0.102 --------------------------------------------------------------------------------------------

_SHELL_ENDED = "shell_exit"


def _read_copilot(name: str, stated: RelayedResult) -> Answer | None:
    """Read Copilot's result: `content`, `detailedContent`, and marks of what happened in `contents`; a replayed call
    has `content` alone."""
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


# -- Vibe 3.0.2 -----------------------------------------------------------------------------------------------------


def _read_vibe(name: str, stated: RelayedResult) -> Answer | None:
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


def _read_kimi(name: str, stated: RelayedResult) -> Answer | None:
    """The output alone (Kimi Code 2.1); its last line says whether the command failed."""
    text = stated.text
    if not text or (stated.status != "completed" and name != "Bash"):
        return None
    parts = [{"type": "text", "text": text}]
    is_search = name == "Grep" and stated.given.get("output_mode", "files_with_matches") == "files_with_matches"
    answer = read_kimi_result(name, StatedResult(parts, is_bare=name == "Bash"), lists_files=is_search)
    failed = stated.status != "completed" and answer.status == "completed"
    return answer.replace(status=stated.status, error=text) if failed else answer


# -- Auggie ---------------------------------------------------------------------------------------------------------


def _read_auggie(name: str, stated: RelayedResult) -> Answer | None:
    """A command."""
    raw = stated.raw
    output = raw.get("output") if isinstance(raw, dict) else raw
    text = output if isinstance(output, str) and output else stated.text
    value = read_command(text) if name == "Bash" else None
    return None if value is None else Answer(value, stated.status, None if stated.status == "completed" else text)


_Reader: TypeAlias = Callable[[str, RelayedResult], Answer | None]
"""Function that reads an agent's own form of a result, for the canonical tool of this name. Returns None if the result
has the common form."""

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
"""Marks that identify an agent which did not state its name: (part of an update, key in that part, reader)."""


def relaying(provider: str, update: Line) -> _Reader | None:
    """The reader of the agent's own results, if it relays them; None for other agents."""
    if provider != "acp":
        return _READERS.get(provider)
    return next((read for part, key, read in _SIGNS if key in record(update.get(part))), None)
