"""Rows of the tables `session_v2` and `session_message`, in which OpenCode 2 stores sessions.

A row is a session or a message with all its content. OpenCode changes it in place while it writes the message; each
state of a row is a line, which says whether it is the last (`final`). Learned from OpenCode's schema (2.0.12) and a
database of that version.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import keep_newest
from tooltap.normalizers.dialects.opencode.parts import (
    CONTINUES,
    SESSIONS,
    BusState,
    OpencodeParts,
    OpencodeRead,
    OpencodeSessions,
    model_name,
    outcome_of,
    read_error,
    read_usage,
)
from tooltap.normalizers.wire.values import first_string, record, records, string, whole
from tooltap.protocol.events import SessionEvent, Usage

OPEN_ROWS = 64
"""Maximum number of unfinished rows of a session."""
_IDLE = {"succeeded": "completed", "failed": "failed", "interrupted": "cancelled"}
"""Outcome of a row `idle` -> outcome of the turn."""
_CONTEXT = ("skill", "synthetic", "system")


class OpencodeRows:
    line = Lines("type", skip=dict.fromkeys(_CONTEXT, "prompt-context"))

    def __init__(self, parser: Parser, state: BusState, parts: OpencodeParts, sessions: OpencodeSessions) -> None:
        self._parser = parser
        self._state = state
        self._parts = parts
        self._sessions = sessions

    def read(self, value: Line, data: Line, table: Lines) -> Skip:
        """Read a state of a row with the parser's table. The reader begins with the first row again when it does not
        know how far a session was read."""
        session, number = first_string(value, "aggregate_id"), whole(value.get("seq"))
        if session is None or number is None:
            return self._parser.unparsed("unknown-type", value)
        parser, is_final = self._parser, value.get("final") is not False
        parser.ts = whole(value.get("time_created")) or parser.ts
        if number >= 0:
            if not self._is_news(session, number, is_final):
                return "repeated"
            self._sessions.enter(session)
            message = self._parts.message(str(value.get("id")))
            message.copied = parser.replay = self._sessions.is_copied({"time": {"created": parser.ts}})
        skip = table.read(parser, data, value, is_final, kind=str(value.get("type")), line=value)
        return None if parser.items else skip

    def _is_news(self, session: str, number: int, is_final: bool) -> bool:
        known = self._state.read.pop(session, None) or OpencodeRead()
        self._state.read[session] = known
        keep_newest(self._state.read, SESSIONS)
        if number in known.open:
            if is_final:
                known.open.remove(number)
            return True
        if number <= known.last:
            return False
        known.last = number
        if not is_final:
            known.open = [*known.open[1 - OPEN_ROWS :], number]
        return True

    # -- sessions -----------------------------------------------------------------------------------------------

    @line("session")
    def _session(self, row: Line, value: Line, is_final: bool) -> Skip:
        owner = None if row.get("fork_session_id") else row.get("parent_id")
        info = {
            "id": row.get("id"),
            "parentID": owner,
            "directory": row.get("directory"),
            "title": row.get("title"),
            "agent": row.get("agent"),
            "model": record(row.get("model")),
            "version": row.get("version"),
            "time": {"created": row.get("time_created")},
        }
        sessions = self._sessions
        sessions.adopt(info)
        sessions.enter(first_string(info, "id"))
        starts = not sessions.info.started
        if starts:
            self._parser.ts = whole(row.get("time_created")) or self._parser.ts
        skip = sessions.describe(info, starts=starts)
        if starts and self._parser.agent is None and (origin := first_string(row, "fork_session_id")) is not None:
            self._parser.emit(SessionEvent, state="updated", forked_from=origin)
        return skip

    @line("session-usage")
    def _used(self, row: Line, value: Line, is_final: bool) -> Skip:
        self._state.reasoning_apart = True
        self._sessions.enter(first_string(value, "aggregate_id"))
        cache = {"read": row.get("tokens_cache_read"), "write": row.get("tokens_cache_write")}
        tokens = {key: row.get(f"tokens_{key}") for key in ("input", "output", "reasoning")}
        return self._sessions.describe({"tokens": {**tokens, "cache": cache}, "cost": row.get("cost")}, starts=False)

    @line("rewound")
    def _rewound(self, row: Line, value: Line, is_final: bool) -> None:
        self._sessions.enter(first_string(value, "aggregate_id"))
        self._parser.notice("rewound", "removed", data=row)

    @line("agent-switched", "model-switched", "location-switched")
    def _switched(self, row: Line, value: Line, is_final: bool) -> Skip:
        place = record(row.get("location"))
        stated = {"agent": row.get("agent"), "model": record(row.get("model")), "directory": place.get("directory")}
        return "unchanged" if self._parser.replay else self._sessions.describe(stated, starts=False)

    @line("idle")
    def _idle(self, row: Line, value: Line, is_final: bool) -> Skip:
        """Read that the session has finished all its work."""
        parser, info = self._parser, self._sessions.info
        if parser.replay or parser.agent is not None or parser.turn is None:
            return "status"
        outcome = _IDLE.get(str(row.get("outcome")), "completed")
        parser.end_turn(outcome, reason=info.step_reason or string(row.get("outcome")))
        info.outcome, info.step_reason, info.retry = [], None, 0
        return None

    # -- messages -----------------------------------------------------------------------------------------------

    @line("user")
    def _user(self, row: Line, value: Line, is_final: bool) -> Skip:
        parser, message_id = self._parser, str(value.get("id"))
        if not parser.replay and parser.turn is None:
            self._sessions.begin_prompted_turn()
        if text := string(row.get("text")):
            self._parts.read_whole({"id": f"{message_id}/text", "messageID": message_id, "text": text}, "user")
        for index, file in enumerate(records(row.get("files"))):
            self._parts.read_file(_file(file, f"{message_id}/{index}", message_id), "user")
        return "empty"

    @line("assistant")
    def _assistant(self, row: Line, value: Line, is_final: bool) -> Skip:
        parser, parts, message_id = self._parser, self._parts, str(value.get("id"))
        message = parts.message(message_id)
        message.role, message.model = "assistant", model_name(record(row.get("model"))) or message.model
        content, times = records(row.get("content")), record(row.get("time"))
        for index, block in enumerate(content):
            is_whole = is_final or index < len(content) - 1 or whole(times.get("streamed")) is not None
            if is_final and index == len(content) - 1 and block.get("type") != "tool":
                parser.ts = whole(times.get("completed")) or parser.ts
            block = {**block, "id": f"{message_id}/{index}", "messageID": message_id, "callID": block.get("id")}
            self._read_block(block, is_whole)
        parser.ts = whole(times.get("completed")) or parser.ts
        info = self._sessions.info
        if (retry := record(row.get("retry"))) and (attempt := whole(retry.get("attempt"))) != info.retry:
            info.retry = attempt or 0
            parser.notice("retry", read_error(record(retry.get("error")))[0], "warning", retry)
        if not is_final:
            return "partial"
        finish, error = first_string(row, "finish"), record(row.get("error"))
        self._count(row, message.model, message_id)
        if error and not parser.replay:
            info.outcome = list(parts.report_error(error))
        info.step_reason = finish or info.step_reason
        is_last = (finish not in CONTINUES or bool(error)) and whole(times.get("completed")) is not None
        if is_last and not parser.replay and parser.agent is None and parser.turn is not None:
            outcome, reason = info.outcome or (outcome_of(finish), finish)
            parser.end_turn(outcome, reason=reason, ended_by="answer")
            info.outcome, info.step_reason, info.retry = [], None, 0
        return "message"

    def _read_block(self, block: Line, is_whole: bool) -> None:
        parser, kind, times = self._parser, block.get("type"), record(block.get("time"))
        if kind == "tool":
            self._read_tool(block, times)
            return
        parser.ts = whole(times.get("completed")) or whole(times.get("created")) or parser.ts
        if kind not in ("reasoning", "text"):
            parser.unparsed("unknown-type", block)
        elif is_whole and isinstance(block.get("text"), str):
            self._parts.read_whole(block, "assistant" if kind == "text" else "reasoning")

    def _read_tool(self, block: Line, times: Line) -> None:
        parser, state = self._parser, record(block.get("state"))
        given, status = state.get("input"), state.get("status")
        if not isinstance(given, dict) or not isinstance(status, str):
            return  # the model is still writing the input
        start, end = whole(times.get("ran")) or whole(times.get("created")), whole(times.get("completed"))
        part = {**block, "tool": block.get("name")}
        parser.ts = start or parser.ts
        call_id = first_string(block, "callID") or ""
        metadata = {**record(state.get("structured")), **record(state.get("metadata"))}
        stated: Line = {"input": given, "title": metadata.get("title"), "metadata": metadata}
        if not parser.calls.is_known(call_id):
            self._parts.read_tool({**part, "state": {**stated, "status": "running"}})
        child = first_string(metadata, "sessionID", "sessionId")
        if child is not None and not parser.replay and parser.calls.name_of(call_id) == "Task":
            self._sessions.spawned(call_id, child)
        if status in ("pending", "running", "streaming"):
            return
        parser.ts = end or parser.ts
        content = records(state.get("content"))
        texts = [one["text"] for one in content if isinstance(one.get("text"), str)]
        files = [_file(one, None, None) for one in content if one.get("type") == "file"]
        output = {"output": "\n".join(texts)} if texts or not files else {"output": ""}
        ended = {**stated, **output, "status": status, "attachments": files, "time": {"start": start, "end": end}}
        if status == "error":
            ended |= {"error": record(state.get("error")).get("message") or state.get("error")}
        self._parts.read_tool({**part, "state": ended})

    def _count(self, row: Line, model: str | None, message_id: str) -> None:
        """Emit what the request of a row used."""
        used = read_usage(row, apart=True)
        if used is not None:
            self._sessions.count_step(used)
            self._parser.emit(Usage, scope="step", **used, model=model, request=message_id)

    @line("shell")
    def _shell(self, row: Line, value: Line, is_final: bool) -> Skip:
        """Read a command that the user ran."""
        parser, times = self._parser, record(row.get("time"))
        output, metadata = row.get("output"), {"exit": row.get("exit")}
        call_id = first_string(row, "callID", "shellID") or str(value.get("id"))
        part: Line = {"id": value.get("id"), "callID": call_id, "tool": "shell"}
        state: Line = {"status": "running", "input": {"command": row.get("command")}, "metadata": metadata}
        is_alone = parser.turn is None
        if not parser.calls.is_known(call_id):
            self._parts.read_tool({**part, "state": state})
        if is_final:
            parser.ts = whole(times.get("completed")) or parser.ts
            printed = output if isinstance(output, str) else first_string(record(output), "text", "output") or ""
            self._parts.read_tool({**part, "state": {**state, "status": "completed", "output": printed}})
            if is_alone and parser.turn is not None:
                parser.end_turn("completed", synthetic=True, ended_by="answer")
        return "repeated"

    @line("compaction")
    def _compaction(self, row: Line, value: Line, is_final: bool) -> Skip:
        parser = self._parser
        if not is_final or parser.replay:
            return "status"
        has_failed = row.get("status") == "failed"
        words = read_error(record(row.get("error")))[0] if has_failed else string(row.get("summary"))
        reason = {"reason": row.get("reason")}
        parser.notice("compaction", words, "warning" if has_failed else "info", reason)
        self._count(row, model_name(record(row.get("model"))), str(value.get("id")))
        return None


def _file(stated: Line, part_id: str | None, message_id: str | None) -> dict[str, Any]:
    """A file of a message or a result, as a part of OpenCode 1 states it."""
    mime = stated.get("mime") or stated.get("mimeType")
    part = {"type": "file", "url": stated.get("uri"), "mime": mime, "filename": stated.get("name")}
    return part if part_id is None else {**part, "id": part_id, "messageID": message_id}
