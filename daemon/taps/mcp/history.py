"""The history tools: a model reads what agents did before, in one project or in all, from the daemon's journal.

Results are short and name events by `tooltap://event/N`, which `get_event` and `resources/read` open. Secrets are
masked, whatever the journal has.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import orjson

from tooltap.daemon.client.asynchronous import request, subscribe
from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError
from tooltap.daemon.export.redaction import masked_event, masked_title
from tooltap.daemon.export.source import MissingRange
from tooltap.daemon.formats import counted, dollars, not_searched, spent, tool_name
from tooltap.daemon.sessions.listing import asked_text, is_of, stored_names, why_lost
from tooltap.daemon.sessions.repository import root_of
from tooltap.daemon.sessions.worktrees import project_of_path
from tooltap.daemon.show.blocks import short
from tooltap.daemon.show.bodies import error_text
from tooltap.daemon.taps.mcp.offered import (
    HISTORY,
    FilesChanged,
    GetEvent,
    GetSession,
    HistoryTool,
    ListWaiting,
    SearchSessions,
    event_uri,
)
from tooltap.daemon.taps.mcp.server import INVALID_PARAMS, Object, RequestError, said
from tooltap.normalizers.tools.registry import preview
from tooltap.protocol.events import AnyEvent, Message, ToolCall, ToolResult, Turn
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import Gap, sentence_of
from tooltap.traces.recording.secrets import mask_body, mask_secrets

NO_DAEMON = "The tooltap daemon is not running; the user can start it with `tooltap serve`."
PART = 8_000
"""Characters of an event in one result."""
LINES = 40
"""Events of a session in one result."""
MOST_TEXT = 400
"""Characters of a message in the list of a session's events."""
PER_SESSION = 3
"""Hits of one session."""
DAY = 86_400_000
LEFT_OUT = frozenset({"v", "id", "stream", "line", "protocol", "dialect", "preview"})
"""What no model needs of an event. A preview may be cut within a secret."""
OWN = tuple(tool.NAME for tool in HISTORY)
"""What the names of these tools end with, whatever an agent puts before them. Calls of them are not found."""


class NotFoundError(Exception):
    """There is no such event or session in the projects that may be read."""


