"""The client's side of OpenCode's bus: prompts, stops, and answers to permission requests and questions.

A request is `{"POST": "/session/<id>/prompt_async", "body": {…}}`, or `{method, path or url, body}`. Events ask, and
confirm the answers. Requests that are not read here query or configure.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import keep_newest
from tooltap.normalizers.core.writer import take_bodies
from tooltap.normalizers.dialects.opencode.answers import answers_by_question, attachments_of, mcp_name, servers_in
from tooltap.normalizers.dialects.opencode.parts import BusState, OpencodeSessions, read_error
from tooltap.normalizers.dialects.opencode.to_agent import options_of, reply_to
from tooltap.normalizers.wire.values import first_string, record, records
from tooltap.protocol.events import Message

METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
_OF_REQUESTS = frozenset({*METHODS, "method"})
ASKED = 64
"""Maximum number of questions that are remembered."""
SHORT = 1_000
"""Maximum length of a question that is remembered, in characters."""

_SUBJECT = ("action", "always", "metadata", "pattern", "patterns", "permission", "resources", "type")
"""Keys of a permission request that describe its subject."""


def method_and_path(value: Line) -> tuple[str, str] | None:
    """The method and path of a request; None if the object is not a request."""
    if _OF_REQUESTS.isdisjoint(value):
        return None
    method = next((method for method in METHODS if isinstance(value.get(method), str)), None)
    if method is not None:
        return method, _path(value[method])
    if (stated := first_string(value, "method")) is None or stated.upper() not in METHODS:
        return None
    path = first_string(value, "path", "url")
    return (stated.upper(), _path(path)) if path is not None else None


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:  # an address with half a bracket
        return url


class OpencodeClient:
    """Reads the client's requests and the server's replies, and the events about permissions and questions."""

    line = Lines("type")
    post = Lines("path")
    """Readers of requests, by path, with `*` for ids. The methods get the body and the last id."""

    def __init__(self, parser: Parser, state: BusState, sessions: OpencodeSessions) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._permissions = parser.permissions
        self._state = state
        self._sessions = sessions

    def read_request(self, value: Line) -> Skip:
        """Read a line of the client."""
        request = method_and_path(value)
        if request is None:
            return self._parser.unparsed("unknown-type", value)
        method, path = request
        words = [word for word in path.split("/") if word]
        pattern = "/".join("*" if index % 2 else word for index, word in enumerate(words))
        if method != "POST" or not self.post.knows(pattern):
            return "request"
        if words[0] == "session":
            self._sessions.enter(words[1])
        return self.post.read(self, record(value.get("body")), *words[1::2][-1:], kind=pattern)

    def read_reply(self, value: Any) -> Skip:
        """Read a reply of the server: emit a refusal, and remember the MCP servers it names. Events state everything
        else."""
        if isinstance(value, dict):
            failed = isinstance(value.get("name"), str) and isinstance(value.get("data"), dict) and "id" not in value
            if failed or value.get("success") is False:
                text, data = read_error(value)
                self._parser.notice("request-failed", text, "error", data)
                return None
            self._sessions.knows_servers(servers_in(value))
        return "answer"

    @post("mcp")
    def _server_added(self, body: Line, *ids: str) -> Skip:
        if (name := first_string(body, "name")) is not None:
            self._sessions.knows_servers([name])
        return "request"

    # -- prompts and stops ----------------------------------------------------------------------------------------

    @post("session/*/message", "session/*/prompt_async")
    def _prompt_sent(self, body: Line, session: str) -> Skip:
        if body.get("noReply") is True:
            return "request"
        self._sessions.info.prompts += 1
        self._sessions.begin_prompted_turn()
        taken, attachments = take_bodies(self._parser, body.get("parts"))
        parts = records(taken)
        text = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
        files = [part for part in parts if part.get("type") == "file"]
        self._parser.emit(Message, role="user", text=text, attachments=attachments_of(files, attachments))
        return None

    @post("session/*/command")
    def _command(self, body: Line, session: str) -> Skip:
        """A slash command, as the user types it."""
        command = first_string(body, "command")
        if command is None:
            return "request"
        text = f"/{command} {first_string(body, 'arguments') or ''}".rstrip()
        return self._prompt_sent({"parts": [{"type": "text", "text": text}]}, session)

    @post("session/*/abort")
    def _abort(self, body: Line, session: str) -> None:
        self._parser.notice("interrupt", "abort")
        self._sessions.info.outcome = ["cancelled", "abort"]

    # -- permissions and questions --------------------------------------------------------------------------------

    @line("permission.asked", "permission.updated", "permission.v2.asked")
    def _permission_asked(self, properties: Line) -> Skip:
        """Read a permission request, `permission.updated` until 1.1. The properties are the request."""
        permission_id = first_string(properties, "id")
        if permission_id is None:
            return self._parser.unparsed("unknown-type", properties)
        if self._is_known(permission_id):
            return "repeated"
        tool = record(properties.get("tool")) or record(properties.get("source")) or properties
        call_id = first_string(tool, "callID")
        wanted = first_string(properties, "permission", "type", "action")
        self._parser.ensure_turn()
        if call_id is not None and wanted is not None and not self._calls.is_known(call_id):
            name, metadata = mcp_name(wanted, self._parser), record(properties.get("metadata"))
            self._calls.open(call_id, wanted, metadata, raw=properties, name=name, status="pending")
        self._permissions.ask(
            permission_id,
            call_id=call_id,
            options=options_of(properties),
            title=first_string(properties, "title"),
            name=None if call_id is not None else wanted,
            input={key: value for key, value in properties.items() if key in _SUBJECT and value not in (None, {}, [])},
            reply_to=reply_to(properties),
        )
        return None

    @line("permission.replied", "permission.v2.replied")
    @post("permission/*/reply", "session/*/permissions/*")
    def _permission_answered(self, body: Line, permission_id: str | None = None) -> Skip:
        """Read the answer to a permission request. Its keys are `permissionID` and `response` until 1.1."""
        reply = first_string(body, "reply", "response")
        if reply is None:
            return "request"
        permission_id = permission_id or first_string(body, "requestID", "permissionID")
        outcome, message = "denied" if reply == "reject" else "allowed", first_string(body, "message")
        return self._answer(permission_id, outcome, option_id=reply, message=message)

    @line("question.asked")
    def _question_asked(self, properties: Line) -> Skip:
        question_id, questions = first_string(properties, "id"), records(properties.get("questions"))
        if question_id is None or not questions:
            return self._parser.unparsed("unknown-type", properties)
        if self._is_known(question_id):
            return "repeated"
        self._parser.ensure_turn()
        self._state.questions[question_id] = [str(one.get("question"))[:SHORT] for one in questions]
        keep_newest(self._state.questions, ASKED)
        call_id = first_string(record(properties.get("tool")), "callID")
        self._permissions.ask(
            question_id,
            type="question",
            call_id=call_id,
            questions=[one if one.get("custom") is False else {**one, "freeText": True} for one in questions],
            reply_to={"questions": [str(one.get("question")) for one in questions]},
        )
        return None

    @line("question.replied")
    @post("question/*/reply")
    def _question_answered(self, body: Line, question_id: str | None = None) -> Skip:
        question_id = question_id or first_string(body, "requestID")
        questions = self._state.questions.get(question_id or "", [])
        return self._answer(question_id, "answered", answers=answers_by_question(questions, body.get("answers")))

    @line("question.rejected")
    @post("question/*/reject")
    def _question_dismissed(self, body: Line, question_id: str | None = None) -> Skip:
        return self._answer(question_id or first_string(body, "requestID"), "cancelled")

    def _is_known(self, permission_id: str) -> bool:
        """Whether a request is pending or was answered."""
        return self._permissions.is_pending(permission_id) or f"answer {permission_id}" in self._state.emitted

    def _answer(self, permission_id: str | None, outcome: str, **fields: Any) -> Skip:
        """Emit an answer, unless it was emitted before: a request and an event both state it."""
        if permission_id is None:
            return "request"
        if self._sessions.repeats(f"answer {permission_id}"):
            return "repeated"
        self._state.questions.pop(permission_id, None)
        call_id = self._permissions.call_of(permission_id)
        call = self._calls.get(call_id) if call_id is not None else None
        if call is not None:  # requests do not state the session
            self._parser.session, self._parser.agent, self._parser.parent = call.session, call.agent, call.parent
        self._permissions.answer(permission_id, outcome, by="user", **fields)
        return None
