"""OpenCode's tool parts: one object per call, sent again whenever its `state` changes.

`state.status` goes from pending over running to completed or error. The input is empty while the model writes it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.calls import DUPLICATE_RESULT
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.running import Running
from tooltap.normalizers.dialects.opencode.results import listing
from tooltap.normalizers.dialects.opencode.state import Msg, OpencodeState, int_of, object_of, text_of
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.payload import objects, strings
from tooltap.protocol.events import Attachment, Display

__all__ = ["ToolParts", "answers_by_question", "attachments_of", "mcp_name"]

_ENDED = ("completed", "error")
_STATUS = {"pending": "pending", "running": "running", "completed": "running", "error": "running"}
"""`state.status` -> status of the call, as long as it has no result."""

_DENIALS = ("The user rejected permission", "The user has specified a rule which prevents you")
_STOPS = ("Tool execution aborted", "The user dismissed this question")
"""Beginnings of the errors of calls that were not allowed, or were stopped."""

_INVALID = "invalid"
"""The tool that OpenCode runs in place of one that does not exist, or was called wrongly; it always succeeds."""

_OUTPUT = "stdout"
"""The shell tool merges its streams."""

_NOT_IN_WORDS = re.compile(r"\W")


class _Answer(NamedTuple):
    value: Any
    status: str = "completed"
    error: str | None = None


class ToolParts:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._state: OpencodeState = parser.state

    @property
    def _running(self) -> Running:
        return Running(self._parser, self._state.running)

    def report(self, part: Msg) -> str:
        """A call as it is now; gives the line's class."""
        call_id, name, state = text_of(part, "callID"), text_of(part, "tool"), object_of(part, "state")
        status = text_of(state, "status")
        if call_id is None or name is None or status not in _STATUS:
            return self._parser.unparsed("unknown-type", part)
        calls = self._parser.calls
        ended = status in _ENDED
        if calls.is_done(call_id) and self._is_of(call_id, part) and (calls.is_over(call_id) or not ended):
            return DUPLICATE_RESULT if ended else skip("repeated")
        bodies = Bodies(self._parser)
        part = bodies.take(part)
        state = object_of(part, "state")
        changed = self._called(call_id, name, state, part)
        if ended:
            return self._ended(call_id, name, state, part, attachments_of(state.get("attachments"), bodies))
        if self._printed(calls.get(call_id), object_of(state, "metadata")) and not changed:
            return skip("partial")
        return WITH_EVENTS if changed else skip("unchanged")

    def output_so_far(self, call: Call) -> tuple[Any, Any]:
        """What a call printed that ends without a result of its own."""
        return self._running.take(call.id)

    def servers(self) -> Collection[str]:
        return (*self._parser.context.mcp_servers, *self._state.servers)

    # -- calls --------------------------------------------------------------------------------------------------------

    def _called(self, call_id: str, name: str, state: Msg, part: Msg) -> bool:
        """Open the call, or emit what is new of it; gives whether there was anything."""
        calls = self._parser.calls
        value, title = state.get("input"), text_of(state, "title")
        status: str | None = _STATUS[state["status"]]
        call = calls.get(call_id)
        if call is None:
            if calls.is_done(call_id) and self._is_of(call_id, part):
                return False
            self._parser.ensure_turn()
            server_tool = mcp_name(name, self.servers())
            calls.open(
                call_id,
                name,
                value,
                raw=part,
                name=server_tool,
                status=_STATUS[state["status"]],
                title=title,
                source=text_of(part, "id") or "",
            )
            return True
        if state["status"] in _ENDED or call.status == "awaiting-permission":
            title = status = None  # the result says it, or the answer will
        if isinstance(value, dict) and not value:
            return calls.update(call, title=title, status=status)
        # Kept where the call turns out to be none; a permission, which may open a call, only says what kind it is of.
        name = call.raw_name if name == _INVALID else name
        server_tool = mcp_name(name, self.servers())
        return calls.update(call, value, raw=part, raw_name=name, name=server_tool, title=title, status=status)

    def _is_of(self, call_id: str, part: Msg) -> bool:
        """Whether the part is the one that showed the call, and not another call's that has its id."""
        return self._parser.calls.source_of(call_id) in (text_of(part, "id") or "", "")

    def _printed(self, call: Call | None, metadata: Msg) -> bool:
        """The shell tool shows all it has printed so far, again and again."""
        output = metadata.get("output")
        if call is None or not isinstance(output, str):
            return False
        known = self._state.running.calls.get(call.id)
        length = known.buffers[_OUTPUT].chars if known is not None else 0
        if len(output) > length:
            self._running.append(call, _OUTPUT, output[length:].encode())
        return True

    # -- results ------------------------------------------------------------------------------------------------------

    def _ended(self, call_id: str, name: str, state: Msg, part: Msg, attachments: list[Attachment] | None) -> str:
        self._running.take(call_id)
        canonical = self._parser.calls.name_of(call_id) or canonical_name(name, {}, call_id)
        answer = _failed(state, canonical) if state["status"] == "error" else _completed(name, state, canonical)
        time = object_of(state, "time")
        start, end = int_of(time, "start"), int_of(time, "end")
        return self._parser.calls.result(
            call_id,
            answer.value,
            raw=part,
            raw_name=name,
            status=answer.status,
            error=answer.error,
            duration_ms=end - start if start is not None and end is not None and end >= start else None,
            attachments=attachments,
            display=_display(object_of(state, "metadata")),
        )


