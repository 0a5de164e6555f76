"""`send` and `interrupt`: what is asked of the daemon, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

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
    assert all(one["op"] == "sessions" for one in script.asked)
