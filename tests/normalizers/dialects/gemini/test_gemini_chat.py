"""Tests of the `gemini-chat` dialect: sessions, turns, messages, history, documents."""

from typing import Any

import pytest

from tests.normalizers.dialects.gemini.helpers import HEADER, RECORDED, WRITTEN, call, chat, message, response
from tests.normalizers.reading import FIXTURES, calls, of, outline, read, recording, results, said, statistics, turns
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
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
from tooltap.testing import check_recording, check_survives, normalize, read_recording

ALL = sorted((FIXTURES / "gemini-chat").rglob("*.json*"))


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_no_fixture_has_unparsed_lines(path: Any) -> None:
    lines = read_recording(path.read_bytes())
    stats = statistics("gemini-chat", lines)

    assert stats.unparsed == 0
    assert stats.with_events + sum(stats.skipped.values()) == stats.lines == len(lines)


def test_skipped_lines_are_counted_by_reason() -> None:
    stats = statistics("gemini-chat", recording("gemini-chat", "read", RECORDED))

    # The context for the model; four changes of `lastUpdated`; the result again, as the model got it.
    assert stats.skipped == {"prompt-context": 1, "metadata": 4, "duplicate-result": 1}


# -- sessions and turns -----------------------------------------------------------------------------------------------


def test_each_prompt_starts_a_turn() -> None:
    found = chat("read")

    assert outline(found) == [
        "session",
        "turn started",
        "message user",
        "session",
        "message assistant",
        "usage",
        "tool-call Read",
        "tool-result Read completed",
        "message assistant",
        "usage",
        "turn completed",
    ]
    assert {event.session for event in found} == {"a774addb-e820-460e-877b-2418090c3cb4"}
    started, updated = of(SessionEvent, found)
    assert (started.state, started.ts) == ("started", 1795293911233)
    assert (updated.state, updated.model) == ("updated", "gemini-2.5-flash")


def test_turn_end_is_synthetic() -> None:
    assert turns(chat("read"))[-1] == ("t1", "completed", True)
    assert turns(chat("overload"))[-1] == ("t1", "cancelled", True)
    assert turns(chat("document.json", WRITTEN)) == [
        ("t1", "started", False),
        ("t1", "cancelled", True),
        ("t2", "started", False),
        ("t2", "completed", True),
    ]


def test_cancelled_request_ends_its_turn() -> None:
    found = chat("rewind-and-compaction", WRITTEN)

    ended = next(turn for turn in of(Turn, found) if turn.turn == "t3" and turn.state != "started")
    assert (ended.state, ended.reason, ended.synthetic) == ("cancelled", "Request cancelled.", False)


def test_final_error_fails_the_turn() -> None:
    assert turns(chat("rewind-and-compaction", WRITTEN))[-1] == ("t4", "failed", True)


def test_resumed_chat_is_titled_by_its_summary() -> None:
    sessions = of(SessionEvent, chat("rewind-and-compaction", WRITTEN))

    assert [(one.state, one.model, one.title) for one in sessions] == [
        ("started", None, None),
        ("updated", "gemini-3-pro-preview", None),
        ("resumed", None, None),
        ("updated", None, "Name the project Harbor"),
    ]


# -- messages ---------------------------------------------------------------------------------------------------------


def test_prompt_is_the_typed_text_with_its_images() -> None:
    found = chat("rewind-and-compaction", WRITTEN)

    prompt = of(Message, found)[0]
    assert prompt.text == "Look at @sketch.png, then name the project Harbor"
    assert prompt.message_id == "m-u1"
    assert prompt.attachments is not None
    assert [(one.mime_type, one.bytes) for one in prompt.attachments] == [("image/png", 70)]


def test_session_context_is_not_a_prompt() -> None:
    assert said(chat("read"))[0] == ("user", "[[S1]] Read src/app.py and tell me what it does.")


