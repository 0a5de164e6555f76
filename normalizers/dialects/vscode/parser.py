"""The `vscode-chat` dialect: chats with Copilot in VS Code, as documents and as logs of their changes."""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState, put
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import after_epoch, first_string, record, records, string, strings, whole
from tooltap.protocol.events import Message

REQUESTS = 1_024
"""Maximum number of requests of a chat that are remembered; the oldest are dropped."""
RUN = 4_096
"""Maximum number of pieces of a text that is held back; then it is emitted as it is."""
_PREFIX = "copilot_"
_PIECES = (None, "markdownContent", "markdownVuln", "inlineReference")
_DRAWN = frozenset(
    [
        "agentDetection",
        "clearToPreviousToolInvocation",
        "codeblockUri",
        "codeCitation",
        "command",
        "confirmation",
        "disabledClaudeHooks",
        "extensions",
        "hook",
        "mcpServersStarting",
        "multiDiffData",
        "notebookEditGroup",
        "prepareToolInvocation",
        "progressMessage",
        "progressTaskSerialized",
        "pullRequest",
        "questionCarousel",
        "reference",
        "textEditGroup",
        "treeData",
        "undoStop",
        "usedContext",
        "workspaceEdit",
    ]
)
"""Parts of an answer that the editor draws, and that say nothing which a call has not."""
_OF_CHAT = frozenset(
    [
        "creationDate",
        "hasPendingEdits",
        "initialLocation",
        "inputState",
        "lastMessageDate",
        "pendingRequests",
        "repoData",
        "responderAvatarIconUri",
        "responderUsername",
        "sessionId",
        "version",
    ]
)
_OF_REQUEST = frozenset(
    [
        "agent",
        "codeCitations",
        "completionTokens",
        "confirmation",
        "contentReferences",
        "editedFileEvents",
        "elapsedMs",
        "followups",
        "isCanceled",
        "isHidden",
        "isSystemInitiated",
        "modeInfo",
        "modelId",
        "promptTokens",
        "responseId",
        "responseMarkdownInfo",
        "responseTimestamp",
        "shouldBeRemovedOnSend",
        "slashCommand",
        "timeSpentWaiting",
        "timestamp",
        "usedContext",
        "variableData",
        "vote",
        "voteDownReason",
    ]
)
"""Fields whose changes concern the editor."""
_OUTCOMES = {1: "completed", 2: "cancelled", 3: "failed"}
"""`modelState` of a request that is over -> outcome of its turn."""
_DENIED = (False, 0)
_OPEN, _COMPLETE, _ANSWERED = 0, 1, 2


class Request(msgspec.Struct, omit_defaults=True):
    done: int = 0
    """Number of parts of its answer that were read, those of `run` aside."""
    run: list[str] = []
    """The pieces of the text that the next parts may go on with, or replace."""
    calls: dict[str, int] = {}
    """Id of a call -> whether it is open, complete without a known result, or answered."""
    is_over: bool = False


class ChatState(SessionState, kw_only=True):
    model: str | None = None
    title: str | None = None
    requests: dict[str, Request] = msgspec.field(default_factory=dict)
    order: list[str] = msgspec.field(default_factory=list)
    """Ids of the chat's requests."""


