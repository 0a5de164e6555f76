"""OpenCode's tools: their names, and the `state` of a tool part that has ended -> one `Answer`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any
from zlib import crc32

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.outcome import error_words, stated_status, status_in_words, status_word
from tooltap.normalizers.tools.payload import strings
from tooltap.normalizers.wire.values import first_string, record, records, whole
from tooltap.protocol.events import Attachment, Display

INVALID = "invalid"
"""The tool that OpenCode runs in place of one that does not exist or was called wrongly. It always succeeds."""

_NOTES = ("shell_metadata", "bash_metadata")
_TIMED_OUT = "terminated command after exceeding timeout"
_TASK_RESULT = "<task_result>"
_STATES = frozenset({"connected", "disabled", "failed", "needs_auth", "needs_client_registration"})
"""States of an MCP server (1.18.33)."""
_NOT_IN_WORDS = re.compile(r"\W")


def read_result(raw_name: str, name: str, state: Line) -> Answer:
    """The answer of the canonical tool `name`."""
    metadata, time = record(state.get("metadata")), record(state.get("time"))
    answer = (_failed if state["status"] == "error" else _completed)(raw_name, name, state, metadata)
    answer = answer.replace(model=_seen_by_model(state, metadata))
    if answer.status == "completed" and (status := stated_status(metadata)) not in (None, "completed"):
        words = first_string(state, "output") if name != "Bash" else None
        answer = answer.replace(status=status, error=answer.error or words)
    start, end = whole(time.get("start")), whole(time.get("end"))
    lasted = end - start if start is not None and end is not None and end >= start else None
    diff = first_string(metadata, "diff")  # the change a file tool made, which the model is not shown
    if lasted is None and diff is None:
        return answer
    display = Display(origin="provider", text=diff, mime_type="text/x-diff") if diff else None
    return answer.replace(duration_ms=lasted, display=display)


def _seen_by_model(state: Line, metadata: Line) -> Any:
    """Result for the model: the output and its files; or an error; or, for an interrupted tool, the output so far."""
    output = state.get("output")
    if state["status"] == "error":
        printed = metadata.get("output") if metadata.get("interrupted") is True else None
        text = printed if isinstance(printed, str) else state.get("error", output)
        return text if isinstance(text, str) else msgspec.UNSET
    files = records(state.get("attachments"))
    if not isinstance(output, str):
        return msgspec.UNSET
    return (
        [{"type": "text", "text": output}, *({**file, "mimeType": file.get("mime")} for file in files)]
        if files
        else output
    )


def _completed(raw_name: str, name: str, state: Line, metadata: Line) -> Answer:
    given, output = record(state.get("input")), state.get("output")
    if raw_name == INVALID:
        return Answer(None, "failed", first_string(given, "error") or first_string(state, "output"))
    if name == "AskUserQuestion":
        questions = [str(one.get("question")) for one in records(given.get("questions"))]
        return Answer({"answers": answers_by_question(questions, metadata.get("answers"))})
    if name == "Read":
        # A file's text, a folder's entries, and for a picture only a message that it was read.
        folder = listing(record(metadata.get("display")))
        return Answer(folder or ({"message": output} if state.get("attachments") else output))
    if name == "Bash" and isinstance(output, str):
        printed, note = split_note(output)
        value, status = _output(printed, metadata, name), _status_of_note(note)
        return Answer({**value, "message": note} if note and status == "completed" else value, status, note)
    if name == "Task" and isinstance(output, str):
        return Answer(_task(output, metadata))
    return Answer(_output(output, metadata, name))


def _task(output: str, metadata: Line) -> dict[str, Any]:
    """Read a subagent's answer. It is between tags, after instructions to the model about how to ask the subagent
    again."""
    _, _, inner = output.partition(_TASK_RESULT)
    content, closed, _ = inner.rpartition(f"</{_TASK_RESULT[1:]}")
    child = first_string(metadata, "sessionId")
    value = {"content": content.strip("\n") if closed else output}
    return {**value, "sessionId": child} if child is not None else value


def split_note(output: str) -> tuple[str, str | None]:
    """Split a command's output from the note that the shell tool adds for the model: why it stopped the command, or
    that it shortened the output (`shell_metadata` in 1.18.33, `bash_metadata` until 1.17)."""
    text = output.rstrip()
    for tag in _NOTES:
        if text.endswith(f"</{tag}>") and (start := text.rfind(f"<{tag}>")) >= 0:
            note = text[start + len(tag) + 2 : -len(tag) - 3].strip()
            return text[:start].rstrip("\n"), note or None
    return output, None


def _status_of_note(note: str | None) -> str:
    """OpenCode states `completed` for commands that it stopped."""
    lines = note.splitlines() if note is not None else []
    for line in lines:
        if stopped := status_in_words(line, "opencode", flagged=False):
            return stopped
    return "failed" if any(_TIMED_OUT in line for line in lines) else "completed"


def _failed(raw_name: str, name: str, state: Line, metadata: Line) -> Answer:
    error, output = error_words(state.get("error")), first_string(metadata, "output") or state.get("output")
    status = stated_status(metadata)
    if status not in ("cancelled", "denied"):
        status = status_word(state.get("stated"))
    if status not in ("cancelled", "denied"):
        status = status_in_words(error, "opencode") or "failed"
    return Answer(_output(output, metadata, name) if isinstance(output, str) else None, status, error)


def _output(output: Any, metadata: Line, name: str) -> Any:
    """Convert a tool's output; for commands, add what only the metadata states."""
    if name != "Bash":
        return output
    more = ("truncated", "outputPath") if metadata.get("truncated") is True else ()
    stated = {key: metadata[key] for key in more if key in metadata}
    code = whole(metadata.get("exit", metadata.get("exitCode")))  # `exitCode`: banteg/takopi, `opencode_run_json.jsonl`
    return {"stdout": output, "exit_code": code, **stated}