def test_rewritten_message_emits_only_what_is_new() -> None:
    # The chat has `m-g1` twice: with text, thought and tokens, and again with its call.
    found = chat("rewind-and-compaction", WRITTEN)

    assert [one.text for one in of(Reasoning, found)] == ["Renaming\nOne line of the README has to change."]
    assert [one.text for one in of(Message, found) if one.message_id == "m-g1"] == [
        "A harbour, drawn by hand. I rename the project."
    ]
    blocks = [one.block for one in of(Reasoning, found)] + [one.block for one in of(Message, found)[1:2]]
    assert blocks == [0, 1]
    assert len(of(ToolCall, found)) == 1


def test_grown_text_emits_the_rest() -> None:
    found = read(
        "gemini-chat",
        HEADER,
        message("u", "user", "Go."),
        message("g", "gemini", "One"),
        message("g", "gemini", [{"text": "One"}, {"text": " two"}]),
        message("g", "gemini", "Masked"),
    )

    assert [(one.text, one.block) for one in of(Message, found)[1:]] == [("One", 0), (" two", 1)]


def test_thoughts_precede_text_and_calls() -> None:
    found = chat("document.json", WRITTEN)

    assert [one.text.split("\n")[0] for one in of(Reasoning, found)] == ["Running the Tests", "Looking Around"]
    assert outline(found)[4:7] == ["reasoning", "reasoning", "tool-call Bash"]
    assert [one.ts for one in of(Reasoning, found)] == [1791361804000, 1791361804500]


def test_thought_parts_are_reasoning() -> None:
    parts = [{"text": "Hm.", "thought": True}, {"text": "Yes."}]
    found = read("gemini-chat", HEADER, message("u", "user", "Go."), message("g", "gemini", parts))

    assert [one.text for one in of(Reasoning, found)] == ["Hm."]
    assert said(found) == [("user", "Go."), ("assistant", "Yes.")]


def test_notes_of_the_cli_are_notices() -> None:
    notices = of(Notice, chat("rewind-and-compaction", WRITTEN))

    assert [(one.level, one.code, one.text) for one in notices if one.code not in ("rewound", "compaction")] == [
        ("info", "info", "Server harbour is ready."),
        ("warning", "warning", "Approaching the token limit."),
        ("info", "interrupt", "Request cancelled."),
        ("error", "provider-error", "[API Error: Quota exceeded]"),
    ]


def test_usage_of_a_step_adds_up_to_the_stated_total() -> None:
    # input 1000, output 30, cached 600, thoughts 12, tool 5: total 1047.
    used = of(Usage, chat("rewind-and-compaction", WRITTEN))[0]

    assert (used.scope, used.input_tokens, used.output_tokens) == ("step", 1005, 42)
    assert (used.cache_read_tokens, used.reasoning_tokens) == (600, 12)


def test_late_usage_is_emitted_once() -> None:
    # `m-g2` has `tokens: null` first.
    used = of(Usage, chat("rewind-and-compaction", WRITTEN))

    assert [one.input_tokens for one in used] == [1005, 1100, 1005]


def tokens(prompt: int, answer: int) -> dict[str, int]:
    return {"input": prompt, "output": answer, "cached": 0, "thoughts": 0, "tool": 0, "total": prompt + answer}


def test_message_written_again_with_more_tokens_gets_the_later_count() -> None:
    versions = [
        message("g", "gemini", "Ye", tokens=tokens(1000, 1)),
        message("g", "gemini", "Yes.", tokens=tokens(1000, 20)),
        message("g", "gemini", "Yes.", tokens=tokens(1000, 20)),
        message("g", "gemini", "Yes.", tokens=tokens(0, 0)),
        message("g", "gemini", "Yes.", tokens=tokens(1000, 25)),
    ]
    used = of(Usage, read("gemini-chat", HEADER, message("u", "user", "Go."), *versions))

    assert [(one.output_tokens, one.replaces) for one in used] == [(1, None), (20, used[0].id), (25, used[1].id)]


def test_copy_under_a_new_id_uses_nothing() -> None:
    prompt, answer = message("u", "user", "Go."), message("g", "gemini", "Done.", tokens=tokens(1000, 20))
    kept = [message("s", "user", "<state_snapshot>So far.</state_snapshot>"), {**answer, "id": "g2"}]
    found = read("gemini-chat", HEADER, prompt, answer, {"$set": {"messages": kept}})

    assert [(one.input_tokens, one.output_tokens) for one in of(Usage, found)] == [(1000, 20)]


