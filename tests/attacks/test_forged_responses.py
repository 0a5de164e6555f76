"""Attacks by an agent that responds to prompts that nobody sent, or refuses one with words that act."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here, sentence
from tests.cli.control.scripted import Script, scripted
from tests.cli.control.test_send import notice
from tests.daemon.answering import OPENING, SESSION, Tap, turn_end
from tests.daemon.running import Running, running

SAID = "\x1b]52;c;Y3VybA==\x07\x1b[2J\x9b2J\u202e\nroot# "
ACTING = ("\x1b", "\x07", "\x9b", "\u202e")
SENT = "0123456789abcdef"
FORGED: list[dict[str, Any]] = [
    {"result": {"stopReason": "end_turn"}},
    {"error": {"code": 1, "message": SAID}},
    {"error": {"code": 1, "message": "x" * 1_000_000}},
    {"error": {"message": [[[[SAID]]]]}},
]
IDS = (SENT, "", SAID, "x" * 1_000_000)
LONGEST = 8_000
"""Bytes that a command may print about a refusal."""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "daemon") as daemon:
        yield daemon


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    with scripted(tmp_path) as one:
        yield one


def acting(text: bytes) -> list[str]:
    return [one for one in ACTING if one in text.decode()]


@pytest.mark.process
def test_forged_response_is_only_shown(daemon: Running) -> None:
    """A prompt that is on its way then is delivered, once, and only its own response accepts it."""
    forged = [("out", {"id": f"tooltap-{name}", **one}) for name in IDS for one in FORGED]
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = Tap().connect(publisher).tap(*OPENING, ("out", turn_end()), *forged)
        client.send("send", id=1, session=SESSION, text="Go on", key="k")
        frame = tap.receive()
        tap.tap(*forged)
        tap.write(frame)
        receipt = client.read()["result"]
        again = client.ask("send", session=SESSION, text="Go on", key="k")
        tap.tap(*forged, ("out", {"id": f"tooltap-{receipt['id']}", "result": {"stopReason": "end_turn"}}))
        with daemon.connect() as reader:
            reader.send("subscribe", after="start", follow=False)
            events = [one for one in reader.rest() if one.get("kind") == "notice"]
        waiting = client.ask("waiting")["waiting"]
        printed = [here("tail", "--socket", daemon.path, "--after", "start", "--no-follow", "--mode", "verbose")]
        printed += [here(command, "--socket", daemon.path) for command in ("sessions", "waiting", "stats")]

    assert (receipt["delivered"], again) == (True, receipt)
    assert len(tap.written) == 1
    own = [one["code"] for one in events if (one.get("data") or {}).get("sendId") == receipt["id"]]
    assert own == ["send", "send-delivered", "send-accepted"]
    assert len([one for one in events if one["code"] == "send-refused"]) == 3 * len(IDS) * 3
    assert waiting == []
    assert [acting(one.stdout + one.stderr) for one in printed] == [[]] * len(printed)


@pytest.mark.parametrize("op", ["send", "interrupt"])
def test_forged_response_to_another_prompt_accepts_nothing(op: str, script: Script) -> None:
    forged = [notice("send-accepted", name) for name in (SENT, "", SAID, "i ", "I")]
    nameless = [{**notice("send-accepted"), "data": data} for data in (None, {}, {"sendId": None}, {"sendId": ["i"]})]
    script.events = [*forged, *nameless, *(notice("send-refused", name, reason=SAID) for name in (SENT, "")),
                     notice("send-accepted")]  # fmt: skip
    words = ("0a", "x") if op == "send" else ("0a",)
    finished = here(op, "--socket", script.path, *words, "--accepted", 60)
    assert (finished.returncode, finished.stdout) == (0, b"delivered\naccepted: the agent shows it\n")

    script.events = [*forged, *nameless]
    finished = here(op, "--socket", script.path, *words, "--accepted", 0.2)
    assert (finished.returncode, finished.stdout) == (4, b"delivered\n")


@pytest.mark.parametrize("code", ["send-refused", "send-failed"])
@pytest.mark.parametrize("reason", [SAID, SAID * 10_000])
@pytest.mark.parametrize("op", ["send", "interrupt"])
def test_words_of_a_refusal_do_not_act(op: str, reason: str, code: str, script: Script) -> None:
    script.events = [notice(code, reason=reason)]
    words = ("0a", "x") if op == "send" else ("0a",)
    finished = here(op, "--socket", script.path, *words, "--accepted", 60)

    assert finished.returncode == 1
    assert "52;c;" in sentence(finished), "the attack is not there"
    assert acting(finished.stdout + finished.stderr) == []
    assert len(finished.stderr) < LONGEST


@pytest.mark.parametrize("words", [("answer", "p1", "--allow"), ("send", "0a", "x"), ("interrupt", "0a")])
def test_words_of_a_daemons_refusal_do_not_act(words: tuple[str, ...], script: Script) -> None:
    """They may be those of a tap, which quotes the agent's server."""
    script.errors[words[0]] = "refused", f"Codex has said {SAID * 10_000}"
    finished = here(words[0], "--socket", script.path, *words[1:])

    assert finished.returncode != 0
    assert "52;c;" in sentence(finished), "the attack is not there"
    assert acting(finished.stdout + finished.stderr) == []
    assert len(finished.stderr) < LONGEST
