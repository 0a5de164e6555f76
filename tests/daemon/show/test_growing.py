"""Rows that grow are the same as after a reload."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.events import call, event, message, result
from tests.daemon.show.test_timeline import fragments
from tooltap.daemon.show.blocks import RenderContext
from tooltap.daemon.show.shown import Fragment, fragment_of
from tooltap.daemon.show.timeline import MOST_CARDS, Card, Growing, nest, rows_of
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Notice, PermissionRequest, PermissionResponse, SessionEvent, ToolUpdate, Turn, Usage

SUB: dict[str, Any] = {"agent": "sub", "parent": "task"}
ASKED: dict[str, Any] = {"call_id": "1", "permission_id": "p"}


def read(number: int, **fields: Any) -> list[Produced]:
    given = {"input": {"file_path": f"/src/{number}.py"}, "name": "Read", **fields}
    return [call(f"r{number}", **given), result(f"r{number}", **{key: fields[key] for key in SUB if key in fields})]


def briefly(*produced: Produced) -> list[Fragment]:
    """Return the fragments of events at level `title`, at which calls are folded."""
    found = []
    for seq, one in enumerate(produced, 1):
        shown = one.event
        shown.seq = seq
        fragment = fragment_of(shown, RenderContext("title", lambda _: None))
        assert fragment is not None
        found.append(fragment)
    return found


class Shown:
    """What a browser has after the changes: ids of cards, in the rows and in the calls that they are in."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.children: dict[int, list[int]] = {}
        self.status: dict[int, str] = {}
        self.counts: dict[int, int] = {}
        self.folds: dict[int, list[int]] = {}

    def grow(self, growing: Growing, fragment: Fragment) -> None:
        change = growing.add(fragment)
        seq = change.card.fragment.seq
        self.rows.append(seq)
        self.status[seq] = change.card.status
        for card in change.replaced:
            inside = {one.fragment.seq for slot, cards in card.inside.items() if slot != "children" for one in cards}
            self.rows = [one for one in self.rows if one not in inside]
            self.status[card.fragment.seq] = card.status
        for home, nested in change.nested.items():
            moved = [one.fragment.seq for one in nested]
            self.rows = [one for one in self.rows if one not in moved]
            known = self.children.setdefault(home.fragment.seq, [])
            known[:] = sorted({*known, *moved})
        for card in change.counted:
            self.counts[card.fragment.seq] = card.calls
        if change.is_left_out:
            self.rows = [one for one in self.rows if one != seq]
        if change.fold is not None:
            self.folds[change.fold.seq] = [card.fragment.seq for card in change.fold.cards]


def seqs(cards: list[Card]) -> list[int]:
    return [card.fragment.seq for card in cards]


@pytest.mark.parametrize(
    "events",
    [
        [message("a"), call("1"), result("1"), message("b")],
        [call("1"), event(ToolUpdate, call_id="1", name="Bash", input={"command": "ls"}), result("1")],
        [
            call("1"),
            event(PermissionRequest, type="permission", **ASKED),
            event(PermissionResponse, outcome="denied", **ASKED),
            result("1", status="denied"),
        ],
        [event(Turn, state="started"), message("a"), event(Usage, scope="turn"), event(Turn, state="completed")],
        [call("task", name="Task"), *read(1, **SUB), message("sub", **SUB), result("task"), message("end")],
        [*read(1, **SUB), call("task", name="Task"), *read(2, **SUB), result("task")],
        [
            *read(1, agent="sub"),
            call("task", name="Task"),
            event(SessionEvent, state="updated", **SUB),
            *read(2, **SUB),
        ],
        [event(SessionEvent, state="started", title="t"), message("a")],
        [
            event(Turn, state="started", turn="t"),
            event(Turn, state="completed", turn="t", provisional=True),
            message("a", turn="t"),
        ],
    ],
    ids=["call", "update", "permission", "turn", "subagent", "late call", "late tie", "session", "turn that goes on"],
)
@pytest.mark.parametrize("is_quiet", [True, False])
def test_rows_are_those_of_a_reload(events: list[Produced], is_quiet: bool) -> None:
    growing, shown = Growing(is_quiet=is_quiet), Shown()
    for fragment in briefly(*events):
        shown.grow(growing, fragment)

    cards = nest(briefly(*events))
    rows = rows_of(cards, is_quiet=is_quiet, folds=False)
    assert shown.rows == [row.seq for row in rows]
    for card in (one for root in cards for one in (root, *root.below())):
        if card.home is None or card.fragment.slot == "children":
            assert shown.status[card.fragment.seq] == card.status
        if children := card.inside.get("children"):
            assert shown.children[card.fragment.seq] == seqs(children)
            assert shown.counts[card.fragment.seq] == card.calls


