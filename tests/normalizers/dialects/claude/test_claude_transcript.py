"""Transcripts of Claude Code: bookkeeping, sessions, turns, messages and usage."""

import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.claude.transcripts import (
    FIXTURES,
    SESSION,
    V1,
    V2,
    events,
    line,
    read,
    recording,
    said,
    statistics,
    turns,
)
from tests.normalizers.reading import of
from tooltap.normalizers.catalog.registry import builtin, recognise
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.dialects.claude import AGENTS
from tooltap.normalizers.wire.decode import decode_line
from tooltap.protocol.events import (
    Message,
    Notice,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    Turn,
    Unparsed,
    Usage,
)
from tooltap.testing import Line, check_recording, normalize, read_recording

STORED = next(agent.store.files for agent in AGENTS if agent.store is not None)
ALL = sorted(FIXTURES.rglob("*.jsonl"))
IDS = [f"{path.parent.name}/{path.stem}" for path in ALL]


@pytest.mark.parametrize("path", ALL, ids=IDS)
def test_fixtures_have_no_unparsed_lines(path: Path) -> None:
    lines = read_recording(path.read_bytes())
    found = check_recording("claude-transcript", lines)

    assert of(Unparsed, found) == []


@pytest.mark.parametrize("path", ALL, ids=IDS)
def test_each_line_is_recognised(path: Path) -> None:
    for raw in path.read_bytes().splitlines():
        if raw.count(b'}{"'):
            continue
        pairs = list(orjson.loads(raw).items())
        random.Random(len(raw)).shuffle(pairs)
        assert recognise(dict(pairs)) == "claude-transcript"


def test_other_dialects_are_not_recognised() -> None:
    for path in sorted(FIXTURES.parent.rglob("*.jsonl")):
        if path.is_relative_to(FIXTURES):
            continue
        for one in read_recording(path.read_bytes()):
            assert isinstance(one.data, bytes)
            for value in decode_line(one.data, 200).values:
                assert not (isinstance(value, dict) and builtin()["claude-transcript"].recognises(value)), (path, value)


# -- what is skipped ----------------------------------------------------------------------------------------------


def test_bookkeeping_is_skipped_by_reason() -> None:
    stats = statistics(recording("subagent-async", V2))

    assert stats.skipped == {
        "queue-operation": 3,
        "attachment": 9,
        "atis-latch": 3,
        "api-request": 7,
        "last-prompt": 3,
        "tools-used": 3,
        "synthetic-prompt": 1,
        "repeated": 1,  # the notification, which was read when it was queued
    }
    assert stats.with_events == 8  # four assistant lines, two user lines, the queued notification, the costs


@pytest.mark.parametrize(
    "value",
    [
        {"type": "api-request-blob", "sessionId": SESSION, "message": {"role": "user", "content": "x"}},
        {"type": "file-history-delta", "sessionId": SESSION},
        {
            "parentUuid": None,
            "isSidechain": True,
            "agentId": "a1",
            "attachment": {"type": "prompt_snapshot"},
            "type": "attachment",
        },
    ],
)
def test_bookkeeping_class_is_same_without_decoding(value: dict[str, Any]) -> None:
    glanced = statistics([Line(orjson.dumps(value))])
    decoded = statistics([Line(orjson.dumps(dict(reversed(value.items()))))])

    assert glanced.skipped == decoded.skipped
    assert sum(glanced.skipped.values()) == 1


def test_truncated_bookkeeping_is_unparsed() -> None:
    torn = b'{"type":"api-request","sessionId":"s","params":{"mod'
    found = normalize("claude-transcript", [Line(torn)], Context(stream="s"))

    assert [event.reason for event in of(Unparsed, found)] == ["truncated"]


def test_two_objects_on_one_line_are_read() -> None:
    found = events("sidechains-and-torn-line", "claude-code-1.0.51-written")

    assert of(Message, found)[-1].text == "Found both."
    assert of(SessionEvent, found)[-1].title == "Finding A and B"
    assert of(Message, found)[-1].line == of(SessionEvent, found)[-1].line == 13


