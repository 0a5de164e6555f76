"""A page takes from events nothing that display events do not say. What it takes under another name, and what only the
whole event has, is listed here. What is asked of a person, and how it can be answered, is all in the display event of
the request."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
import pytest

from tests.daemon.show.carding import FIXTURES, made, recorded
from tooltap.daemon.show import shown
from tooltap.daemon.show.asking import fields_of
from tooltap.daemon.show.blocks import RenderContext
from tooltap.daemon.show.shown import fragment_of
from tooltap.daemon.show.skins.display import display_of
from tooltap.protocol.display import DisplayPermission
from tooltap.protocol.events import Event, PermissionRequest
from tooltap.protocol.replies import Waiting

FILES = sorted(path.relative_to(FIXTURES).as_posix() for path in FIXTURES.glob("*/*/shell-fails.jsonl"))
CALL = {"callId": "c", "name": "Bash"}
WRITTEN = (
    made("turn", state="completed", endedBy="answer", reason="end_turn", durationMs=7),
    made("turn", state="failed", endedBy="eof", reason="limit", durationMs=7),
    made("message", role="assistant", text="a", messageId="m", block=0),
    made("message", role="user", text="a"),
    made("reasoning", text="a", messageId="m", block=0),
    made("tool-call", **CALL, input={"command": "ls"}, status="running", title="List", preview="ls"),
    made("tool-update", **CALL, input={"command": "ls"}, preview="ls", status="running"),
    made("tool-update", **CALL, progress={"text": "half"}),
    made("tool-update", **CALL, display={"origin": "rewriter", "text": "a"}),
    made("tool-result", **CALL, output={"stdout": "a"}, status="completed", isError=False, durationMs=7, waitMs=70),
    made("permission-request", permissionId="p", type="question", questions=[{"question": "Which?"}], **CALL),
    made("permission-response", permissionId="p", outcome="denied", by="user", message="no", optionId="a", **CALL),
    made("notice", level="error", code="retry", text="again", data={"n": 1}),
    made("unparsed", reason="not-json", text="x", bytes=1),
    made("session", state="started", title="Fix", model="m", mode="plan", cwd="/w", alias="a", tools=["Bash"]),
    made("usage", scope="turn", inputTokens=1, outputTokens=2, costUsd=0.5, contextUsed=7, contextSize=9),
)
SAID = {
    "replay": "history has no display event",
    "hidden": "what a rule hides has no display event",
    "preview": "arg",
    "outcome": "state",
    "model_view": "modelDiffers, of what a card says at this level",
}
"""Keys of events that display events say in another way, of any kind."""
SAID_OF = {
    "message": {"role": "kind"},
    "tool-call": {"title": "arg, where there is no preview"},
    "turn": {"reason": "text, if the turn failed or was cancelled"},
    "unparsed": {"reason": "text", "bytes": "text has what can be shown of it"},
}
ONLY_IN_EVENTS = {
    "tool-call": {"input"},
    "tool-update": {"input"},
    "session": {"tools", "commands", "mcp_servers"},
}
"""What a user interface requests with the `seq` of the display event, or of its call, where it shows that much."""


def taken(event: Event, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the keys that a card of the page takes from an event, at the level at which pages show cards."""
    kind, found = type(event), set[str]()

    def get(self: Any, name: str) -> Any:
        if name in kind.__struct_fields__:
            found.add(name)
        return object.__getattribute__(self, name)

    make: Any = type(kind)
    watched = make(kind.__name__, (kind,), {"__getattribute__": get})
    monkeypatch.setitem(shown._KINDS, watched, shown._KINDS[kind])
    copy = watched(**{name: getattr(event, name) for name in kind.__struct_fields__})
    found.clear()
    fragment_of(copy, RenderContext("summary", str))
    return found


def test_page_takes_nothing_else_from_events(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking: dict[str, set[str]] = defaultdict(set)
    for event in (*WRITTEN, *(one for path in FILES for one in recorded(path))):
        if (display := display_of(event)) is not None:
            kind = str(type(event).__struct_config__.tag)
            said = {*SAID, *SAID_OF.get(kind, ()), *display.__struct_fields__}
            lacking[kind] |= taken(event, monkeypatch) - said

    assert {kind: keys for kind, keys in lacking.items() if keys} == ONLY_IN_EVENTS


ASKING = (
    "claude-stream/claude-code-2.1.330/control-question.jsonl",
    "happier-trace/happier-1-written/claude.jsonl",
    "hooks/tooltap-0.2/questions.jsonl",
    "opencode-bus/opencode-1.18.33/question.jsonl",
)
FORM = {"requestedSchema": {"properties": {"n": {"type": "integer", "title": "How many?"}}, "required": ["n"]}}


@pytest.mark.parametrize("path", [*ASKING, "several", "form"])
def test_questions_of_a_display_event_can_be_answered_as_those_of_the_request(path: str) -> None:
    written = {
        "several": [{"question": "Which?", "multiple": True, "freeText": True, "options": ["Red", "Blue"]}],
        "form": None,
    }
    if path in written:
        asked = {"permissionId": "p", "questions": written[path], "input": FORM if path == "form" else None}
        events: list[Event] = [made("permission-request", type="elicitation", **asked)]
    else:
        events = recorded(path)
    requests = [one for one in events if isinstance(one, PermissionRequest) and one.type != "permission"]

    for event in requests:
        display = display_of(event)
        assert isinstance(display, DisplayPermission)
        waiting = Waiting(session="s", provider="claude", stream="s", seq=1, type=event.type)
        waiting.questions = event.questions
        expected = fields_of(waiting, event.input or {})
        waiting.questions = msgspec.to_builtins(display.questions)
        assert fields_of(waiting, display.input or {}) == expected != []
    assert requests
