"""`answer`: what is asked of the daemon, the receipt, and the exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, environment, here, sentence
from tests.cli.control.scripted import PERMISSION, QUESTION, RECEIPT, Script, scripted
from tests.cli.screen import Screen, started

CLOCK = re.compile(r"\d\d:\d\d:\d\d")


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    with scripted(tmp_path) as one:
        yield one


def answer(script: Script, *words: object, code: int = 0) -> str:
    finished = here("answer", "--socket", script.path, *words)
    assert finished.returncode == code, finished
    return finished.stdout.decode()


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["--allow"], {"outcome": "allowed"}),
        (["--deny"], {"outcome": "denied"}),
        (["--deny", "--message", "not on Friday"], {"outcome": "denied", "message": "not on Friday"}),
        (["--always"], {"outcome": "allowed", "remember": True}),
        (["--deny", "--always"], {"outcome": "denied", "remember": True}),
        (["--option", "ever"], {"outcome": "allowed", "optionId": "ever"}),
        (["--option", "no"], {"outcome": "denied", "optionId": "no"}),
        (["--deny", "--option", "yes"], {"outcome": "denied", "optionId": "yes"}),
    ],
)
@pytest.mark.parametrize("wanted", ["p1", "0a-shop", "0a"])
def test_permission(script: Script, words: list[str], fields: dict[str, Any], wanted: str) -> None:
    answer(script, wanted, *words)
    assert script.only("answer") == {"permissionId": "p1", "stream": "s", **fields}
    assert next(one["by"] for one in script.asked if one["op"] == "answer")


@pytest.mark.parametrize(
    ("words", "answers"),
    [
        (["db=Postgres"], {"db": "Postgres"}),
        (["1=Postgres", "2=Cart"], {"db": "Postgres", "1=1, or which parts?": "Cart"}),
        (["Which database?=a=b"], {"db": "a=b"}),
        (["1=1, or which parts?=Cart", "2=Stock"], {"1=1, or which parts?": ["Cart", "Stock"]}),
        (["other=x"], {"other": "x"}),
    ],
    ids=["id", "numbers", "text", "text with a sign", "unknown"],
)
def test_question(script: Script, words: list[str], answers: dict[str, Any]) -> None:
    """The daemon says what is not offered."""
    answer(script, "q1", *(part for word in words for part in ("--answer", word)))
    fields = {"permissionId": "q1", "stream": "t", "outcome": "answered", "answers": answers}
    assert script.only("answer") == fields


def test_receipt(script: Script) -> None:
    script.results["answer"] = {**RECEIPT, "remembers": "every make"}
    lines = answer(script, "p1", "--always").splitlines()
    assert [CLOCK.sub("TIME", line) for line in lines] == [
        "allowed: Bash make deploy",
        "from now on: every make",
        "journaled at TIME, by alice in the terminal",
        "delivered",
    ]
    assert json.loads(answer(script, "p1", "--allow", "--json")) == script.results["answer"]


def test_not_delivered(script: Script) -> None:
    script.results["answer"] = {**RECEIPT, "delivered": False}
    finished = here("answer", "--socket", script.path, "p1", "--allow")
    assert finished.returncode == 4
    assert sentence(finished) == "not delivered yet: the agent gets it when its tap is connected again"


def test_loser_hears_who_was_first(script: Script) -> None:
    """Whether the question is still listed or not."""
    message = "bob in the browser answered 3 s ago: denied"
    script.errors["answer"] = "already-answered", message
    for wanted in ("p1", "p0"):
        finished = here("answer", "--socket", script.path, wanted, "--allow")
        assert (finished.returncode, sentence(finished)) == (3, message)
    assert script.asked[-1]["permissionId"] == "p0"


def test_refused(script: Script) -> None:
    script.errors["answer"] = "not-offered", "there is no option 'x'"
    finished = here("answer", "--socket", script.path, "p1", "--option", "x")
    assert (finished.returncode, sentence(finished)) == (1, "there is no option 'x'")


def event(**fields: Any) -> dict[str, Any]:
    return {"seq": 7, "stream": "s", **fields}


ACCEPTED = event(kind="permission-response", permissionId="p1", outcome="allowed")
OTHER = event(kind="permission-response", permissionId="p9", outcome="denied")
DELIVERED = event(kind="notice", code="answer-delivered", text="", data={"permissionId": "p1"})
FAILED = event(kind="notice", code="answer-failed", text="the stream ended", data={"permissionId": "p1"})


def test_accepted(script: Script) -> None:
    script.results["answer"] = {**RECEIPT, "delivered": False}
    script.events = [event(kind="notice", code="retry", text=""), OTHER, DELIVERED, ACCEPTED]
    assert answer(script, "p1", "--allow", "--accepted", 60).splitlines()[2:] == [
        "delivered",
        "accepted: the agent shows allowed",
    ]
    assert json.loads(answer(script, "p1", "--allow", "--accepted", 60, "--json"))["accepted"] == "allowed"
    frame = next(one for one in script.asked if one["op"] == "subscribe")
    assert (frame["after"], frame["filter"]["stream"]) == (3, ["s"])


def test_not_accepted_in_time(script: Script) -> None:
    script.events = [OTHER, DELIVERED]
    assert answer(script, "p1", "--allow", "--accepted", 0.2, code=4).splitlines()[2:] == ["delivered"]


def test_answer_that_failed(script: Script) -> None:
    script.events = [FAILED]
    finished = here("answer", "--socket", script.path, "p1", "--allow", "--accepted", 60)
    assert finished.returncode == 1
    assert sentence(finished) == "the answer did not reach the agent: the stream ended"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["p1"],
        ["--allow"],
        ["p1", "--allow", "--deny"],
        ["q1", "--answer", "db=x", "--allow"],
        ["p1", "--allow", "--message", "x"],
        ["q1", "--answer", "Postgres"],
        ["p1", "--json"],
    ],
)
def test_wrong_usage(script: Script, words: list[str]) -> None:
    answer(script, *words, code=2)
    assert all(one["op"] != "answer" for one in script.asked)


def test_session_with_several_questions_or_none(script: Script) -> None:
    script.results["waiting"] = {"waiting": [PERMISSION, {**PERMISSION, "permissionId": "p2"}], "complete": True}
    several = here("answer", "--socket", script.path, "0a", "--allow")
    assert sentence(several) == "several questions wait, so name one by its id: p1 of 0a-shop, p2 of 0a-shop"
    none = here("answer", "--socket", script.path, "0b", "--allow")
    assert sentence(none) == "the session 0b-blog waits for no answer"


# -- on a terminal ---------------------------------------------------------------------------------------------------


def at_terminal(script: Script, *words: str, typed: tuple[tuple[str, str], ...]) -> tuple[int, list[str]]:
    """Type each text where the terminal shows the words before it; return the exit code and the lines."""
    command = [*COMMAND, "answer", "--socket", str(script.path), *words]
    with started(command, environment(TERM="xterm", NO_COLOR="1"), size=(40, 120)) as screen:
        for prompt, text in typed:
            until_last(screen, prompt)
            screen.type(f"{text}\n".encode())
        code = screen.end()
    return code, [line.rstrip() for line in screen.shown.decode().replace("\r", "").splitlines()]


def until_last(screen: Screen, prompt: str) -> None:
    before = screen.shown
    screen.shown = b""
    screen.until(prompt.encode())
    screen.shown = before + screen.shown


def test_what_waits_is_shown_in_full_and_asked_for(script: Script) -> None:
    which, choice = "Which one:", "leave it:"
    code, lines = at_terminal(script, typed=((which, "1"), (choice, "2")))
    assert code == 0
    assert lines[:9] == [
        "  1  Bash make deploy  (claude · shop)",
        "  2  Which database? 1=1, or which parts?  (codex)",
        "Which one: 1",
        "claude · shop: permission Bash",
        "  │ command:",
        "  │ make deploy",
        "  │   1  deny: x",
        "  1  allow: Allow",
        "  2  allow: Always (every make)",
    ]
    assert script.only("answer") == {"permissionId": "p1", "stream": "s", "outcome": "allowed", "optionId": "ever"}


def test_deny_and_say_why(script: Script) -> None:
    at_terminal(script, "p1", typed=(("leave it:", "3"), ("no reason):", "too late")))
    fields = {"outcome": "denied", "optionId": "no", "message": "too late"}
    assert script.only("answer") == {"permissionId": "p1", "stream": "s", **fields}


def test_questions_are_asked_one_after_the_other(script: Script) -> None:
    at_terminal(
        script, "q1", typed=(("Number (Enter: leave it):", "2"), ("with commas (Enter: leave it):", "1, Stock"))
    )
    answers = {"db": "SQLite", "1=1, or which parts?": ["Cart", "Stock"]}
    assert script.only("answer") == {"permissionId": "q1", "stream": "t", "outcome": "answered", "answers": answers}


def test_question_whose_answer_is_withheld_can_be_denied(script: Script) -> None:
    script.results["waiting"] = {"waiting": [{**QUESTION, "withheld": "it is masked"}], "complete": True}
    lines = at_terminal(script, typed=(("leave it:", "1"), ("no reason):", "")))[1]
    assert [one for one in lines if one.strip()][1:3] == ["tooltap: it is masked", "  1  deny: Deny"]
    assert script.only("answer") == {"permissionId": "q1", "stream": "t", "outcome": "denied"}


def test_what_is_left_alone(script: Script) -> None:
    assert at_terminal(script, "p1", typed=(("leave it:", "0"),))[0] == 0
    script.results["waiting"] = {
        "waiting": [{**QUESTION, "answerable": False, "whyNot": "only a file"}],
        "complete": True,
    }
    assert at_terminal(script, typed=())[1] == ["tooltap: codex: only a file"]
    script.results["waiting"] = {"waiting": [], "complete": True}
    assert at_terminal(script, typed=())[1] == ["tooltap: no session waits for you"]
    assert all(one["op"] != "answer" for one in script.asked)
