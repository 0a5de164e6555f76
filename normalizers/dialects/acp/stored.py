"""The `acp-stored` dialect: a stored session of any ACP agent, as the agent repeats it when it loads the session."""

from __future__ import annotations

from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.dialects.acp.parser import Acp
from tooltap.normalizers.dialects.acp.sessions import AcpState, provider_name
from tooltap.normalizers.wire.values import record, string
from tooltap.protocol.events import SessionEvent

_PROMPTS = ("user_message", "user_message_chunk")
_ANSWERS = ("agent_message", "agent_message_chunk")
_INTERRUPT = "[Request interrupted by user"
"""Beginning of what Claude Agent 0.101 repeats in place of a prompt when the user has interrupted the turn."""


class AcpStoredState(AcpState, kw_only=True):
    prompting: bool = False
    """The latest update is a part of a prompt."""
    prompt: str | None = None
    """Id of the message that this prompt is."""
    answering: bool = False
    """The latest update is a part of an answer."""


class AcpStored(Acp):
    """Lines that `daemon/taps/acp_store.py` makes: first one that describes the agent and the session, then the
    parameters of each `session/update` that repeats the history.

    Learned from OpenCode 1.18.33. Nothing states where a turn ends, so the next prompt ends it.
    """

    dialect = "acp-stored"
    STATES_END = INTERRUPT_CANCELS = False
    state_type = AcpStoredState
    state: AcpStoredState
    word_answer, word_prompt, word_interrupt = Parser.word_answer, Parser.word_prompt, Parser.word_interrupt

    def finish(self, reason: str) -> None:
        """End a turn whose answer is the end of the history: a stored text is whole."""
        turn = self.sessions.info.own_turn
        if self.state.answering and turn is not None:
            self.sessions.end_running_turn("completed", turn, ended_by="answer")

    def read(self, value: Line) -> Skip:
        if value.get("acp") == "update":
            return self._repeated(record(value.get("params")), value)
        if value.get("acp") == "session":
            return self._described_session(value)
        return self.unparsed("unknown-type", value)

    def _described_session(self, value: Line) -> Skip:
        agent, session = record(value.get("agent")), record(value.get("session"))
        if name := string(agent.get("name")):
            self.set_provider(provider_name(name))
        self.state.agent_version = version = string(agent.get("version"))
        self.sessions.enter(session.get("sessionId"))
        info = self.sessions.info
        info.cwd = self.state.cwd = string(session.get("cwd"))
        info.title = string(session.get("title"))
        self.emit(SessionEvent, state="started", cwd=info.cwd, title=info.title, agent_version=version)
        return None

    def _repeated(self, params: Line, line: Line) -> Skip:
        self.sessions.enter(params.get("sessionId"))
        update = record(params.get("update"))
        is_prompt = update.get("sessionUpdate") in _PROMPTS
        text = string(record(update.get("content")).get("text")) or ""
        if is_prompt and self.provider == "claude" and text.startswith(_INTERRUPT):
            return self._interrupted(text)
        self.state.answering = update.get("sessionUpdate") in _ANSWERS
        message = string(update.get("messageId")) if is_prompt else None
        begins = is_prompt and not (self.state.prompting and message == self.state.prompt)
        self.state.prompting, self.state.prompt = is_prompt, message
        if begins and (turn := self.sessions.info.own_turn) is not None:
            self.sessions.end_running_turn("completed", turn, synthetic=True)
        return self.read_update(update, line)

    def _interrupted(self, text: str) -> Skip:
        self.state.answering = self.state.prompting = False
        self.notice("interrupt", text)
        if (turn := self.sessions.info.own_turn) is not None:
            self.sessions.end_running_turn("cancelled", turn, reason="interrupted")
        return None
