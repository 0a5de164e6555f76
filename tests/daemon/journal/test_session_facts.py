"""What a session's row says of its work: status, turns, time, calls, errors, models, project. On every journal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.publishing import NOW, Clock, publish, streams_on
from tooltap.daemon.journal.interface import Journal
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Message, PermissionRequest, PermissionResponse, SessionEvent, Turn

pytestmark = pytest.mark.anyio


def turn(state: str, **fields: Any) -> Produced:
    return event(Turn, state=state, **fields)


def prompt(text: str, **fields: Any) -> Produced:
    return event(Message, role="user", text=text, **fields)


def ask() -> Produced:
    return event(PermissionRequest, permission_id="p", type="permission")


def answer(**fields: Any) -> Produced:
    return event(PermissionResponse, permission_id="p", outcome="allowed", **fields)


async def the_session(journal: Journal) -> dict[str, Any]:
    (session,) = await journal.sessions()
    return session


@pytest.mark.parametrize(
    ("events", "state", "status"),
    [
        ([turn("started")], "open", "running"),
        ([turn("started", agent="helper")], "open", "completed"),
        ([turn("started")], "suspended", "interrupted"),
        ([turn("started")], "ended", "interrupted"),
        ([turn("started"), event(SessionEvent, state="ended")], "open", "interrupted"),
        ([turn("started"), ask()], "open", "waiting"),
        ([turn("started"), ask(), ask(), answer()], "open", "running"),
        ([turn("started"), ask()], "suspended", "interrupted"),
        ([turn("completed"), ask()], "ended", "completed"),
        ([turn("started"), turn("completed")], "open", "completed"),
        ([turn("started"), turn("failed")], "open", "failed"),
        ([turn("started"), turn("cancelled")], "ended", "interrupted"),
        ([message("hello")], "open", "completed"),
    ],
)
async def test_status(journal: Journal, events: list[Produced], state: str, status: str) -> None:
    fresh = [Produced.of(one.event) for one in events]  # a journal drops the fields of what it has stored
    await journal.commit(commit(*fresh, state=state))

    assert (await the_session(journal))["status"] == status


async def test_pending_permission_ends_with_its_stream(journal: Journal) -> None:
    await journal.commit(commit(ask()))
    await journal.commit(commit(turn("started", stream="t"), stream="t"))
    assert (await the_session(journal))["status"] == "waiting"

    await journal.commit(commit(base=1, state="ended"))

    assert (await the_session(journal))["status"] == "running"


async def test_time_is_what_the_turns_took(journal: Journal) -> None:
    first = [turn("started", ts=1_000), message("a", ts=2_000), turn("completed", ts=4_000)]
    await journal.commit(commit(*first, turn("started", ts=90_000), turn("completed", ts=99_000, duration_ms=500)))
    assert (await the_session(journal))["durationMs"] == 3_500

    await journal.commit(commit(turn("started", ts=100_000), message("b", ts=100_700), base=1))
    session = await the_session(journal)
    assert (session["durationMs"], session["turns"]) == (4_200, 3)


async def test_without_turns_the_time_is_from_first_to_last(journal: Journal) -> None:
    await journal.commit(commit(message("a", ts=1_000), message("b", ts=4_000)))

    assert (await the_session(journal))["durationMs"] == 3_000


@pytest.mark.usefixtures("toy")
async def test_end_of_a_stream_is_no_activity(journal: Journal) -> None:
    clock = Clock()
    async with streams_on(journal, clock) as streams:
        publisher = await publish(streams)
        await publisher.lines({"do": "begin"})
        clock.now += 4_000
        await publisher.lines({"do": "call", "id": "1", "name": "Bash", "input": {"command": "ls"}})
        clock.now += 94_000
        await streams.end("s")

    session = await the_session(journal)
    assert (session["lastTs"], session["durationMs"], session["status"]) == (NOW + 4_000, 4_000, "interrupted")


async def test_calls_by_family_and_time(journal: Journal) -> None:
    names = ["Bash", "Read", "Grep", "Edit", "mcp__db__query", "Frobnicate"]
    calls = [call(str(number), name=name, ts=number * 1_000) for number, name in enumerate(names)]
    await journal.commit(commit(*calls, call("later", ts=100_000)))

    session = await the_session(journal)
    assert session["families"] == {"shell": 2, "read": 1, "search": 1, "edit": 1, "mcp": 1, "other": 1}
    assert session["activityMs"] == 8_000
    assert len(session["activity"]) == 13
    assert session["activity"][0] == {"shell": 1, "read": 1, "search": 1, "edit": 1, "mcp": 1, "other": 1}
    assert session["activity"][1:] == [{}] * 11 + [{"shell": 1}]


async def test_errors_are_calls_and_turns_that_failed(journal: Journal) -> None:
    failed = result("1", status="failed", is_error=True)
    await journal.commit(commit(failed, result("2"), result("3", status="denied"), turn("failed")))

    assert (await the_session(journal))["errors"] == 2


async def test_models_and_project(journal: Journal) -> None:
    used = ["a", "b", "a", "c"]
    changes = [event(SessionEvent, state="updated", model=one, cwd=f"/work/{one}") for one in used]
    await journal.commit(commit(*changes, event(SessionEvent, state="updated", branch="main")))

    session = await the_session(journal)
    assert (session["model"], session["models"]) == ("c", ["a", "b", "c"])
    assert (session["cwd"], session["project"], session["branch"]) == ("/work/c", "/work/a", "main")


async def test_title_is_the_first_prompt_until_the_agent_states_one(journal: Journal) -> None:
    commands = [prompt("/compact"), prompt("! git status")]
    said = [prompt("of a helper", agent="x"), *commands, message("Hi"), prompt("Fix the\nbuild"), prompt("Go")]
    await journal.commit(commit(*said))
    assert (await the_session(journal))["title"] == "Fix the build"

    await journal.commit(commit(event(SessionEvent, state="updated", title="The build"), base=1))
    assert (await the_session(journal))["title"] == "The build"


async def test_session_under_two_names_is_one(journal: Journal) -> None:
    early = [prompt("Fix it", ts=1_000), turn("started", ts=1_000), call("1", ts=2_000), ask()]
    await journal.commit(commit(*early))
    known = event(SessionEvent, session="real", state="updated", alias="session-1", ts=2_500)
    later = turn("completed", session="real", ts=3_000)
    await journal.commit(commit(known, later, answer(session="real"), base=1))

    session = await the_session(journal)
    assert (session["session"], session["title"], session["turns"]) == ("real", "Fix it", 1)
    assert (session["status"], session["durationMs"]) == ("completed", 2_000)
    assert session["activity"] == [{}, {"shell": 1}, {}]
