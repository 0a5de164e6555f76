"""Sessions on OpenCode's event stream: one connection shows all of a directory, and those of subagents."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.dialects.opencode.state import BusState, Msg, SessionInfo, keep_newest, object_of, text_of
from tooltap.normalizers.dialects.opencode.usage import tokens_used
from tooltap.protocol.events import SessionEvent, Usage

__all__ = ["Sessions"]

SESSIONS = 256
SHORT = 4_096
"""Characters of a title or a path that is worth remembering."""


class Sessions:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._state: BusState = parser.state

    @property
    def info(self) -> SessionInfo:
        """What is known of the session the line belongs to: the subagent's own, if it is one's."""
        return self._info(self._parser.agent or self._parser.session)

    def _info(self, session_id: str) -> SessionInfo:
        sessions = self._state.sessions
        sessions[session_id] = sessions.pop(session_id) if session_id in sessions else SessionInfo()
        keep_newest(sessions, SESSIONS)
        return sessions[session_id]

    def enter(self, session_id: str | None) -> None:
        """Set the line's scope: a subagent's session is part of its root."""
        if session_id is None:
            return
        parser = self._parser
        info = self._info(session_id)
        parser.set_session(info.root or session_id)
        if info.root is not None:
            parser.agent, parser.parent = session_id, info.call
        self._state.cwd = info.cwd

    def spawned(self, call_id: str, child: str) -> None:
        """A call says which session its subagent has."""
        own = self._parser.agent or self._parser.session
        if child == own:
            return
        info = self._info(child)
        info.root, info.call = self._parser.session, call_id

    # -- what is said of a session ------------------------------------------------------------------------------------

    def adopt(self, described: Msg) -> None:
        """A session that says which one it belongs to is a subagent's."""
        child, owner = text_of(described, "id"), text_of(described, "parentID")
        if child is None or owner is None or child == owner:
            return
        info = self._info(child)
        if info.root is None:
            info.root = self._info(owner).root or owner

    def described(self, described: Msg, state: str) -> str:
        """`session.created` and `session.updated`: the whole session, of which only what is new counts."""
        parser, info = self._parser, self.info
        new = self._new(
            info,
            cwd=text_of(described, "directory"),
            title=text_of(described, "title"),
            mode=text_of(described, "agent"),
            model=_model(object_of(described, "model")),
            agent_version=text_of(described, "version"),
        )
        self._state.cwd = info.cwd
        if parser.agent is not None:
            return skip("subagent")
        starts = state == "started" and not info.started
        info.started = info.started or starts
        if starts or new:
            parser.emit(SessionEvent, state="started" if starts else "updated", **new)
        used = self._used(info, described)
        return WITH_EVENTS if starts or new or used else skip("unchanged")

    def ended(self) -> str:
        if self._parser.agent is not None:
            return skip("subagent")
        self._parser.emit(SessionEvent, state="ended")
        return WITH_EVENTS

    @staticmethod
    def _new(info: SessionInfo, **fields: str | None) -> dict[str, str]:
        new = {
            key: value
            for key, value in fields.items()
            if value is not None and len(value) <= SHORT and value != getattr(info, key)
        }
        for key, value in new.items():
            setattr(info, key, value)
        return new

    def _used(self, info: SessionInfo, described: Msg) -> bool:
        """The session's total so far. It is built like its steps, which may say whether reasoning is counted apart."""
        used = tokens_used(described, apart=self._state.reasoning_apart)
        if used is None:
            return False
        figures = list(used.values())
        if figures == info.usage:
            return False
        info.usage = figures
        self._parser.emit(Usage, scope="session", **used)
        return True


def _model(model: Msg) -> str | None:
    """As OpenCode's own options name it: `<provider>/<model>`."""
    names: list[Any] = [text_of(model, "providerID"), text_of(model, "id", "modelID")]
    return "/".join(name for name in names if name) or None
