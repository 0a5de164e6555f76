"""OpenCode's tools: their names, and the `state` of a tool part that has ended -> one `Answer`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any
from zlib import crc32

import msgspec

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.core.emitter import Emitter
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.payload import strings
from tooltap.normalizers.wire.values import first_string, record, records, whole
from tooltap.protocol.events import Attachment, Display

__all__ = ["INVALID", "answers_by_question", "attachments_of", "listing", "mcp_name", "read_result", "todos_digest"]

INVALID = "invalid"
"""The tool that OpenCode runs in place of one that does not exist or was called wrongly. It always succeeds."""

_DENIALS = ("The user rejected permission", "The user has specified a rule which prevents you")
_STOPS = ("Tool execution aborted", "The user dismissed this question")
"""Beginnings of the errors of calls that were denied, or cancelled."""
_NOT_IN_WORDS = re.compile(r"\W")


def read_result(raw_name: str, name: str, state: Line) -> Answer:
    """The answer of the canonical tool `name`."""
    metadata, time = record(state.get("metadata")), record(state.get("time"))
    answer = (_failed if state["status"] == "error" else _completed)(raw_name, name, state, metadata)
    start, end = whole(time.get("start")), whole(time.get("end"))
    lasted = end - start if start is not None and end is not None and end >= start else None
    diff = first_string(metadata, "diff")  # the change a file tool made, which the model is not shown
    if lasted is None and diff is None:
        return answer
    display = Display(origin="provider", text=diff, mime_type="text/x-diff") if diff else None
    return answer.replace(duration_ms=lasted, display=display)


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
    return Answer(_output(output, metadata, name))


def _failed(raw_name: str, name: str, state: Line, metadata: Line) -> Answer:
    error, output = first_string(state, "error"), metadata.get("output")
    status = "failed"
    if error is not None and error.startswith(_DENIALS):
        status = "denied"
    elif (error is not None and error.startswith(_STOPS)) or metadata.get("interrupted") is True:
        status = "cancelled"
    return Answer(_output(output, metadata, name) if isinstance(output, str) else None, status, error)


def _output(output: Any, metadata: Line, name: str) -> Any:
    """A tool's text, and for commands what only the metadata states."""
    if name != "Bash":
        return output
    more = {key: metadata[key] for key in ("truncated", "outputPath") if metadata.get("truncated") is True}
    return {"stdout": output, "exit_code": whole(metadata.get("exit")), **more}


def listing(display: Line) -> dict[str, Any] | None:
    """The entries of a folder that was read; if they are not all, also the first one's number and the total.

    `display` is what the tool `read` stores for users; None if it does not show a folder."""
    if not isinstance(display.get("entries"), list):
        return None
    more = ("offset", "totalEntries", "truncated") if display.get("truncated") is True else ()
    return {key: display[key] for key in ("entries", *more) if key in display}


def todos_digest(todos: Any) -> int:
    """What shows whether a to-do list repeats another."""
    return crc32(msgspec.json.encode([(todo.get("content"), todo.get("status")) for todo in records(todos)]))


def answers_by_question(questions: list[str], answers: Any) -> dict[str, str]:
    """`[["SQLite"], …]`, the choices for each question in order -> question: choices."""
    given = answers if isinstance(answers, list) else []
    return {question: ", ".join(strings(one)) for question, one in zip(questions, given, strict=False)}


def attachments_of(files: Any, bodies: list[Attachment] | None) -> list[Attachment] | None:
    """The bodies that were taken out of file parts, and links to the files without a body."""
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


def mcp_name(name: str, emitter: Emitter) -> str | None:
    """`<server>_<tool>` -> `mcp__<server>__<tool>`, if the publisher or the stream named the server."""
    servers = (*emitter.context.mcp_servers, *emitter.state.servers)
    # Without a character between them, there are no server and tool in it.
    if not servers or name.isalnum() or canonical_name(name, {}, "") != name:
        return None
    splits = split_mcp_name(name, servers)
    return next((f"mcp__{server}__{tool}" for server, tool in splits), None)


def split_mcp_name(name: str, servers: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each (server, tool) that `<server>_<tool>` may mean; the longest server's name first."""
    spelled = _NOT_IN_WORDS.sub("_", name)
    for server in sorted(servers, key=len, reverse=True):
        prefix = _NOT_IN_WORDS.sub("_", server) + "_"
        if spelled.startswith(prefix) and len(name) > len(prefix):
            yield server, name[len(prefix) :]
