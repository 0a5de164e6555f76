"""Whatever shows the tokens and the cost of a session has the same figures, over all recordings: the list of sessions,
each grouping of `usage`, the tab *Usage* by turn, and the outline."""

from __future__ import annotations

import pytest

from tests.daemon.web.page.overview.histories import map_of, stored
from tests.daemon.web.page.overview.test_recordings import DIALECTS, events_of, name_of, recordings_of
from tooltap.daemon.sessions.row import SessionRow
from tooltap.daemon.sessions.usage import cost_of, report
from tooltap.daemon.web.page.tabs.usage import Spending
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Event
from tooltap.protocol.frames import UsageRequest
from tooltap.protocol.replies import UsageKey

KEYS: tuple[UsageKey, ...] = ("day", "model", "project", "agent", "session", "subagent")
CENT = 0.005


@pytest.mark.parametrize("dialect", DIALECTS)
def test_sums_are_one(dialect: str, subtests: pytest.Subtests) -> None:
    for path in recordings_of(dialect):
        sessions: dict[str, list[Event]] = {}
        for event in events_of(path):
            if not event.replay and not getattr(event, "partial", False):
                sessions.setdefault(event.session, []).append(event)
        for session, events in sessions.items():
            with subtests.test(name_of(path), session=session):
                check_sums(session, events)


def check_sums(session: str, events: list[Event]) -> None:
    row, spending = SessionRow(provider="", first_seq=1, last_seq=1), Spending()
    for seq, event in enumerate(events, 1):
        produced = Produced.of(event)
        row.note(seq, produced)
        spending.note(seq, produced.body)
    listed = row.describe(session, {}, pending="")
    sums = listed.get("inputTokens", 0), listed.get("outputTokens", 0)

    spent = row.spending(session)
    for by in KEYS:
        result = report([spent], UsageRequest(id=None, by=by, zone="Asia/Kolkata"))
        assert (result.total.input_tokens, result.total.output_tokens) == sums
        assert sum(one.input_tokens for one in result.rows) == sums[0]
        assert sum(one.output_tokens for one in result.rows) == sums[1]
        if "costUsd" in listed:
            assert (result.total.cost_usd or 0.0) == pytest.approx(listed["costUsd"], abs=CENT / 100)
            assert sum(one.cost_usd or 0.0 for one in result.rows) == pytest.approx(listed["costUsd"], abs=CENT)

    amounts = [turn.spent.amount for turn in spending.turns]
    assert (sum(one.input_tokens for one in amounts), sum(one.output_tokens for one in amounts)) == sums
    if "costUsd" in listed:
        of_turns = [cost_of([turn.spent]) for turn in spending.turns]
        assert sum(one.usd for one in of_turns if one is not None) == pytest.approx(listed["costUsd"], abs=CENT)
        entries = map_of(stored(*events)).outline
        outline = [entry.cost for entry in entries]
        # What a resumed session used before its first turn here has no entry, unless there were calls.
        if all(entry.number for entry in entries):
            outline += [cost for turn, cost in zip(spending.turns, of_turns, strict=True) if not turn.place.turn]
        whole = sum(one.usd for one in outline if one is not None)
        assert whole == pytest.approx(listed["costUsd"], abs=CENT)
