"""Whatever fails during delivery, each subscriber gets each event once, and the publisher learns of its commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import commit, message
from tests.daemon.running import Running, Wire, running
from tooltap.daemon.hub import Batch, Hub, Subscription
from tooltap.daemon.journal.sqlite import journal as sqlite_journal
from tooltap.daemon.system.loop import Work

SELECTIONS: list[dict[str, Any]] = [{}, {}, {"kind": ["message"]}, {"kind": ["usage", "message"]}]
"""Filters of the subscribers: two have the same one."""


class Failing:
    """A function that raises at its `number`-th call after `arm`, once."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: Any, name: str, number: int = 1) -> None:
        usual: Callable[..., Any] = getattr(owner, name)
        self.name = f"{name}, call {number}"
        self.raised = False
        self._armed = threading.Event()
        self._left = number

        def failing(*arguments: Any, **keys: Any) -> Any:
            concerned = owner is not Work or arguments[0].kind == "delivery of events"
            if self._armed.is_set() and not self.raised and concerned:
                self._left -= 1
                if not self._left:
                    self.raised = True
                    raise MemoryError
            return usual(*arguments, **keys)

        patch.setattr(owner, name, failing)

    def arm(self) -> None:
        self._armed.set()


def subscribers(daemon: Running) -> list[Wire]:
    wires = [daemon.subscribe(after="now", filter=one) for one in SELECTIONS]
    for wire in wires:
        wire.until("live")
    return wires


def read_to(wire: Wire, last: int) -> list[int]:
    """The numbers of all events up to `last`, or until the daemon says that the subscription failed."""
    seqs: list[int] = []
    while not seqs or seqs[-1] < last:
        frame = wire.read()
        if frame.get("op") == "error":
            assert frame["code"] == "internal"
            break
        if "seq" in frame and "op" not in frame:
            seqs.append(frame["seq"])
    return seqs


SITES: list[tuple[Any, str]] = [
    (sqlite_journal.SqliteJournal, "_publish"),
    (sqlite_journal, "drop_fields"),
    (Hub, "publish"),
    (Batch, "__init__"),
    (Work, "__enter__"),
    (Work, "__exit__"),
    (Hub, "_deliver"),
    (Batch, "chunks"),
    (Hub, "_retain"),
]
"""What is called to deliver, before and after the hub has noted how far it is."""


def test_each_subscriber_gets_each_event_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = [Failing(monkeypatch, owner, name, number) for owner, name in SITES for number in (1, 2)]
    with running(tmp_path) as daemon:
        wires = subscribers(daemon)
        last = 0
        for failing in sites:
            failing.arm()
            for _ in range(3):
                daemon.commit(commit(message("x"), base=last))
                last += 1
            assert failing.raised, failing.name
            expected = [last - 2, last - 1, last]
            later = daemon.subscribe(after=last - 3)
            got = [read_to(wire, last) for wire in [*wires, later]]
            assert got == [expected] * (len(wires) + 1), failing.name
        assert sum(daemon.stats()["errors"].values()) >= len(sites)


def test_subscriber_that_fails_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        [Failing(monkeypatch, Subscription, "deliver", 2)],
        [Failing(monkeypatch, Subscription, "deliver", 2), Failing(monkeypatch, Subscription, "fail")],
        [Failing(monkeypatch, Batch, "chunks"), Failing(monkeypatch, Subscription, "fall_behind", 2)],
    ]
    for number, case in enumerate(cases):
        with running(tmp_path / str(number)) as daemon:
            wires = subscribers(daemon)
            for one in case:
                one.arm()
            daemon.commit(commit(message("1")), commit(message("2"), base=1))

            assert sorted(read_to(wire, 2) for wire in wires) == [[], *[[1, 2]] * 3]
            assert all(one.raised for one in case)
