"""Readers of a turn whose provisional end the agent has taken back by going on."""

from __future__ import annotations

from tests.daemon.events import call, event, message
from tests.daemon.show.test_timeline import fragments
from tests.daemon.web.page.overview.histories import stored
from tooltap.cli.read.transcript import Transcript
from tooltap.daemon.show.minimap import SessionHistory
from tooltap.daemon.show.timeline import Growing, Turns, nest
from tooltap.daemon.web.page.compare import _Found
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Turn, decode

SETTLED = [
    event(Turn, turn="t1", state="started", ts=1_000),
    message("Done.", turn="t1", ts=2_000),
    event(Turn, turn="t1", state="completed", ended_by="answer", provisional=True, ts=2_000),
]
GOES_ON = [*SETTLED, call("a", turn="t1", ts=9_000)]
ENDED = [*GOES_ON, event(Turn, turn="t1", state="failed", ts=10_000)]
SUBAGENT = [*SETTLED, call("a", turn="t1", agent="sub", ts=9_000)]

SHOWN = [(SETTLED, ["completed"]), (GOES_ON, ["started"]), (ENDED, ["failed"]), (SUBAGENT, ["completed"])]


def test_map_and_outline() -> None:
    for events, states in SHOWN:
        history = SessionHistory()
        history.add(stored(*events))
        assert [turn.state for turn in history.turns] == states


def test_numbered_turns() -> None:
    for events, states in SHOWN:
        turns = Turns()
        for one in events:
            turns.add(decode(one.body))
        assert [turn.state for turn in turns.all] == states


def test_comparison() -> None:
    for events, ended in ((SETTLED, True), (GOES_ON, False), (ENDED, True)):
        found = _Found()
        found.note(stored(*events))
        assert [turn.ended for turn in found.turns] == [ended]


FAILED = [SETTLED[0], event(Turn, turn="t1", state="failed", ended_by="provider", provisional=True, ts=2_000)]
RETRIED = [*FAILED, message("Done.", turn="t1", ts=9_000)]
FAILED_FOR_GOOD = [*FAILED, event(Turn, turn="t1", state="failed", ts=2_000)]
COUNTED = [(FAILED, 1), (RETRIED, 0), (FAILED_FOR_GOOD, 1)]


def test_map_counts_a_failure_once_and_not_if_the_turn_goes_on() -> None:
    for events, errors in COUNTED:
        history = SessionHistory()
        history.add(stored(*events))
        assert [turn.share.errors for turn in history.turns] == [errors]


def test_comparison_counts_a_failure_once_and_not_if_the_turn_goes_on() -> None:
    for events, errors in COUNTED:
        found = _Found()
        found.note(stored(*events))
        assert [turn.errors for turn in found.turns] == [errors]


def test_card_has_the_last_end() -> None:
    [card, *_] = nest(fragments(*ENDED))

    assert card.status == "failed"
    assert [one.fragment.seq for one in card.inside["turn"]] == [5]


def test_card_of_a_turn_that_goes_on() -> None:
    for events, status, ends in ((SETTLED, "completed", 1), (GOES_ON, "running", 0), (SUBAGENT, "completed", 1)):
        [card, *_] = nest(fragments(*events))
        assert (card.status, len(card.inside["turn"])) == (status, ends)


def test_earlier_call_does_not_take_an_end_back() -> None:
    """A call that is remembered late, because a result of it has come."""
    growing = Growing(is_quiet=True)
    begun, *rest = fragments(SETTLED[0], call("a", turn="t1"), *SETTLED[1:])
    growing.add(begun)
    for one in rest[1:]:
        growing.add(one)

    growing.remember([rest[0]])

    assert growing.reopen("s", "t1", 3) == []
    assert [card.status for card in growing.reopen("s", "t1", 5)] == ["running"]


def lines(events: list[Produced]) -> list[str]:
    transcript = Transcript(columns=60, colour=False, full=False, cwd=None)
    found = [line for one in events for line in transcript.add(one.event)]
    return [line for line in [*found, *transcript.end()] if line.startswith("──")]


def test_transcript_shows_one_end() -> None:
    assert [line.rstrip("─ ") for line in lines(SETTLED)] == ["── turn 1 · completed · 1.0 s"]
    assert lines(GOES_ON) == []
    assert [line.rstrip("─ ") for line in lines(ENDED)] == ["── turn 1 · failed · 9.0 s · 1 call"]
