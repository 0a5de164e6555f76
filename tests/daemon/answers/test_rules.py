"""What rules say of a request: in order, a denial first, and nothing that only seems to be allowed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tooltap.daemon.answers.rules import AnswerRule, Decision, decide
from tooltap.daemon.config import ConfigError, load_config

SESSION = {"session": "s", "provider": "claude", "cwd": "/src/shop/api", "project": "/src/shop"}


def rule(answer: str, *commands: str, name: str = "r", **fields: Any) -> AnswerRule:
    return msgspec.convert({"name": name, "answer": answer, "commands": commands, **fields}, AnswerRule)


def asked(command: Any = None, name: str | None = "Bash", **fields: Any) -> dict[str, Any]:
    given = {} if command is None else {"command": command}
    return {"kind": "permission-request", "type": "permission", "name": name, "input": {**given, **fields}}


def said(rules: list[AnswerRule], request: dict[str, Any], **session: Any) -> tuple[str, str]:
    decision = decide(rules, request, {**SESSION, **session})
    return decision.answer, " ".join(one.name for one in decision.rules)


NPM = rule("allow", "npm test", "npm run lint *", name="npm")
GIT = rule("allow", "git status", "git diff *", name="git")
TAIL = rule("allow", "tail *", "head *", name="tail")
RM = rule("deny", "rm", name="rm", message="Move it away instead")
PUSH = rule("ask", "git push *", name="push")
ALL = rule("allow", name="all", tools=["Bash"])


def test_without_rules_a_person_is_asked() -> None:
    assert decide([], asked("npm test"), SESSION) == Decision("ask", ())
    assert load_config(None).answers == ()


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("npm test", ("allow", "npm")),
        ("npm test x", ("ask", "")),
        ("npm test; rm -rf /", ("deny", "rm")),
        ("npm test && git status", ("allow", "npm git")),
        ("npm test && git push", ("ask", "push")),
        ("npm test 2>&1 | tail -20", ("allow", "npm tail")),
        ("npm test | sh", ("ask", "")),
        ("npm test > package.json", ("ask", "")),
        ("npm test $(git status)", ("ask", "")),
        ("X=1 npm test", ("ask", "")),
        ("git diff; npm run lint -- src", ("allow", "npm git")),
        ("git commit -m 'rm it'", ("ask", "")),
    ],
)
def test_commands(command: str, answer: tuple[str, str]) -> None:
    assert said([NPM, GIT, TAIL, PUSH, RM], asked(command)) == answer


def test_a_denial_wins_wherever_it_stands() -> None:
    for rules in ([RM, ALL], [ALL, RM]):
        assert said(rules, asked("sudo rm x")) == ("deny", "rm")
        assert said(rules, asked("echo $(rm x)")) == ("deny", "rm")
        assert said(rules, asked("echo $(date)")) == ("allow", "all")


def test_the_first_rule_decides() -> None:
    assert said([PUSH, ALL], asked("git push -f")) == ("ask", "push")
    assert said([PUSH, ALL], asked("(git push -f)")) == ("ask", "push")
    assert said([ALL, PUSH], asked("git push -f")) == ("allow", "all")


@pytest.mark.parametrize(
    "request_",
    [
        asked("npm test", dangerouslyDisableSandbox=True),
        asked("npm test", sandbox_permissions="require_escalated"),
        asked("npm test", cwd="/tmp/evil"),
        asked("npm test", cwd="/src/shop/../evil"),
        asked("npm test", cwd="/src/shopping"),
        asked("npm test", cwd=5),
        asked("npm test", commands=["npm test", "rm -rf ~; x"]),
        asked("npm test", name="mcp__x__run"),
        asked("npm test", name=None),
        asked(["npm", "test; rm"]),
        asked(5),
        asked(),
        {**asked("npm test"), "type": "question"},
        {**asked("npm test"), "type": "elicitation"},
        {**asked(), "title": "npm test"},
    ],
)
def test_what_is_not_just_the_command_is_left_to_a_person(request_: dict[str, Any]) -> None:
    assert said([NPM], request_) == ("ask", "")


def test_where_and_how_a_command_may_run() -> None:
    """As Claude Code, Codex and OpenCode state it."""
    assert said([NPM], asked("npm test", description="Run rm", timeout=5, cwd="/src/shop/web/")) == ("allow", "npm")
    codex = asked("npm test", cwd="/src/shop", parsed_cmd=[{"type": "unknown", "command": "npm test"}])
    assert said([NPM], codex) == ("allow", "npm")
    opencode = asked(permission="bash", patterns=["npm test"], metadata={"command": "npm test"}, always=["npm *"])
    assert said([NPM], opencode) == ("allow", "npm")
    assert said([NPM], asked(["npm", "test"])) == ("allow", "npm")


def test_input_of_the_call_counts_where_the_request_has_none() -> None:
    request = {**asked(), "input": None}
    assert decide([NPM], request, SESSION, {"command": "npm test", "_raw": {}}).answer == "allow"
    assert decide([NPM], asked("npm publish"), SESSION, {"command": "npm test"}).answer == "ask"
    titled = {**request, "title": "rm -rf x"}
    assert decide([NPM, RM], titled, SESSION).answer == "deny"


def test_tools_agents_and_projects() -> None:
    reads = rule("allow", name="reads", tools=["Read", "Grep"], agents=["claude"], projects=["shop"])
    assert said([reads], asked(name="Read", file_path="/etc/passwd")) == ("allow", "reads")
    assert said([reads], asked(name="Write")) == ("ask", "")
    assert said([reads], asked(name="Read"), provider="codex") == ("ask", "")
    assert said([reads], asked(name="Read"), project="/src/blog") == ("ask", "")
    nothing = rule("deny", name="nothing", agents=["codex"])
    assert said([ALL, nothing], asked("ls"), provider="codex") == ("deny", "nothing")
    assert said([ALL, nothing], asked("ls")) == ("allow", "all")


def test_who_has_answered() -> None:
    assert decide([NPM, TAIL], asked("npm test | tail"), SESSION).by == "rule npm, tail"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([{"name": "a", "answer": "allow"}], "a rule that allows names `tools` or `commands`"),
        ([{"name": "a", "answer": "ask", "message": "x"}], "`message` goes with the answer deny"),
        ([{"name": "a", "answer": "perhaps"}], "invalid enum value 'perhaps'"),
        ([{"answer": "ask"}], "object missing required field `name`"),
        (
            [{"name": "a", "answer": "deny", "commands": ["'x"]}],
            '"\'x" is no pattern of a command: No closing quotation',
        ),
        ([{"name": "a", "answer": "ask", "tool": "Bash"}], "there is no such key"),
        ([{"name": "a", "answer": "ask"}, {"name": "a", "answer": "deny"}], "two rules have the name 'a'"),
    ],
)
def test_wrong_rules(rules: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(None, answers=rules)
    assert str(raised.value).endswith(message)
