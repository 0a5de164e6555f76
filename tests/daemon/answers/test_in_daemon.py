"""Rules of a daemon answer an agent behind a tap."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.daemon.answering import OPENING, Tap, answer, asking, question, refusal, result
from tests.daemon.running import Running, running
from tooltap.daemon.config import load_config
from tooltap.daemon.ingest import connection
from tooltap.daemon.journal.nats.place import NatsPlace

Rules: TypeAlias = list[dict[str, Any]]

RULES: Rules = [
    {"name": "rm", "answer": "allow", "tools": ["Bash"], "commands": ["rm -r build"], "projects": ["w"]},
]
DENIES: Rules = [{"name": "never", "answer": "deny", "commands": ["rm"]}]
SPARE = {"name": "spare", "answer": "deny", "commands": ["git push"]}
OTHERS: Rules = [SPARE]
"""Rules that are not about the question."""


def notices(daemon: Running) -> list[tuple[str, str]]:
    """The code of each notice about an answer, and who has answered."""
    with daemon.connect() as wire:
        wire.send("subscribe", after="start", follow=False, filter={"kind": ["notice"]})
        events = [frame for frame in wire.rest() if frame.get("kind") == "notice"]
    return [(one["code"], one["data"]["by"]) for one in events if one["code"].startswith("answer")]


def settle(tap: Tap, option: str) -> None:
    """The tap writes the answer that comes, which is the one to question 1 with this option."""
    frame = tap.receive()
    tap.write(frame)
    assert f'"optionId":"{option}"' in tap.written[0].replace(" ", "")


def test_rule_allows_once_and_a_person_comes_too_late(tmp_path: Path) -> None:
    with running(tmp_path, answers=RULES) as daemon, daemon.connect() as wire, daemon.connect() as late:
        tap = asking(wire, 1)
        settle(tap, "yes")
        answer(late, outcome="denied")
        code, sentence = refusal(late)
        assert (code, "rule rm" in sentence, "allowed" in sentence) == ("already-answered", True, True)
        assert notices(daemon)[0] == ("answer", "rule rm")


def test_rule_denies(tmp_path: Path) -> None:
    with running(tmp_path, answers=[*RULES, *DENIES]) as daemon, daemon.connect() as wire:
        settle(asking(wire, 1), "no")
        assert notices(daemon)[0] == ("answer", "rule never")


@pytest.mark.parametrize("rules", [[], [{**RULES[0], "projects": ["other"]}], [{**RULES[0], "commands": ["rm x"]}]])
def test_otherwise_a_person_answers(tmp_path: Path, rules: list[dict[str, Any]]) -> None:
    with running(tmp_path, answers=rules) as daemon, daemon.connect() as wire, daemon.connect() as person:
        tap = asking(wire, 1)
        answer(person, outcome="denied")
        settle(tap, "no")
        assert notices(daemon)[0][1].startswith("ada")


def test_tap_that_takes_no_answers_is_left_alone(tmp_path: Path) -> None:
    with running(tmp_path, answers=RULES) as daemon, daemon.connect() as wire:
        Tap().connect(wire, toAgent=False).tap(*OPENING, ("out", question(1)))
        assert notices(daemon) == []
        assert daemon.stats()["errors"] == {}


def test_rules_are_read_again(tmp_path: Path) -> None:
    with running(tmp_path) as daemon, daemon.connect() as wire:
        daemon.call(lambda: daemon.daemon.apply(load_config(None, answers=RULES)))
        settle(asking(wire, 1), "yes")


# -- what waits already -----------------------------------------------------------------------------------------------


def test_changed_rules_answer_what_waits(tmp_path: Path) -> None:
    with running(tmp_path, answers=OTHERS) as daemon, daemon.connect() as wire:
        tap = asking(wire, 1)
        assert notices(daemon) == []
        daemon.call(lambda: daemon.daemon.apply(load_config(None, answers=[*OTHERS, *RULES])))
        settle(tap, "yes")
        assert notices(daemon)[0] == ("answer", "rule rm")


def test_what_was_asked_before_the_daemon_was_started(tmp_path: Path) -> None:
    with running(tmp_path) as daemon, daemon.connect() as wire:
        tap = asking(wire, 1)
    with running(tmp_path, answers=RULES) as daemon, daemon.connect() as wire:
        settle(tap.connect(wire), "yes")
        finish(tap)
        assert notices(daemon) == [("answer", "rule rm"), ("answer-delivered", "rule rm")]


def test_what_a_person_has_answered_is_not_answered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    with running(tmp_path) as daemon, daemon.connect() as wire, daemon.connect() as person:
        tap = asking(wire, 1)
        answer(person, outcome="denied")
        assert not result(person)["delivered"]
    with running(tmp_path, answers=RULES) as daemon, daemon.connect() as wire:
        settle(tap.connect(wire), "no")
        finish(tap)
        by = "ada, over the socket"
        assert notices(daemon) == [("answer", by), ("answer-delivered", by)]


def finish(tap: Tap) -> None:
    """The tap ends its stream, and has got nothing else."""
    tap.wire.send("end")
    tap.until("done")
    assert not tap.has_frames


# -- several daemons --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "option", "by"),
    [(RULES, RULES, "yes", "rule rm"), (RULES, DENIES, "yes", "rule rm"), (DENIES, RULES, "no", "rule never")],
)
def test_rules_of_the_daemon_that_has_the_publisher(
    tmp_path: Path, nats_place: NatsPlace, first: Rules, second: Rules, option: str, by: str
) -> None:
    place = str(nats_place)
    with (
        running(tmp_path / "a", journal=place, answers=first) as one,
        running(tmp_path / "b", journal=place, answers=second) as other,
        one.connect() as wire,
    ):
        tap = asking(wire, 1)
        settle(tap, option)
        other.call(lambda: other.daemon.apply(load_config(None, answers=[*second, SPARE])))  # and looks again
        finish(tap)
        assert notices(one) == notices(other) == [("answer", by), ("answer-delivered", by)]


@pytest.mark.parametrize(("first", "by", "option"), [(OTHERS, "rule rm", "yes"), (DENIES, "rule never", "no")])
def test_publisher_takes_its_question_to_another_daemon(
    tmp_path: Path, nats_place: NatsPlace, first: Rules, by: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rules there answer what those of the first daemon have left open."""
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    place = str(nats_place)
    with (
        running(tmp_path / "a", journal=place, answers=first) as one,
        running(tmp_path / "b", journal=place, answers=RULES) as other,
        one.connect() as dead,
        other.connect() as wire,
    ):
        tap = asking(dead, 1)
        if first is DENIES:
            tap.receive()  # and is gone before it has written it
            tap.ids.clear()
        settle(tap.connect(wire), option)
        finish(tap)
        assert notices(one) == [("answer", by), ("answer-delivered", by)]
