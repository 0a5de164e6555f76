"""Transcripts of Claude Code: sessions, turns, subagents and figures, as their lines state them."""

import random
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest

from tooltap.normalizers.contract import Line, check_recording, normalize, read_recording
from tooltap.normalizers.decode import decode_line
from tooltap.normalizers.items import Context
from tooltap.normalizers.sniff import sniff
from tooltap.normalizers.sniff_rules import RULES
from tooltap.normalizers.stream import StreamNormalizer
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
    Usage,
)
from tooltap.protocol.stats import Statistics

FIXTURES = Path(__file__).parent.parent / "fixtures" / "claude-transcript"
ALL = sorted(FIXTURES.rglob("*.jsonl"))
IDS = [f"{path.parent.name}/{path.stem}" for path in ALL]
V1, V2 = "claude-code-1.0.128", "claude-code-2.1.330"
SESSION = "11111111-2222-3333-4444-555555555555"

E = TypeVar("E", bound=Event)


def recording(name: str, version: str) -> list[Line]:
    return read_recording((FIXTURES / version / f"{name}.jsonl").read_bytes())


def events(name: str, version: str = V2) -> list[Event]:
    return normalize("claude-transcript", recording(name, version), Context(stream="s"))


def of(kind: type[E], found: list[Event]) -> list[E]:
    return [event for event in found if isinstance(event, kind)]


def statistics(lines: list[Line]) -> Statistics:
    normalizer = StreamNormalizer(Context(stream="s"), "claude-transcript")
    for line in lines:
        normalizer.feed(line.data, line.t, line.direction)
    return normalizer.statistics


def line(kind: str, uuid: str, **more: Any) -> dict[str, Any]:
    chain = {"parentUuid": None, "isSidechain": False, "sessionId": SESSION, "cwd": "/ws", "version": "2.1.330"}
    return {**chain, "type": kind, "uuid": uuid, **more}