class History:
    """Answers from the daemon at `socket`. `projects`: folders of the projects that may be read; None for all."""

    def __init__(self, socket: Path | None, projects: Sequence[Path] | None) -> None:
        self._socket = socket
        self._projects = None
        if projects is not None:
            self._projects = tuple(dict.fromkeys(_project_of(os.path.abspath(one)) for one in projects))

    async def call(self, offered: type[HistoryTool], arguments: Any) -> Object:
        """Return the result of a tool: one text."""
        try:
            tool = msgspec.convert(arguments, offered)
            text = await self._text(tool)
        except msgspec.ValidationError as error:
            return said(sentence_of(str(error)), is_error=True)
        except (ConnectError, DisconnectedError):
            return said(NO_DAEMON, is_error=True)
        except (DaemonError, NotFoundError) as error:
            return said(str(error), is_error=True)
        return said(_masked(text))

    async def read(self, uri: str) -> list[Object]:
        """Return the contents of a resource `tooltap://event/N`. Raises `RequestError`."""
        seq = uri.removeprefix(event_uri(""))
        if not seq.isascii() or not seq.isdecimal() or uri == seq:
            raise RequestError(INVALID_PARAMS, f"{uri} is not the address of an event: {event_uri('N')}")
        try:
            text = await self._event(GetEvent(int(seq)))
        except (ConnectError, DisconnectedError):
            raise RequestError(INVALID_PARAMS, NO_DAEMON) from None
        except (DaemonError, NotFoundError) as error:
            raise RequestError(INVALID_PARAMS, str(error)) from None
        return [{"uri": uri, "mimeType": "text/plain", "text": _masked(text)}]

    async def _text(self, tool: HistoryTool) -> str:
        match tool:
            case SearchSessions():
                return await self._search(tool)
            case GetSession():
                return await self._session(tool)
            case GetEvent():
                return await self._event(tool)
            case ListWaiting():
                return await self._waiting()
            case FilesChanged():
                return await self._files(tool)
        raise NotImplementedError(type(tool))

    async def _ask(self, op: str, **about: Any) -> Any:
        """Ask the daemon about the projects that may be read. Raises `ConnectError`, `DaemonError`,
        `DisconnectedError`."""
        if self._projects is not None:
            about["project"] = self._projects
        given = {key: value for key, value in about.items() if value is not None}
        return await request(op, path=self._socket, **given)

    async def _search(self, tool: SearchSessions) -> str:
        found = await self._ask(
            "search",
            query=tool.query,
            tool=None if tool.tool is None else (tool.tool,),
            outcome=None if tool.outcome is None else (tool.outcome,),
            since=_since(tool.days),
            limit=min(2 * tool.limit + PER_SESSION, 100),
            perSession=PER_SESSION,
        )
        hits = [hit for hit in found["hits"] if not str(hit.get("tool", "")).endswith(OWN)][: tool.limit]
        left_out = [f"({sentence})" for sentence in not_searched(found)]
        if not hits:
            nothing = f"Nothing was found for {tool.query!r}{self._where()}. Fewer or other words may find it."
            return "\n".join([nothing, *left_out])
        about = {one["session"]: one for one in found["sessions"]}
        lines = []
        session = None
        for hit in hits:
            if hit["session"] != session:
                session = hit["session"]
                lines.append(_about(about.get(session, {"session": session})))
            what = tool_name(hit["tool"]) if hit.get("tool") else hit["kind"]
            lines.append(f"  {event_uri(hit['seq'])} {_when(hit.get('ts'))} {what}: {_excerpt(hit['text'])}")
        if (total := found.get("total")) is not None and total > len(hits):
            lines.append(f"{len(hits)} of {total} hits; `limit`, `tool`, `outcome` and `days` change which.")
        return "\n".join([*lines, *left_out])

    async def _session(self, tool: GetSession) -> str:
        row = await self._row(tool.session)
        head = [_about(row)]
        for name, value in (
            ("folder", row.get("cwd")),
            ("branch", row.get("branch")),
            ("model", row.get("model")),
            ("began", _when(row.get("firstTs"))),
            ("ended", _when(row.get("lastTs"))),
            ("worked", spent(row.get("durationMs"))),
            ("cost", dollars(row.get("costUsd"))),
            ("files changed", row.get("files")),
        ):
            if value:
                head.append(f"{name}: {value}")
        wanted = Filter(session=stored_names(row), kind=("message", "tool-call", "tool-result", "turn"))
        before = row["lastSeq"] + 1 if tool.before is None else tool.before
        lines: deque[tuple[int, str]] = deque(maxlen=LINES)
        count = 0
        async with subscribe(
            after=max(row["firstSeq"] - 1, 0), filter=wanted, follow=False, path=self._socket
        ) as events:
            async for item in events:
                if isinstance(item, Gap):
                    found = item.from_, f"({MissingRange(item.from_, item.to, item.reason == 'retention').words})"
                elif isinstance(item, bytes) and (event := _event_of(item)) is not None and event.seq is not None:
                    if not is_of(row, event.session, event.seq):
                        continue
                    found = event.seq, _line_of(event)
                else:
                    continue
                if found[0] >= before:
                    break
                if found[1]:
                    lines.append(found)
                    count += 1
        if (left_out := count - len(lines)) > 0:
            head.append(f"({counted(left_out, 'earlier event')} left out: ask with `before` = {lines[0][0]})")
        return "\n".join([*head, "", *(line for _, line in lines)])

    async def _row(self, session: str) -> Object:
        rows = (await self._ask("sessions", session=(session,), limit=1))["sessions"]
        if not rows:
            if lost := why_lost((await request("stats", path=self._socket))["journal"], session):
                raise NotFoundError(f"{lost[0].upper()}{lost[1:]}.")
            raise NotFoundError(f"There is no session {session}{self._where()}.")
        return dict(rows[0])

    async def _event(self, tool: GetEvent) -> str:
        found = await request("event", path=self._socket, seq=tool.event, view="assistant")
        event = found["event"]
        if self._projects is not None:
            await self._row(event["session"])
        event = {key: _without_own(value) for key, value in event.items() if key not in LEFT_OUT}
        text = orjson.dumps(event, option=orjson.OPT_INDENT_2).decode()
        part = text[tool.offset : tool.offset + PART]
        rest = len(text) - tool.offset - len(part)
        return part if rest <= 0 else f"{part}\n({rest:,} characters left: ask with `offset` = {tool.offset + PART})"

    async def _waiting(self) -> str:
        waiting = (await self._ask("waiting"))["waiting"]
        if not waiting:
            return f"No session waits for a person{self._where()}."
        lines = []
        for one in waiting:
            asked = _excerpt(asked_text(one))
            lines.append(f"{event_uri(one['seq'])} {one['provider']}, session {one['session']}: {one['type']}: {asked}")
        return "\n".join(lines)

    async def _files(self, tool: FilesChanged) -> str:
        found = await self._ask(
            "changed-files", file=tool.file, since=_since(tool.days), limit=tool.limit, order="time"
        )
        if not found["files"]:
            return f"No file was changed{self._where()}."
        lines = []
        for file in found["files"]:
            changes = f"{counted(file['changes'], 'change')}, +{file['added']} -{file['removed']}"
            sessions = ", ".join(one["session"] for one in file["changedBy"][:PER_SESSION])
            last = f"last {_when(file.get('lastTs'))} by {event_uri(file['lastSeq'])}"
            lines.append(f"{file['path']}: {changes}, {last}, in sessions {sessions}")
        if found["total"] > len(lines):
            lines.append(f"{len(lines)} of {found['total']} files.")
        return "\n".join(lines)

    def _where(self) -> str:
        return "" if self._projects is None else f" in {', '.join(self._projects)}"


