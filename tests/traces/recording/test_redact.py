"""Redacting removes private text and keeps the shape of a line."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooltap.traces.recording.redact import MAX_STRING, RETAINED, Redactor

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDINGS = sorted(FIXTURES.rglob("*.jsonl"))


def redacted(value: Any) -> Any:
    return json.loads(redactor_for(value).redact(json.dumps(value).encode()))


def redactor_for(*values: Any) -> Redactor:
    redactor = Redactor()
    for value in values:
        redactor.learn(json.dumps(value).encode())
    return redactor


@pytest.mark.parametrize(
    ("private", "public"),
    [
        ("open /home/alice/src/app.py now", "open /home/user/src/app.py now"),
        ("/Users/Alice.Smith", "/home/user"),
        ("file:///home/alice.", "file:///home/user."),
        ("/tmp/home-codex/.codex", "/home/user/.codex"),
        (r"C:\Users\alice\src and C:/Users/alice", r"C:\Users\user\src and C:/Users/user"),
        ("~/.claude/projects/-home-alice-src/x.jsonl", "~/.claude/projects/-home-user-src/x.jsonl"),
        ("Co-Authored-By: A <alice.b+c@mail.corp.example>", "Co-Authored-By: A <user@example.com>"),
        ("alice@build-7:~/src$ ls", "user@host:~/src$ ls"),
        ("fetch http://ci.lan:8080/x and https://wiki.acme.corp/", "fetch http://host.internal:8080/x and https://host.internal/"),
        ("key ghp_" + "aB3d" * 9, "key [masked github-token]"),
    ],
)  # fmt: skip
def test_private_text_is_replaced(private: str, public: str) -> None:
    assert redacted({"text": private}) == {"text": public}
    assert json.loads(redacted({"arguments": json.dumps({"text": private})})["arguments"]) == {"text": public}


@pytest.mark.parametrize(
    "harmless",
    [
        "/root/find_greet sends to /root",  # how Codex names its agents
        "settings.local.json and app.internal.py",
        "git@github.com:owner/repo.git, npm i @scope/pkg@1.2.3, cc-plugin@builtin",
        "https://example.com/home/page, ./home/x, /home, /home/",
        "/home/user/src, user@example.com, user@host:~/src, /Users/Shared/x",
        "see #home-page and --home-dir",
    ],
)
def test_harmless_text_stays(harmless: str) -> None:
    line = json.dumps({"text": harmless}).encode()

    assert Redactor().redact(line) is line


def test_learned_name_is_replaced_everywhere() -> None:
    redactor = redactor_for({"cwd": "/home/alice/src"}, ["$ uname -a\nLinux buildbox7 6.1.0-13 x86_64"])
    line = {"out": "drwxr-xr-x 2 alice staff on buildbox7: malice, alice-in-wonderland", "type": "alice"}

    assert json.loads(redactor.redact(json.dumps(line).encode())) == {
        "out": "drwxr-xr-x 2 user staff on host: malice, alice-in-wonderland",
        "type": "alice",  # possibly a word of the format
    }


def test_common_name_is_not_learned() -> None:
    redactor = redactor_for({"cwd": "/home/test/src"})

    assert redactor.redact(b'["run the test now"]') == b'["run the test now"]'


def test_names_under_name_keys_are_replaced() -> None:
    assert redacted({"hostname": "x1", "username": "bob"}) == {"hostname": "host", "username": "user"}


def test_paths_in_keys_are_replaced() -> None:
    assert redacted({"changes": {"/home/alice/a.py": {"kind": "add"}}}) == {
        "changes": {"/home/user/a.py": {"kind": "add"}}
    }


def test_prompts_keep_only_their_shape() -> None:
    line = {
        "instructions": "You are …",
        "system_prompt": [{"type": "text", "text": "You are …", "cache": 1}],
        "input": [
            {"role": "developer", "content": [{"type": "input_text", "text": "Never …"}]},
            {"role": "system", "content": "Always …"},
            {"role": "user", "content": "List the files"},
        ],
        "slash_commands": ["a", "b", "c", "d", "e", "f"],
    }

    assert redacted(line) == {
        "instructions": "[removed]",
        "system_prompt": [{"type": "text", "text": "[removed]", "cache": 1}],
        "input": [
            {"role": "developer", "content": [{"type": "input_text", "text": "[removed]"}]},
            {"role": "system", "content": "[removed]"},
            {"role": "user", "content": "List the files"},
        ],
        "slash_commands": ["a", "b", "c", "d"],
    }


def test_attachment_keeps_ids_and_loses_text() -> None:
    line = {"type": "attachment", "sessionId": "s1", "attachment": {"type": "skill_listing", "content": "many words"}}

    assert redacted(line) == {
        "type": "attachment",
        "sessionId": "s1",
        "attachment": {"type": "skill_listing", "content": "[removed]"},
    }


def test_long_text_is_truncated() -> None:
    [text] = redacted(["x y " * 2_000])

    assert text == ("x y " * 2_000)[:RETAINED] + f"[{8_000 - RETAINED} characters removed]"


@pytest.mark.parametrize("prefix", ["", "data:image/png;base64,"])
def test_base64_stays_base64(prefix: str) -> None:
    picture = base64.b64encode(bytes(range(256)) * 20).decode()
    [shortened] = redacted([prefix + picture])

    assert len(shortened) == len(prefix) + RETAINED
    assert (
        base64.b64decode(shortened.removeprefix(prefix), validate=True) == (bytes(range(256)) * 20)[: RETAINED * 3 // 4]
    )


def test_long_json_string_stays_json() -> None:
    arguments = json.dumps({"patch": "p " * MAX_STRING, "n": 1})

    assert json.loads(redacted({"arguments": arguments})["arguments"])["n"] == 1


def test_non_json_lines_are_redacted_as_text() -> None:
    redactor = Redactor()

    assert redactor.redact(b"in /home/alice: \xff") == b"in /home/user: \xff"
    assert redactor.redact(b'data: {"cwd":"/home/alice"}') == b'data: {"cwd":"/home/user"}'
    assert redactor.redact(b'{"cwd":"/home/alice') == b'{"cwd":"/home/user'
    assert redactor.redact(b"") == b""


@pytest.mark.parametrize("depth", [300, 900])
def test_deeply_nested_line_is_tolerated(depth: int) -> None:
    line = b'{"a":' * depth + b'"/home/alice"' + b"}" * depth
    redactor = Redactor()
    redactor.learn(line)

    assert redactor.redact(line) == line.replace(b"alice", b"user")


@pytest.mark.parametrize("path", RECORDINGS[::4], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_redacting_keeps_shape_and_is_idempotent(path: Path) -> None:
    redactor = Redactor()
    lines = path.read_bytes().split(b"\n")
    for line in lines:
        redactor.learn(line)
    for line in lines:
        once = redactor.redact(line)

        assert redactor.redact(once) == once
        assert shape(once) == shape(line)


def shape(line: bytes) -> Any:
    """A line that orjson does not decode, such as one with a lone surrogate, is redacted as text."""
    try:
        return shape_of(orjson.loads(line))
    except orjson.JSONDecodeError:
        return "text"


def shape_of(value: Any) -> Any:
    """Types and field names of a value, and the first entries of lists."""
    if isinstance(value, dict):
        return {key: shape_of(item) for key, item in value.items() if key.isidentifier()}
    if isinstance(value, list):
        return [shape_of(item) for item in value[:4]]
    return type(value)


WORDS = st.sampled_from(["/home/alice/x", "alice", "a@b.example", "type", "system", "x", "\\", '"', "\ud800", "é"])
TEXTS = st.lists(WORDS, max_size=4).map(" ".join)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc") | TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(value=VALUES)
def test_any_json_keeps_its_shape(value: Any) -> None:
    line = json.dumps(value).encode()
    redactor = Redactor()
    redactor.learn(line)
    once = redactor.redact(line)

    assert redactor.redact(once) == once
    assert b"/home/alice" not in once
    assert shape(once) == shape(line)


@pytest.mark.parametrize("piece", [b"a@", b"://a.", b"/home/", b"/home/a.", b"a.b@c.", b"Linux a ", b"a@b:", b"-home-"])
def test_redacting_is_linear(piece: bytes) -> None:
    """A quadratic pattern would take minutes and exceed the time limit."""
    line = piece * (500_000 // len(piece))
    redactor = Redactor()
    redactor.learn(line)

    assert redactor.redact(line)