class VSCodeChat(Parser):
    """Chats of VS Code, `workspaceStorage/<workspace>/chatSessions/<session>.json`, or `.jsonl`.

    Written after VS Code's source (1.132: the schema and the log of its chat model) and public readers of these files,
    without a recording. A request is a turn: a prompt, and the parts of the answer to it. A line of the log is the
    whole chat, or changes a property (`kind` 1), adds items to a list, from the index `i` on if there is one (2), or
    deletes (3) what the path `k` names. Parts may be written again with more in them, so a text is held back until
    another part follows or the request is over.
    """

    dialect = "vscode-chat"
    protocol = default_provider = "vscode"
    DOCUMENTS = True
    STATES_TIMES = True
    SKIPS = frozenset({"client", "partial", "unchanged"})
    part = Lines("kind")
    state_type = ChatState
    state: ChatState

    def read(self, value: Line) -> Skip:
        kind, path = value.get("kind"), value.get("k")
        if kind == 0 or (kind is None and "requests" in value):
            chat = record(value.get("v")) if kind == 0 else value
            skip = self._chat(chat)
        elif isinstance(path, list) and path and kind in (1, 2, 3):
            skip = self._change(kind, path, value)
        else:
            return self.unparsed("unknown-type", value)
        return None if self.items else skip

    def finish(self, reason: str) -> None:
        for request in self.state.requests.values():
            self._flush(request)

    # -- the chat and its changes ---------------------------------------------------------------------------------

    def _chat(self, chat: Line) -> Skip:
        if self.state.started is None:
            self.ts = after_epoch(chat.get("creationDate")) or self.ts
            self.state.title = string(chat.get("customTitle"))
            self.begin_session(chat.get("sessionId"), title=self.state.title)
        else:
            self._title(chat.get("customTitle"))
        self._cut(0, keeps=len(records(chat.get("requests"))))
        for one in records(chat.get("requests")):
            self._request(one)
        return "unchanged"

    def _title(self, title: Any) -> None:
        if isinstance(title, str) and title != self.state.title:
            self.state.title = title
            self.update_session({"title": title})

    def _cut(self, index: int, keeps: int = 0) -> None:
        """Forget the order of requests from this index on. `keeps`: how many follow there."""
        before = len(self.state.order)
        self.state.order = self.state.order[:index]
        if index + keeps < before:
            self.notice("rewound", "requests removed", data={"requests": index + keeps})

    def _change(self, kind: int, path: list[Any], value: Line) -> Skip:
        new = value.get("v")
        match path:
            case ["customTitle"]:
                self._title(new)
                return "unchanged"
            case ["requests"] if kind == 2 and isinstance(new, list):
                if (index := whole(value.get("i"))) is not None:
                    self._cut(max(index, 0), keeps=len(new))
                for one in records(new):
                    self._request(one)
                return "unchanged"
            case ["requests", int(index), str(field), *rest] if 0 <= index < len(self.state.order):
                request = self.state.requests.get(self.state.order[index])
                if request is None:
                    return "unchanged"
                return self._change_request(request, kind, field, rest, value)
            case [str(field), *_] if field in _OF_CHAT:
                return "client"
        return self.unparsed("unknown-type", value)

    def _change_request(self, request: Request, kind: int, field: str, rest: list[Any], value: Line) -> Skip:
        new = value.get("v")
        if field == "response" and kind == 2 and not rest and isinstance(new, list):
            index = whole(value.get("i"))
            self._response(request, records(new), request.done + len(request.run) if index is None else max(index, 0))
            return "partial"
        if field == "response" and kind == 1 and len(rest) == 1 and record(new).get("kind") == _TOOL:
            self._tool(record(new), request)
            return "unchanged"
        if field == "result" and kind == 1 and not rest:
            self._result(request, record(new))
            return "unchanged"
        if field == "modelState" and kind == 1 and not rest:
            self._end(request, _outcome(new))
            return "unchanged"
        return "client" if field in _OF_REQUEST else self.unparsed("unknown-type", value)

    # -- a request ------------------------------------------------------------------------------------------------

    def _request(self, value: Line) -> None:
        state = self.state
        key = (string(value.get("requestId")) or f"#{len(state.order)}")[:200]
        state.order = [*state.order, key][-REQUESTS:]
        request = state.requests.get(key)
        if request is None:
            for older in state.requests.values():
                self._flush(older)
            self.give_up_turns()
            request = Request()
            put(state.requests, key, request, REQUESTS)
            self.ts = after_epoch(value.get("timestamp")) or self.ts
            self._prompt(value)
        elif request.is_over:
            return
        self._model(value.get("modelId"))
        self._response(request, records(value.get("response")), 0)
        result, outcome = record(value.get("result")), _outcome(value.get("modelState"))
        if result:
            self._result(request, result)
            failed = record(result.get("errorDetails"))
            outcome = outcome or ("failed" if failed else "completed")
        self._end(request, "cancelled" if value.get("isCanceled") is True else outcome)

    def _prompt(self, value: Line) -> None:
        message = value.get("message")
        text = string(message) or string(record(message).get("text")) or ""
        self.start_turn()
        if value.get("isSystemInitiated") is True:
            self.notice("reminder", text)
        else:
            self.emit(Message, role="user", text=text)

    def _model(self, model: Any) -> None:
        if isinstance(model, str) and model:
            self.uses_model(model.rpartition("/")[2])

    def _result(self, request: Request, result: Line) -> None:
        """Read the end of the work on a request: the calls as the model made them, and what it saw of the results."""
        self._flush(request)
        metadata = record(result.get("metadata"))
        self._model(metadata.get("resolvedModel"))
        results = record(metadata.get("toolCallResults"))
        for call in [call for one in records(metadata.get("toolCallRounds")) for call in records(one.get("toolCalls"))]:
            call_id, name = string(call.get("id")), string(call.get("name"))
            if call_id is None or name is None:
                self.unparsed("unknown-type", call)
            elif request.calls.get(call_id) != _ANSWERED:
                self._called(request, call_id, name, call, record(results.get(call_id)))
        if message := string(record(result.get("errorDetails")).get("message")):
            self.notice("provider-error", message, "error")

    def _called(self, request: Request, call_id: str, name: str, call: Line, result: Line) -> None:
        given, known = decode_json(call.get("arguments")), self.calls.get(call_id)
        canonical = canonical_name(name.removeprefix(_PREFIX), given, call_id)
        self.ensure_turn()
        if known is None:
            known = self.calls.open(call_id, name, given, raw=call, name=canonical)
        else:
            self.calls.update(known, given, raw=call, raw_name=name, name=canonical)
        request.calls[call_id] = _OPEN
        if result:
            text = "\n".join(part for one in records(result.get("content")) if (part := _text_of(one.get("value"))))
            self.calls.answer(call_id, Answer(text, model=text), raw=result)
            request.calls[call_id] = _ANSWERED

    def _end(self, request: Request, outcome: str | None) -> None:
        if outcome is None or request.is_over:
            return
        request.is_over = True
        self._flush(request)
        for call_id, status in request.calls.items():
            if status == _COMPLETE:
                self.calls.answer(call_id, Answer(None), raw={})
        request.calls = {}
        if self.turn is not None:
            self.end_turn(outcome)

    # -- parts of an answer ---------------------------------------------------------------------------------------

    def _response(self, request: Request, parts: list[Line], first: int) -> None:
        """Read parts of an answer, of which the first one has the index `first` and replaces all from there on."""
        request.run = request.run[: max(0, first - request.done)]
        for index, part in enumerate(parts, first):
            kind = part.get("kind")
            is_drawn = isinstance(kind, str) and kind in _DRAWN
            if index < request.done:
                if kind == _TOOL:
                    self._tool(part, request)
                continue
            if is_drawn or kind in _PIECES:
                request.run.append("" if is_drawn else _piece(part))
                if len(request.run) >= RUN:
                    self._flush(request)
                continue
            self._flush(request)
            request.done = index + 1
            self.ensure_turn()
            self.part.read(self, part, request)

    def _flush(self, request: Request) -> None:
        text = "".join(request.run)
        request.done += len(request.run)
        request.run = []
        if text.strip():
            self.ensure_turn()
            self.emit_text("assistant", text)

    @part("thinking")
    def _thinking(self, part: Line, request: Request) -> Skip:
        value = part.get("value")
        text = value if isinstance(value, str) else "".join(strings(value))
        if text.strip():
            self.emit_text("reasoning", text)
        return None

    @part("warning", "elicitationSerialized", "elicitation")
    def _notice(self, part: Line, request: Request) -> Skip:
        text = _text_of(part.get("content")) or _text_of(part.get("title"))
        self.notice("warning" if part["kind"] == "warning" else "elicitation", text)
        return None

    @part("toolInvocationSerialized", toolId=str)
    def _tool(self, part: Line, request: Request) -> Skip:
        tool, data = string(part.get("toolId")) or "unknown", record(part.get("toolSpecificData"))
        call_id = string(part.get("toolCallId")) or f"{tool}-{len(request.calls)}"
        if request.calls.get(call_id, _OPEN) != _OPEN:
            return "unchanged"
        self.ensure_turn()
        details = record(part.get("resultDetails"))
        given = _input(data, details)
        known = self.calls.get(call_id)
        if known is None:
            name = canonical_name(tool.removeprefix(_PREFIX), given, call_id)
            title = _text_of(part.get("invocationMessage")) or _text_of(part.get("pastTenseMessage"))
            self.calls.open(call_id, tool, given, raw=part, name=name, title=title or None)
        elif given is not None:
            self.calls.update(known, given, raw=part)
        request.calls[call_id] = _OPEN
        if part.get("isComplete") is True:
            answer = _answer(part, data, details)
            request.calls[call_id] = _COMPLETE if answer is None else _ANSWERED
            if answer is not None:
                self.calls.answer(call_id, answer, raw=part)
        return None


