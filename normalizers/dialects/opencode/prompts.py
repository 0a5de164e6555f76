"""What users say on OpenCode's bus: a prompt is sent in a request, and comes back as a message; it is told once."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.dialects.opencode.sessions import Sessions
from tooltap.normalizers.dialects.opencode.state import Msg, text_of
from tooltap.normalizers.dialects.opencode.texts import TextParts
from tooltap.normalizers.dialects.opencode.tools import attachments_of
from tooltap.normalizers.tools.payload import objects
from tooltap.protocol.events import Message

__all__ = ["Prompts"]


class Prompts:
    def __init__(self, parser: Parser, sessions: Sessions, texts: TextParts) -> None:
        self._parser = parser
        self._sessions = sessions
        self._texts = texts

    def sent(self, parts: Any) -> str:
        """A request with a prompt: it begins a turn."""
        parser = self._parser
        self._sessions.info.prompts += 1
        self._begin()
        bodies = Bodies(parser)
        given = objects(bodies.take(parts))
        text = "\n".join(part["text"] for part in given if isinstance(part.get("text"), str))
        attachments = attachments_of([part for part in given if part.get("type") == "file"], bodies)
        parser.emit(Message, role="user", text=text, attachments=attachments)
        return WITH_EVENTS

    def came_back(self, part: Msg) -> str:
        """A part of a user's message; the first one begins a turn, unless the request was seen."""
        if part.get("synthetic") is True or part.get("ignored") is True:
            return skip("prompt-context")
        message = self._texts.message(text_of(part, "messageID") or "")
        if message.echo is None:
            info = self._sessions.info
            message.echo = info.prompts > 0
            if message.echo:
                info.prompts -= 1
            else:
                self._begin()
        if message.echo:
            return skip("echo")
        if isinstance(part.get("text"), str):
            return self._texts.whole(part, "user")
        return self._texts.file(part, "user")

    def _begin(self) -> None:
        """A subagent's prompt comes from the agent: its work belongs to the turn of the session."""
        if self._parser.agent is None:
            self._sessions.info.outcome = []
            self._parser.start_turn()
