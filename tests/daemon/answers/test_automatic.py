"""Rules answer what is asked in the journal: with whose name, and what is left to a person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.daemon.answers.test_rules import NPM, RM, rule
from tests.daemon.events import call, commit, event
from tests.daemon.running import Running, running
from tooltap.daemon.answers.automatic import RuleAnswers
from tooltap.daemon.answers.rules import AnswerRule
from tooltap.daemon.journal.interface import Commit
from tooltap.protocol.events import PermissionRequest, PermissionResponse, SessionEvent
from tooltap.protocol.frames import AnswerRequest, ErrorCode, FrameError
from tooltap.protocol.replies import AnswerResult


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("daemon")) as one:
        asks: dict[str, Any] = {"type": "permission", "name": "Bash"}
        one.commit(
            commit(
                event(SessionEvent, state="started", cwd="/src/shop"),
                event(PermissionRequest, permission_id="test", input={"command": "npm test"}, **asks),
                event(PermissionRequest, permission_id="elsewhere", input={"command": "npm test", "cwd": "/"}, **asks),
                event(PermissionRequest, permission_id="rm", input={"command": "npm test; rm x"}, **asks),
                call("c", input={"command": "npm test", "_happy": {}}),
                event(PermissionRequest, permission_id="call", call_id="c", **asks),
                event(PermissionRequest, permission_id="over", input={"command": "npm test"}, **asks),
                event(PermissionResponse, permission_id="over", outcome="cancelled"),
            )
        )
        yield one


def answers(
    daemon: Running, permission: str | Commit, *rules: AnswerRule, error: ErrorCode | None = None
) -> list[dict[str, Any]]:
    """What is answered to a request, or to all of a commit."""
    given: list[AnswerRequest] = []

    async def take(request: AnswerRequest) -> AnswerResult:
        given.append(request)
        if error is not None:
            raise FrameError(error, "no")
        return AnswerResult(
            session="session-1", stream="s", seq=1, permission_id="p", outcome="allowed", by="b", ts=0, delivered=True
        )

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            answerer = RuleAnswers(daemon.daemon.journal, rules, tasks, take)
            if isinstance(permission, str):
                await answerer.answer("s", permission)
            else:
                answerer.put(permission, is_first=False)

    daemon.call(run)
    fields = ("permission_id", "stream", "outcome", "message", "by", "remember")
    return [{key: value for key in fields if (value := getattr(one, key))} for one in given]


def test_allowed_once(daemon: Running) -> None:
    assert answers(daemon, "test", NPM) == [
        {"permission_id": "test", "stream": "s", "outcome": "allowed", "by": "rule npm"}
    ]
    assert answers(daemon, "call", NPM)[0]["outcome"] == "allowed"


def test_all_requests_of_a_commit(daemon: Running) -> None:
    asks: dict[str, Any] = {"type": "permission", "name": "Bash"}
    asked = [event(PermissionRequest, permission_id=name, **asks) for name in ("test", "elsewhere", "call")]
    again = event(PermissionRequest, permission_id="rm", replay=True, **asks)
    found = answers(daemon, commit(*asked, again), NPM, RM)
    assert sorted(one["permission_id"] for one in found) == ["call", "test"]
    assert answers(daemon, commit(*asked)) == []


def test_denied_with_a_reason(daemon: Running) -> None:
    fields = {"permission_id": "rm", "stream": "s", "outcome": "denied"}
    assert answers(daemon, "rm", NPM, RM) == [{**fields, "message": "Move it away instead", "by": "rule rm"}]
    silent = rule("deny", "rm", name="other")
    reason = "This is denied by the rule 'other' of the user."
    assert answers(daemon, "rm", silent) == [{**fields, "message": reason, "by": "rule other"}]


@pytest.mark.parametrize("permission", ["elsewhere", "over", "none"])
def test_what_is_left_to_a_person(daemon: Running, permission: str) -> None:
    assert answers(daemon, permission, NPM) == []


@pytest.mark.parametrize("error", ["already-answered", "not-offered", "internal"])
def test_an_answer_that_is_refused_is_not_given_again(daemon: Running, error: ErrorCode) -> None:
    assert len(answers(daemon, "test", NPM, error=error)) == 1
    assert daemon.stats()["errors"] == {}


def test_a_fault_leaves_it_to_a_person(daemon: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("tooltap.daemon.answers.automatic.decide", fail)
    assert answers(daemon, "test", NPM) == []
    assert list(daemon.stats()["errors"].values()) == [1]
