"""The contract with each agent: after a fork, a resumption in a new process, a compaction or a rewind, the total of a
journal is what was used before, and the new request.

The lines are cut from runs of the named versions against a model that answers from a script. Its request `n`, from 0
on, has a prompt of 1,000 + 2ⁿ tokens, 500 of which were cached, and an answer of 10 + n. So a sum tells its requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.daemon.journal.test_lineage import origins, publish, tokens
from tests.normalizers.dialects.claude import test_claude_history as claude
from tests.normalizers.dialects.claude.transcripts import line as claude_line
from tests.normalizers.dialects.cline import test_cline_session as cline
from tests.normalizers.dialects.codex import test_codex_lineage as codex
from tests.normalizers.dialects.gemini.helpers import HEADER, message
from tests.normalizers.dialects.pi import test_pi_session as pi
from tests.normalizers.dialects.qwen import test_qwen_chat as qwen
from tests.normalizers.dialects.vibe import test_vibe_session as vibe
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.protocol.events import Notice, decode
from tooltap.protocol.frames import UsageRequest

pytestmark = pytest.mark.anyio


def prompt(n: int) -> int:
    return 1_000 + (1 << n)


def answer(n: int) -> int:
    return 10 + n


def requests(*numbers: int) -> tuple[int, int]:
    return sum(map(prompt, numbers)), sum(map(answer, numbers))


async def total(journal: Journal) -> tuple[int, int]:
    """Return the tokens of all sessions, which are one sum: of `sessions`, and of `usage` by whatever."""
    listed = await journal.sessions()
    sums = {tuple(sum(one.get(f"{name}Tokens") or 0 for one in listed) for name in ("input", "output"))}
    for by in ("session", "model", "day"):
        result = await journal.usage(UsageRequest(by=by))
        sums |= {(result.total.input_tokens, result.total.output_tokens)}
        sums |= {(sum(row.input_tokens for row in result.rows), sum(row.output_tokens for row in result.rows))}
    (found,) = sums
    return int(found[0]), int(found[1])


async def facts(journal: Journal) -> dict[str, tuple[int, int]]:
    """Return session -> its turns and its input tokens."""
    return {one["session"]: (one["turns"], one.get("inputTokens") or 0) for one in await journal.sessions()}


async def notices(journal: Journal) -> list[str | None]:
    found, _ = await journal.read(0)
    events = [decode(each.body) for each in found]
    return [one.code for one in events if isinstance(one, Notice) and not one.replay]


# -- OpenCode 1.18.33 -------------------------------------------------------------------------------------------------

OPENCODE = "ses_de15b2d50ffeJyOWDiabop6Orh"
CREATED = 1_795_810_448_000


def opencode_used(numbers: Iterable[int]) -> dict[str, Any]:
    """Tokens and cost, at $1 for a million, $0.1 from the cache, and $10 for the output."""
    counted = list(numbers)
    fresh, output = sum(prompt(n) - 500 for n in counted), sum(map(answer, counted))
    cached, thought = 500 * len(counted), 7 * len(counted)
    tokens = {"input": fresh, "output": output - thought, "reasoning": thought, "cache": {"read": cached, "write": 0}}
    return {"tokens": tokens, "cost": round((fresh + cached / 10 + output * 10) / 1e6, 9)}


def opencode_step(n: int) -> dict[str, Any]:
    used = opencode_used([n])
    stated = {**used["tokens"], "total": prompt(n) + answer(n)}
    common = {"id": f"prt_{n}", "messageID": f"msg_a{n}", "sessionID": OPENCODE}
    return {**common, "type": "step-finish", "reason": "stop", "tokens": stated, "cost": used["cost"]}


def opencode_session(*numbers: int, kind: str = "session.updated") -> tuple[str, dict[str, Any]]:
    time = {"created": CREATED, "updated": CREATED + 1}
    return kind, {"info": {"id": OPENCODE, "title": "Two", "time": time, **opencode_used(numbers)}}


def opencode_turn(n: int, *before: int, compacts: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """A prompt and its answer. `before`: the requests that the session's total has before it."""
    ask: dict[str, Any] = {"type": "compaction", "auto": False} if compacts else {"type": "text", "text": f"prompt {n}"}
    user = {"id": f"msg_u{n}", "role": "user", "sessionID": OPENCODE, "time": {"created": CREATED + 10 * n}}
    reply = {"id": f"msg_a{n}", "role": "assistant", "sessionID": OPENCODE, "parentID": f"msg_u{n}"}
    done = {"created": CREATED + 10 * n + 1, "completed": CREATED + 10 * n + 2}
    said = {"id": f"prt_t{n}", "messageID": f"msg_a{n}", "sessionID": OPENCODE, "type": "text", "text": f"answer {n}"}
    return [
        ("message.updated", {"info": user}),
        ("message.part.updated", {"part": {"id": f"prt_u{n}", "messageID": f"msg_u{n}", **ask}}),
        ("message.updated", {"info": {**reply, "time": {"created": done["created"]}}}),
        ("message.part.updated", {"part": {**said, "time": {"start": done["created"], "end": done["completed"]}}}),
        ("message.part.updated", {"part": opencode_step(n)}),
        ("message.updated", {"info": {**reply, "time": done, "finish": "stop"}}),
        opencode_session(*before, n),
    ]