def test_object_after_bookkeeping_is_read() -> None:
    torn = b'{"type":"last-prompt","lastPrompt":"x","sessionId":"s"}{"type":"ai-title","aiTitle":"T","sessionId":"s"}'
    found = normalize("claude-transcript", [Line(torn)], Context(stream="s"))

    assert [event.title for event in of(SessionEvent, found) if event.title] == ["T"]


@pytest.mark.parametrize("torn", [b'{"type":"last-prompt","lastPrompt":"x', b'{"type":"last-prompt","lastPrompt":'])
def test_object_after_torn_bookkeeping_is_read(torn: bytes) -> None:
    begun = line("user", "u1", message={"role": "user", "content": "Hello."})
    title = b'{"type":"ai-title","aiTitle":"T","sessionId":"s"}'
    found = normalize("claude-transcript", [Line(orjson.dumps(begun)), Line(torn + title)], Context(stream="s"))

    assert [event.title for event in of(SessionEvent, found) if event.title] == ["T"]


def test_line_without_an_id_has_no_summary() -> None:
    found = read({"type": "summary", "summary": "T", "leafUuid": "u1"}, line("assistant", uuid=[]))  # type: ignore[arg-type]

    assert [event.title for event in of(SessionEvent, found) if event.title] == []


def test_unknown_kinds_are_unparsed() -> None:
    found = read(line("new-kind", "u1"), line("system", "u2", subtype="new_kind", content="x"))

    assert [event.reason for event in of(Unparsed, found)] == ["unknown-type", "unknown-type"]


def test_repeated_line_is_emitted_once() -> None:
    answer = said("assistant", {"type": "text", "text": "Hello."}, uuid="u1")

    assert [message.text for message in of(Message, read(answer, answer))] == ["Hello."]


# -- sessions and turns -------------------------------------------------------------------------------------------


def test_first_line_starts_session() -> None:
    started, model = of(SessionEvent, events("shell-fails", V2))

    assert (started.state, started.cwd, started.agent_version, started.mode) == (
        "started",
        "/tmp/ws",
        "2.1.330",
        "acceptEdits",
    )
    assert (model.state, model.model) == ("updated", "claude-opus-5-5")


def test_new_session_ends_open_turn() -> None:
    """Before 2.1.131 a compacted session's file began with lines of the session it continued."""
    prompt = said("user", {"type": "text", "text": "Hi."}, uuid="u1")
    found = read(prompt, {**prompt, "uuid": "u2", "sessionId": "other"})

    assert [(event.session, event.cwd) for event in of(SessionEvent, found) if event.state == "started"] == [
        (SESSION, "/ws"),
        ("other", "/ws"),
    ]
    assert [(turn.session, turn.state) for turn in of(Turn, found)] == [
        (SESSION, "started"),
        (SESSION, "cancelled"),
        ("other", "started"),
        ("other", "cancelled"),
    ]


@pytest.mark.parametrize(("version", "exit_code"), [(V1, None), (V2, 3)])
def test_failed_command(version: str, exit_code: int | None) -> None:
    """The same call, result, answer and turn; 1.0 does not state the code."""
    found = events("shell-fails", version)
    call, result = of(ToolCall, found)[0], of(ToolResult, found)[0]

    assert call.name == "Bash"
    assert call.input["command"] == "echo partial output; echo 'boom: something broke' >&2; exit 3"
    assert (result.status, result.is_error, result.output.get("exit_code")) == ("failed", True, exit_code)
    assert [message.text for message in of(Message, found)] == [
        "[[S5]] Run the failing command.",
        "The command failed with exit code 3.",
    ]
    assert turns(found) == [("t1", "started", None, False), ("t1", "completed", "end_turn", False)]
    assert [turn.ended_by for turn in of(Turn, found)] == [None, "answer"]


def test_turn_duration_ends_turn_without_stop_reason() -> None:
    """Where a stop reason ended it (2.1), the duration comes too late."""
    asked = said("user", {"type": "text", "text": "Hi."}, uuid="u1")
    answered = said("assistant", {"type": "text", "text": "Hello."}, uuid="u2")
    took = line("system", "u3", subtype="turn_duration", durationMs=59902)
    (_, ended) = of(Turn, read(asked, answered, took))

    assert (ended.state, ended.ended_by, ended.duration_ms, ended.line) == ("completed", "provider", 59902, 3)
    assert statistics(recording("interactive", "claude-code-2.1.220-written")).skipped["stale-turn"] == 1