def test_all_but_the_last_row_are_folded() -> None:
    growing, shown = Growing(is_quiet=True), Shown()
    events = [*read(1), *read(2), *read(3), message("Done.")]
    steps = []
    for fragment in briefly(*events):
        shown.grow(growing, fragment)
        steps.append([list(one) for one in shown.folds.values()])

    assert steps == [[], [], [], [], [[1, 3]], [[1, 3]], [[1, 3, 5]]]
    assert [seqs(list(row.cards)) for row in rows_of(nest(briefly(*events))) if row.is_fold] == [[1, 3, 5]]


def hook(name: str, level: str = "info") -> Produced:
    return event(Notice, level=level, code="hook", text=name)


@pytest.mark.parametrize(
    ("events", "folds"),
    [
        ([hook("Stop"), message("x")], [("", "1 hook message")]),
        ([hook("Start"), hook("Submit"), message("x"), hook("Stop")], [("", "2 hook messages")]),
        ([*read(1), hook("Post"), message("x")], [("", "1 hook message")]),
        (
            [hook("Pre"), *read(1), hook("Post"), *read(2), hook("Post"), message("x")],
            [("Explored", "2 files in src/ — 2 reads, 3 hook messages")],
        ),
        (
            [hook("Stop"), hook("Stop", "warning"), hook("Stop"), message("x")],
            [("", "1 hook message"), ("", "1 hook message")],
        ),
    ],
    ids=["one", "several", "after a call", "between calls", "around a failed one"],
)
def test_what_hooks_report_is_folded(events: list[Produced], folds: list[tuple[str, str]]) -> None:
    rows = [row for row in rows_of(nest(briefly(*events))) if row.is_fold]
    before_the_end = rows[: len(folds)]
    assert [(row.title, row.label) for row in before_the_end] == folds

    growing, shown = Growing(is_quiet=True), Shown()
    for fragment in briefly(*events):
        shown.grow(growing, fragment)
    assert {row.seq: seqs(list(row.cards)) for row in before_the_end}.items() <= shown.folds.items()


def test_what_a_subagent_reads_is_folded_in_its_call() -> None:
    growing, shown = Growing(is_quiet=True), Shown()
    for fragment in briefly(call("task", name="Task"), *read(1, **SUB), *read(2, **SUB), message("x", **SUB)):
        shown.grow(growing, fragment)
    assert shown.folds == {2: [2, 4]}


def test_hidden_events_change_states() -> None:
    growing = Growing(is_quiet=False)
    [made] = fragments(call("1"))
    growing.add(made)
    key = made.key or ""

    def state(new: str | None, *, is_end: bool = False) -> list[str]:
        return [one.status for one in growing.set_state(key, new, is_end=is_end, is_answered=False)]

    assert state("awaiting-permission") == ["awaiting-permission"]
    assert state("awaiting-permission") == []
    assert state("failed", is_end=True) == ["failed"]
    assert state("running") == []
    assert growing.set_state("s other", "running", is_end=False, is_answered=True) == []


def test_earlier_calls_come_before_all_rows() -> None:
    growing = Growing(is_quiet=False)
    early, late, ended = briefly(call("1"), message("a"), result("1"))
    growing.add(late)
    growing.remember([early])
    change = growing.add(ended)
    assert seqs(list(change.replaced)) == [1]
    assert change.fold is None


def test_memory_is_bounded() -> None:
    growing = Growing(is_quiet=False)
    for fragment in briefly(*(call(str(number)) for number in range(MOST_CARDS + 10))):
        growing.add(fragment)
    assert not growing.has("s 0")
    assert growing.has(f"s {MOST_CARDS + 9}")


def test_payloads_are_not_remembered() -> None:
    growing = Growing(is_quiet=False)
    [made] = briefly(call("1", input={"file_path": "/a", "content": "x" * 1_000}, name="Write"))
    assert growing.add(made).card.fragment.event.input == {"file_path": "/a"}  # type: ignore[attr-defined]
