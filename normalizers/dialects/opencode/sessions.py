"""The sessions of OpenCode's bus: one connection shows all sessions of a directory, and those of subagents."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import TextBuffer, keep_newest, learn
from tooltap.normalizers.dialects.opencode.parts import model_name, read_usage
from tooltap.normalizers.dialects.opencode.state import MESSAGES, BusState, OpencodeSession
from tooltap.normalizers.wire.values import first_string, record, records
from tooltap.protocol.events import SessionEvent, Usage

SESSIONS = 256
SERVERS = 64


class OpencodeSessions:
    """Emits into the session that a line belongs to. A subagent's session is part of its root session."""

    def __init__(self, parser: Parser, state: BusState) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._state = state

    @property
    def info(self) -> OpencodeSession:
        """The session that the line belongs to: the subagent's own, if it belongs to one."""
        return self._info(self._parser.agent or self._parser.session)

    def _info(self, session_id: str) -> OpencodeSession:
        sessions = self._state.sessions
        info: OpencodeSession | None = sessions.pop(session_id, None)
        if info is None:
            info = OpencodeSession()
        sessions[session_id] = info
        if len(sessions) > SESSIONS:
            keep_newest(sessions, SESSIONS)
        return info

    def enter(self, session_id: str | None) -> None:
        """Set the line's scope."""
        if session_id is None:
            return
        info, state = self._info(session_id), self._state
        if info.root is not None:
            self._parser.set_session(info.root or session_id)
            self._parser.agent, self._parser.parent = session_id, info.call
        elif session_id != state.session:
            self._parser.set_session(session_id)
        else:
            self._parser.session = session_id
        state.cwd = info.cwd

    def adopt(self, described: Line) -> None:
        """Remember that a session belongs to another one, if it states so."""
        child, owner = first_string(described, "id"), first_string(described, "parentID")
        if child and owner and child != owner:
            info = self._info(child)
            info.root = info.root or self._info(owner).root or owner

    def spawned(self, call_id: str, child: str) -> None:
        """Remember the session of the subagent that a call spawned."""
        if child != (self._parser.agent or self._parser.session):
            info = self._info(child)
            info.root, info.call = self._parser.session, call_id

    def begin_prompted_turn(self) -> None:
        """Start the turn of a prompt. A subagent's prompt comes from the agent, and does not start one."""
        if self._parser.agent is None:
            self.info.outcome = []
            self._parser.start_turn()

    def knows_servers(self, names: list[str]) -> None:
        """Remember MCP servers that the stream named: their tools are called `<server>_<tool>`."""
        servers = self._state.servers
        servers += [name for name in names if name and name not in servers]
        del servers[:-SERVERS]

    def repeats(self, event_id: str | None) -> bool:
        """Whether an event with this id was emitted before; it counts as emitted from now on."""
        if event_id is None or event_id in self._state.emitted:
            return event_id is not None
        self._state.emitted[event_id] = None
        keep_newest(self._state.emitted, MESSAGES)
        return False

    def describe(self, session: Line, *, starts: bool) -> Skip:
        """Emit what is new of a session, which is sent whole."""
        info = self.info
        new = learn(
            info,
            cwd=first_string(session, "directory"),
            title=first_string(session, "title"),
            mode=first_string(session, "agent"),
            model=model_name(record(session.get("model"))),
            agent_version=first_string(session, "version"),
        )
        self._state.cwd = info.cwd
        if self._parser.agent is not None:
            return "subagent"
        info.started = info.started or starts
        if starts or new:
            self._parser.emit(SessionEvent, state="started" if starts else "updated", **new)
        used = read_usage(session, apart=self._state.reasoning_apart)  # like the steps, it may exclude the reasoning
        if used is None or (usage := list(used.values())) == info.usage:
            return None if starts or new else "unchanged"
        info.usage = usage
        self._parser.emit(Usage, scope="session", **used)
        return None

    def show_diff(self, files: list[Any]) -> Skip:
        """Remember the turn's diff so far, which is sent again when the turn is over."""
        info = self.info
        patches = [file["patch"] for file in records(files) if isinstance(file.get("patch"), str)]
        diff = "".join(patch if patch.endswith("\n") else f"{patch}\n" for patch in patches)
        digest = crc32(diff.encode())
        if not diff:
            info.diff, info.diff_digest = None, 0
        if not diff or digest == info.diff_digest:
            return "unchanged"
        info.diff, info.diff_digest = TextBuffer(), digest
        info.diff.append(diff, self._parser, "text/x-diff")
        if self._parser.turn is None:
            self.emit_diff()
        return None

    def emit_diff(self) -> None:
        """Emit the turn's diff."""
        info = self.info
        diff, info.diff = info.diff, None
        if diff is None or not diff.chars:
            return
        call_id, value = self.synthetic_id("diff"), {"unified_diff": diff.head}
        outputs = diff.outputs("/input/unified_diff", "text/x-diff")
        self._calls.open(call_id, "diff", value, raw=value, name="Diff", synthetic=True, outputs=outputs)
        self._calls.answer(call_id, Answer(), raw=None, synthetic=True)

    def synthetic_id(self, kind: str) -> str:
        """The id of a call that has none on the wire: `plan-1`, `plan-2`, …"""
        counts = self._state.synthetic_counts
        counts[kind] = counts.get(kind, 0) + 1
        return f"{kind}-{counts[kind]}"
