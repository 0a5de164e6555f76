"""How a call ended: words, keys and sentences."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tooltap.normalizers.catalog.registry import dialects, parser_class
from tooltap.normalizers.tools.outcome import HEAD, WORDS, error_words, stated_status, status_in_words, status_word


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("declined", "denied"),
        ("timed_out", "failed"),
        ("Timed Out", "failed"),
        ("canceled", "cancelled"),
        ("not-allowed", "denied"),
        ("SUCCESS", "completed"),
        ("killed", "cancelled"),
        ("lost", "interrupted"),
        ("running", None),
        ("in_progress", None),
        ("x" * 100, None),
        (None, None),
        (3, None),
        ({"a": 1}, None),
    ],
)
def test_words(word: Any, status: str | None) -> None:
    assert status_word(word) == status


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ({"is_error": True}, "failed"),
        ({"exit_code": "2"}, "failed"),
        ({"exit_code": "0", "success": True}, "completed"),
        ({"exit_code": "none"}, None),
        ({"isError": False}, "completed"),
        ({"success": False}, "failed"),
        ({"success": True, "exit_code": 3}, "failed"),
        ({"exitCode": 127}, "failed"),
        ({"exit_code": 0}, None),
        ({"exit_code": True}, None),
        ({"signal": "SIGKILL"}, "failed"),
        ({"signal": 9, "exitCode": None}, "failed"),
        ({"signal": None}, None),
        ({"finishReason": "error"}, "failed"),
        ({"status": "declined", "success": False}, "denied"),
        ({"status": "completed", "is_error": True}, "failed"),
        ({"interrupted": True, "is_error": True}, "cancelled"),
        ({"status": "in_progress"}, None),
        ({}, None),
        ("failed", None),
    ],
)
def test_shapes(value: Any, status: str | None) -> None:
    assert stated_status(value) == status


@pytest.mark.parametrize(
    ("text", "family", "flagged", "status"),
    [
        ('exec_command failed: CreateProcess { message: "Rejected(\\"rejected by user\\")" }', "codex", True, "denied"),
        ("User aborted the command", "opencode", False, "cancelled"),
        ("User aborted the command", "pi", False, None),
        ("Operation aborted", "pi", True, "cancelled"),
        ("The user doesn't want to proceed with this tool use. It was rejected.", "claude", True, "denied"),
        (
            "The user doesn't want to proceed with this tool use. It was rejected. Correction to the text above: this "
            "call was stopped while running, not refused before it ran.",
            "claude",
            True,
            "cancelled",
        ),
        ("cat: x: Permission denied", "claude", True, None),
        ("ok\nrejected by user", "claude", True, None),
        ("the door was opened by user", "claude", True, None),
        ("x" * HEAD + " rejected by user", "claude", True, None),
        ("", "claude", True, None),
        (None, "claude", True, None),
    ],
)
def test_sentences(text: str | None, family: str, flagged: bool, status: str | None) -> None:
    assert status_in_words(text, family, flagged=flagged) == status


def test_each_row_names_a_family_and_where_it_was_seen() -> None:
    families = {parser_class(name).__module__.split(".")[-2] for name in dialects()}
    for row in WORDS:
        assert row.family in {"", *families}
        assert row.status in ("denied", "cancelled", "interrupted", "failed")
        assert re.search(r"\d", row.seen)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("no quota", "no quota"),
        ({"message": "no quota", "code": 3}, "no quota"),
        ({"error": {"message": "no quota"}}, "no quota"),
        ({"name": "ApiError", "data": {"message": "no quota"}}, "no quota"),
        ({"error": {"error": {"error": {"error": "too deep"}}}}, None),
        ({"message": ""}, None),
        ("", None),
        (True, None),
        (None, None),
    ],
)
def test_words_of_errors(error: Any, words: str | None) -> None:
    assert error_words(error) == words