def test_expanded_command_opens_no_turn() -> None:
    assert turns(events("interactive", "claude-code-2.1.220-written")) == [
        ("t1", "started", None, False),
        ("t1", "completed", "end_turn", False),
        ("t2", "started", None, False),
        ("t2", "failed", None, False),
    ]


@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence"])
def test_stop_reason_ends_turn_live(reason: str) -> None:
    """2.1 writes a message one line per block, each with the reason why the whole message stopped."""
    blocks = ({"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Hi."}, {"type": "text", "text": "Ho."})
    lines = [said("user", {"type": "text", "text": "Hi."}, uuid="u1")]
    for number, block in enumerate(blocks):
        answer = said("assistant", block, uuid=f"a{number}")
        answer["message"] |= {"id": "msg_1", "stop_reason": reason}
        lines.append(answer)
    found = read(*lines, line("system", "u9", subtype="stop_hook_summary", hookInfos=[{"command": "true"}]))

    assert [(turn.state, turn.line, turn.ended_by) for turn in of(Turn, found)] == [
        ("started", 1, None),
        ("completed", 3, "answer"),
    ]
    assert [(one.text, one.turn, one.block) for one in of(Message, found)] == [
        ("Hi.", "t1", None),
        ("Hi.", "t1", 1),
        ("Ho.", "t1", 2),  # after the end, and still of that turn
    ]


def test_file_that_ends_with_an_answer_completes_the_turn() -> None:
    """Before 2.1 few lines state a stop reason."""
    asked = said("user", {"type": "text", "text": "Hi."}, uuid="u1")
    answered = said("assistant", {"type": "text", "text": "Hello."}, uuid="u2")
    silent = said("assistant", {"type": "text", "text": "(no content)"}, uuid="u3")
    announced = said("assistant", {"type": "text", "text": "I will look."}, uuid="u4")
    announced["message"]["stop_reason"] = "tool_use"

    def end(*lines: dict[str, Any]) -> tuple[str, str | None, str | None]:
        last = of(Turn, read(*lines))[-1]
        return last.state, last.ended_by, last.reason

    assert end(asked, answered) == ("completed", "eof", None)
    assert end(asked, silent) == ("completed", "eof", None)
    assert end(asked, announced) == end(asked) == ("cancelled", "eof", "interrupted")


def test_error_that_claude_code_gives_up_on_fails_the_turn() -> None:
    asked = said("user", {"type": "text", "text": "Hi."}, uuid="u1")
    gave_up = said("assistant", {"type": "text", "text": "API Error: 529"}, uuid="u2", isApiErrorMessage=True)
    gave_up["message"] |= {"model": "<synthetic>", "stop_reason": "stop_sequence"}
    found = read(asked, gave_up)

    assert [(turn.state, turn.line, turn.ended_by) for turn in of(Turn, found)] == [
        ("started", 1, None),
        ("failed", 2, "provider"),
    ]


def test_next_prompt_ends_turn() -> None:
    prompts = [said("user", {"type": "text", "text": text}, uuid=text) for text in ("one", "two")]
    answered = said("assistant", {"type": "text", "text": "Hello."}, uuid="u2")

    assert turns(read(prompts[0], answered, prompts[1]))[1] == ("t1", "completed", None, True)
    assert turns(read(*prompts)) == [
        ("t1", "started", None, False),
        ("t1", "cancelled", "interrupted", True),
        ("t2", "started", None, False),
        ("t2", "cancelled", "interrupted", True),
    ]


def test_interrupt_ends_turn() -> None:
    found = events("interrupted")

    assert [notice.code for notice in of(Notice, found)] == ["interrupt"]
    assert turns(found)[-1] == ("t1", "cancelled", "interrupted", False)
    assert of(ToolResult, found)[0].status == "cancelled"  # though `toolDenialKind` is `user-rejected`