def test_id_of_a_message_identifies_its_request_in_every_file_of_the_session() -> None:
    """A chat of an old version is copied to a new file when it is resumed."""
    message_id = "5f0c1a52-8a0e-4f6e-9f0b-6a5e0d0c4f11"
    lines = [HEADER, message("u", "user", "Go."), message(message_id, "gemini", "Done.", tokens=tokens(1000, 20))]
    (used,) = of(Usage, read("gemini-chat", *lines))

    assert used.request == message_id


def test_chat_without_a_message_is_a_session_and_nothing_else() -> None:
    context = message("c", "user", [{"text": "<session_context>\nThis is the Gemini CLI.\n</session_context>"}])
    found = read("gemini-chat", HEADER, {"$set": {"messages": [context]}})

    assert [type(one).__name__ for one in found] == ["SessionEvent"]


# -- what the model remembers -----------------------------------------------------------------------------------------


def test_rewind_is_a_notice_and_retracts_nothing() -> None:
    found = chat("rewind-and-compaction", WRITTEN)

    rewound = next(one for one in of(Notice, found) if one.code == "rewound")
    assert rewound.data == {"messageId": "m-u3", "messages": 2}
    assert ("user", "Add tests") in said(found)


def test_compaction_is_a_notice_and_its_copies_are_skipped() -> None:
    found = chat("rewind-and-compaction", WRITTEN)

    assert [one.text for one in of(Notice, found) if one.code == "compaction"] == [
        "Chat history compressed from 9000 to 1200 tokens.",
        "<state_snapshot>\n<overall_goal>A name</overall_goal>\n</state_snapshot>",
    ]
    assert [text for _, text in said(found)].count("Sum up what we did") == 1
    assert not any("state_snapshot" in text or text.startswith("Got it.") for _, text in said(found))


def test_prompt_removed_after_an_api_error_is_a_notice() -> None:
    found = chat("api-error")

    (notice,) = of(Notice, found)
    assert (notice.code, notice.data) == ("rewound", {"messages": 1})
    assert said(found) == [("user", "[[S19]] Trigger an API error.")]


def test_turn_fails_when_its_prompt_is_taken_back() -> None:
    assert turns(chat("api-error")) == [("t1", "started", False), ("t1", "failed", True)]


def test_turn_is_cancelled_when_its_prompt_and_what_followed_is_taken_back() -> None:
    before, prompt = message("a", "user", "Hello."), message("u", "user", "Go.")
    work = message("g", "gemini", "", toolCalls=[call("c", "read_file")])
    found = read("gemini-chat", HEADER, before, prompt, work, {"$set": {"messages": [before]}})

    assert turns(found)[-2:] == [("t2", "started", False), ("t2", "cancelled", True)]


def test_history_without_an_answered_prompt_ends_no_turn() -> None:
    before, prompt = message("a", "user", "Hello."), message("u", "user", "Go.")
    answer = message("g", "gemini", "Gone.")
    lines = [HEADER, before, prompt, answer, {"$set": {"messages": [before]}}, message("v", "user", "Again.")]

    assert ("t2", "completed", True) in turns(read("gemini-chat", *lines))


def test_process_that_resumes_a_chat_rewinds_nothing() -> None:
    """As 0.61 writes it with `--resume`: its header, the context of a new chat, and then what it has loaded."""
    context = message("c", "user", "<session_context>\nA folder")
    prompt, answer = message("u", "user", "Go."), message("g", "gemini", "Yes.")
    begins = {"$set": {"messages": [context]}}
    loaded = [{"$set": {"sessionId": "one"}}, {"$set": {"messages": [context, prompt, answer]}}]
    found = read("gemini-chat", HEADER, begins, prompt, answer, HEADER, begins, *loaded, message("v", "user", "More."))

    assert of(Notice, found) == []
    assert [one.state for one in of(SessionEvent, found)] == ["started", "resumed"]
    assert said(found) == [("user", "Go."), ("assistant", "Yes."), ("user", "More.")]


