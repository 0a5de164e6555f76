"""`send` and `interrupt`: what is asked of the daemon, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here, sentence
from tests.cli.control.scripted import Script, scripted


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    with scripted(tmp_path) as one:
        yield one


def test_prompt(script: Script) -> None:
    finished = here("send", "--socket", script.path, "0a", "Use\nPostgres", "--key", "k")
    assert (finished.returncode, finished.stdout) == (0, b"delivered\n")
    assert script.only("send") == {"session": "0a-shop", "text": "Use\nPostgres", "key": "k"}


def test_prompt_on_standard_input(script: Script) -> None:
    assert here("send", "--socket", script.path, "0a", "-", stdin="Ünï\n".encode()).returncode == 0
    assert script.only("send") == {"session": "0a-shop", "text": "Ünï\n"}


def test_interrupt(script: Script) -> None:
    finished = here("interrupt", "--socket", script.path, "0a", "--json")
    assert json.loads(finished.stdout) == script.results["interrupt"]
    assert script.only("interrupt") == {"session": "0a-shop"}


def notice(code: str, sent: str = "i", **data: str) -> dict[str, Any]:
    return {"kind": "notice", "session": "0a-shop", "code": code, "text": "", "data": {"sendId": sent, **data}}


def turn(state: str, session: str = "0a-shop") -> dict[str, Any]:
    return {"kind": "turn", "session": session, "state": state}


BEFORE = [notice("send-accepted", "another"), turn("completed", "another"), turn("started"), notice("send")]


@pytest.mark.parametrize(
    ("op", "event", "shown"),
    [
        ("send", notice("send-accepted"), "the agent shows it"),
        ("interrupt", notice("send-accepted"), "the agent shows it"),
        ("interrupt", turn("cancelled"), "the turn is cancelled"),
    ],
)
def test_accepted(script: Script, op: str, event: dict[str, Any], shown: str) -> None:
    script.events = [*BEFORE, event]
    words = ("0a", "x") if op == "send" else ("0a",)
    finished = here(op, "--socket", script.path, *words, "--accepted", 60)
    assert (finished.returncode, finished.stdout.decode()) == (0, f"delivered\naccepted: {shown}\n")
    finished = here(op, "--socket", script.path, *words, "--accepted", 60, "--json")
    assert json.loads(finished.stdout)["accepted"] == shown
    [frame, _] = [one for one in script.asked if one["op"] == "subscribe"]
    assert (frame["after"], frame["filter"]["stream"]) == (9, ["s"])


def test_accepted_although_it_was_delivered_late(script: Script) -> None:
    script.results["send"] = {**script.results["send"], "delivered": False}
    script.events = [notice("send-delivered"), notice("send-accepted")]
    finished = here("send", "--socket", script.path, "0a", "x", "--accepted", 60)
    assert finished.stdout == b"delivered\naccepted: the agent shows it\n"


def test_not_accepted_in_time(script: Script) -> None:
    script.events = [*BEFORE, turn("completed")]
    finished = here("send", "--socket", script.path, "0a", "x", "--accepted", 0.2)
    assert (finished.returncode, finished.stdout) == (4, b"delivered\n")


@pytest.mark.parametrize(
    ("code", "said"),
    [("send-refused", "the agent refuses it: no turn runs"), ("send-failed", "the agent has not got it: no turn runs")],
)
def test_not_accepted(script: Script, code: str, said: str) -> None:
    script.events = [notice(code, reason="no turn runs")]
    finished = here("send", "--socket", script.path, "0a", "x", "--accepted", 60)
    assert (finished.returncode, sentence(finished)) == (1, said)


@pytest.mark.parametrize("words", [("send", "0a", "x"), ("interrupt", "0a")])
def test_not_delivered(script: Script, words: tuple[str, ...]) -> None:
    script.results[words[0]] = {**script.results["send"], "delivered": False}
    finished = here(*words, "--socket", script.path)
    assert finished.returncode == 4
    assert sentence(finished).startswith("journaled, but not delivered yet")


def test_refused(script: Script) -> None:
    script.errors["send"] = "refused", "its tap sends nothing to the agent"
    finished = here("send", "--socket", script.path, "0a", "x")
    assert (finished.returncode, sentence(finished)) == (1, "its tap sends nothing to the agent")


@pytest.mark.parametrize("text", ["", " \n", "x" * 100_001])
def test_wrong_prompt(script: Script, text: str) -> None:
    assert here("send", "--socket", script.path, "0a", text).returncode == 2
    assert script.asked == []


def test_unknown_session(script: Script) -> None:
    assert here("send", "--socket", script.path, "none", "x").returncode == 1
    assert {one["op"] for one in script.asked} == {"sessions", "stats"}