def test_rejection_in_a_terminal_is_a_denial() -> None:
    """A person can press Escape in the dialog that asks."""
    printed = (FIXTURES / V2 / "interrupted.jsonl").read_bytes().replace(b'"sdk-cli"', b'"cli"')
    found = normalize("claude-transcript", read_recording(printed), Context(stream="s"))

    assert of(ToolResult, found)[0].status == "denied"


def test_interrupted_transcript_before_2_1() -> None:
    found = events("interrupted", V1)

    assert [(result.status, result.synthetic) for result in of(ToolResult, found)] == [("interrupted", True)]
    assert turns(found)[-1] == ("t1", "cancelled", "interrupted", True)


def test_titles_and_modes_are_emitted_once() -> None:
    sessions = of(SessionEvent, events("interactive", "claude-code-2.1.220-written"))

    assert [event.mode for event in sessions if event.mode] == ["default"]
    assert [event.title for event in sessions if event.title] == ["Fix the test"]


def titles(*lines: dict[str, Any]) -> list[str]:
    return [event.title for event in of(SessionEvent, read(*lines)) if event.title]


def titled(kind: str, title: str, **more: Any) -> dict[str, Any]:
    key = {"ai-title": "aiTitle", "custom-title": "customTitle", "summary": "summary"}[kind]
    return {"type": kind, key: title, **more} if kind == "summary" else {"type": kind, key: title, "sessionId": SESSION}


def test_users_title_beats_later_ones() -> None:
    asked = said("user", {"type": "text", "text": "Hi."}, uuid="u1")
    summary = titled("summary", "Summary", leafUuid="u1")
    generated, chosen = titled("ai-title", "Generated"), titled("custom-title", "Chosen")

    assert titles(asked, generated, chosen, generated, summary) == ["Generated", "Chosen"]
    assert titles(asked, chosen, titled("custom-title", ""), titled("ai-title", "New")) == ["Chosen", "New"]


def test_summary_titles_the_session_that_has_its_leaf() -> None:
    """A file may begin with summaries of other sessions; a session's own may precede the line, too."""
    asked = said("user", {"type": "text", "text": "Hi."}, uuid="u1")
    foreign = titled("summary", "Another session", leafUuid="u9")

    assert titles(foreign, asked) == []
    assert titles(foreign, titled("summary", "Early", leafUuid="u1"), asked) == ["Early"]
    assert titles(asked, titled("summary", "Late", leafUuid="u1"), foreign) == ["Late"]


@pytest.mark.parametrize("order", [1, -1])
def test_session_that_begins_with_clear_has_no_turn_before_its_prompt(order: int) -> None:
    tags = ("<command-message>clear</command-message>", "<command-name>/clear</command-name>")[::order]
    cleared = said("user", {"type": "text", "text": "\n".join(tags)}, uuid="u1")
    found = read(cleared, said("user", {"type": "text", "text": "Hi."}, uuid="u2"))

    assert [(message.text, message.turn) for message in of(Message, found)] == [("/clear", None), ("Hi.", "t1")]


