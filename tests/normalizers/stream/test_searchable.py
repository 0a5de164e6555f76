"""The text of events: what it has, what it has not, and that nothing is read that is not there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tooltap.normalizers.stream.searchable import LONGEST, PART, Searchable, searchable, spaced

HEAD = {"v": 2, "stream": "s", "session": "x", "provider": "claude"}


def of(kind: str, **fields: Any) -> Searchable:
    found = searchable(msgspec.json.encode({"kind": kind, **HEAD, **fields}))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"kind": "message", "role": "user", "text": "a\tb\x00\x1fc"}, "a\tb  c"),
        ({"kind": "message", "text": "x" * 9_000}, "x" * LONGEST),
        ({"kind": "message", "text": "again", "replay": True}, ""),
        ({"kind": "reasoning", "text": "because"}, "because"),
        ({"kind": "session", "title": "A title", "cwd": "/home/ann", "model": "m-1"}, "A title\n/home/ann\nm-1"),
        ({"kind": "tool-call", "name": "Bash", "input": {"command": "ls -l", "timeout": 5}}, "Bash\nls -l"),
        ({"kind": "tool-call", "name": "Bash", "title": "ls", "input": {"command": "ls"}}, "Bash\nls"),
        ({"kind": "tool-call", "name": "Bash", "input": {"command": ["ls", "-l"]}}, "Bash\nls -l"),
        ({"kind": "tool-call", "name": "Task", "input": {"prompt": "p" * 600, "x": "y" * 600}}, None),
        (
            {"kind": "tool-call", "name": "Edit", "input": {"file_path": "a.py", "old_string": "x", "new_string": "y"}},
            "Edit\na.py",
        ),
        (
            {"kind": "tool-call", "name": "Patch", "input": {"changes": {"a.py": {"diff": "x"}, "b": {}}}},
            "Patch\na.py b",
        ),
        ({"kind": "tool-update", "name": "Bash"}, ""),
        ({"kind": "tool-update", "name": "Bash", "input": {"command": "ls"}}, "Bash\nls"),
        ({"kind": "tool-result", "name": "Bash", "output": {"stdout": "o" * 600, "_raw": "r"}}, "o" * PART),
        ({"kind": "tool-result", "name": "m", "output": {"content": [{"text": "a"}, "b", 1, {}]}}, "a b"),
        ({"kind": "tool-result", "name": "m", "output": {"stdout": None, "error": "no"}}, "no"),
        (
            {"kind": "permission-request", "name": "AskUserQuestion", "input": {"questions": [{"question": "Which?"}]}},
            "AskUserQuestion\nWhich?",
        ),
        ({"kind": "permission-response", "message": "not that"}, "not that"),
        ({"kind": "notice", "text": "retry"}, "retry"),
        ({"kind": "unparsed", "text": "z" * 600}, "z" * PART),
        ({"kind": "usage"}, ""),
        ({"kind": "turn", "state": "started"}, ""),
    ],
)
def test_text(event: dict[str, Any], text: str | None) -> None:
    found = of(**event).text
    assert found == (f"Task\n{'p' * 600}\n{'y' * PART}" if text is None else text)


def test_what_is_filtered_by() -> None:
    found = of("tool-call", name="Bash", ts=5, input={"_happy": {"rawToolName": "shell"}})
    assert found[:7] == ("tool-call", "s", "x", "claude", 5, "Bash", "shell")
    found = of("session", cwd="/a", alias="s")
    assert (found.cwd, found.alias) == ("/a", "s")


@pytest.mark.parametrize("body", [b"", b"{", b'{"kind":"later"}', b'{"kind":"message","text":1}', b"\xff"])
def test_events_that_cannot_be_read_have_none(body: bytes) -> None:
    assert searchable(body) is None


def test_characters_without_spaces_are_words() -> None:
    assert spaced("plain") == "plain"
    assert spaced("aé 検索b").split("\x1f") == ["aé ", "検", "", "索", "b"]
