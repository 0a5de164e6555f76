"""Pi's RPC mode, `pi --mode rpc`: commands of the client, the agent's responses, and dialogs of extensions.

Learned from Pi 0.73, whose documentation has the commands that no recording shows. Everything else in this mode is what
`pi --mode json` prints. Prompts come back as messages of the user when they reach the model, perhaps after templates
were expanded; a command's own text is shown only if the agent refuses it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.bounded import is_short, put
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState
from tooltap.normalizers.wire.values import dollars, record, string, whole
from tooltap.protocol.events import Message, Usage

MANY_COMMANDS = 256
"""Commands whose texts are remembered until the response."""

_TEXTS = {
    "prompt": "message",
    "steer": "message",
    "follow_up": "message",
    "bash": "command",
    "set_session_name": "name",
}
"""Command -> the key of the text that its response is about."""
COMMANDS = frozenset(
    {"abort", "abort_bash", "abort_retry", "clone", "compact", "cycle_model", "cycle_thinking_level", "export_html"}
    | {"fork", "get_available_models", "get_commands", "get_fork_messages", "get_last_assistant_text", "get_messages"}
    | {"get_session_stats", "get_state", "new_session", "set_auto_compaction", "set_auto_retry", "set_follow_up_mode"}
    | {"set_model", "set_steering_mode", "set_thinking_level", "switch_session"}
    | _TEXTS.keys()
)
_PROMPTS = ("prompt", "steer", "follow_up")
_LEVELS = {"warning": "warning", "error": "error"}
_DIALOGS = ("select", "confirm", "input", "editor")
"""Methods of extensions that wait for an answer; the others change what a client shows."""


class PiCommandsState(SessionState, kw_only=True):
    model: str | None = None
    title: str | None = None
    texts_of: dict[str, str] = msgspec.field(default_factory=dict)
    """Id of a command -> its text, until the response."""


class PiCommands(Parser):
    SKIPS = frozenset(
        {
            "command",  # of the client
            "display",  # an extension changes what the client shows
            "response",  # to a command that is about nothing the agent does
            "unchanged",
        }
    )
    line = Lines("type")
    response = Lines("command")
    """Responses to commands that succeeded. The methods get the response and its data."""
    state_type = PiCommandsState
    state: PiCommandsState

    # -- commands -----------------------------------------------------------------------------------------------

    @line(*COMMANDS - {"abort"})
    def _command(self, value: Line) -> Skip:
        text = value.get(_TEXTS.get(value["type"], ""))
        command_id = value.get("id")
        if is_short(text) and is_short(command_id):
            put(self.state.texts_of, command_id, text, MANY_COMMANDS)
        return "command"

    @line("abort")
    def _abort(self, value: Line) -> None:
        self.notice("interrupt", "The client aborted the turn.")

    @line.otherwise
    def _unknown(self, value: Line) -> Skip:
        if self.direction == "in" and isinstance(value.get("type"), str):
            return "command"
        return self.unparsed("unknown-type", value)

    # -- responses ----------------------------------------------------------------------------------------------

    @line("response", command=str)
    def _response(self, value: Line) -> Skip:
        command = value["command"]
        command_id = value.get("id")
        text = self.state.texts_of.pop(command_id, None) if isinstance(command_id, str) else None
        if value.get("success") is False:
            if command in _PROMPTS and text:
                self.emit(Message, role="user", text=text)
            self.notice("command-failed", string(value.get("error")), "error", {"command": command})
            return None
        if self.response.knows(command):
            return self.response.read(self, value, record(value.get("data")), text)
        return "response"

    @response("get_state")
    def _state(self, value: Line, data: Line, text: str | None) -> Skip:
        session, model = string(data.get("sessionId")), string(record(data.get("model")).get("id"))
        if session is not None and session != self.state.started:
            self.state.model, self.state.title = model, string(data.get("sessionName"))
            self.begin_session(session, model=model, title=self.state.title)
            return None
        self.uses_model(model)
        self.retitle(string(data.get("sessionName")))
        return None if self.items else "unchanged"

    @response("get_session_stats")
    def _statistics(self, value: Line, data: Line, text: str | None) -> Skip:
        """`input` excludes tokens read from and written to the cache."""
        tokens, context = record(data.get("tokens")), record(data.get("contextUsage"))
        fresh, read, written = (whole(tokens.get(key)) for key in ("input", "cacheRead", "cacheWrite"))
        figures = {
            "input_tokens": None if fresh is None else fresh + (read or 0) + (written or 0),
            "output_tokens": whole(tokens.get("output")),
            "cache_read_tokens": read,
            "cache_write_tokens": written,
            "cost_usd": dollars(data.get("cost")),
            "context_used": whole(context.get("tokens")),
            "context_size": whole(context.get("contextWindow")),
        }
        if not any(figures.values()):
            return "unchanged"
        self.emit(Usage, scope="session", turn=None, **figures)
        return None

    @response("set_model", "cycle_model")
    def _model(self, value: Line, data: Line, text: str | None) -> Skip:
        model = record(data.get("model")) or data
        return None if self.uses_model(string(model.get("id"))) else "unchanged"

    @response("set_session_name")
    def _named(self, value: Line, data: Line, text: str | None) -> Skip:
        return self.retitle(text)

    @response("bash")
    def _user_command(self, value: Line, data: Line, text: str | None) -> None:
        """The user's own shell command; no message of the history shows it."""
        self.notice("bashExecution", text or string(data.get("output")), data=data)

    def retitle(self, title: str | None) -> Skip:
        if title is None or title == self.state.title:
            return "unchanged"
        self.state.title = title
        return self.update_session({"title": title})

    # -- extensions ---------------------------------------------------------------------------------------------

    @line("extension_ui_request", id=str)
    def _dialog(self, value: Line) -> Skip:
        method, title, message = value.get("method"), string(value.get("title")), string(value.get("message"))
        if method == "notify":
            self.notice("extension", message, _LEVELS.get(str(value.get("notifyType")), "info"))
            return None
        if method not in _DIALOGS:
            return "display"
        question: dict[str, Any] = {"question": ": ".join(filter(None, (title, message)))}
        choices = value.get("options")
        names = [one for one in choices if isinstance(one, str)] if isinstance(choices, list) else []
        if names:
            question["options"] = [{"label": name} for name in names]
        self.permissions.ask(value["id"], type="question", title=title, questions=[question])
        return None

    @line("extension_ui_response", id=str)
    def _dialog_answered(self, value: Line) -> None:
        if value.get("cancelled") is True:
            self.permissions.answer(value["id"], "cancelled")
            return
        answers: Line = {key: value[key] for key in ("value", "confirmed") if key in value}
        self.permissions.answer(value["id"], "answered", answers=answers or None)

    @line("extension_error")
    def _extension_error(self, value: Line) -> None:
        data = {key: value[key] for key in ("extensionPath", "event") if string(value.get(key))}
        self.notice("extension", string(value.get("error")), "error", data or None)
