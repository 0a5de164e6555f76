"""Droid's sessions: their tokens, which are in the settings beside a session, and rewinds."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.normalizers.reading import lines_of as encoded
from tests.normalizers.reading import of, read, said, statistics
from tooltap.normalizers.catalog.registry import builtin, stores
from tooltap.protocol.events import Message, Notice, SessionEvent, ToolResult, Turn, Usage

LOCKED = 1_777_597_323_000
SETTINGS: dict[str, Any] = {
    "assistantActiveTimeMs": 5_000,
    "model": "claude-sonnet-4-5",
    "autonomyMode": "normal",
    "providerLock": "anthropic",
    "providerLockTimestamp": "2026-05-01T01:02:03.000Z",
    "tokenUsage": {
        "inputTokens": 1_200,
        "outputTokens": 168,
        "cacheCreationTokens": 100,
        "cacheReadTokens": 3_600,
        "thinkingTokens": 28,
    },
    "inclusiveTokenUsage": {"inputTokens": 9_999, "outputTokens": 999},
}


def message(message_id: str, parent: str | None, role: str, text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    stated = {"type": "message", "id": message_id, "timestamp": "2026-05-01T01:02:04.000Z"}
    return {**stated, "parentId": parent, "message": {"role": role, "content": content}}


def settings(**tokens: int) -> dict[str, Any]:
    return {**SETTINGS, "tokenUsage": {**SETTINGS["tokenUsage"], **tokens}}


def test_settings_state_the_tokens_of_the_session() -> None:
    """Those of subagents are in their own settings; prompts exclude what the cache had."""
    (used,) = of(Usage, read("droid-session", SETTINGS))

    assert (used.scope, used.counter, used.model, used.ts) == ("session", "session", "claude-sonnet-4-5", LOCKED)
    assert (used.input_tokens, used.output_tokens, used.reasoning_tokens) == (4_900, 168, 28)
    assert (used.cache_read_tokens, used.cache_write_tokens) == (3_600, 100)


def test_settings_that_change_state_a_new_total() -> None:
    found = of(Usage, read("droid-session", SETTINGS, {**SETTINGS, "autonomyMode": "auto"}, settings(outputTokens=200)))

    assert [one.output_tokens for one in found] == [168, 200]


def test_thinking_beyond_the_output_is_added_to_it() -> None:
    (used,) = of(Usage, read("droid-session", settings(outputTokens=10, thinkingTokens=30)))

    assert (used.output_tokens, used.reasoning_tokens) == (40, 30)


def test_settings_of_an_unused_session_are_nothing() -> None:
    unused = {**SETTINGS, "tokenUsage": dict.fromkeys(SETTINGS["tokenUsage"], 0)}

    assert read("droid-session", unused) == []
    assert statistics("droid-session", encoded((unused,))).skipped == {"unchanged": 1}


def test_settings_are_recognised_and_found_beside_the_session() -> None:
    (store,) = stores()["droid"]
    found = store.files.fullmatch("-ws/0a20e4ab.settings.json")

    assert builtin()["droid-session"].recognises(SETTINGS)
    assert not builtin()["droid-session"].recognises({"tokenUsage": {}})
    assert found is not None
    assert found["session"] == "0a20e4ab"
    assert isinstance(store.files.fullmatch("-ws/0a20e4ab.jsonl"), re.Match)
    assert store.files.fullmatch("-ws/settings.json") is None


def test_message_after_an_earlier_one_is_told_as_a_rewind() -> None:
    lines = [
        message("a", None, "user", "Go."),
        message("b", "a", "assistant", "Wrong."),
        message("c", "a", "assistant", "Right."),
    ]
    found = read("droid-session", *lines)

    assert [(one.code, one.data) for one in of(Notice, found)] == [("rewound", {"parentId": "a"})]
    assert said(found) == [("user", "Go."), ("assistant", "Wrong."), ("assistant", "Right.")]
    assert of(Notice, read("droid-session", *lines[:2])) == []


def begins(**more: Any) -> dict[str, Any]:
    return {"type": "session_start", "id": "fork", "title": "Go.", "version": 2, "cwd": "/ws", **more}


def test_what_a_fork_copied_is_history() -> None:
    """With a call that is open at its end."""
    asked = message("b", "a", "assistant", "Listing.")
    asked["message"]["content"] += [{"type": "tool_use", "id": "c", "name": "Execute", "input": {"command": "ls"}}]
    own = [message("d", "b", "user", "Stop."), message("e", "d", "assistant", "Yes.")]
    ended = {"type": "agent_turn_outcome", "turnId": "a", "reason": "completed"}
    header = begins(parent="parent", forkedAtMessageId="b")
    found = read("droid-session", header, message("a", None, "user", "Go."), asked, ended, *own)

    assert [(one.text, one.replay, one.turn) for one in of(Message, found)] == [
        ("Go.", True, None),
        ("Listing.", True, None),
        ("Stop.", False, "t1"),
        ("Yes.", False, "t1"),
    ]
    assert [(one.status, one.replay) for one in of(ToolResult, found)] == [("interrupted", True)]
    assert [one.turn for one in of(Turn, found) if one.state == "started"] == ["t1"]
    assert [one.forked_from for one in of(SessionEvent, found)] == [None, "parent"]


def test_fork_that_adds_nothing_has_no_turn() -> None:
    header = begins(parent="parent", forkedAtMessageId="z")
    found = read("droid-session", header, message("a", None, "user", "Go."), message("b", "a", "assistant", "Yes."))

    assert of(Turn, found) == []
    assert {one.replay for one in of(Message, found)} == {True}


def test_session_that_a_compaction_began_names_the_one_that_it_continues() -> None:
    compacted = {"type": "compaction_state", "id": "c", "summaryText": "Listed."}
    found = read("droid-session", begins(parent="parent"), compacted)

    assert [one.resumes for one in of(SessionEvent, found)] == [None, "parent"]
    assert [(one.code, one.text) for one in of(Notice, found)] == [("compaction", "Listed.")]
    assert [one.resumes for one in of(SessionEvent, read("droid-session", begins(), compacted))] == [None]


def test_total_of_the_session_before_a_compaction_is_taken_off() -> None:
    begun = {**SETTINGS, "pendingSessionStartSource": "compact"}
    (used,) = of(Usage, read("droid-session", begun, settings(inputTokens=1_300, outputTokens=178)))

    assert (used.input_tokens, used.output_tokens, used.cache_read_tokens) == (100, 10, 0)


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("<system-reminder>\nBe brief.\n</system-reminder>", []),
        (
            "<system-reminder>Be brief.</system-reminder>\n\n<system-reminder>On Linux.</system-reminder>\nFix it.",
            ["Fix it."],
        ),
        ("What does <system-reminder> mean?", ["What does <system-reminder> mean?"]),
        ("<system-reminder>cut off", []),
    ],
)
def test_reminder_before_a_prompt_is_no_part_of_it(text: str, prompt: list[str]) -> None:
    found = read("droid-session", begins(), message("1", None, "user", text))

    assert [one.text for one in of(Message, found)] == prompt