def said(role: str, *blocks: dict[str, Any], uuid: str, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": list(blocks), **({"id": f"msg_{uuid}"} if role == "assistant" else {})}
    return line(role, uuid, message=message, **more)


def read(*lines: dict[str, Any]) -> list[Event]:
    return normalize("claude-transcript", [Line(orjson.dumps(one)) for one in lines], Context(stream="s"))


def turns(found: list[Event]) -> list[tuple[str | None, str, str | None, bool]]:
    return [(turn.turn, turn.state, turn.reason, turn.synthetic) for turn in of(Turn, found)]


@pytest.mark.parametrize("path", ALL, ids=IDS)
def test_every_line_of_every_fixture_is_understood(path: Path) -> None:
    lines = read_recording(path.read_bytes())
    found = check_recording("claude-transcript", lines)

    assert of(Unparsed, found) == []


@pytest.mark.parametrize("path", ALL, ids=IDS)
def test_each_line_tells_the_dialect_by_itself_whatever_the_order_of_its_keys(path: Path) -> None:
    for raw in path.read_bytes().splitlines():
        if raw.count(b'}{"'):
            continue
        pairs = list(orjson.loads(raw).items())
        random.Random(len(raw)).shuffle(pairs)
        assert sniff(dict(pairs)) == "claude-transcript"


def test_what_other_dialects_print_is_not_a_transcript() -> None:
    for path in sorted(FIXTURES.parent.rglob("*.jsonl")):
        if path.is_relative_to(FIXTURES):
            continue
        for one in read_recording(path.read_bytes()):
            assert isinstance(one.data, bytes)
            for value in decode_line(one.data, 200).values:
                assert not (isinstance(value, dict) and RULES["claude-transcript"](value)), (path, value)


# -- what is skipped ----------------------------------------------------------------------------------------------


def test_bookkeeping_is_skipped_by_name() -> None:
    stats = statistics(recording("subagent-async", V2))

    assert stats.skipped == {
        "queue-operation": 4,
        "attachment": 9,
        "atis-latch": 3,
        "api-request": 7,
        "last-prompt": 3,
        "tools-used": 3,
        "synthetic-prompt": 1,
    }
    assert stats.with_events == 8  # four assistant lines, three user lines, the costs


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
def test_bookkeeping_has_the_same_class_decoded_or_not(value: dict[str, Any]) -> None:
    glanced = statistics([Line(orjson.dumps(value))])
    decoded = statistics([Line(orjson.dumps(dict(reversed(value.items()))))])

    assert glanced.skipped == decoded.skipped
    assert sum(glanced.skipped.values()) == 1


def test_a_cut_line_is_not_skipped_for_how_it_begins() -> None:
    assert statistics([Line(b'{"type":"api-request","sessionId":"s","params":{"mod')]).unparsed == 1


def test_two_objects_torn_onto_one_line_are_both_read() -> None:
    found = events("sidechains-and-torn-line", "claude-code-1.0.51-written")

    assert of(Message, found)[-1].text == "Found both."
    assert of(SessionEvent, found)[-1].title == "Finding A and B"
    assert of(Message, found)[-1].line == of(SessionEvent, found)[-1].line == 13


def test_bookkeeping_torn_from_its_newline_hides_nothing() -> None:
    torn = b'{"type":"last-prompt","lastPrompt":"x","sessionId":"s"}{"type":"ai-title","aiTitle":"T","sessionId":"s"}'
    found = normalize("claude-transcript", [Line(torn)], Context(stream="s"))

    assert [event.title for event in of(SessionEvent, found) if event.title] == ["T"]


def test_unknown_lines_are_unparsed_never_skipped() -> None:
    found = read(line("new-kind", "u1"), line("system", "u2", subtype="new_kind", content="x"))

    assert [event.reason for event in of(Unparsed, found)] == ["unknown-type", "unknown-type"]


def test_a_line_that_is_written_again_is_told_once() -> None:
    answer = said("assistant", {"type": "text", "text": "Hello."}, uuid="u1")

    assert [message.text for message in of(Message, read(answer, answer))] == ["Hello."]


# -- sessions and turns -------------------------------------------------------------------------------------------


def test_the_first_line_of_the_conversation_says_where_the_session_runs() -> None:
    started, model = of(SessionEvent, events("shell-fails", V2))

    assert (started.state, started.cwd, started.agent_version, started.mode) == (
        "started",
        "/tmp/ws",
        "2.1.330",
        "acceptEdits",
    )
    assert (model.state, model.model) == ("updated", "claude-opus-5-5")


def test_another_session_in_the_file_ends_the_turn_of_the_one_before_and_starts_anew() -> None:
    """Before 2.1.131 a compacted session's file began with lines of the session it went on from."""
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
def test_a_failing_command(version: str, exit_code: int | None) -> None:
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
    assert turns(found) == [("t1", "started", None, False), ("t1", "completed", "end_turn", True)]


def test_turn_duration_ends_a_turn_and_says_how_long_it_was() -> None:
    ended = of(Turn, events("interactive", "claude-code-2.1.220-written"))[1]

    assert (ended.state, ended.reason, ended.duration_ms, ended.synthetic) == ("completed", "end_turn", 59902, False)


def test_each_prompt_opens_a_turn_and_what_a_command_expands_to_opens_none() -> None:
    assert turns(events("interactive", "claude-code-2.1.220-written")) == [
        ("t1", "started", None, False),
        ("t1", "completed", "end_turn", False),
        ("t2", "started", None, False),
        ("t2", "failed", None, True),
    ]


def test_the_next_prompt_ends_the_turn_before() -> None:
    prompts = [said("user", {"type": "text", "text": text}, uuid=text) for text in ("one", "two")]

    assert turns(read(*prompts)) == [
        ("t1", "started", None, False),
        ("t1", "completed", None, True),
        ("t2", "started", None, False),
        ("t2", "cancelled", None, True),
    ]


def test_an_interrupt_ends_its_turn() -> None:
    found = events("interrupted")

    assert [notice.code for notice in of(Notice, found)] == ["interrupt"]
    assert turns(found)[-1] == ("t1", "cancelled", "interrupted", False)
    assert of(ToolResult, found)[0].status == "denied"  # `toolDenialKind` is `user-rejected`


def test_before_2_1_an_interrupted_transcript_just_stops() -> None:
    found = events("interrupted", V1)

    assert [(result.status, result.synthetic) for result in of(ToolResult, found)] == [("interrupted", True)]
    assert turns(found)[-1] == ("t1", "cancelled", None, True)


def test_titles_and_modes_are_told_once() -> None:
    sessions = of(SessionEvent, events("interactive", "claude-code-2.1.220-written"))

    assert [event.mode for event in sessions if event.mode] == ["default"]
    assert [event.title for event in sessions if event.title] == ["Fix the test"]


# -- messages -----------------------------------------------------------------------------------------------------


def test_what_the_harness_writes_into_user_lines_is_no_prompt() -> None:
    found = of(Message, events("interactive", "claude-code-2.1.220-written"))

    assert [(message.role, message.text.partition("\n")[0]) for message in found] == [
        ("user", "Fix the test."),
        ("user", "And run it."),  # queued while the agent worked
        ("assistant", "Done."),
        ("system", "You were fixing a test."),
        ("user", "<command-name>/review</command-name>"),
        ("user", "<bash-input>pwd</bash-input>"),
        ("system", "/home/user/project"),
    ]


def test_a_message_split_over_lines_counts_its_blocks_and_its_tokens_once() -> None:
    found = events("interactive", "claude-code-2.1.220-written")
    steps = [event for event in of(Usage, found) if event.scope == "step"]

    assert [(event.message_id, event.block) for event in of(Reasoning, found)] == [("msg_1", 0)]
    # 7 + 1000 from the cache + 100 to it; the second line of msg_1 says 40 where the first says 1.
    assert [(step.input_tokens, step.output_tokens) for step in steps] == [(1107, 40), (1107, 6)]


def test_the_costs_are_the_sessions() -> None:
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
        ("provider-error", "error"),
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


def test_a_system_line_of_1_0_is_a_notice_about_its_call() -> None:
    """Before subtypes: `Running PostToolUse:MultiEdit...`."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    told = line("system", "u2", content="Running PostToolUse", toolUseID="toolu_1", level="info")
    (notice,) = of(Notice, read(said("assistant", call, uuid="u1"), told))

    assert (notice.code, notice.text, notice.call_id) == ("informational", "Running PostToolUse", "toolu_1")


# -- calls --------------------------------------------------------------------------------------------------------


def test_the_structured_twin_may_be_an_object_a_string_or_a_list() -> None:
    by_name = {
        result.name: result.output for result in of(ToolResult, events("interactive", "claude-code-2.1.220-written"))
    }
    old = {result.name: result.output for result in of(ToolResult, events("plan-mode", V1))}
    sides = {
        result.call_id: result.output
        for result in of(ToolResult, events("sidechains-and-torn-line", "claude-code-1.0.51-written"))
    }

    assert by_name["mcp__notes__find"]["_raw"]["tool_use_result"] == [{"type": "text", "text": "test_a"}]
    assert old["ExitPlanMode"]["errorMessage"] == "Exit plan mode?"  # the twin is "Error: Exit plan mode?"
    assert [match["filePath"] for match in sides["toolu_b"]["matches"]] == ["/home/user/project/b.py"]
    assert sides["toolu_a"]["_raw"]["tool_use_result"].startswith("- /home/user/project/")


def test_a_refusal_is_told_before_the_result_it_explains() -> None:
    found = events("denied")
    (response,) = of(PermissionResponse, found)
    (result,) = of(ToolResult, found)

    assert (response.outcome, response.by, response.call_id) == ("denied", "policy", result.call_id)
    assert (result.status, result.is_error) == ("denied", False)
    assert found.index(response) < found.index(result)


def test_a_picture_is_an_attachment_and_its_bytes_are_kept_aside() -> None:
    (result,) = of(ToolResult, events("picture"))

    assert result.attachments is not None
    assert [attachment.mime_type for attachment in result.attachments] == ["image/png"]


def test_a_killed_background_command_has_two_results() -> None:
    found = [result for result in of(ToolResult, events("background-shell", V1)) if result.name == "Bash"]

    assert [(result.status, result.async_, result.final) for result in found] == [
        ("completed", True, False),
        ("cancelled", False, True),
    ]


def test_the_end_of_a_background_subagent_is_told_as_a_prompt_and_is_its_result() -> None:
    found = events("subagent-async")
    acknowledged, final = of(ToolResult, found)

    assert (acknowledged.async_, final.final, final.status) == (True, True, "completed")
    assert final.output["content"] == "greet is defined at src/app.py line 4."
    assert final.duration_ms == 378
    assert [message.text for message in of(Message, found) if message.role == "user"] == [
        "[[S12]] Use a subagent to find where greet is defined."
    ]
    assert [turn for turn, state, _, _ in turns(found) if state == "started"] == ["t1", "t2"]


def test_a_background_tasks_end_may_be_told_while_the_agent_works() -> None:
    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "Bash",
        "input": {"command": "make", "run_in_background": True},
    }
    started = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Command running in background with ID: b1"}
    fields = "<task-id>b1</task-id>\n<status>failed</status>\n<summary>failed with exit code 2</summary>"
    told = f"<task-notification>\n{fields}\n</task-notification>"
    queued = {"type": "queued_command", "prompt": told, "commandMode": "task-notification"}
    found = read(
        said("assistant", call, uuid="u1"),
        said("user", started, uuid="u2", toolUseResult={"backgroundTaskId": "b1"}),
        line("attachment", "u3", attachment=queued),
    )
    acknowledged, final = of(ToolResult, found)

    assert (acknowledged.async_, final.final, final.status, final.output["exit_code"]) == (True, True, "failed", 2)
    assert of(Message, found) == []
    assert len(of(Turn, found)) == 2  # one turn, begun and ended


# -- subagents ----------------------------------------------------------------------------------------------------


def test_a_subagents_file_names_its_agent_and_the_root_session() -> None:
    found = events("subagent-async.agent")

    assert {event.agent for event in found} == {"ad0a7d162f9d16959"}
    assert {event.session for event in found} == {"2f40b229-18f4-43db-8092-c2cc387ac019"}
    assert [call.name for call in of(ToolCall, found)] == ["Grep", "Read"]
    assert not any(isinstance(event, Turn | SessionEvent) for event in found)


def test_the_publisher_may_say_which_call_spawned_the_agent_of_a_file() -> None:
    context = Context(stream="s", parent="toolu_01f4dfea411e7f4c22aef2c79d")
    found = normalize("claude-transcript", recording("subagent-async.agent", V2), context)

    assert {event.parent for event in found} == {"toolu_01f4dfea411e7f4c22aef2c79d"}


def test_a_subagents_messages_inside_progress_lines_are_its_work() -> None:
    found = events("subagent-in-progress", "claude-code-2.1.39-written")
    inner = [event for event in found if event.agent == "a2898e3"]

    assert {event.parent for event in inner} == {"toolu_task"}
    assert {event.turn for event in inner} == {"t1"}
    assert [(call.call_id, call.name) for call in of(ToolCall, inner)] == [("toolu_g1", "Glob"), ("toolu_b1", "Bash")]
    assert [(result.call_id, result.status) for result in of(ToolResult, inner)] == [
        ("toolu_g1", "completed"),
        ("toolu_b1", "failed"),
    ]
    assert [(message.role, message.text) for message in of(Message, inner)] == [
        ("user", "Find the views."),
        ("assistant", "There are none."),
    ]
    # msg_sub1 goes on after the result of its first call, and is counted once.
    assert [usage.output_tokens for usage in of(Usage, inner)] == [3, 5]
    assert inner[0].ts == 1770912124500  # the nested message's own time: 2026-02-12T16:02:04.500Z


def test_what_a_running_command_printed_so_far_is_an_update_of_its_call() -> None:
    (update,) = of(ToolUpdate, events("subagent-in-progress", "claude-code-2.1.39-written"))

    assert update.call_id == "toolu_b1"
    assert update.progress == {
        "text": "one.ex\n",
        "data": {"type": "bash_progress", "elapsedTimeSeconds": 2, "totalLines": 1},
    }


def test_sidechains_among_the_main_agents_lines_belong_to_the_call_with_their_prompt() -> None:
    """Two of them, interleaved; results come in the other order than calls."""
    found = events("sidechains-and-torn-line", "claude-code-1.0.51-written")
    calls = {call.call_id: call for call in of(ToolCall, found)}

    assert (calls["toolu_a"].agent, calls["toolu_a"].parent) == ("toolu_t1", "toolu_t1")
    assert (calls["toolu_b"].agent, calls["toolu_b"].parent) == ("toolu_t2", "toolu_t2")
    assert calls["toolu_t1"].agent is None
    assert [result.call_id for result in of(ToolResult, found)] == ["toolu_a", "toolu_b", "toolu_t2", "toolu_t1"]
    assert [state for _, state, _, _ in turns(found)] == ["started", "completed"]


def test_subagents_that_were_given_the_same_prompt_belong_to_a_call_each() -> None:
    """A resumed session may say the beginning of one again."""

    def spawn(call_id: str) -> dict[str, Any]:
        given = {"prompt": "Count.", "subagent_type": "x"}
        return said("assistant", {"type": "tool_use", "id": call_id, "name": "Task", "input": given}, uuid=call_id)

    def began(name: str) -> dict[str, Any]:
        return said("user", {"type": "text", "text": "Count."}, uuid=f"{name}1", isSidechain=True)

    def answered(name: str) -> dict[str, Any]:
        block = {"type": "text", "text": name}
        return said("assistant", block, uuid=f"{name}2", parentUuid=f"{name}1", isSidechain=True)

    found = read(spawn("t1"), spawn("t2"), began("a"), began("b"), began("a"), answered("b"), answered("a"))

    assert [(one.text, one.agent, one.parent) for one in of(Message, found) if one.role == "assistant"] == [
        ("b", "t2", "t2"),
        ("a", "t1", "t1"),
    ]
    later = read(spawn("t1"), began("a"), answered("a"), spawn("t2"), began("b"), answered("b"))
    assert [one.parent for one in of(Message, later) if one.role == "assistant"] == ["t1", "t2"]