def test_removed_messages_are_a_notice_and_masked_ones_are_not() -> None:
    masked = {"$patch": {"updates": [{"id": "g", "content": "…"}]}}
    removed = {"$patch": {"removeIds": ["u", "unknown"]}}
    found = read("gemini-chat", HEADER, message("u", "user", "Go."), message("g", "gemini", "Yes."), masked, removed)

    assert [one.data for one in of(Notice, found)] == [{"messages": 1}]


def test_messages_only_in_a_history_are_emitted() -> None:
    first = [message("u", "user", "Yes"), message("g", "gemini", "Done.", toolCalls=[call("c", "glob")])]
    second = [*first, message("u2", "user", "Yes"), message("g2", "gemini", "Done again.")]
    found = read("gemini-chat", HEADER, {"$set": {"messages": first}}, {"$set": {"messages": second}})

    assert said(found) == [("user", "Yes"), ("assistant", "Done."), ("user", "Yes"), ("assistant", "Done again.")]
    assert len(of(ToolCall, found)) == len(of(ToolResult, found)) == 1
    assert not of(Notice, found)


def test_calls_only_in_parts_are_emitted() -> None:
    asked = {"functionCall": {"id": "c", "name": "read_file", "args": {"file_path": "x.py"}}}
    found = read(
        "gemini-chat",
        HEADER,
        message("u", "user", "Go."),
        message("g", "gemini", [{"text": "Reading."}, asked]),
        message("r", "user", [response("c", "read_file", output="x = 1")]),
    )

    assert calls(found)["read_file"].input["file_path"] == "x.py"
    assert results(found)["read_file"].output["file"]["content"] == "x = 1"


# -- documents --------------------------------------------------------------------------------------------------------


def test_multiline_document_keeps_the_contract() -> None:
    check_recording("gemini-chat", recording("gemini-chat", "document.json", WRITTEN))


def test_document_is_read_at_its_last_line() -> None:
    lines = recording("gemini-chat", "document.json", WRITTEN)
    found = normalize("gemini-chat", lines, Context(stream="s"))

    assert {event.line for event in found} == {len(lines)}
    assert of(SessionEvent, found)[0].ts == 1791361800000


def test_truncated_document_is_unparsed_at_the_end() -> None:
    lines = recording("gemini-chat", "document.json", WRITTEN)[:-1]

    (found,) = normalize("gemini-chat", lines, Context(stream="s"))

    assert isinstance(found, Unparsed)
    assert (found.reason, found.bytes) == ("truncated", sum(len(line.data) + 1 for line in lines))
    check_survives("gemini-chat", lines)


def test_lines_after_a_truncated_document_are_read() -> None:
    begun = recording("gemini-chat", "document.json", WRITTEN)[:9]
    lines = [*begun, *recording("gemini-chat", "read", RECORDED)]

    found = normalize("gemini-chat", lines, Context(stream="s"))

    assert [one.reason for one in of(Unparsed, found)] == ["truncated"]
    assert said(found) == said(chat("read"))


def test_repeated_document_emits_nothing_new() -> None:
    lines = recording("gemini-chat", "document.json", WRITTEN)

    once = normalize("gemini-chat", lines, Context(stream="s"))
    twice = normalize("gemini-chat", [*lines, *lines], Context(stream="s"))

    assert outline(twice) == outline(once)


def test_auto_recognises_a_document_by_its_first_lines() -> None:
    lines = recording("gemini-chat", "document.json", WRITTEN)
    normalizer = StreamNormalizer(Context(stream="s"))

    decided = None
    for number, line in enumerate(lines, 1):
        normalizer.feed(line.data)
        decided = decided or (number if normalizer.dialect == "gemini-chat" else None)

    assert decided == 3  # `{`, `sessionId`, `projectHash`
    assert normalizer.statistics.lines == normalizer.statistics.with_events == len(lines)


# -- what is not understood -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        {"something": "else"},
        message("m", "mystery", "x"),
        {"id": 7, "type": "user", "content": "a number is no id"},
        {"$set": {"messages": [7]}},
        message("g", "gemini", "", toolCalls=[{"name": "glob"}]),
    ],
)
def test_unknown_form_is_unparsed(line: dict[str, Any]) -> None:
    assert {one.reason for one in of(Unparsed, read("gemini-chat", HEADER, line))} == {"unknown-type"}