def listing(display: Line) -> dict[str, Any] | None:
    """The entries of a folder that was read; if they are not all, also the first one's number and the total.

    `display` is what the tool `read` stores for users; None if it does not show a folder."""
    if not isinstance(display.get("entries"), list):
        return None
    more = ("offset", "totalEntries", "truncated") if display.get("truncated") is True else ()
    return {key: display[key] for key in ("entries", *more) if key in display}


def todos_digest(todos: Any) -> int:
    """CRC of a to-do list, used to recognise a repeated one."""
    return crc32(msgspec.json.encode([(todo.get("content"), todo.get("status")) for todo in records(todos)]))


def answers_by_question(questions: list[str], answers: Any) -> dict[str, str]:
    """`[["SQLite"], …]`, the choices for each question in order -> question: choices."""
    given = answers if isinstance(answers, list) else []
    return {question: ", ".join(strings(one)) for question, one in zip(questions, given, strict=False)}


def attachments_of(files: Any, bodies: list[Attachment] | None) -> list[Attachment] | None:
    """Attachments for files: output bodies of their data, and links for files without data."""
    if not files:
        return bodies or None
    links = [
        Attachment(
            mime_type=first_string(file, "mime") or "application/octet-stream",
            uri=file["url"],
            name=first_string(file, "filename"),
        )
        for file in records(files)
        if first_string(file, "url")
    ]
    return [*(bodies or []), *links] or None


def mcp_name(name: str, parser: Parser) -> str | None:
    """`<server>_<tool>` -> `mcp__<server>__<tool>`, if the publisher or the stream named the server."""
    servers = (*parser.context.mcp_servers, *parser.state.servers)
    # Without a character between them, there are no server and tool in it.
    if not servers or name.isalnum() or canonical_name(name, {}, "") != name:
        return None
    splits = split_mcp_name(name, servers)
    return next((f"mcp__{server}__{tool}" for server, tool in splits), None)


def servers_in(reply: Line) -> list[str]:
    """The MCP servers that a reply names: the status of each (`/mcp`), or the configuration (`/config`)."""
    configured = reply.get("mcp")
    if type(configured) is dict:
        return [name for name, one in configured.items() if record(one).get("enabled") is not False]
    states = [record(one).get("status") for one in reply.values()]
    return list(reply) if states and all(type(state) is str and state in _STATES for state in states) else []


def split_mcp_name(name: str, servers: Collection[str]) -> Iterator[tuple[str, str]]:
    """The pairs (server, tool) that `<server>_<tool>` may mean; the longest server's name first."""
    spelled = _NOT_IN_WORDS.sub("_", name)
    for server in sorted(servers, key=len, reverse=True):
        prefix = _NOT_IN_WORDS.sub("_", server) + "_"
        if spelled.startswith(prefix) and len(name) > len(prefix):
            yield server, name[len(prefix) :]
