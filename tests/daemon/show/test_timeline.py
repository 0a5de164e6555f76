"""Nesting: fragments that belong to a call go into its card."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.events import call, event, message, result
from tooltap.daemon.show.blocks import RenderContext
from tooltap.daemon.show.shown import Fragment, Slot, card_key, fragment_of, key_of
from tooltap.daemon.show.skins.html import card_html
from tooltap.daemon.show.timeline import MAX_DEPTH, Card, Nesting, nest
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Display, Notice, PermissionRequest, PermissionResponse, SessionEvent, ToolUpdate


def fragments(*produced: Produced) -> list[Fragment]:
    """Return the fragments of events, with `seq` 1, 2, 3 …"""
    found: list[Fragment] = []
    for seq, one in enumerate(produced, 1):
        event = one.event
        event.seq = seq
        fragment = fragment_of(event, RenderContext("full", lambda _: None))
        assert fragment is not None
        found.append(fragment)
    return found


def update(call_id: str, **fields: Any) -> Produced:
    return event(ToolUpdate, call_id=call_id, name="Bash", **fields)


def asked(call_id: str) -> Produced:
    return event(PermissionRequest, permission_id="p", type="permission", call_id=call_id, name="Bash")


def answered(call_id: str, outcome: str) -> Produced:
    return event(PermissionResponse, permission_id="p", call_id=call_id, outcome=outcome)


def shape(cards: list[Card]) -> list[Any]:
    """Return the `seq` of each card, with those inside it."""
    return [
        (card.fragment.seq, {slot: shape(inside) for slot, inside in card.inside.items()})
        if card.inside
        else card.fragment.seq
        for card in cards
    ]


def slots(card: Card, slot: Slot) -> list[int]:
    return [one.fragment.seq for one in card.inside.get(slot, [])]


def test_view_made_by_a_command_replaces_the_body_of_the_result() -> None:
    shown = Display(origin="rewriter", text="rewritten")
    html = card_html(
        nest(fragments(call("1"), result("1", output={"stdout": "original"}), update("1", display=shown)))[0]
    )

    assert "rewritten" in html
    assert "original" not in html
    assert html.count("completed") == card_html(nest(fragments(call("1"), result("1")))[0]).count("completed")


def test_result_is_nested_and_sets_status() -> None:
    cards = nest(fragments(message("a"), call("1"), message("b"), result("1", status="failed", is_error=True)))

    assert shape(cards) == [1, (2, {"output": [4]}), 3]
    assert cards[1].status == "failed"


def test_event_without_call_is_a_card_of_its_own() -> None:
    assert shape(nest(fragments(result("1"), call("1"), result("2")))) == [1, 2, 3]


def test_call_ids_are_per_stream() -> None:
    assert shape(nest(fragments(call("1"), call("1", "t"), result("1", "t")))) == [1, (2, {"output": [3]})]


def test_late_input_replaces_body_and_sets_preview() -> None:
    (card,) = nest(
        fragments(
            call("1"),
            update("1", input={"command": "ls /first"}, preview="ls /first"),
            update("1", input={"command": "ls /last"}, preview="ls /last"),
        )
    )

    assert slots(card, "input") == [3]
    assert "ls /first" in card.fragment.preview
    assert "ls /last" in card_html(card)
    assert card.status == "running"


def test_result_replaces_inferred_one() -> None:
    interrupted = result("1", status="interrupted", line=2)
    (card,) = nest(fragments(call("1"), interrupted, result("1", line=3, replaces=interrupted.id)))

    assert slots(card, "output") == [3]
    assert card.status == "completed"


def test_acknowledgement_does_not_end_call() -> None:
    (card,) = nest(fragments(call("1"), result("1", async_=True)))

    assert slots(card, "output") == [2]
    assert card.status == "running"


def test_background_result_keeps_acknowledgement() -> None:
    (card,) = nest(fragments(call("1"), result("1", async_=True), result("1", final=True, status="failed")))

    assert slots(card, "output") == [2, 3]
    assert card.status == "failed"


def test_permission_changes_status_of_call() -> None:
    (waiting,) = nest(fragments(call("1"), asked("1")))
    (running,) = nest(fragments(call("1"), asked("1"), answered("1", "allowed")))
    (denied,) = nest(fragments(call("1"), asked("1"), answered("1", "denied"), result("1", status="denied")))
    (ended,) = nest(fragments(call("1"), result("1"), asked("1")))

    assert [waiting.status, running.status, denied.status] == ["awaiting-permission", "running", "denied"]
    assert slots(denied, "live") == [2, 3]
    assert ended.status == "completed"


def test_subagent_events_are_nested() -> None:
    cards = nest(
        fragments(
            call("task"),
            call("1", parent="task", agent="a"),
            message("here", parent="task", agent="a"),
            result("1", parent="task", agent="a"),
            result("task"),
        )
    )

    assert shape(cards) == [(1, {"children": [(2, {"output": [4]}), 3], "output": [5]})]


CHILD: dict[str, Any] = {"stream": "child", "agent": "a"}


@pytest.mark.parametrize("is_first", [True, False])
def test_subagent_in_stream_of_its_own_is_nested(is_first: bool) -> None:
    """Either file may be read first."""
    task = [call("task")]
    child = [
        message("here", parent="task", **CHILD),
        call("1", parent="task", **CHILD),
        result("1", parent="task", **CHILD),
    ]

    cards = nest(fragments(*(child + task if is_first else task + child)))

    first, second, third, at = (1, 2, 3, 4) if is_first else (2, 3, 4, 1)
    assert shape(cards) == [(at, {"children": [first, (second, {"output": [third]})]})]


def test_subagent_is_nested_in_call_of_its_own_session() -> None:
    cards = nest(
        fragments(
            call("task", "other", session="session-2"), call("task"), message("here", "child", agent="a", parent="task")
        )
    )

    assert shape(cards) == [1, (2, {"children": [3]})]


def tie(parent: str, **fields: Any) -> Produced:
    return event(SessionEvent, state="updated", synthetic=True, parent=parent, **{**CHILD, **fields})


def test_late_tie_nests_what_was_before() -> None:
    before = [message("before", **CHILD), message("of another agent", "child", agent="b")]

    cards = nest(fragments(call("task"), *before, tie("task"), message("after", parent="task", **CHILD)))

    assert shape(cards) == [(1, {"children": [2, 4, 5]}), 3]


def test_late_tie_waits_for_late_call() -> None:
    cards = nest(fragments(message("before", **CHILD), tie("task"), message("x"), call("task")))

    assert shape(cards) == [3, (4, {"children": [1, 2]})]


def test_tie_on_another_page_is_known() -> None:
    parents = {key_of("child", "a"): key_of("session-1", "task")}

    cards = nest(fragments(call("task"), message("before", **CHILD)), parents=parents)

    assert shape(cards) == [(1, {"children": [2]})]


def test_states_of_calls_without_their_results() -> None:
    cards = nest(fragments(call("1"), call("2")), {key_of("s", "1"): "failed", key_of("s", "9"): "failed"})

    assert [card.status for card in cards] == ["failed", "running"]


def test_what_is_about_a_hidden_call_has_its_state() -> None:
    states = {key_of("s", "1"): "failed", card_key(2): "answered"}

    update_card, request, other = nest(
        fragments(update("1", status="running", input={}), asked("1"), asked("2")), states
    )

    assert [one.status for one in (update_card, request, other)] == ["failed", "answered", "asked"]


def test_what_has_left_is_forgotten() -> None:
    nesting = Nesting()
    for one in fragments(message("orphan", parent="task", **CHILD), message("unknown", **CHILD), call("task")):
        nesting.add(one)
        if one.seq < 3:
            nesting.pop()

    assert shape(list(nesting.cards)) == [3]


def test_cyclic_parents_of_streams_are_tolerated() -> None:
    cards = nest(
        fragments(call("1", parent="2", agent="a"), call("2", "t", parent="3", agent="b"), call("3", "u", parent="1"))
    )

    assert shape(cards) == [(2, {"children": [(1, {"children": [3]})]})]


def test_cyclic_parent_is_tolerated() -> None:
    cards = nest(fragments(call("1", parent="1"), call("2", parent="3"), call("3", parent="2")))

    assert shape(cards) == [1, (2, {"children": [3]})]


def test_nesting_depth_is_bounded() -> None:
    deep = [call(str(n), parent=None if n == 0 else str(n - 1)) for n in range(MAX_DEPTH + 2)]

    cards = nest(fragments(*deep, result(str(MAX_DEPTH))))

    assert len(cards) == 2
    assert str(card_html(cards[0])).count("<article") == MAX_DEPTH + 2  # the last one's result as well


def test_keys_with_markup_stay_text() -> None:
    hostile = '"><script>alert(1)</script>'
    (card,) = nest(fragments(call(hostile), result(hostile)))

    assert key_of("s", hostile) == card.fragment.key
    assert "<script>" not in card_html(card)


def test_notice_does_not_change_status_of_call() -> None:
    (card,) = nest(fragments(call("1"), event(Notice, level="error", code="hook", text="x", call_id="1")))

    assert slots(card, "live") == [2]
    assert card.status == "running"
