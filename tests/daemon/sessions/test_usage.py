"""What a session's row keeps of tokens and costs, and what is made of it where it is read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.daemon.events import commit, event
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.prices import BOUNDS
from tooltap.daemon.sessions.row import SessionRow
from tooltap.daemon.sessions.usage import PARTS, SessionUsage, UsagePart, report
from tooltap.daemon.system.clock import wall_clock
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import ModelUsage, QuotaWindow, SessionEvent, Usage
from tooltap.protocol.frames import UsageRequest

DAY = 86_400_000


def used(scope: str = "step", prompt: int = 0, output: int = 0, **fields: Any) -> Produced:
    return event(Usage, scope=scope, input_tokens=prompt, output_tokens=output, **{"ts": DAY, **fields})


def usage_of(*events: Produced) -> SessionUsage:
    usage = SessionUsage()
    for one in events:
        usage.note(1, one.ts, one)
    return usage


def tokens(parts: list[UsagePart]) -> dict[str | None, int]:
    found: dict[str | None, int] = {}
    for part in parts:
        found[part.key.model] = found.get(part.key.model, 0) + part.amount.tokens
    return found


def test_prompts_are_summed_up_by_day_agent_model_and_size() -> None:
    usage = usage_of(
        used(prompt=10, output=1, model="a"),
        used(prompt=BOUNDS[0], output=1, model="a"),
        used(prompt=BOUNDS[0] + 1, output=1, model="a"),
        used(prompt=10, model="a", ts=2 * DAY),
        used(prompt=10, model="a", agent="helper"),
        used(prompt=10, model="b"),
    )

    found = [(one.key.day, one.key.agent, one.key.model, one.key.size, one.amount.tokens) for one in usage.once()]

    assert found == [
        (1, None, "a", 0, BOUNDS[0] + 12),
        (1, None, "a", 1, BOUNDS[0] + 2),
        (2, None, "a", 0, 10),
        (1, "helper", "a", 0, 10),
        (1, None, "b", 0, 10),
    ]


def test_the_model_is_the_events_else_that_of_the_agent_at_that_moment() -> None:
    def session(model: str, **fields: Any) -> Produced:
        return event(SessionEvent, state="updated", model=model, **fields)

    usage = usage_of(
        session("one"),
        used(prompt=1),
        session("two"),
        used(prompt=2),
        used(prompt=4, model="stated"),
        session("small", agent="helper"),
        used(prompt=8, agent="helper"),
        used(prompt=16, agent="other"),
    )

    assert tokens(usage.once()) == {"one": 1, "two": 2, "stated": 4, "small": 8, None: 16}


def test_totals_of_a_session_are_taken_apart_into_requests() -> None:
    usage = usage_of(
        used("session", 100, 10, context_used=110, model="a"),
        used("session", 100, 10, context_used=110, model="a"),
        used("session", 300, 30, context_used=220, model="b"),
        used("session", 700, 70, context_used=200, model="b"),
        used("session", 50, 5, context_used=55, model="a", agent="helper"),
    )

    assert tokens(usage.once()) == {"a": 165, "b": 660}
    assert [(one.key.agent, one.key.single) for one in usage.once()] == [
        (None, True),
        (None, True),
        (None, False),  # it was more than the last request
        ("helper", True),
    ]


def test_steps_turns_and_totals_are_counted_once() -> None:
    step, turn, total = used(prompt=10, model="a"), used("turn", 10, model="a"), used("session", 10, model="a")

    assert tokens(usage_of(step, turn, total).once()) == {"a": 10}
    assert tokens(usage_of(step, used("session", 25, model="a")).once()) == {"a": 25}
    assert tokens(usage_of(step, step, total).once()) == {"a": 20}
    assert tokens(usage_of(used("turn", 10), used("turn", 10), total).once()) == {None: 20}


def test_what_only_totals_have_is_added_model_by_model() -> None:
    models = [ModelUsage(model="a", input_tokens=30), ModelUsage(model="small", input_tokens=5)]
    total = used("session", 35, models=models)

    assert tokens(usage_of(used(prompt=20, model="a"), total, total).once()) == {"a": 30, "small": 5}
    assert tokens(usage_of(used(prompt=20, model="otherwise named"), total).once()) == {
        "otherwise named": 20,
        "small": 5,
        None: 10,
    }


def test_what_a_session_holds_is_bounded() -> None:
    usage = usage_of(*(used(prompt=1, model=f"model {number}") for number in range(3 * PARTS)))

    assert len(usage.parts) == PARTS + 1
    assert sum(tokens(usage.once()).values()) == 3 * PARTS
    days = usage_of(*(used(prompt=1, ts=number * DAY) for number in range(3 * PARTS)))
    assert len(days.parts) <= 2 * PARTS + 1


@pytest.mark.anyio
class TestOnAJournal:
    async def session(self, journal: Journal, *events: Produced) -> dict[str, Any]:
        await journal.commit(commit(*(Produced.of(one.event) for one in events)))
        (session,) = await journal.sessions()
        return session

    async def test_an_estimate_names_the_model_and_the_date_of_the_prices(self, journal: Journal) -> None:
        session = await self.session(
            journal, used(prompt=1_000_000, output=1_000_000, cache_read_tokens=400_000, model="gpt-5.1-codex")
        )

        assert session["costUsd"] == pytest.approx(0.6 * 1.25 + 0.4 * 0.125 + 10)
        assert session["costEstimated"] is True
        assert session["costModel"] == "openai/gpt-5.1"
        assert session["pricesDate"] >= "2025-01-01"
        assert session["cacheReadTokens"] == 400_000

    async def test_the_agents_own_figure_wins(self, journal: Journal) -> None:
        session = await self.session(journal, used(prompt=10, output=10, model="gpt-5.1", cost_usd=7.5))

        assert session["costUsd"] == 7.5
        assert "costEstimated" not in session

    @pytest.mark.parametrize("cost", [-1e308, -0.01, 1e308, float("nan"), float("inf")])
    async def test_no_cost_is_negative_or_endless(self, journal: Journal, cost: float) -> None:
        broken = used(prompt=10, model="none that is known")
        broken.event.cost_usd = cost  # type: ignore[attr-defined]
        session = await self.session(journal, broken)

        assert "costUsd" not in session

    async def test_a_session_with_an_unknown_model_has_no_cost(self, journal: Journal) -> None:
        session = await self.session(journal, used(prompt=10, model="gpt-5.1"), used(prompt=1, model="mystery"))

        assert session["inputTokens"] == 11
        assert "costUsd" not in session

    async def test_subagents_have_totals_of_their_own(self, journal: Journal) -> None:
        session = await self.session(
            journal,
            used("session", 100, 10, reasoning_tokens=3, context_used=110, context_size=1000),
            used("session", 50, 5, agent="helper", context_used=55, context_size=500),
            used("session", 200, 20, cache_write_tokens=7),
        )

        assert (session["inputTokens"], session["outputTokens"]) == (250, 25)
        assert (session["reasoningTokens"], session["cacheWriteTokens"]) == (3, 7)
        assert (session["contextUsed"], session["contextSize"]) == (110, 1000)


def test_session_and_report_have_the_same_sums() -> None:
    """Steps say more than the total, and the cost is shared out among models."""
    row = SessionRow(provider="toy", first_seq=1, last_seq=1)
    events = [
        used(prompt=100, output=10, model="a"),
        used(prompt=50, output=5, model="b", ts=2 * DAY),
        used("session", prompt=60, output=6, cost_usd=0.3),
    ]
    for seq, one in enumerate(events, 1):
        row.note(seq, one)
    session = row.describe("s", {}, pending="")

    result = report([row.spending("s")], UsageRequest(id=None, by="session"))

    for sums in (*result.rows, result.total):
        assert (sums.input_tokens, sums.output_tokens) == (session["inputTokens"], session["outputTokens"]) == (150, 15)
        assert (sums.cost_usd, sums.cost_estimated) == (session["costUsd"], False) == (0.3, False)
    by_model = report([row.spending("s")], UsageRequest(id=None, by="model"))
    assert {one.key: one.cost_usd for one in by_model.rows} == pytest.approx({"a": 0.2, "b": 0.1})
    assert all(one.cost_estimated for one in by_model.rows)
    assert "cacheReadTokens" not in session


def test_quotas_are_the_latest_windows_with_the_sessions_that_use_them() -> None:
    """Of each agent. A window that has been reset says nothing about now. Without a time of reset, it ends a length
    after it was stated."""
    now = wall_clock()
    hour = 3_600_000

    def row(*events: Produced) -> SessionRow:
        made = SessionRow(provider="", first_seq=1, last_seq=1)
        for seq, one in enumerate(events, 1):
            made.note(seq, one)
        return made

    def spent(tokens: int, age: float, *quota: QuotaWindow) -> Produced:
        at = round(now - age * hour)
        return used(prompt=tokens, model="m", ts=at, quota=list(quota) or None, provider="codex")

    five: dict[str, Any] = {"name": "primary", "minutes": 300}
    rows = {
        "old": row(spent(1_000, 4, QuotaWindow(used_percent=10, resets_at=now + hour, **five))),
        "new": row(
            spent(7_000, 6),
            spent(10, 2),
            spent(20, 1, QuotaWindow(used_percent=35, resets_at=now + 2 * hour, **five)),
        ),
        "none": row(spent(5, 1)),
        "reset": row(spent(1, 1, QuotaWindow(name="secondary", minutes=10_080, resets_at=now - 1))),
        "other": row(used(ts=now - hour, quota=[QuotaWindow(name="five_hour", minutes=300)])),
    }
    spendings = [one.spending(name) for name, one in rows.items()]

    quotas = report(spendings, UsageRequest(id=None)).quotas or []

    assert [(one.provider, one.name, one.used_percent, one.resets_at) for one in quotas] == [
        ("codex", "primary", 35, now + 2 * hour),
        ("gemini", "five_hour", None, now + 4 * hour),
    ]
    assert [(one.session, one.tokens) for one in quotas[0].sessions] == [("new", 30), ("none", 5), ("reset", 1)]
    assert report(spendings, UsageRequest(id=None, session=("new",))).quotas is None


def test_row_of_an_older_version_has_days() -> None:
    """Its parts have no width: they are of a day (UTC), and belong to the same date in other zones."""
    stored = (
        b'{"provider":"toy","first_seq":1,"last_seq":1,"used":{"parts":[[["step",20000,null,"a",0,true],[100,10]]]}}'
    )
    row = msgspec.json.decode(stored, type=SessionRow)
    row.note(2, used(prompt=1, model="a", ts=20_000 * DAY + 1))

    for zone in (None, "America/Los_Angeles", "Asia/Tokyo"):
        result = report([row.spending("s")], UsageRequest(id=None, by="day", zone=zone))
        days = {one.key: one.input_tokens for one in result.rows}
        assert days == ({"2024-10-04": 100, "2024-10-03": 1} if zone == "America/Los_Angeles" else {"2024-10-04": 101})


def test_times_of_parts_become_longer_if_there_are_many() -> None:
    quarter = DAY // 96
    usage = usage_of(*(used(prompt=1, model="a", ts=number * quarter) for number in range(300)))

    assert usage.width == 4
    assert {one.key.slot for one in usage.parts} == set(range(75))
    assert sum(tokens(usage.once()).values()) == 300
