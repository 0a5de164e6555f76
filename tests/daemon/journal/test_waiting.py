"""Sessions wait for a person: by requests, and by calls of tools that ask, until somebody answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message
from tooltap.daemon.journal.interface import Journal
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import PermissionRequest, PermissionResponse, ToolResult

pytestmark = pytest.mark.anyio

QUESTIONS = [{"question": "Which database?", "options": [{"label": "Postgres"}, {"label": "SQLite"}]}]


IN_FILE = {"dialect": "claude-transcript"}


def question(**fields: Any) -> Produced:
    return call("c1", name="AskUserQuestion", input={"questions": QUESTIONS}, ts=1_000, **{**IN_FILE, **fields})


def ended(call_id: str = "c1", name: str = "AskUserQuestion", line: int = 2) -> Produced:
    values: dict[str, Any] = {"output": {}, "status": "completed", "is_error": False}
    return event(ToolResult, line=line, call_id=call_id, name=name, **values)


async def status(journal: Journal) -> str:
    [one] = await journal.sessions()
    return str(one["status"])


async def asked(journal: Journal) -> list[dict[str, Any]]:
    return (await journal.open_calls())["permissions"]


async def test_question_in_a_session_file_waits_until_its_call_ends(journal: Journal) -> None:
    await journal.commit(commit(question()))
    [stored], _ = await journal.read(0)
    assert await status(journal) == "waiting"
    [one] = await asked(journal)
    assert one.pop("seq") == stored.seq
    assert one == {
        "stream": "s",
        "session": "session-1",
        "permissionId": "c1",
        "type": "question",
        "callId": "c1",
        "name": "AskUserQuestion",
        "questions": QUESTIONS,
        "fromCall": True,
        "ts": 1_000,
    }
    await journal.commit(commit(ended(), base=1))
    assert (await status(journal), await asked(journal)) == ("completed", [])


async def test_plan_in_a_session_file_waits_for_approval(journal: Journal) -> None:
    await journal.commit(commit(call("c1", name="ExitPlanMode", preview="Do it", input={"plan": "Do it"}, **IN_FILE)))
    [one] = await asked(journal)
    assert (one["type"], one["title"], "questions" in one) == ("permission", "Do it", False)
    await journal.commit(commit(ended(name="ExitPlanMode"), base=1))
    assert await asked(journal) == []


async def test_stated_request_of_the_call_takes_its_place(journal: Journal) -> None:
    request = event(PermissionRequest, line=2, permission_id="7", type="question", call_id="c1", questions=QUESTIONS)
    await journal.commit(commit(question(), request, lines=2))
    [one] = await asked(journal)
    assert (one["permissionId"], "fromCall" in one) == ("7", False)
    answer = event(PermissionResponse, line=3, permission_id="7", outcome="answered")
    await journal.commit(commit(answer, base=2))
    assert await asked(journal) == []


async def test_permission_with_the_id_of_a_call_is_another_one(journal: Journal) -> None:
    request = event(PermissionRequest, line=2, permission_id="c1", type="permission", call_id="c2")
    await journal.commit(commit(question(), request, lines=2))
    await journal.commit(commit(event(PermissionResponse, line=3, permission_id="c1", outcome="allowed"), base=2))
    [one] = await asked(journal)
    assert (one["callId"], one["fromCall"]) == ("c1", True)


async def test_question_that_an_agent_only_prints_waits_for_nobody(journal: Journal) -> None:
    await journal.commit(commit(question(dialect="claude-stream")))
    assert (await status(journal), await asked(journal)) == ("completed", [])


async def test_question_of_a_hook_waits_though_the_hook_has_left(journal: Journal) -> None:
    """The agent's own dialog is open."""
    request = event(PermissionRequest, permission_id="q", type="permission", title='"fromHook":true')
    await journal.commit(commit(request, state="suspended"))
    assert await status(journal) == "interrupted"
    of_hook = event(PermissionRequest, permission_id="h", type="permission", dialect="hooks")
    await journal.commit(commit(of_hook, stream="hook", state="suspended"))
    assert await status(journal) == "waiting"
    assert (await journal.count_sessions())["status"] == {"waiting": 1}
    assert ["fromHook" in one for one in await asked(journal)] == [False, True]
    answer = event(PermissionResponse, line=2, permission_id="h", outcome="allowed", dialect="hooks")
    await journal.commit(commit(answer, stream="hook", base=1, state="ended"))
    assert await status(journal) == "interrupted"


async def test_stream_that_ended_waits_for_nobody(journal: Journal) -> None:
    await journal.commit(commit(question()))
    await journal.commit(commit(message("bye", line=2), base=1, state="ended"))
    assert (await status(journal), await asked(journal)) == ("completed", [])
