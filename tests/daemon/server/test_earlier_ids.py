"""Requests that name a session by an id that it had earlier get what they get by the present id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.changing import edited
from tests.daemon.events import call, commit, event, message
from tests.daemon.running import Running, running
from tests.daemon.search.conftest import patient as patient
from tooltap.protocol.events import PermissionRequest, SessionEvent, Usage


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A session that got its id late, and another one, which has the same."""
    early: dict[str, Any] = {"session": "early"}
    asked: dict[str, Any] = {"permission_id": "p", "type": "permission", "call_id": "2", "name": "Bash"}
    known = event(SessionEvent, line=2, state="updated", alias="early", session="present")
    used = event(Usage, line=2, index=1, scope="session", input_tokens=7, session="present")
    with running(tmp_path_factory.mktemp("daemon")) as one:
        one.commit(
            commit(
                message("a needle", **early),
                *edited("1", "/work/a.py", "x", "y", **early),
                call("2", **early),
                event(PermissionRequest, **asked, **early),
                known,
                used,
            ),
            commit(
                message("a needle", "t", session="other"),
                *edited("1", "/b.py", "x", "y", stream="t", session="other"),
                stream="t",
            ),
        )
        one.until_indexed()
        yield one


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": "needle"}),
    ("ended-calls", {}),
    ("usage", {"by": "session"}),
    ("changed-files", {}),
    ("waiting", {}),
]


@pytest.mark.parametrize(("op", "keys"), REQUESTS, ids=[op for op, _ in REQUESTS])
def test_filters_take_earlier_ids(daemon: Running, op: str, keys: dict[str, Any]) -> None:
    with daemon.connect() as wire:
        earlier, present, nobody = (wire.ask(op, session=[one], **keys) for one in ("early", "present", "nobody"))

    assert earlier == present
    assert present != nobody


@pytest.mark.parametrize("op", ["calls", "files"])
def test_requests_about_one_session_take_earlier_ids(daemon: Running, op: str) -> None:
    with daemon.connect() as wire:
        earlier, present = (wire.ask(op, session=one) for one in ("early", "present"))

    assert earlier == present
    assert present.get("calls") or present.get("files")


@pytest.mark.parametrize(("op", "keys"), [("send", {"text": "Go on."}), ("interrupt", {})])
def test_the_agent_of_a_session_is_found_by_its_earlier_id(daemon: Running, op: str, keys: dict[str, Any]) -> None:
    with daemon.connect() as wire:
        answers = []
        for name in ("early", "present", "nobody"):
            wire.send(op, session=name, **keys)
            answers.append(wire.read()["error"])

    earlier, present, nobody = answers
    assert earlier == present
    assert (present["code"], nobody["code"]) == ("refused", "not-found")


def test_nothing_is_removed_by_an_earlier_id(tmp_path: Path) -> None:
    """Who asks has not seen which session that is."""
    known = event(SessionEvent, line=2, state="updated", alias="early", session="present")
    with running(tmp_path) as daemon, daemon.connect() as wire:
        daemon.commit(commit(message("a", session="early"), known, state="ended"))
        wire.send("remove", session="early")
        refused = wire.read()["error"]

        assert refused["code"] == "not-found"
        assert refused["message"] == "there is no session 'early': it is 'present' by now"
        assert wire.ask("remove", session="present") == {"events": 2}