def _completed(name: str, state: Msg, canonical: str) -> _Answer:
    if name == _INVALID:
        return _Answer(None, "failed", text_of(object_of(state, "input"), "error") or text_of(state, "output"))
    metadata = object_of(state, "metadata")
    if canonical == "AskUserQuestion":
        questions = [str(one.get("question")) for one in objects(object_of(state, "input").get("questions"))]
        return _Answer({"answers": answers_by_question(questions, metadata.get("answers"))})
    if canonical == "Read":
        return _Answer(_read_value(state, metadata))
    return _Answer(_printed_value(state.get("output"), metadata, canonical))


def _read_value(state: Msg, metadata: Msg) -> Any:
    """A file's text, wrapped; of a folder its entries, of a picture only that it was read ("Image read …")."""
    if (folder := listing(object_of(metadata, "display"))) is not None:
        return folder
    return {"message": state.get("output")} if state.get("attachments") else state.get("output")


def _failed(state: Msg, canonical: str) -> _Answer:
    metadata = object_of(state, "metadata")
    error = text_of(state, "error")
    status = "failed"
    if error is not None and error.startswith(_DENIALS):
        status = "denied"
    elif (error is not None and error.startswith(_STOPS)) or metadata.get("interrupted") is True:
        status = "cancelled"
    printed = metadata.get("output")
    return _Answer(_printed_value(printed, metadata, canonical) if isinstance(printed, str) else None, status, error)


def _printed_value(output: Any, metadata: Msg, canonical: str) -> Any:
    """What a tool answered: its text, and of the metadata what the text does not say."""
    if canonical != "Bash":
        return output
    more = {key: metadata[key] for key in ("truncated", "outputPath") if metadata.get("truncated") is True}
    return {"stdout": output, "exit_code": int_of(metadata, "exit"), **more}


def _display(metadata: Msg) -> Display | None:
    """The change a file tool made, which the model is not shown."""
    diff = text_of(metadata, "diff")
    return Display(origin="provider", text=diff, mime_type="text/x-diff") if diff else None


def answers_by_question(questions: list[str], answers: Any) -> dict[str, str]:
    """`[["SQLite"], …]`, the choices per question in their order -> question: choices."""
    given = answers if isinstance(answers, list) else []
    return {question: ", ".join(strings(one)) for question, one in zip(questions, given, strict=False)}


def attachments_of(files: Any, bodies: Bodies) -> list[Attachment] | None:
    """The bodies that were taken out of file parts, and links to the files that came without."""
    links = [
        Attachment(mime_type=text_of(file, "mime") or "application/octet-stream", uri=file["url"], name=_name(file))
        for file in objects(files)
        if text_of(file, "url")
    ]
    return [*(bodies.attachments or []), *links] or None


def _name(file: Msg) -> str | None:
    return text_of(file, "filename")


def mcp_name(name: str, servers: Collection[str]) -> str | None:
    """`<server>_<tool>` -> `mcp__<server>__<tool>`, where the server was announced."""
    if canonical_name(name, {}, "") != name:
        return None
    spelled = _NOT_IN_WORDS.sub("_", name)
    for server in sorted(servers, key=len, reverse=True):
        prefix = _NOT_IN_WORDS.sub("_", server) + "_"
        if spelled.startswith(prefix) and len(name) > len(prefix):
            return f"mcp__{server}__{name[len(prefix) :]}"
    return None
