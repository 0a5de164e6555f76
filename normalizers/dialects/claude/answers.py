"""The answers of Claude Code's tools: the `tool_result` block and the structured twin beside it become one `Answer`.

The block holds what the model saw, mostly text. The twin (`tool_use_result`, in transcripts `toolUseResult`) holds the
tool's own result object. It is a plain string on errors, a list for MCP tools, and missing for subagents' calls and
before version 2. Where there is a twin the answer is built from it, else from the text without Claude's wrapping: the
exit code in the first line, `<tool_use_error>`, reminders, notes about output saved elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tooltap.normalizers.core.background import STEERING, STOPS
from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.tools.outcome import empty_output, is_nothing, stated_status, status_in_words, status_word
from tooltap.normalizers.wire.decode import decode_text
from tooltap.normalizers.wire.values import first_string, last_part, record, records, string, strings, whole
from tooltap.protocol.events import Display

_EXIT_CODE = re.compile(r"Exit code (-?\d{1,15})(?:\n|$)")
_ERROR_TAG = re.compile(r"<tool_use_error>(.*)</tool_use_error>\s*", re.S)
_IN_BACKGROUND = re.compile(r"Command [^\n]{0,200}?background[^\n]{0,40}? with ID: ([\w-]+)")
"""Texts that acknowledge a background command: `Command running in background with ID: …`, `Command was manually
backgrounded by user with ID: …`."""
_AGENT_LAUNCHED = re.compile(r"Async agent launched successfully[^\n]*\nagentId: ([\w-]+)")
_LAUNCHED = {"Bash": _IN_BACKGROUND, "Task": _AGENT_LAUNCHED}
_PERSISTED = ("<persisted-output>\n", "</persisted-output>")
_REMINDER = ("<system-reminder>", "</system-reminder>")
_LINKS = re.compile(r"^Links: (\[.*\])$", re.M)
_SEARCH_FRAME = re.compile(r"\AWeb search results for query: .*|^REMINDER: .*", re.M)
_TAG = re.compile(r"<(\w+)>")
_CLOSING_TAG = re.compile(r"</(\w+)>")
_FOUND = re.compile(r"Found \d+ files?[^\n]*\n")
_TREE_LINE = re.compile(r"((?:  )*)- (.*)")
_TREE_NOTE = "NOTE: do any of the files above seem malicious?"
_NOTHING_FOUND = ("No files found", "No matches found")

_NOT_EXECUTED = frozenset({"user-rejected", "permission-rule"})
"""Values of `non_execution_kind` for a refused call."""

_STATING = frozenset({"success", "status", "ok"})
_STARTED_KEYS = ("backgroundTaskId", "agentId", "taskId", "shellId")
"""Keys of an acknowledgement that name the task: of a command, a subagent, or another task."""

_REPEATED = frozenset({"content", "oldString", "newString", "edits", "originalFile", "originalFileContents"})
"""Keys of a written file's twin that repeat the call's input, or hold the whole former file; `structuredPatch` has the
change."""
_CHANGING = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
_SHOWN = _CHANGING | {"Bash"}
"""Tools of which users may see more than the model."""


def read_answer(name: str, block: dict[str, Any], twin: Any, meta: dict[str, Any], *, stopped: bool) -> Answer:
    """Read the answer of the canonical tool `name`.

    `meta`: the line's notes on the call's permission, and whether the agent is `headless`, so that nobody can refuse a
    call in a dialog; `stopped`: a task report stated that the call was stopped."""
    content = block.get("content")
    text = text_of(content)
    if type(twin) is not dict:
        if block.get("is_error") is True:
            return _failure(name, text, None, meta, stopped)
        if content is not None and type(content) not in (str, list):  # a form that the API does not have
            return Answer(content if type(content) is dict else {"value": content})
        if is_nothing(text, "claude"):
            return Answer(empty_output(name))
        started = _LAUNCHED[name].match(text) if name in _LAUNCHED else None
        value = _text_value(name, content, text)
        if started is not None and name == "Task":
            value = {"content": text, "agentId": started[1]}
        return Answer(value, is_async=started is not None)
    if block.get("is_error") is True or twin.get("interrupted") is True:
        return _failure(name, text, twin, meta, stopped)
    if not _STATING.isdisjoint(twin) and (status := _stated(name, twin)) is not None:
        error = string(twin.get("error")) or text or None
        return Answer(_twin_value(name, text, twin), status, error, _duration(twin))
    is_async = twin.get("isAsync") is True or twin.get("status") == "async_launched" or "backgroundTaskId" in twin
    display = _display(name, text, twin) if name in _SHOWN else None
    return Answer(_twin_value(name, text, twin), duration_ms=_duration(twin), display=display, is_async=is_async)


def read_server_answer(block: dict[str, Any]) -> Answer:
    """Read the answer of a tool that ran at the API (`web_search_tool_result`, `mcp_tool_result`, …)."""
    content = block.get("content")
    if isinstance(content, dict) and str(content.get("type")).endswith("_error"):
        return Answer(None, "failed", str(content.get("error_code") or content.get("error_message") or "error"))
    if block.get("is_error") is True:
        return Answer(None, "failed", text_of(content) or None)
    if block.get("type") == "web_search_tool_result":
        return Answer({"results": content})
    return Answer(content if isinstance(content, dict) else {"content": content})


def text_of(content: Any) -> str:
    """The text of a message's or a block's content: a string, or blocks of which some are text."""
    if type(content) is str:
        return content
    if type(content) is not list:
        return ""
    return "\n".join([text for item in content if type(item) is dict and type(text := item.get("text")) is str])


def _display(name: str, text: str, twin: dict[str, Any]) -> Display | None:
    """The user's view, where the twin has more than the block: a change as its diff, and the whole output where the
    model got only its beginning."""
    if name != "Bash":
        return _diff_of(twin)
    printed = string(twin.get("stdout"))
    return Display(origin="provider", text=printed) if printed and _is_persisted(text) else None


def _diff_of(changed: dict[str, Any]) -> Display | None:
    """The `structuredPatch` of a changed file as a unified diff."""
    path = changed.get("filePath")
    lines = [f"--- {path}", f"+++ {path}"]
    for hunk in records(changed.get("structuredPatch")):
        old, new = (f"{hunk.get(f'{side}Start')},{hunk.get(f'{side}Lines')}" for side in ("old", "new"))
        text = strings(hunk.get("lines"))
        lines += [f"@@ -{old} +{new} @@", *text] if text else []
    return Display(origin="provider", text="\n".join(lines) + "\n", mime_type="text/x-diff") if lines[2:] else None


def _is_persisted(text: str) -> bool:
    """Whether the model got only a note on where the output is, and its beginning."""
    return text.startswith(_PERSISTED[0]) and _persisted(text) is not None


def _persisted(text: str) -> tuple[str, str] | None:
    """Parse such a note: (path, beginning of the saved output). None if the text is not exactly one note."""
    note = last_part(text, *_PERSISTED)
    if note is None or note[0]:
        return None
    path, newline, rest = note[1].partition("saved to: ")[2].partition("\n")
    if not path or not newline or not rest:
        return (path, "") if path and newline else None
    _, newline, head = rest.partition("\n")[2].partition("\n")
    if not rest.startswith("\nPreview ") or not newline or not head.endswith("\n"):
        return None
    return path, head[:-1].removesuffix("\n...")


def _stated(name: str, twin: dict[str, Any]) -> str | None:
    """Error that a twin states although its block is not flagged: `{"success": false, "error": "Task not found"}`.
    Twins of MCP servers are not read, because they may state anything."""
    if name in STEERING or name.startswith("mcp__"):
        return None
    status = stated_status(twin)
    return None if status == "completed" else status


def _duration(twin: dict[str, Any]) -> int | None:
    total = whole(twin.get("totalDurationMs"))
    return whole(twin.get("durationMs")) if total is None else total


def _failure(name: str, text: str, twin: dict[str, Any] | None, meta: dict[str, Any], stopped: bool) -> Answer:
    if tag := _ERROR_TAG.match(text):
        text = tag[1]
    status = "failed"
    if record(meta.get("permission_decision")).get("decision") == "reject":
        status = "denied"
    elif stopped or record(twin).get("interrupted") is True or _is_interrupted(meta):
        status = "cancelled"
    elif string(meta.get("non_execution_kind")) in _NOT_EXECUTED:
        status = "denied"
    elif not _EXIT_CODE.match(text):  # before 2.1 only the text distinguishes a refusal from a failure
        status = status_in_words(text, "claude") or status
    value: dict[str, Any] | None = None
    error = text
    if name == "Bash" and (code := _EXIT_CODE.match(text)):
        output = text[code.end() :]
        value = {**({"stdout": output} if output else {}), **(twin or {}), "exit_code": int(code[1])}
        error = f"Exit code {code[1]}"
    elif name == "Bash" and twin is not None:
        value = twin
        aborted = last_part(text, "<error>", "</error>")
        error = aborted[1] if aborted else ""
    return Answer(value, status, error or None, _duration(record(twin)))


def _is_interrupted(meta: dict[str, Any]) -> bool:
    """Return whether a call was interrupted of which Claude Code (2.1.330) says that the user has rejected it. Without
    a dialog, each refusal states its decision, which the caller has looked for."""
    return meta.get("headless") is True and meta.get("non_execution_kind") == "user-rejected"


def _text_value(name: str, content: Any, text: str) -> Any:
    if type(content) is list and (not text or name.startswith("mcp__")):
        return {"content": [item for item in content if record(item).get("type") not in ("image", "document")]}
    return _FROM_TEXT[name](text) if name in _FROM_TEXT else text


# -- from the twin ----------------------------------------------------------------------------------------------------


def _twin_value(name: str, text: str, twin: dict[str, Any]) -> Any:
    if (read := _FROM_TWIN.get(name)) is not None:
        return read(twin, text)
    return twin if "content" in twin or not text else {**twin, "content": text}


def _shell_twin(twin: dict[str, Any], text: str) -> Any:
    answer = {key: item for key, item in twin.items() if item is not False}  # flags that do not apply
    if "isImage" in answer:
        answer.pop("stdout", None)  # the picture, as a data URL
    return {**answer, "message": text} if "backgroundTaskId" in answer or _is_persisted(text) else answer


def _grep_twin(twin: dict[str, Any], text: str) -> Any:
    counts = {key: item for key, item in _without(twin, "content", "filenames").items() if item != 0}
    if twin.get("mode") == "files_with_matches":
        return {**counts, "matches": [{"filePath": path} for path in strings(twin.get("filenames"))]}
    found = twin.get("content") or _grep_text(text)
    return {**counts, **(found if isinstance(found, dict) else {"content": found})}


def _search_twin(twin: dict[str, Any], text: str) -> Any:
    results: list[Any] = []
    stated = twin.get("results")
    for item in stated if isinstance(stated, list) else ():
        found = record(item).get("content")
        results += found if isinstance(found, list) else [{"snippet": item} if isinstance(item, str) else item]
    return {**twin, "results": results}


def _task_twin(twin: dict[str, Any], text: str) -> Any:
    answer = {"content": text, **_without(twin, "prompt")}
    if isinstance(answer["content"], list):  # the report, between notes of Claude Code (2.1.330)
        notes, tail = (whole(twin.get(key)) or 0 for key in ("harnessNoteCount", "harnessTailCount"))
        answer["content"] = answer["content"][notes : len(answer["content"]) - tail]
    return answer


def _without(twin: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: item for key, item in twin.items() if key not in keys}


_FROM_TWIN: dict[str, Callable[[dict[str, Any], str], Any]] = {
    "Bash": _shell_twin,
    "BashOutput": lambda twin, _: {"exit_code" if key == "exitCode" else key: item for key, item in twin.items()},
    "Glob": lambda twin, _: {**_without(twin, "filenames"), "matches": twin.get("filenames", [])},
    "Grep": _grep_twin,
    "KillShell": lambda twin, _: twin,
    "Read": lambda twin, _: twin,
    "Task": _task_twin,
    "WebFetch": lambda twin, text: {**_without(twin, "result"), "text": twin.get("result", text)},
    "WebSearch": _search_twin,
    **dict.fromkeys(_CHANGING, lambda twin, text: {"message": text, **_without(twin, *_REPEATED)}),
}


# -- from the text ----------------------------------------------------------------------------------------------------


def _shell_text(text: str) -> dict[str, Any]:
    if started := _IN_BACKGROUND.match(text):
        return {"message": text, "backgroundTaskId": started[1]}
    if text.startswith(_PERSISTED[0]) and (note := _persisted(text)) is not None:
        return {"stdout": note[1], "persistedOutputPath": note[0]}
    return {"stdout": text}


def _grep_text(text: str) -> Any:
    if text.startswith(_NOTHING_FOUND):
        return {"matches": []}
    if header := _FOUND.match(text):
        return {"matches": [{"filePath": path} for path in text[header.end() :].split("\n") if path]}
    return text


def _tree_text(text: str) -> Any:
    """Parse the tree that LS printed before 2.0: a folder and everything below it. Entries become paths relative to the
    folder. The note to the model after the tree is dropped, as the twin does not have it."""
    root: str | None = None
    entries: list[str] = []
    folders = [""]
    rest = []
    for line in text.split("\n"):
        item = _TREE_LINE.fullmatch(line)
        depth = len(item[1]) // 2 if item else 0
        if item and root is None and depth == 0:
            root = item[2]
        elif item and root is not None and 0 < depth <= len(folders):
            entries.append(folders[depth - 1] + item[2])
            folders[depth:] = [entries[-1]] if item[2].endswith("/") else []
        elif line.strip() and not line.startswith(_TREE_NOTE):
            rest.append(line)
    if root is None:
        return text
    found = {**({"path": root} if root else {}), "entries": entries}
    return {**found, "text": text} if rest else found


def _search_text(text: str) -> dict[str, Any]:
    results: list[Any] = []
    for links in _LINKS.findall(text):
        found = _json(links)
        results += found if isinstance(found, list) else [{"snippet": links}]
    summary = _SEARCH_FRAME.sub("", _LINKS.sub("", text)).strip()
    return {"results": [*results, {"snippet": summary}] if summary else results}


def _without_reminder(text: str) -> str:
    """Strip the reminder that Claude Code 1.0 puts at the end of a file."""
    reminded = last_part(text, *_REMINDER)
    return text if reminded is None else reminded[0].rstrip("\n")


def _object_text(text: str) -> Any:
    value = _json(text)
    return value if isinstance(value, dict) else text


def _json(text: str) -> Any:
    try:
        return decode_text(text)
    except ValueError:
        return None


def _tagged_text(text: str) -> Any:
    """Parse the tagged text that BashOutput and TaskOutput return: `<status>running</status>` and so on."""
    fields: dict[str, Any] = {}
    closed = {tag[1]: tag.start() for tag in _CLOSING_TAG.finditer(text)}
    """Tag -> position of its last closing tag."""
    at = 0
    while tag := _TAG.search(text, at):
        at = tag.end()
        if closed.get(tag[1], -1) < at:
            continue
        end = text.find(f"</{tag[1]}>", at)
        fields[tag[1]] = text[at:end].removeprefix("\n").removesuffix("\n")
        at = end
    code = fields.get("exit_code", "")
    if code.lstrip("-").isdecimal() and len(code) < 12:
        fields["exit_code"] = int(code)
    return fields or text


_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "Bash": _shell_text,
    "BashOutput": _tagged_text,
    "Glob": lambda text: {"matches": []} if text.startswith(_NOTHING_FOUND) else text,
    "Grep": _grep_text,
    "KillShell": _object_text,
    "LS": _tree_text,
    "Read": _without_reminder,
    "TaskOutput": _tagged_text,
    "TaskStop": _object_text,
    "WebSearch": _search_text,
}


# -- background tasks -------------------------------------------------------------------------------------------------


def started_task(answer: Answer) -> str | None:
    """Return the id of the task that an acknowledgement names."""
    return first_string(record(answer.value), *_STARTED_KEYS)


def reported_task(answer: Answer) -> str | None:
    """Return the id of the task that the result of a poll or a stop is about, where it states one."""
    value = record(answer.value)
    return first_string(record(value.get("task")) or value, "task_id", "shell_id", "shellId")


def task_end(tool: str, answer: Answer, of: str) -> Answer | None:
    """Read the end of a task from the result of another call; None while the task runs.

    `tool`: the canonical tool of that call, which polled or stopped the task; `of`: that of the one that started it."""
    if answer.status != "completed":
        return None
    value = record(answer.value)
    if tool in STOPS:
        return Answer(None, "cancelled", string(value.get("message")))
    task = record(value.get("task")) or value
    end = status_word(task.get("status"))
    if end is None:
        return None
    printed = string(task.get("output"))
    output: dict[str, Any] = {"status": task["status"]}
    if printed is not None:
        output["stdout" if of == "Bash" else "content"] = printed
    codes = (task.get(key) for key in ("exit_code", "exitCode"))
    if (code := next((one for one in codes if type(one) is int), None)) is not None:
        output["exit_code"] = code
    return Answer(output, end, string(task.get("error")) or (f"exit code {code}" if code else end))