_TOOL = "toolInvocationSerialized"


def _text_of(value: Any) -> str:
    """A text, or that of a Markdown object."""
    if isinstance(value, dict):
        value = value.get("value")
    return value if isinstance(value, str) else ""


def _outcome(state: Any) -> str | None:
    """The outcome of a request; None while it goes on."""
    value = whole(record(state).get("value"))
    return None if value is None else _OUTCOMES.get(value)


def _piece(part: Line) -> str:
    """A piece of a text: what is written, or the name of a file that is shown there."""
    if part.get("kind") == "inlineReference":
        reference = record(part.get("inlineReference"))
        place = record(reference.get("uri")) or record(record(reference.get("location")).get("uri")) or reference
        path = first_string(place, "path", "fsPath") or ""
        name = string(part.get("name")) or string(reference.get("name")) or path.rpartition("/")[2]
        return f"`{name}`" if name else ""
    return _text_of(part.get("content")) or _text_of(part.get("value"))


def _input(data: Line, details: Line) -> Any:
    """The input of a call, where the editor stores it with its result."""
    if command := record(data.get("commandLine")):
        return {"command": first_string(command, "userEdited", "toolEdited", "original")}
    if isinstance(data.get("todoList"), list):
        todos = [{"content": one.get("title"), "status": one.get("status")} for one in records(data["todoList"])]
        return {"todos": todos}
    if isinstance(data.get("rawInput"), dict):
        return data["rawInput"]
    return decode_json(details["input"]) if isinstance(details.get("input"), str) else None


def _answer(part: Line, data: Line, details: Line) -> Answer | None:
    """The result of a call that is complete; None if only the end of the request states it."""
    confirmed = part.get("isConfirmed")
    kind = confirmed.get("type") if isinstance(confirmed, dict) else confirmed
    if kind in _DENIED and kind is not None:
        return Answer(None, "denied")
    code, output = record(data.get("terminalCommandState")).get("exitCode"), record(data.get("terminalCommandOutput"))
    if whole(code) is not None or output:
        result = {"stdout": string(output.get("text")) or ""}
        return Answer(result if whole(code) is None else {**result, "exit_code": code})
    printed = details.get("output")
    texts = [printed] if isinstance(printed, str) else [_text_of(one) for one in records(printed) if one.get("isText")]
    text = "\n".join(filter(None, texts))
    if details.get("isError") is True:
        return Answer(None, "failed", text or None)
    return Answer(text) if text else None
