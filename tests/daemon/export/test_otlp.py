"""Spans of OpenTelemetry: as a collector reads them, and the session that they show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.masked import kept, lines
from tests.cli.command import here
from tests.daemon.events import call, event, message, result
from tests.daemon.export.collector import Seen, spans_of
from tests.daemon.export.exporting import exported, numbered
from tests.normalizers.reading import FIXTURES
from tooltap.daemon.export import otlp
from tooltap.daemon.export.otlp import SessionSpans, Span, SpanFile
from tooltap.daemon.export.otlp_names import CONTENT, CONVENTIONS, Name, provider_of
from tooltap.daemon.export.source import Bodies, MissingRange
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import (
    AnyEvent,
    Message,
    SessionEvent,
    ToolResult,
    Turn,
    Usage,
)

RECORDINGS = sorted(path for path in FIXTURES.glob("*/*/*.jsonl") if path.parts[-3] != "curated")
SUBAGENTS = FIXTURES / "claude-stream" / "claude-code-2.1.330" / "subagents-parallel.jsonl"
OWN_TURNS = FIXTURES / "codex-app-server" / "codex-0.169" / "subagent.jsonl"
MS = 1_000_000


def begun(turn: str = "t1", ts: int = 1_000, **fields: Any) -> Produced:
    return event(Turn, state="started", turn=turn, ts=ts, **fields)


def over(turn: str = "t1", ts: int = 9_000, state: str = "completed", **fields: Any) -> Produced:
    return event(Turn, state=state, turn=turn, ts=ts, **fields)


def written(*made: Produced, has_content: bool = False) -> list[Seen]:
    """The spans in the file that events become."""
    file = SpanFile("A session", bodies=Bodies(0, 0), has_content=has_content)
    return spans_of("".join([*(file.add(one, {}) for one in numbered(*made)), *file.end()]))


def sent(events: Sequence[AnyEvent]) -> list[list[Span]]:
    """The spans that each event ends."""
    spans = SessionSpans(has_content=False)
    return [spans.add(one) for one in events]


def named(spans: Sequence[Seen], beginning: str) -> list[Seen]:
    return [one for one in spans if one.name.startswith(beginning)]


def ended_calls(events: Sequence[AnyEvent]) -> set[str]:
    own = [one for one in events if not one.replay]
    return {one.call_id for one in own if isinstance(one, ToolResult) and not one.async_}


def ended_turns(events: Sequence[AnyEvent]) -> set[tuple[str, str | None, str | None, str]]:
    """Session, subagent and id of each turn that has ended, and the event with which it began."""
    found, begins = set(), {}
    for one in events:
        if isinstance(one, Turn) and not one.replay:
            key = (one.session, one.agent, one.turn)
            if one.state == "started":
                begins[key] = one.id
            else:
                found.add((*key, begins.get(key, "")))
    return found


@pytest.mark.parametrize("folder", sorted({path.parts[-3] for path in RECORDINGS}))
def test_collector_reads_every_recording_with_all_that_has_ended(folder: str) -> None:
    for path in (one for one in RECORDINGS if one.parts[-3] == folder):
        events, text = exported("otlp", path)
        spans = spans_of(text)
        ids = {(one.trace, one.id) for one in spans}

        assert len(ids) == len({one.id for one in spans}) == len(spans), path
        assert all((one.trace, one.parent) in ids for one in spans if one.parent), path
        assert all(one.began <= one.ended for one in spans), path
        assert {name for one in spans for name in one.attributes} <= set(Name) - CONTENT, path

        whole = [one for one in spans if Name.UNFINISHED not in one.attributes]
        assert {one.attributes[Name.CALL] for one in named(whole, "execute_tool")} == ended_calls(events), path
        assert len(named(whole, "invoke_agent")) == len(ended_turns(events)), path
        requests = [one for one in events if isinstance(one, Usage) and one.scope == "step" and not one.replay]
        assert len(named(whole, "chat")) == sum(one.replaces is None and one.beside is None for one in requests), path


def test_the_same_events_are_the_same_spans_however_often_they_are_read() -> None:
    assert exported("otlp", SUBAGENTS)[1] == exported("otlp", SUBAGENTS)[1]


def test_spans_of_two_recordings_with_the_same_name_differ() -> None:
    both = [one.id for path in (SUBAGENTS, OWN_TURNS) for one in spans_of(exported("otlp", path)[1])]

    assert len(set(both)) == len(both)


def test_calls_of_a_subagent_are_in_the_call_that_started_it() -> None:
    spans = spans_of(exported("otlp", SUBAGENTS)[1])
    [turn] = named(spans, "invoke_agent")
    tasks = named(spans, "execute_tool Task")

    assert turn.parent == ""
    assert {one.trace for one in spans} == {turn.trace}
    assert [one.parent for one in tasks] == [turn.id, turn.id]
    inside = [sorted(one.name for one in spans if one.parent == task.id) for task in tasks]
    assert inside == [["execute_tool Grep", "execute_tool Read"]] * 2


def test_turn_of_a_subagent_is_in_the_call_that_started_it() -> None:
    spans = spans_of(exported("otlp", OWN_TURNS)[1])
    [inner] = [one for one in named(spans, "invoke_agent") if one.parent]
    [task] = [one for one in spans if one.name == "execute_tool Task"]

    assert inner.parent == task.id
    assert len([one for one in named(spans, "chat") if one.parent == inner.id]) == 3


def test_each_turn_of_the_main_agent_is_a_trace_of_one_conversation() -> None:
    spans = written(begun(), over(), begun("t2", 10_000), over("t2", 11_000))

    assert len({one.trace for one in spans}) == 2
    assert {one.attributes[Name.CONVERSATION] for one in spans} == {"session-1"}


def test_call_has_its_times_its_outcome_and_its_exit_code() -> None:
    [span, _] = written(
        begun(),
        call("c", turn="t1", ts=2_000),
        result("c", turn="t1", ts=3_500, output={"exit_code": 2}, status="failed", is_error=True, wait_ms=700),
        over(),
    )

    assert (span.name, span.kind, span.began, span.ended) == ("execute_tool Bash", 1, 2_000 * MS, 3_500 * MS)
    assert span.failed
    assert span.attributes[Name.ERROR] == span.attributes[Name.OUTCOME] == "failed"
    assert (span.attributes[Name.EXIT_CODE], span.attributes[Name.WAIT]) == (2, 700)


def test_call_that_was_denied_is_no_error() -> None:
    [span] = written(call("c", ts=1), result("c", ts=2, status="denied"))

    assert (span.failed, span.attributes[Name.OUTCOME], Name.ERROR in span.attributes) == (False, "denied", False)


def test_turn_that_failed_says_why_in_few_words() -> None:
    short, long = written(
        begun(),
        over(state="failed", reason="error_max_turns"),
        begun("t2", 10_000),
        over("t2", 11_000, "failed", reason="The provider says: " + "no " * 50),
    )

    assert (short.failed, short.attributes[Name.ERROR]) == (True, "error_max_turns")
    assert (long.failed, long.attributes[Name.ERROR]) == (True, "failed")


def test_request_begins_after_what_the_agent_was_given_and_before_what_it_says() -> None:
    spans = written(
        begun(),
        message("Let me see.", turn="t1", ts=3_000),
        call("c", turn="t1", ts=3_100),
        event(Usage, scope="step", turn="t1", ts=3_200, input_tokens=5, output_tokens=1, model="gpt-5.5"),
        result("c", turn="t1", ts=4_000),
        message("Done.", turn="t1", ts=6_000),
        event(Usage, scope="step", turn="t1", ts=6_100, input_tokens=7, output_tokens=2, model="gpt-5.5"),
        over(),
    )

    assert [(one.began // MS, one.ended // MS) for one in named(spans, "chat")] == [(1_000, 3_200), (4_000, 6_100)]


def test_request_whose_tokens_come_before_its_texts_does_not_begin_earlier_for_it() -> None:
    usage: dict[str, Any] = {"scope": "step", "turn": "t1", "input_tokens": 5}
    spans = written(
        begun(),
        event(Usage, ts=3_000, **usage),
        call("c", turn="t1", ts=3_000),
        result("c", turn="t1", ts=4_000),
        event(Usage, ts=6_000, **usage),
        message("Done.", turn="t1", ts=6_000),
        over(),
    )

    assert [(one.began // MS, one.ended // MS) for one in named(spans, "chat")] == [(1_000, 3_000), (4_000, 6_000)]


def test_tokens_and_cost_are_in_the_requests_if_these_are_stated() -> None:
    request, turn = written(
        event(SessionEvent, state="started", model="claude-opus-5-5"),
        begun(),
        event(
            Usage,
            scope="step",
            turn="t1",
            input_tokens=9,
            output_tokens=4,
            cache_read_tokens=5,
            cache_write_tokens=2,
            reasoning_tokens=3,
            cost_usd=0.25,
        ),
        event(Usage, scope="turn", turn="t1", input_tokens=9, output_tokens=4),
        over(),
    )

    assert (request.name, request.kind) == ("chat claude-opus-5-5", 3)
    assert {name: value for name, value in request.attributes.items() if "usage" in name or "cost" in name} == {
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.usage.cache_write.input_tokens": 2,
        "gen_ai.usage.reasoning.output_tokens": 3,
        "tooltap.cost_usd": 0.25,
    }
    assert request.attributes["gen_ai.provider.name"] == "anthropic"
    assert not [name for name in turn.attributes if "usage" in name or "cost" in name]


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-5.5", "openai"),
        ("anthropic/claude-opus-5-5", "anthropic"),
        ("cerebras/qwen-3", "cerebras"),
        ("qwen-3", "agent"),
        (None, "agent"),
    ],
)
def test_provider_is_that_of_the_model_if_it_is_known(model: str | None, provider: str) -> None:
    assert provider_of(model, "agent") == provider


def test_tokens_are_in_the_turn_if_no_request_is_stated() -> None:
    usage: dict[str, Any] = {"scope": "turn", "turn": "t1", "input_tokens": 9, "output_tokens": 4}
    [turn] = written(begun(), event(Usage, **usage), event(Usage, cost_usd=0.5, **usage), over())

    assert (turn.attributes[Name.INPUT_TOKENS], turn.attributes[Name.OUTPUT_TOKENS]) == (18, 8)
    assert turn.attributes[Name.COST] == 0.5


def test_request_that_is_corrected_keeps_its_id_and_is_in_a_file_once() -> None:
    events = numbered(
        event(Usage, scope="step", ts=1, input_tokens=5),
        event(Usage, scope="step", ts=2, input_tokens=6, replaces="s:1:0"),
    )
    [[first], [second]] = sent(events)
    file = SpanFile("A session", bodies=Bodies(0, 0))
    for one in events:
        file.add(one, {})
    [span] = spans_of("".join(file.end()))

    assert first.id == second.id == span.id
    assert span.attributes[Name.INPUT_TOKENS] == 6


def test_what_a_file_states_beside_a_tap_is_no_request() -> None:
    assert written(event(Usage, scope="step", input_tokens=5, beside="tap")) == []


def test_turn_that_goes_on_after_its_provisional_end_is_sent_again_under_its_id() -> None:
    events = numbered(begun(), over(provisional=True), message("More.", turn="t1", ts=9_500), over(ts=9_900))
    [_, [first], _, [second]] = sent(events)

    assert first.id == second.id
    assert (first.value["endTimeUnixNano"], second.value["endTimeUnixNano"]) == (f"{9_000 * MS}", f"{9_900 * MS}")


def test_result_that_only_says_that_work_has_started_ends_no_call() -> None:
    spans = written(call("c", ts=1), result("c", ts=2, async_=True), result("c", ts=8, final=True))

    assert [one.ended for one in spans] == [8 * MS]


def test_result_without_its_call_is_a_span_of_the_time_that_it_states() -> None:
    [span] = written(result("c", ts=5_000, duration_ms=400))

    assert (span.parent, span.began, span.ended) == ("", 4_600 * MS, 5_000 * MS)


def test_calls_with_the_same_id_in_two_streams_are_two() -> None:
    spans = written(
        call("1", ts=1), call("1", "other", ts=2), result("1", ts=3, status="cancelled"), result("1", "other", ts=4)
    )

    assert [(one.began, one.ended) for one in spans] == [(1 * MS, 3 * MS), (2 * MS, 4 * MS)]


def test_what_has_not_ended_is_marked_in_a_file_and_is_not_sent() -> None:
    made = (begun(), call("c", turn="t1", ts=2_000), message("a", turn="t1", ts=3_000))
    spans = written(*made)

    assert [(one.name, one.ended, one.attributes[Name.UNFINISHED]) for one in spans] == [
        ("invoke_agent gemini", 3_000 * MS, True),
        ("execute_tool Bash", 3_000 * MS, True),
    ]
    assert not any(sent(numbered(*made)))


def test_history_that_an_agent_repeats_is_no_span() -> None:
    assert written(call("c", replay=True), result("c", replay=True)) == []


def test_what_began_before_any_time_was_stated_begins_with_the_first_one() -> None:
    [turn] = written(event(Turn, state="started", turn="t1"), over(ts=1_700_000_000_000))

    assert turn.began == turn.ended == 1_700_000_000_000 * MS


@pytest.mark.parametrize("ts", [-5, 10**18])
def test_time_that_no_span_can_have_is_not_taken(ts: int) -> None:
    [span] = written(call("c", ts=7), result("c", ts=ts))

    assert (span.began, span.ended) == (7 * MS, 7 * MS)


def test_events_under_an_earlier_name_of_a_session_are_of_the_same_turn() -> None:
    alias = event(SessionEvent, state="updated", session="real", alias="session-1", turn="t1")
    spans = written(begun(), alias, call("c", turn="t1", session="real"), result("c", session="real", ts=5_000))

    assert [one.name for one in spans] == ["execute_tool Bash", "invoke_agent gemini"]
    assert spans[0].parent == spans[1].id
    assert {one.attributes[Name.CONVERSATION] for one in spans} == {"real"}


def test_oldest_calls_are_forgotten_beyond_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MOST_KNOWN", 3)
    spans = SessionSpans(has_content=False)
    for one in numbered(*(call(f"c{number}", ts=number) for number in range(1, 10))):
        spans.add(one)

    assert [one.value["startTimeUnixNano"] for one in spans.unfinished()] == [f"{at * MS}" for at in (7, 8, 9)]


def test_resource_is_the_agent_and_its_project() -> None:
    started = event(SessionEvent, state="started", cwd="/home/user/shop/src", root="/home/user/shop", agent_version="9")
    [span] = written(started, call("c"), result("c"))

    assert span.resource == {Name.SERVICE: "gemini", Name.VERSION: "9", Name.PROJECT: "shop"}


def test_file_names_the_conventions_and_what_is_missing() -> None:
    file = SpanFile("A session", bodies=Bodies(0, 0))
    file.add_gap(MissingRange(1, 3, is_deleted=True))
    for one in numbered(call("c"), result("c")):
        file.add(one, {})
    text = "".join(file.end("No secret was found to be masked."))
    [scoped] = json.loads(text)["resourceSpans"][0]["scopeSpans"]

    assert {"key": "tooltap.conventions", "value": {"stringValue": CONVENTIONS}} in scoped["scope"]["attributes"]
    notes = "Events between 1 and 3 were not kept. No secret was found to be masked."
    assert spans_of(text)[0].resource[Name.NOTES] == notes


def test_line_of_a_file_has_a_limited_number_of_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "PER_LINE", 2)
    file = SpanFile("A session", bodies=Bodies(0, 0))
    for one in numbered(*(result(f"c{number}") for number in range(5))):
        file.add(one, {})

    assert [len(spans_of(line)) for line in file.end()] == [2, 2, 1]


def test_texts_arguments_and_results_are_there_only_on_request() -> None:
    made = (
        begun(),
        event(Message, role="user", text="Count.", turn="t1"),
        call("c", turn="t1", input={"command": "wc -l", "_raw": {"secret": 1}}),
        result("c", turn="t1", output={"stdout": "12"}),
        message("12 lines.", turn="t1"),
        over(),
    )
    bare = written(*made)
    ran, turn = written(*made, has_content=True)

    assert not CONTENT & {name for one in bare for name in one.attributes}
    assert json.loads(ran.attributes[Name.ARGUMENTS]) == {"command": "wc -l"}
    assert json.loads(ran.attributes[Name.RESULT]) == {"stdout": "12"}
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Count."}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "12 lines."}]}]
    assert json.loads(turn.attributes[Name.INPUT_MESSAGES]) == asked
    assert json.loads(turn.attributes[Name.OUTPUT_MESSAGES]) == said


def test_texts_of_a_turn_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MOST_CONTENT", 10)
    [turn] = written(begun(), *(message("1234567", turn="t1") for _ in range(9)), over(), has_content=True)
    said = json.loads(turn.attributes[Name.OUTPUT_MESSAGES])

    assert [one["parts"][0]["content"] for one in said] == ["1234567", "123"]


def test_skill_is_named() -> None:
    [span] = written(call("c", name="Skill", input={"skill": "review"}), result("c"))

    assert (span.name, span.attributes[Name.SKILL]) == ("execute_tool Skill review", "review")


def test_long_session_is_kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "IN_MEMORY", 1_000)
    spans = written(*(result(f"c{number}", ts=number) for number in range(50)))

    assert [one.attributes[Name.CALL] for one in spans] == [f"c{number}" for number in range(50)]


def test_events_in_a_file_are_as_many_spans_as_their_recording(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(here("normalize", SUBAGENTS).stdout)
    done = here("export", "--format", "otlp", tmp_path / "events.jsonl")

    assert (done.returncode, len(spans_of(done.stdout))) == (0, len(spans_of(exported("otlp", SUBAGENTS)[1])))


def test_secrets_are_masked_unless_the_user_wants_them(tmp_path: Path) -> None:
    (tmp_path / "recording.jsonl").write_bytes(lines())
    (tmp_path / "session.jsonl").write_bytes(
        here("normalize", "--dialect", "claude-stream", tmp_path / "recording.jsonl").stdout
    )
    command = ("export", "--format", "otlp", "--content", tmp_path / "session.jsonl")
    masked, bare = here(*command).stdout, here(*command, "--no-redact").stdout

    assert spans_of(masked)
    assert kept(masked) == []
    assert kept(bare) != []