def _project_of(folder: str) -> str:
    return root_of(folder) or project_of_path(folder)


def _masked(text: str) -> str:
    return mask_body(text.encode(errors="surrogatepass")).decode(errors="replace")


def _since(days: int | None) -> int | None:
    return None if days is None else max(time.time_ns() // 1_000_000 - days * DAY, 0)


def _when(ts: int | None) -> str:
    return "" if ts is None else datetime.fromtimestamp(ts / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def _about(row: Object) -> str:
    title = f' "{_excerpt(row["title"])}"' if row.get("title") else ""
    facts = [str(row[key]) for key in ("provider", "status", "project") if row.get(key)]
    return f"session {row['session']}{title} ({', '.join(facts)})"


def _line_of(event: AnyEvent) -> str:
    """Return a line about an event of the main agent; empty if there is nothing to say."""
    said = ""
    if not event.replay and event.agent is None:
        match event:
            case Message():
                said = f"{event.role}: {short(event.text, MOST_TEXT)}"
            case ToolCall():
                said = (
                    f"{tool_name(event.name)}: {preview(event.name, event.input, None, MOST_TEXT) or event.title or ''}"
                )
            case ToolResult() if event.status != "completed":
                said = f"{tool_name(event.name)} {event.status}: {short(error_text(event), MOST_TEXT)}"
            case Turn() if event.state in ("failed", "cancelled"):
                said = f"turn {event.state}"
    return said and f"{event_uri(event.seq or 0)} {said}"


def _event_of(line: bytes) -> AnyEvent | None:
    """Decode an event without its secrets; None for one that this version does not know."""
    try:
        return masked_event(line, mask_secrets)
    except msgspec.ValidationError:
        return None


def _without_own(value: Any) -> Any:
    """Return a payload without what tooltap has added to it, `_happy` and `_raw`."""
    return {key: one for key, one in value.items() if not key.startswith("_")} if isinstance(value, dict) else value


def _excerpt(text: str) -> str:
    """Mask a text that may be cut within a secret."""
    return masked_title(text, mask_secrets)
