"""The `hooks` dialect: questions of agents that reach tooltap through their hooks, and the wording of answers."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.reading import of, outline, read, recording
from tooltap.normalizers.core.answers import CannotWriteError, Chosen, NotOfferedError
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.dialects.tooltap.hooks import remembered
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import PermissionRequest, PermissionResponse
from tooltap.testing import normalize

EVENTS = normalize("hooks", recording("hooks", "questions", "tooltap-0.2"))
RULE = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "make:*"}], "behavior": "allow"}
RULES = [{**RULE, "destination": "localSettings"}]
MODE = [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
QUESTIONS = [
    {"question": "Which database?", "options": [{"label": "SQLite"}, {"label": "Postgres"}]},
    {"question": "Which extras?", "multiSelect": True, "options": [{"label": "Cache"}, {"label": "Search"}]},
]


def asked(agent: str = "claude", *, waits: bool = True, **more: Any) -> dict[str, Any]:
    given = {"session_id": "s", "cwd": "/w", "tool_name": "Bash", "tool_input": {"command": "make"}, **more}
    line = {"type": "hook/asked", "id": "q", "agent": agent, "event": "PermissionRequest", "waits": waits}
    return {**line, "input": given}


def word(line: dict[str, Any], outcome: Any, **chosen: Any) -> Any:
    """Word an answer as the daemon does, and return what the hook prints."""
    normalizer = StreamNormalizer(Context(stream="s"), "hooks")
    outputs = normalizer.feed(orjson.dumps(line), 1)
    [request] = [one for one in outputs if isinstance(one, Produced) and one.kind == "permission-request"]
    event = orjson.loads(request.body)
    given = normalizer.answer(event, Chosen(id="a", outcome=outcome, **chosen))
    assert (given.id, given.answers, given.path) == ("a", "hook:q", None)
    return orjson.loads(given.line)


def decision(line: dict[str, Any], outcome: Any, **chosen: Any) -> Any:
    """Return what Claude Code reads of the answer."""
    output = word(line, outcome, **chosen)
    assert output.keys() == {"hookSpecificOutput"}
    assert output["hookSpecificOutput"].pop("hookEventName") == "PermissionRequest"
    return output["hookSpecificOutput"]["decision"]


def test_each_question_has_a_response() -> None:
    assert [
        (one.outcome, one.option_id, one.answers, one.message, one.by) for one in of(PermissionResponse, EVENTS)
    ] == [
        ("allowed", "always", None, None, "user"),
        ("answered", None, {"Which database?": "Postgres"}, None, "user"),
        ("allowed", None, None, None, "user"),
        ("denied", None, None, "Leave the greeting as it is.", "user"),
        ("allowed", "allow", None, None, "user"),
        ("expired", None, None, None, None),
    ]


def test_question_says_what_is_asked() -> None:
    shell, question, plan, edit, copilot, gemini = of(PermissionRequest, EVENTS)

    assert (shell.name, shell.type, shell.title) == ("Bash", "permission", "Touch a file")
    assert shell.input is not None
    assert shell.input["command"] == "touch made-by-claude && rm README.md"
    assert (question.name, question.type, question.options) == ("AskUserQuestion", "question", None)
    assert [one["question"] for one in question.questions or []] == ["Which database?"]
    assert (plan.name, plan.type) == ("ExitPlanMode", "permission")
    assert (edit.name, copilot.name, gemini.name) == ("Edit", "Bash", "Bash")
    assert gemini.options is None


def test_options_are_those_of_the_dialog() -> None:
    [request] = of(PermissionRequest, read("hooks", asked(permission_suggestions=RULES)))

    assert request.options == [
        {"id": "allow", "name": "Allow", "kind": "allow_once"},
        {
            "id": "always",
            "name": "Always allow",
            "kind": "allow_always",
            "remembers": "allows Bash(make:*) in this project, for you",
        },
        {"id": "deny", "name": "Deny", "kind": "reject_once"},
    ]


@pytest.mark.parametrize(
    ("suggestions", "sentence"),
    [
        (
            [*MODE, {"type": "addDirectories", "directories": ["/x"], "destination": "session"}],
            "sets the mode acceptEdits: files are edited without asking, until the session ends;"
            " adds the folders /x to those of the session, until the session ends",
        ),
        (
            [{**RULE, "rules": [{"toolName": "WebFetch"}], "destination": "userSettings"}],
            "allows every use of WebFetch in all your projects",
        ),
        ([], None),
        ([{**RULE, "destination": "elsewhere"}], None),
        ([{**RULE, "behavior": "deny", "destination": "session"}], None),
        ([{**RULE, "rules": [{"toolName": 7}], "destination": "session"}], None),
        ([{"type": "setMode", "mode": "new", "destination": "session"}], None),
        ([*RULES, {"type": "removeRules"}], None),
    ],
)
def test_what_is_not_understood_is_not_offered(suggestions: list[dict[str, Any]], sentence: str | None) -> None:
    [request] = of(PermissionRequest, read("hooks", asked(permission_suggestions=suggestions)))

    assert remembered(suggestions) == sentence
    assert ("always" in [one["id"] for one in request.options or []]) == (sentence is not None)


def test_decision_is_worded_for_claude() -> None:
    line = asked(permission_suggestions=RULES)

    assert decision(line, "allowed") == {"behavior": "allow"}
    assert decision(line, "allowed", remember=True) == {"behavior": "allow", "updatedPermissions": RULES}
    assert decision(line, "denied", message="Not now") == {"behavior": "deny", "message": "Not now"}
    assert decision(line, "cancelled") == {"behavior": "deny", "interrupt": True}


def test_what_is_not_offered_is_refused() -> None:
    with pytest.raises(NotOfferedError):
        word(asked(), "allowed", remember=True)
    with pytest.raises(NotOfferedError):
        word(asked(), "allowed", option_id="always")
    with pytest.raises(CannotWriteError):
        word(asked("codex"), "cancelled")


def test_answers_are_sent_back_with_the_questions() -> None:
    payload = {"questions": QUESTIONS, "metadata": {"source": "x"}}
    line = asked(tool_name="AskUserQuestion", tool_input=payload)
    answers = {"Which database?": "another one", "Which extras?": ["Cache", "Search"]}

    assert decision(line, "answered", answers=answers) == {
        "behavior": "allow",
        "updatedInput": {**payload, "answers": {"Which database?": "another one", "Which extras?": "Cache, Search"}},
    }


def test_plan_is_sent_back() -> None:
    """Claude Code 2.1.330 ignores a bare `allow` of a plan."""
    line = asked(tool_name="ExitPlanMode", tool_input={"plan": "1. Read"})

    assert decision(line, "allowed") == {"behavior": "allow", "updatedInput": {"plan": "1. Read"}}
    assert decision(line, "denied") == {"behavior": "deny"}


def test_copilot_reads_the_decision_alone() -> None:
    given: dict[str, Any] = {
        "session_id": None,
        "sessionId": "s",
        "tool_name": None,
        "toolName": "bash",
        "toolArgs": '{"command":"ls"}',
    }

    assert word(asked("copilot", **given), "allowed") == {"behavior": "allow"}
    assert word(asked("copilot", **given), "denied", message="No") == {"behavior": "deny", "message": "No"}


def test_hook_that_does_not_wait_offers_nothing() -> None:
    [request] = of(PermissionRequest, read("hooks", asked(waits=False, permission_suggestions=RULES)))

    assert request.options is None


def test_mcp_tool_of_gemini_has_its_name() -> None:
    details = {"type": "mcp", "serverName": "files", "toolName": "read"}
    [request] = of(PermissionRequest, read("hooks", asked("gemini", tool_name=None, details=details)))

    assert request.name == "mcp__files__read"


def test_lines_of_no_open_question_are_skipped() -> None:
    lines = [
        {"type": "hook/answered", "id": "q", "output": {}},
        {"type": "hook/settled", "id": "q", "outcome": "allowed"},
        {"type": "hook/settled", "id": "q", "outcome": "eaten"},
        {"type": "hook/asked", "id": 7},
    ]

    assert outline(read("hooks", *lines)) == ["unparsed", "unparsed"]
    assert outline(read("hooks", asked(), asked())) == ["session", "permission-request", "permission-response"]