def opencode_removed(*numbers: int) -> list[tuple[str, dict[str, Any]]]:
    return [("message.removed", {"messageID": f"msg_{role}{n}"}) for n in numbers for role in "ua"]


def opencode_lines(dialect: str, events: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Rows of the database, or events of the bus."""
    told = [(kind, {"sessionID": OPENCODE, **data}) for kind, data in events]
    if dialect == "opencode-bus":
        return [{"id": f"evt_{at}", "type": kind, "properties": data} for at, (kind, data) in enumerate(told)]
    rows = [{"id": f"evt_{at}", "seq": at, "type": f"{kind}.1", "data": data} for at, (kind, data) in enumerate(told)]
    return [{"aggregate_id": OPENCODE, **row} for row in rows]


BOTH = pytest.mark.parametrize("dialect", ["opencode-db", "opencode-bus"])
BEGUN = [opencode_session(kind="session.created")]


async def test_opencode_run_continues_in_a_new_process(sqlite_journal: SqliteJournal) -> None:
    """`opencode run`, then with `--continue`, then with `--session`."""
    for n in range(3):
        common = {"timestamp": CREATED + n, "sessionID": OPENCODE}
        lines = [
            {"type": "step_start", **common, "part": {"id": f"prt_s{n}", "type": "step-start"}},
            {"type": "text", **common, "part": {"id": f"prt_t{n}", "type": "text", "text": "Yes.", "time": {"end": 1}}},
            {"type": "step_finish", **common, "part": opencode_step(n)},
        ]
        await publish(sqlite_journal, "opencode-run", f"run{n}", lines)

        assert await total(sqlite_journal) == requests(*range(n + 1))

    assert await facts(sqlite_journal) == {OPENCODE: (3, 3_007)}


@BOTH
async def test_opencode_continues_in_a_new_process(sqlite_journal: SqliteJournal, dialect: str) -> None:
    events = [*BEGUN, *opencode_turn(0), opencode_session(0), *opencode_turn(1, 0)]
    await publish(sqlite_journal, dialect, "a", opencode_lines(dialect, events))

    assert await total(sqlite_journal) == requests(0, 1)


@BOTH
async def test_opencode_compacts(sqlite_journal: SqliteJournal, dialect: str) -> None:
    compacted = [*opencode_turn(1, 0, compacts=True), *([("session.compacted", {})] if dialect[-3:] == "bus" else [])]
    events = [*BEGUN, *opencode_turn(0), *compacted, *opencode_turn(2, 0, 1)]
    await publish(sqlite_journal, dialect, "a", opencode_lines(dialect, events))

    assert await total(sqlite_journal) == requests(0, 1, 2)
    assert await notices(sqlite_journal) == ["compaction"]


@BOTH
async def test_opencode_reverts(sqlite_journal: SqliteJournal, dialect: str) -> None:
    """It takes what removed messages used off the session's total."""
    events = [*BEGUN, *opencode_turn(0), *opencode_turn(1, 0), *opencode_removed(1), opencode_session(0)]
    await publish(sqlite_journal, dialect, "a", opencode_lines(dialect, [*events, *opencode_turn(2, 0)]))

    assert await total(sqlite_journal) == requests(0, 1, 2)
    (listed,) = await sqlite_journal.sessions()
    assert listed["costUsd"] == pytest.approx(0.000651 + 0.000662 + 0.000674)


@BOTH
async def test_opencode_reverts_all_of_a_session(sqlite_journal: SqliteJournal, dialect: str) -> None:
    events = [*BEGUN, *opencode_turn(0), *opencode_removed(0), opencode_session()]
    events += [*opencode_turn(1), *opencode_turn(2, 1)]
    await publish(sqlite_journal, dialect, "a", opencode_lines(dialect, events))

    assert await total(sqlite_journal) == requests(0, 1, 2)


# -- Copilot CLI 1.0.102 ----------------------------------------------------------------------------------------------

COPILOT = "50e9ee25-b510-4558-86f6-187743430127"


def copilot(kind: str, **data: Any) -> dict[str, Any]:
    stamp = {"id": "e", "parentId": None, "timestamp": "2026-11-27T20:14:07.211Z"}
    return {"type": kind, "data": data, **stamp}


def copilot_used(*numbers: int) -> dict[str, int]:
    read = 500 * len(numbers)
    sums = dict(zip(("inputTokens", "outputTokens"), requests(*numbers), strict=True))
    return {**sums, "cacheReadTokens": read, "cacheWriteTokens": 0}


def copilot_turn(n: int) -> list[dict[str, Any]]:
    usage = {"model": "gpt-5.1", **copilot_used(n), "apiCallId": f"call-{n}"}
    said = {"messageId": f"m{n}", "model": "gpt-5.1", "content": "Yes.", "toolRequests": [], "apiCallId": f"call-{n}"}
    return [
        copilot("user.message", content=f"prompt {n}", messageId=f"u{n}", interactionId=f"i{n}", delivery="idle"),
        copilot("session.usage_record", usage=usage),
        copilot("assistant.message", **said),
        copilot("assistant.turn_end", turnId="0"),
    ]


def copilot_ends(*numbers: int) -> dict[str, Any]:
    metrics = {"gpt-5.1": {"requests": {"count": len(numbers), "cost": 0}, "usage": copilot_used(*numbers)}}
    return copilot("session.shutdown", shutdownType="routine", accountingSnapshot={"modelMetrics": metrics})


COPILOT_BEGINS = copilot("session.start", sessionId=COPILOT, selectedModel="gpt-5.1", copilotVersion="1.0.102")
COPILOT_RESUMES = copilot("session.resume", selectedModel="gpt-5.1")
COPILOT_FIRST = [COPILOT_BEGINS, *copilot_turn(0), copilot_ends(0)]


def copilot_compacts(n: int, **used: Any) -> list[dict[str, Any]]:
    used = used or {"model": "gpt-5.1", "requestCount": 1, **copilot_used(n)}
    done = {"success": True, "summaryContent": "Yes.", "compactionAttemptId": "c", "compactionTokensUsed": used}
    return [
        copilot("session.compaction_start", compactionAttemptId="c"),
        copilot("model.turn_started", turn=0),
        copilot("session.compaction_complete", **done),
        copilot("session.usage_checkpoint", totalNanoAiu=0),
    ]


async def test_copilot_continues_in_a_new_process(sqlite_journal: SqliteJournal) -> None:
    lines = [*COPILOT_FIRST, COPILOT_RESUMES, *copilot_turn(1), copilot_ends(0, 1)]
    await publish(sqlite_journal, "copilot-json", "a", lines)

    assert await total(sqlite_journal) == requests(0, 1)


async def test_copilot_compacts(sqlite_journal: SqliteJournal) -> None:
    """In a process of its own; totals leave its request out."""
    compacted = [*COPILOT_FIRST, COPILOT_RESUMES, *copilot_compacts(1), copilot_ends(0)]
    more = [COPILOT_RESUMES, *copilot_turn(2), copilot_ends(0, 2)]
    await publish(sqlite_journal, "copilot-json", "a", [*compacted, *more])

    assert await total(sqlite_journal) == requests(0, 1, 2)
    assert await facts(sqlite_journal) == {COPILOT: (2, 3_007)}


async def test_copilot_compacts_while_it_works(sqlite_journal: SqliteJournal) -> None:
    lines = [COPILOT_BEGINS, *copilot_turn(0), *copilot_compacts(1), *copilot_turn(2), copilot_ends(0, 2)]
    await publish(sqlite_journal, "copilot-json", "a", lines)

    assert await total(sqlite_journal) == requests(0, 1, 2)


async def test_copilot_total_may_include_a_compaction(sqlite_journal: SqliteJournal) -> None:
    lines = [COPILOT_BEGINS, *copilot_turn(0), *copilot_compacts(1), *copilot_turn(2), copilot_ends(0, 1, 2)]
    await publish(sqlite_journal, "copilot-json", "a", lines)

    assert await total(sqlite_journal) == requests(0, 1, 2)


async def test_copilot_was_killed_after_a_compaction(sqlite_journal: SqliteJournal) -> None:
    """As of 2025, with the names that its tokens had then."""
    used = {"input": prompt(1), "output": answer(1), "cachedInput": 500}
    lines = [COPILOT_BEGINS, *copilot_turn(0), *copilot_compacts(1, **used), COPILOT_RESUMES, *copilot_turn(2)]
    await publish(sqlite_journal, "copilot-json", "a", lines)

    assert await total(sqlite_journal) == requests(0, 1, 2)


async def test_copilot_request_of_a_compaction_counts_once(sqlite_journal: SqliteJournal) -> None:
    asked = copilot("assistant.usage", model="gpt-5.1", **copilot_used(1), apiCallId="call-1", providerCallId="req-1")
    compacted = copilot("session.compaction_complete", requestId="req-1", compactionTokensUsed=copilot_used(1))
    await publish(sqlite_journal, "copilot-json", "a", [COPILOT_BEGINS, *copilot_turn(0), asked, compacted])

    assert await total(sqlite_journal) == requests(0, 1)


async def test_copilot_rewinds(sqlite_journal: SqliteJournal) -> None:
    rewound = copilot("session.snapshot_rewind", upToEventId="e", eventsRemoved=4)
    lines = [COPILOT_BEGINS, *copilot_turn(0), *copilot_turn(1), rewound, *copilot_turn(2), copilot_ends(0, 1, 2)]
    await publish(sqlite_journal, "copilot-json", "a", lines)

    assert await total(sqlite_journal) == requests(0, 1, 2)
    assert await notices(sqlite_journal) == ["rewound", "shutdown"]


# -- Kimi CLI 1.40.0 --------------------------------------------------------------------------------------------------


def kimi(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": CREATED / 1_000, "message": {"type": kind, "payload": payload}}


def kimi_turn(n: int) -> list[dict[str, Any]]:
    used = {"input_other": prompt(n) - 500, "output": answer(n), "input_cache_read": 500, "input_cache_creation": 0}
    return [
        kimi("TurnBegin", user_input=f"prompt {n}"),
        kimi("ContentPart", type="text", text="Yes."),
        kimi("StatusUpdate", token_usage=used, message_id=f"chatcmpl-{n}"),
        kimi("TurnEnd"),
    ]


KIMI_COMPACTS = [
    kimi("TurnBegin", user_input="/compact"),
    kimi("CompactionBegin"),
    kimi("CompactionEnd"),
    kimi("StatusUpdate", context_tokens=20, token_usage=None, message_id=None),
    kimi("TurnEnd"),
]


async def test_kimi_cli_continues_and_compacts(sqlite_journal: SqliteJournal) -> None:
    """It states no tokens of the compaction's own request: what it states later is added."""
    lines = [{"type": "metadata", "protocol_version": "1.9"}, *kimi_turn(0), *kimi_turn(1), *KIMI_COMPACTS]
    await publish(sqlite_journal, "kimi-wire", "a", [*lines, *kimi_turn(3)], session="s")

    assert await total(sqlite_journal) == requests(0, 1, 3)
    assert await notices(sqlite_journal) == ["compaction"]


async def test_kimi_cli_continues_in_wire_mode(sqlite_journal: SqliteJournal) -> None:
    for n, process in enumerate("ab"):
        events = [one["message"] for one in kimi_turn(n)]
        lines = [{"jsonrpc": "2.0", "method": "event", "params": event} for event in events]
        await publish(sqlite_journal, "kimi-json", process, lines, session="s")

    assert await total(sqlite_journal) == requests(0, 1)


# -- Kimi Code 2.1.0 --------------------------------------------------------------------------------------------------


def kimi_code(of_type: str, at: int, **more: Any) -> dict[str, Any]:
    return {"type": of_type, "agentId": "main", "time": CREATED + at, **more}


def kimi_code_used(n: int) -> dict[str, int]:
    return {"inputOther": prompt(n) - 500, "output": answer(n), "inputCacheRead": 500, "inputCacheCreation": 0}


def kimi_code_turn(n: int) -> list[dict[str, Any]]:
    def loop(kind: str, **more: Any) -> dict[str, Any]:
        return kimi_code("context.append_loop_event", n, event={"type": kind, "turnId": str(n), **more})

    return [
        kimi_code("turn.prompt", n, input=[{"type": "text", "text": f"prompt {n}"}], turnId=n),
        kimi_code("usage.record", n, usage=kimi_code_used(n), usageScope="turn"),
        loop("content.part", part={"type": "text", "text": "Yes."}),
        loop("step.end", usage=kimi_code_used(n), messageId=f"chatcmpl-{n}"),
        kimi_code("turn.ended", n, turnId=n, reason="completed"),
    ]


def kimi_code_compacts(n: int) -> list[dict[str, Any]]:
    return [
        kimi_code("full_compaction.begin", n, source="manual"),
        kimi_code("llm.request", n, kind="compaction", model="fake-model"),
        kimi_code("usage.record", n, usage=kimi_code_used(n), usageScope="session"),
        kimi_code("context.apply_compaction", n, summary="All done."),
        kimi_code("token_counting.rebased", n, tokens=21_775),
        kimi_code("full_compaction.complete", n),
    ]


KIMI_CODE_HEADER = {"type": "metadata", "protocol_version": "1.5", "created_at": CREATED}
KIMI_CODE_BEGINS = [KIMI_CODE_HEADER, kimi_code("profile.bind", 0)]


async def test_kimi_code_continues_compacts_and_rewinds(sqlite_journal: SqliteJournal) -> None:
    lines = [*KIMI_CODE_BEGINS, *kimi_code_turn(0), *kimi_code_turn(1), *kimi_code_compacts(2), *kimi_code_turn(3)]
    undone = [kimi_code("context.undo", 4, count=1), *kimi_code_turn(4)]
    await publish(sqlite_journal, "kimi-session", "a", [*lines, *undone], session="s")

    assert await total(sqlite_journal) == requests(0, 1, 2, 3, 4)
    assert await notices(sqlite_journal) == ["compaction", "rewound"]
    assert (await facts(sqlite_journal))["s"][0] == 4


async def test_kimi_code_forks(sqlite_journal: SqliteJournal) -> None:
    """The copied requests, also that of a compaction, are the parent's."""
    parent = [*KIMI_CODE_BEGINS, *kimi_code_turn(0), *kimi_code_compacts(1)]
    fork = [*parent, kimi_code("forked", 2), *kimi_code_turn(2)]
    await publish(sqlite_journal, "kimi-session", "a", parent, session="parent")
    await publish(sqlite_journal, "kimi-session", "b", fork, session="fork")

    assert await total(sqlite_journal) == requests(0, 1, 2)
    assert await tokens(sqlite_journal) == {"parent": requests(0, 1)[0], "fork": requests(2)[0]}
    assert await origins(sqlite_journal) == {"parent": None, "fork": "parent"}


# -- Droid 0.215.0 ----------------------------------------------------------------------------------------------------

DROID = "683dec73-1090-4a80-8c7e-2b8f9c4d12c4"
DROID_NEXT = "58ec2e04-7788-431c-914a-42f87f2bfb23"


def droid_id(kind: str, n: int) -> str:
    return f"{kind}{n}cef5f73-8f23-4ce3-b9fe-abfd89148b6b"


def droid_begins(session: str = DROID, **more: Any) -> dict[str, Any]:
    return {"type": "session_start", "id": session, "title": "hello", "version": 2, "cwd": "/ws", **more}


def droid_turn(n: int, after: int | None) -> list[dict[str, Any]]:
    """A prompt and its answer. `after`: the turn that it follows."""

    def said(role: str, parent: str | None, **more: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": f"{role} {n}"}]
        entry = {"type": "message", "id": droid_id(role[0], n), "timestamp": "2026-11-27T20:27:36.128Z"}
        return {**entry, "parentId": parent, "message": {"role": role, "content": content, **more}}

    return [
        said("user", None if after is None else droid_id("a", after)),
        said("assistant", droid_id("u", n), modelId="custom:fake-0"),
        {"type": "agent_turn_outcome", "turnId": droid_id("u", n), "reason": "completed", "resultKind": "text"},
    ]


def droid_settings(*numbers: int, **more: Any) -> dict[str, Any]:
    fresh, output = sum(prompt(n) - 500 for n in numbers), sum(map(answer, numbers))
    cached = {"cacheCreationTokens": 0, "cacheReadTokens": 500 * len(numbers)}
    used = {"inputTokens": fresh, "outputTokens": output, **cached}
    lock = {"providerLock": "generic-chat-completion-api", "providerLockTimestamp": "2026-11-27T20:27:35.968Z"}
    return {"assistantActiveTimeMs": 1, "model": "custom:fake-0", "tokenUsage": used, **lock, **more}


async def droid(journal: Journal, session: str, lines: list[dict[str, Any]], *settings: dict[str, Any]) -> None:
    await publish(journal, "droid-session", session, lines)
    await publish(journal, "droid-session", f"{session}.settings", settings, session=session)


async def test_droid_continues_in_a_new_process(sqlite_journal: SqliteJournal) -> None:
    lines = [droid_begins(), *droid_turn(0, None), *droid_turn(1, 0)]
    await droid(sqlite_journal, DROID, lines, droid_settings(0), droid_settings(0, 1))

    assert await total(sqlite_journal) == requests(0, 1)
    assert await facts(sqlite_journal) == {DROID: (2, 2_003)}


@pytest.mark.parametrize("order", [(DROID, DROID_NEXT), (DROID_NEXT, DROID)], ids=["parent first", "fork first"])
async def test_droid_forks(sqlite_journal: SqliteJournal, order: tuple[str, ...]) -> None:
    """A rewind is a fork of what precedes the prompt. A fork has settings of its own from its first request on."""
    copied, dropped = droid_turn(0, None), droid_turn(1, 0)
    begins = droid_begins(DROID_NEXT, parent=DROID, forkedAtMessageId=droid_id("a", 0))
    files = {
        DROID: ([droid_begins(), *copied, *dropped], droid_settings(0, 1)),
        DROID_NEXT: ([begins, *copied, *droid_turn(2, 0)], droid_settings(2)),
    }
    for session in order:
        await droid(sqlite_journal, session, *files[session])

    assert await total(sqlite_journal) == requests(0, 1, 2)
    assert await facts(sqlite_journal) == {DROID: (2, requests(0, 1)[0]), DROID_NEXT: (1, requests(2)[0])}
    assert await origins(sqlite_journal) == {DROID: None, DROID_NEXT: DROID}
    assert await notices(sqlite_journal) == []


async def test_droid_compacts(sqlite_journal: SqliteJournal) -> None:
    """The session goes on as another one, whose total includes what was used before."""
    summary = {"type": "compaction_state", "id": droid_id("c", 1), "timestamp": "2026-11-27T20:27:46.307Z"}
    lines = [droid_begins(DROID_NEXT, parent=DROID), {**summary, "summaryText": "All done."}, *droid_turn(2, None)]
    begun = droid_settings(0, 1, pendingSessionStartSource="compact")
    await droid(sqlite_journal, DROID, [droid_begins(), *droid_turn(0, None)], droid_settings(0), droid_settings(0, 1))
    await droid(sqlite_journal, DROID_NEXT, lines, begun, droid_settings(0, 1, 2))

    assert await total(sqlite_journal) == requests(0, 1, 2)
    assert await facts(sqlite_journal) == {DROID: (1, requests(0, 1)[0]), DROID_NEXT: (1, requests(2)[0])}
    assert {one["session"]: one.get("resumes") for one in await sqlite_journal.sessions()}[DROID_NEXT] == DROID


# -- Continue 1.5.47 --------------------------------------------------------------------------------------------------


def continue_document(answered: Iterable[int], used: Iterable[int]) -> dict[str, Any]:
    """`answered`: the requests whose answers the history has; `used`: those of the session's total."""
    history: list[dict[str, Any]] = []
    for n in answered:
        cached = {"prompt_tokens_details": {"cached_tokens": 500}}
        tokens = {"prompt_tokens": prompt(n), "completion_tokens": answer(n), **cached}
        reply = {"role": "assistant", "content": f"answer {n}", "usage": {**tokens, "model": "fake-model"}}
        history += [{"message": {"role": "user", "content": f"prompt {n}"}}, {"message": reply}]
    sums = dict(zip(("promptTokens", "completionTokens"), requests(*used), strict=True))
    usage = {"totalCost": 0.001 * len(list(used)), **sums, "promptTokensDetails": {"cachedTokens": 0}}
    return {"sessionId": "one", "workspaceDirectory": "/ws", "history": history, "usage": usage}


async def test_continue_goes_on_in_a_new_process(sqlite_journal: SqliteJournal) -> None:
    documents = [continue_document([0], [0]), continue_document([0, 1], [0, 1])]
    await publish(sqlite_journal, "continue-session", "a", documents)

    assert await total(sqlite_journal) == requests(0, 1)


async def test_continue_compacts(sqlite_journal: SqliteJournal) -> None:
    """The request is in the total alone."""
    told = [continue_document([0], [0]), continue_document([0], [0, 1]), continue_document([0, 2], [0, 1, 2])]
    await publish(sqlite_journal, "continue-session", "a", told)

    assert await total(sqlite_journal) == requests(0, 1, 2)
    (listed,) = await sqlite_journal.sessions()
    assert (listed["turns"], listed["cacheReadTokens"], listed["costUsd"]) == (2, 1_000, pytest.approx(0.003))


async def test_continue_rewinds(sqlite_journal: SqliteJournal) -> None:
    told = [continue_document([0, 1], [0, 1]), continue_document([0, 2], [0, 1, 2])]
    await publish(sqlite_journal, "continue-session", "a", told)

    assert await total(sqlite_journal) == requests(0, 1, 2)
    assert await notices(sqlite_journal) == ["rewound"]


# -- Qwen Code 0.24.4 -------------------------------------------------------------------------------------------------


def qwen_turn(n: int, after: int | None) -> list[dict[str, Any]]:
    used = {"promptTokenCount": prompt(n), "candidatesTokenCount": answer(n), "cachedContentTokenCount": 500}
    parent = None if after is None else f"2{after}"
    return [
        qwen.user(f"1{n}", parent, 10 + n, f"prompt {n}"),
        qwen_response(n, f"{qwen.PARENT}########{n}"),
        qwen.reply(f"2{n}", f"1{n}", 10 + n, {"text": "Yes."}) | {"usageMetadata": used},
    ]


def qwen_response(n: int, prompt_id: str) -> dict[str, Any]:
    sums = {"input_token_count": prompt(n), "output_token_count": answer(n), "cached_content_token_count": 500}
    event = {"event.name": "qwen-code.api_response", "response_id": f"chatcmpl-{n}", "prompt_id": prompt_id, **sums}
    return qwen.note(f"3{n}", None, 10 + n, "ui_telemetry", {"uiEvent": {"model": "m", **event}})


async def test_qwen_continues_compacts_and_rewinds(sqlite_journal: SqliteJournal) -> None:
    """Requests of no message, to sum up the history and to extract memories, are in the telemetry alone; those of a
    subagent are in its own file."""
    memory = qwen_response(1, f"{qwen.PARENT}#managed-auto-memory-extractor-0fec2564#0")
    done = qwen.note("92", "20", 13, "chat_compression", {"info": {}})
    compacted = [qwen_response(2, "compress-1795811756834"), done]
    subagent = qwen_response(9, f"{qwen.PARENT}#general-purpose-call_8998f787#0")
    lines = [*qwen_turn(0, None), memory, *compacted, *qwen_turn(3, 0), subagent, *qwen_turn(4, 0)]
    await publish(sqlite_journal, "qwen-chat", "a", lines)

    assert await total(sqlite_journal) == requests(0, 1, 2, 3, 4)
    assert await notices(sqlite_journal) == ["compaction", "rewound"]


async def test_qwen_forks_after_a_compaction(sqlite_journal: SqliteJournal) -> None:
    parent = [*qwen_turn(0, None), qwen_response(1, "compress-1795811756834")]
    own = [{**one, "sessionId": qwen.FORK} for one in qwen_turn(2, 0)]
    await publish(sqlite_journal, "qwen-chat", "b", [*map(qwen.copied, parent), *own])
    await publish(sqlite_journal, "qwen-chat", "a", parent)

    assert await tokens(sqlite_journal) == {qwen.PARENT: requests(0, 1)[0], qwen.FORK: requests(2)[0]}


# -- Gemini CLI 0.61.0 ------------------------------------------------------------------------------------------------


def gemini_turn(n: int) -> list[dict[str, Any]]:
    figures = {"input": prompt(n), "output": answer(n) - 7, "thoughts": 7, "cached": 500, "tool": 0}
    stated = {**figures, "total": prompt(n) + answer(n)}
    return [
        message(f"u{n}", "user", [{"text": f"prompt {n}"}]),
        message(f"g{n}", "gemini", "Yes.", tokens=stated, model="gemini-2.5-flash"),
    ]


async def test_gemini_continues_and_rewinds(sqlite_journal: SqliteJournal) -> None:
    """A process that resumes a chat writes its head and its messages again."""
    again = [HEADER, {"$set": {"messages": gemini_turn(0)}}, {"$set": {"sessionId": "one"}}]
    lines = [HEADER, *gemini_turn(0), *again, *gemini_turn(1), {"$rewindTo": "u1"}, *gemini_turn(2)]
    await publish(sqlite_journal, "gemini-chat", "a", lines)

    assert await total(sqlite_journal) == requests(0, 1, 2)
    assert await notices(sqlite_journal) == ["rewound"]


async def test_gemini_prints_what_each_process_used(sqlite_journal: SqliteJournal) -> None:
    """The second one also sums up the history: two requests."""
    for process, numbers in enumerate(((0,), (1, 2))):
        start = {"type": "init", "timestamp": pi.at(1), "session_id": "one", "model": "gemini-2.5-flash"}
        sums = dict(zip(("input_tokens", "output_tokens"), requests(*numbers), strict=True))
        stats = {**sums, "total_tokens": sum(requests(*numbers)), "cached": 500 * len(numbers), "tool_calls": 0}
        said = {"type": "message", "timestamp": pi.at(2), "role": "user", "content": f"prompt {process}"}
        lines = [start, said, {"type": "result", "timestamp": pi.at(3), "status": "success", "stats": stats}]
        await publish(sqlite_journal, "gemini-stream", f"run{process}", lines)

    assert await total(sqlite_journal) == requests(0, 1, 2)


# -- Vibe 3.0.2 -------------------------------------------------------------------------------------------------------


def vibe_document(*numbers: int, copied: tuple[int, ...] = (), session: str = "one") -> dict[str, Any]:
    """`copied`: turns of the parent."""
    entries = [
        vibe.entry(f"{role}{n}", role, "parent" if n in copied else session, turn=f"t{n}")
        for n in (*copied, *numbers)
        for role in ("user", "assistant")
    ]
    used, output = requests(*numbers)
    document = vibe.stored(*entries, turn=f"t{numbers[-1]}")
    stated = {"inputTokens": used, "outputTokens": output, "cachedInputTokens": 500 * len(numbers)}
    document["snapshot"]["session"] = {"id": session, "tokenUsage": stated}
    return document


async def test_vibe_continues_and_forks(sqlite_journal: SqliteJournal) -> None:
    parent = [vibe_document(0, session="parent"), vibe_document(0, 1, session="parent")]
    await publish(sqlite_journal, "vibe-session", "a", parent)

    assert await total(sqlite_journal) == requests(0, 1)

    await publish(sqlite_journal, "vibe-session", "b", [vibe_document(2, copied=(0, 1), session="fork")])

    assert await total(sqlite_journal) == requests(0, 1, 2)
    assert await facts(sqlite_journal) == {"parent": (2, 2_003), "fork": (1, 1_004)}
    assert await origins(sqlite_journal) == {"parent": None, "fork": "parent"}


# -- others, with requests of one size --------------------------------------------------------------------------------


async def test_cline_compacts_and_rewinds(sqlite_journal: SqliteJournal) -> None:
    """A request has 100 tokens and 10: two, a summary, one after it, and one in place of that."""
    kept = (cline.reply("msg_S", "Summary."), *cline.OLD[2:])
    later = [(cline.user(f"u{n}", f"prompt {n}"), cline.reply(f"msg_A{n}", f"answer {n}")) for n in (3, 4)]
    documents = [cline.document(*cline.OLD), *(cline.document(*kept, *more) for more in later)]
    await publish(sqlite_journal, "cline-session", "a", documents)

    assert await total(sqlite_journal) == (500, 50)


async def test_pi_continues_compacts_and_rewinds(sqlite_journal: SqliteJournal) -> None:
    """A request has 120 tokens and 14, that of the compaction included."""
    summary = pi.entry("s", "d", 14, "compaction", summary="Two.", firstKeptEntryId="c", usage=pi.usage())
    again = [pi.prompt("e", "s", 15, "Third"), pi.reply("f", "e", 16, pi.text("Three."))]
    better = [pi.prompt("g", "s", 17, "Third, better"), pi.reply("h", "g", 18, pi.text("Four."))]
    lines = [pi.header(), *pi.HISTORY, *pi.OWN, summary, *again, *better]
    await publish(sqlite_journal, "pi-session", "a", lines)

    assert (await total(sqlite_journal))[0] == 5 * 120
    assert await notices(sqlite_journal) == ["compaction", "rewound"]


async def test_claude_compacts_and_rewinds(sqlite_journal: SqliteJournal) -> None:
    """A request has 100 tokens and 10: two, one after the compaction, and one in place of that."""
    boundary = claude_line("system", "b1", subtype="compact_boundary", logicalParentUuid="a2", content="Compacted")
    compacted = [boundary, claude.prompt("b2", "b1", isCompactSummary=True), *claude.TWO_TURNS]
    again = [claude.prompt("p3", "b2"), claude.answer("a3", "p3")]
    better = [claude.prompt("p4", "b2"), claude.answer("a4", "p4")]
    await publish(sqlite_journal, "claude-transcript", "a", [*claude.TWO_TURNS, *compacted, *again, *better])

    assert await total(sqlite_journal) == (400, 40)
    assert await notices(sqlite_journal) == ["compaction", "compaction-summary", "rewound"]


async def test_codex_continues_compacts_and_rewinds(sqlite_journal: SqliteJournal) -> None:
    """Requests of 1,000, 1,200, 1,300 and 1,500 tokens, of which the third is that of the compaction. A fork of two
    turns has one of 1,700."""
    at = "09:00:10.000"
    compacted = [codex.line(at, "compacted", message="Summary."), codex.counted(at, 3_500, 1_300)]
    rewound = codex.event("09:00:20.000", "thread_rolled_back", num_turns=1)
    own = [*compacted, rewound, *codex.turn("09:00:30.000", "t4", "four", 5_000, 1_500)]
    parent = [codex.PARENTS, *codex.history("t"), *own]
    fork = [codex.FORK, codex.PARENTS, *codex.history("t"), *codex.turn("09:00:40.000", "t5", "five", 3_900, 1_700)]
    await publish(sqlite_journal, "codex-rollout", "b", fork)
    await publish(sqlite_journal, "codex-rollout", "a", parent)

    assert await tokens(sqlite_journal) == {codex.PARENT: 5_000, codex.CHILD: 1_700}
    assert await notices(sqlite_journal) == ["compaction", "rewound"]
    assert await origins(sqlite_journal) == {codex.PARENT: None, codex.CHILD: codex.PARENT}
