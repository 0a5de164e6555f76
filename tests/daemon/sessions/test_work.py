"""The progress of a session whose turn has a provisional end."""

from __future__ import annotations

from typing import Any

from tooltap.daemon.sessions.row import SessionRow
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Event, Message, ToolCall, Turn

PROVISIONAL: dict[str, Any] = {"state": "completed", "ended_by": "answer", "provisional": True, "synthetic": True}


class Row:
    def __init__(self) -> None:
        self.row = SessionRow(provider="toy", first_seq=1, last_seq=1)

    def note(self, kind: type[Event], ts: int, *, turn: str | None = "t1", **fields: Any) -> Row:
        seq = self.row.last_seq + 1
        envelope: dict[str, Any] = {
            "id": f"s:{seq}:0",
            "stream": "s",
            "line": seq,
            "session": "S",
            "protocol": "toy",
            "dialect": "toy",
        }
        self.row.note(seq, Produced.of(kind(v=2, provider="toy", turn=turn, ts=ts, **envelope, **fields)))
        return self

    def begun(self) -> Row:
        return self.note(Turn, 1_000, state="started").note(Message, 3_000, role="assistant", text="Done.")

    @property
    def shown(self) -> tuple[str, int, int | None, int]:
        work = self.row.work
        duration = work.duration(self.row.first_ts, self.row.last_ts)
        return self.row.status(is_open=True, pending=""), work.turns, duration, work.errors


def test_provisional_end_completes_the_session() -> None:
    assert Row().begun().shown == ("running", 1, 2_000, 0)
    assert Row().begun().note(Turn, 3_000, **PROVISIONAL).shown == ("completed", 1, 2_000, 0)


def test_turn_that_goes_on_runs_again() -> None:
    row = Row().begun().note(Turn, 3_000, **PROVISIONAL)
    row.note(ToolCall, 9_000, call_id="a", name="Bash", input={}, status="running")

    assert row.shown == ("running", 1, 8_000, 0)


def test_work_of_a_subagent_does_not_reopen_the_turn() -> None:
    row = Row().begun().note(Turn, 3_000, **PROVISIONAL)
    row.note(Message, 9_000, role="assistant", text="Found.", agent="a")

    assert row.shown == ("completed", 1, 2_000, 0)


def test_real_end_counts_in_place_of_the_provisional_one() -> None:
    settled = Row().begun().note(Turn, 3_000, **PROVISIONAL)
    assert settled.note(Turn, 3_000, state="completed", ended_by="eof").shown == ("completed", 1, 2_000, 0)

    failed = Row().begun().note(Turn, 3_000, **PROVISIONAL).note(Message, 5_000, role="assistant", text="More.")
    failed.note(Turn, 5_000, **PROVISIONAL).note(Turn, 6_000, state="failed", duration_ms=5_500)
    assert failed.shown == ("failed", 1, 5_500, 1)


def test_failure_that_is_taken_back_is_no_error() -> None:
    row = Row().begun().note(Turn, 3_000, **PROVISIONAL | {"state": "failed"})
    assert row.shown == ("failed", 1, 2_000, 1)

    row.note(Message, 5_000, role="assistant", text="Done.")
    assert row.shown == ("running", 1, 4_000, 0)


def test_failure_is_counted_once() -> None:
    row = Row().begun().note(Turn, 3_000, **PROVISIONAL | {"state": "failed"}).note(Turn, 3_000, state="failed")

    assert row.shown == ("failed", 1, 2_000, 1)


def test_next_turn_is_counted_after_a_provisional_end() -> None:
    row = Row().begun().note(Turn, 3_000, **PROVISIONAL).note(Turn, 3_000, state="completed", ended_by="answer")
    row.note(Turn, 10_000, turn="t2", state="started").note(Turn, 11_000, turn="t2", state="completed")

    assert row.shown == ("completed", 2, 3_000, 0)