def test_suggested_prompt_counts_and_is_not_shown() -> None:
    """2.1.29 asks a model what the user might say next, as a subagent."""
    more = {"isSidechain": True, "agentId": "aprompt_suggestion-1a2b"}
    suggested = said("assistant", {"type": "text", "text": "run the tests"}, uuid="u2", **more)
    suggested["message"] |= {"stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 3}}
    found = read(said("user", {"type": "text", "text": "[SUGGESTION MODE: …]"}, uuid="u1", **more), suggested)

    assert [(usage.input_tokens, usage.agent) for usage in of(Usage, found)] == [(9, "aprompt_suggestion-1a2b")]
    assert found == of(Usage, found)


def test_stub_of_a_bridge_is_skipped() -> None:
    stub = {"type": "bridge-session", "sessionId": SESSION, "bridgeSessionId": "session_1", "lastSequenceNum": 0}

    assert recognise(stub) == "claude-transcript"
    assert statistics([Line(orjson.dumps(stub))]).skipped == {"session-metadata": 1}


@pytest.mark.parametrize(
    ("path", "session"),
    [
        (f"-ws/{SESSION}.jsonl", SESSION),
        (f"-ws/{SESSION}/subagents/agent-a1.jsonl", SESSION),
        (f"-ws/{SESSION}/subagents/workflows/wf_1/agent-a1.jsonl", SESSION),
        ("-ws/agent-a1.jsonl", None),
    ],
)
def test_stored_file_is_of_the_session_in_its_path(path: str, session: str | None) -> None:
    match = STORED.fullmatch(path)

    assert match is not None
    assert match["session"] == session


def test_journal_of_a_workflow_is_no_session_file() -> None:
    assert STORED.fullmatch(f"-ws/{SESSION}/subagents/workflows/wf_1/journal.jsonl") is None


# -- messages -----------------------------------------------------------------------------------------------------


def test_text_that_a_proxy_writes_twice_is_shown_once() -> None:
    """First without tokens, then with them, under the same message id."""
    text = {"type": "text", "text": "A."}
    lines = [said("user", {"type": "text", "text": "Hi."}, uuid="u0")]
    for number, count in enumerate((0, 5)):
        answer = said("assistant", text, uuid=f"a{number}")
        answer["message"] |= {"id": "m1", "usage": {"input_tokens": count, "output_tokens": count}}
        lines.append(answer)
    lines.append(said("assistant", text, uuid="a2"))  # another message may say the same
    found = read(*lines)

    assert [message.text for message in of(Message, found)] == ["Hi.", "A.", "A."]
    assert [usage.input_tokens for usage in of(Usage, found)] == [5]


def test_harness_text_is_not_a_prompt() -> None:
    found = of(Message, events("interactive", "claude-code-2.1.220-written"))

    assert [(message.role, message.text.partition("\n")[0]) for message in found] == [
        ("user", "Fix the test."),
        ("user", "And run it."),  # queued while the agent worked
        ("assistant", "Done."),
        ("system", "You were fixing a test."),
        ("user", "/review src"),
        ("user", "! pwd"),
        ("system", "/home/user/project"),
    ]


def queue(operation: str, second: int, content: str | None = None, **more: Any) -> dict[str, Any]:
    stated = {} if content is None else {"content": content}
    moment = f"2026-09-01T10:00:{second:02}.000Z"
    return {
        "type": "queue-operation",
        "operation": operation,
        "timestamp": moment,
        "sessionId": SESSION,
        **stated,
        **more,
    }


def queued_around(*between: dict[str, Any]) -> list[tuple[str, str | None, int | None]]:
    """What a user said while a call ran: (text, turn, second)."""
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "make"}}
    ran = {"type": "tool_result", "tool_use_id": "c1", "content": "ok"}
    found = read(
        said("user", {"type": "text", "text": "Hi."}, uuid="u1", timestamp="2026-09-01T10:00:00.000Z"),
        said("assistant", call, uuid="u2"),
        *between,
        said("user", ran, uuid="u3", timestamp="2026-09-01T10:00:30.000Z"),
        said("assistant", {"type": "text", "text": "Done."}, uuid="u4", timestamp="2026-09-01T10:00:31.000Z"),
    )
    messages = [message for message in of(Message, found) if message.role == "user"][1:]
    return [(one.text, one.turn, None if one.ts is None else one.ts // 1_000 % 60) for one in messages]


@pytest.mark.parametrize("removed", [{}, {"content": "And lint.", "reason": "absorbed_mid_turn"}])
def test_queued_prompt_that_is_removed_was_handed_to_the_model(removed: dict[str, Any]) -> None:
    """Before 2.1.330 no other line has it."""
    assert queued_around(queue("enqueue", 3, "And lint."), queue("remove", 5, **removed)) == [("And lint.", "t1", 5)]


def test_queued_prompt_that_has_a_line_is_shown_once() -> None:
    attached = {"type": "queued_command", "prompt": "And lint.", "commandMode": "prompt"}
    line_of_it = line("attachment", "x1", attachment=attached, timestamp="2026-09-01T10:00:06.000Z")
    handed = queue("remove", 5, "And lint.", reason="absorbed_mid_turn")

    assert queued_around(queue("enqueue", 3, "And lint."), handed, line_of_it) == [("And lint.", "t1", 6)]


def test_summary_that_stands_for_the_history_is_a_notice() -> None:
    """It is all that the model knows from then on."""
    text = "This session is being continued from a previous conversation that ran out of context.\n1. Greet."
    summary = line("user", "u2", message={"role": "user", "content": text}, isCompactSummary=True)
    found = read(line("system", "u1", subtype="compact_boundary", content="Conversation compacted"), summary)

    assert [(one.code, one.text) for one in of(Notice, found)] == [
        ("compaction", "Conversation compacted"),
        ("compaction-summary", text),
    ]
    assert of(Message, found) == []
    assert of(Turn, found) == []


def test_summary_that_stands_for_a_part_of_the_history_is_a_notice() -> None:
    """As of `ContextCollapseCommitEntry` in public descriptions of 2.1."""
    span = {"collapseId": "1", "firstArchivedUuid": "u1", "lastArchivedUuid": "u4", "summary": "Greeted."}
    found = read({"type": "marble-origami-commit", "sessionId": SESSION, **span})

    assert [(one.code, one.text) for one in of(Notice, found)] == [("compaction-summary", "Greeted.")]


def replaced(*records: dict[str, Any], **more: Any) -> dict[str, Any]:
    """As `ContentReplacementEntry` of 2.1: written after the results, before the request that has less of them."""
    return {"type": "content-replacement", "sessionId": SESSION, "replacements": list(records), **more}


def test_result_that_the_model_gets_a_preview_of_has_a_notice() -> None:
    uses = [{"type": "tool_use", "id": one, "name": "Bash", "input": {"command": one}} for one in ("c1", "c2")]
    results = [{"type": "tool_result", "tool_use_id": one, "content": f"all of {one}"} for one in ("c1", "c2")]
    previews = [
        {"kind": "tool-result", "toolUseId": one, "replacement": f"<persisted-output>{one}</persisted-output>"}
        for one in ("c2", "c0")
    ]
    found = read(said("assistant", *uses, uuid="u1"), said("user", *results, uuid="u2"), replaced(*previews))

    assert [one.output["stdout"] for one in of(ToolResult, found)] == ["all of c1", "all of c2"]
    assert [(one.code, one.call_id, one.text, one.turn) for one in of(Notice, found)] == [
        ("context-edit", "c2", "<persisted-output>c2</persisted-output>", "t1"),
        ("context-edit", "c0", "<persisted-output>c0</persisted-output>", "t1"),
    ]


def test_replacement_in_a_subagent_is_its_own() -> None:
    found = read(replaced({"kind": "tool-result", "toolUseId": "c1", "replacement": "less"}, agentId="a1"))

    assert [(one.text, one.agent) for one in of(Notice, found)] == [("less", "a1")]
    nothing = Line(orjson.dumps(replaced({"kind": "tool-result", "toolUseId": "c1"})))
    assert statistics([nothing]).skipped == {"empty": 1}


def test_replacements_that_a_fork_copies_are_history() -> None:
    copied = {"sessionId": "another-one", "messageUuid": "u0"}
    found = read(
        said("user", {"type": "text", "text": "Hi."}, uuid="u1", forkedFrom=copied),
        replaced({"kind": "tool-result", "toolUseId": "c1", "replacement": "less"}),
        said("user", {"type": "text", "text": "Go on."}, uuid="u2", parentUuid="u1"),
        replaced({"kind": "tool-result", "toolUseId": "c2", "replacement": "less still"}),
    )

    assert [(one.text, one.replay) for one in of(Notice, found)] == [("less", True), ("less still", False)]


def test_message_of_a_teammate_has_its_authors_name() -> None:
    """As `teammate_mailbox` attachments have it (agent teams, 2.1)."""
    mail = [{"from": "pd", "text": "Use SQLite.", "timestamp": "2026-09-01T10:00:00.000Z"}, {"from": "qa", "text": " "}]
    found = read(line("attachment", "x1", attachment={"type": "teammate_mailbox", "messages": mail}))

    assert [(message.role, message.text) for message in of(Message, found)] == [("system", "pd: Use SQLite.")]
    nothing = line("attachment", "x1", attachment={"type": "teammate_mailbox", "messages": []})
    assert statistics([Line(orjson.dumps(nothing))]).skipped == {"empty": 1}


def test_pull_request_is_a_notice_once() -> None:
    """Resumptions and compactions state it again."""
    urls = [f"https://github.com/o/r/pull/{number}" for number in (7, 8)]
    stated = {"type": "pr-link", "sessionId": SESSION, "prRepository": "o/r", "timestamp": "2026-09-01T10:00:00.000Z"}
    first, second = ({**stated, "prNumber": int(url[-1]), "prUrl": url} for url in urls)
    found = read(first, first, second)

    assert [(one.code, one.text, one.data) for one in of(Notice, found)] == [
        ("pull-request", urls[0], {"number": 7, "repository": "o/r", "url": urls[0]}),
        ("pull-request", urls[1], {"number": 8, "repository": "o/r", "url": urls[1]}),
    ]


def test_queued_prompt_that_goes_back_or_is_deleted_is_no_message() -> None:
    asked = queue("enqueue", 3, "And lint.")

    assert queued_around(asked, queue("popAll", 4, "And lint.")) == []
    assert queued_around(asked, queue("popAll", 4), queue("remove", 5)) == []
    assert queued_around(asked, queue("remove", 4, "And lint.", reason="user_removed")) == []
    assert queued_around(asked, queue("dequeue", 4)) == []  # a user line follows


def test_split_message_is_counted_once() -> None:
    found = events("interactive", "claude-code-2.1.220-written")
    steps = [event for event in of(Usage, found) if event.scope == "step"]

    assert [(event.message_id, event.block) for event in of(Reasoning, found)] == [("msg_1", 0)]
    # 7 + 1000 from the cache + 100 to it; the second line of msg_1 says 40 where the first says 1.
    assert [(step.input_tokens, step.output_tokens) for step in steps] == [(1107, 40), (1107, 6)]


def test_cost_is_of_session() -> None:
    (session,) = [event for event in of(Usage, events("shell-fails")) if event.scope == "session"]

    # inputTokens 2400, cacheReadInputTokens 1800, cacheCreationInputTokens 600
    assert (session.input_tokens, session.cache_read_tokens, session.cache_write_tokens) == (4800, 1800, 600)
    assert (session.output_tokens, session.cost_usd) == (84, 0.014639999999999997)


def test_hooks_retries_and_compactions_are_notices() -> None:
    found = of(Notice, events("interactive", "claude-code-2.1.220-written"))

    assert [(notice.code, notice.level) for notice in found] == [
        ("hook", "info"),
        ("retry", "warning"),
        ("compaction", "info"),
        ("compaction-summary", "info"),
        ("provider-error", "error"),
        ("pull-request", "info"),
    ]
    assert found[0].data == {
        "event": "SessionStart",
        "name": "SessionStart:startup",
        "exitCode": 0,
        "stdout": "ready",
        "outcome": "success",
    }
    assert found[1].data == {"attempt": 1, "maxRetries": 10, "delayMs": 558.9, "status": 529, "error": "overloaded"}
    assert found[2].data == {"trigger": "auto", "preTokens": 171705, "postTokens": 8473, "durationMs": 133190}


def test_system_line_of_1_0_names_its_call() -> None:
    """Before subtypes: `Running PostToolUse:MultiEdit...`."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    notice_line = line("system", "u2", content="Running PostToolUse", toolUseID="toolu_1", level="info")
    (notice,) = of(Notice, read(said("assistant", call, uuid="u1"), notice_line))

    assert (notice.code, notice.text, notice.call_id) == ("informational", "Running PostToolUse", "toolu_1")


def test_mode_is_told_again_when_another_line_changed_it() -> None:
    hello = {"type": "text", "text": "Hello."}
    changed = {"type": "permission-mode", "permissionMode": "plan", "sessionId": SESSION}
    found = read(
        said("user", hello, uuid="1", permissionMode="default"),
        said("user", hello, uuid="2", permissionMode="default"),
        changed,
        said("user", hello, uuid="3", permissionMode="default"),
    )
    assert [event.mode for event in of(SessionEvent, found)] == ["default", "plan", "default"]
