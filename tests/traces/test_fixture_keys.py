"""Keys of events, and the syntax of allowlists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tooltap.traces.fixtures.keys import Allowlist, AllowlistError, RawNames


def event(kind: str, protocol: str = "acp", provider: str = "gemini", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "protocol": protocol, "provider": provider, **more}


def allowlist(path: Path, text: str) -> Allowlist:
    path.write_text(text)
    return Allowlist.read(path)


def test_key_has_raw_tool_name_of_event_or_its_call() -> None:
    names = RawNames()
    call = event("tool-call", callId="1", name="Bash", input={"_happy": {"rawToolName": "run_shell_command"}})
    asking = event("permission-request", callId="1", name="Bash")

    assert names.key(call) == "acp/gemini/tool-call/run_shell_command"
    assert names.key(asking) == "acp/gemini/permission-request/run_shell_command"
    assert RawNames().key(asking) == "acp/gemini/permission-request/Bash"
    assert names.key(event("permission-request")) == "acp/gemini/permission-request"
    assert names.key(event("message", name="never")) == "acp/gemini/message"


@pytest.mark.parametrize(
    ("provider", "tool", "key"),
    [
        ("my agent", "read file", "acp/my%20agent/tool-call/read%20file"),
        ("../../etc", "a/b#c", "acp/%2E.%2F..%2Fetc/tool-call/a%2Fb%23c"),
        ("ä", "mcp.a:b+c@d~e", "acp/%C3%A4/tool-call/mcp.a:b+c@d~e"),
    ],
)
def test_key_is_escaped(tmp_path: Path, provider: str, tool: str, key: str) -> None:
    call = event("tool-call", provider=provider, callId="1", input={"_happy": {"rawToolName": tool}})

    assert RawNames().key(call) == key
    assert allowlist(tmp_path / "list", key).match(key) == key


def test_comments_blank_lines_and_crlf_are_ignored(tmp_path: Path) -> None:
    text = "# keys\r\n\r\n  acp/gemini/message  # 54\r\n#acp/gemini/turn\r\nacp/gemini/tool-call/a\r\n"

    assert allowlist(tmp_path / "list", text).lines == {"acp/gemini/message": 3, "acp/gemini/tool-call/a": 5}


def test_key_without_tool_matches_unlisted_tools(tmp_path: Path) -> None:
    keys = allowlist(tmp_path / "list", "acp/gemini/tool-call\nacp/gemini/tool-call/a\nacp/gemini/message\n")

    assert keys.match("acp/gemini/tool-call/a") == "acp/gemini/tool-call/a"
    assert keys.match("acp/gemini/tool-call/b") == "acp/gemini/tool-call"
    assert keys.match("acp/gemini/tool-result/a") is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", ": contains no key"),
        ("# nothing\n", ": contains no key"),
        ("acp/gemini/message\nacp/gemini\n", ":2: 'acp/gemini' is not a key"),
        ("acp/gemini/tool-call/a/b\n", ":1: 'acp/gemini/tool-call/a/b' is not a key"),
        ("acp//tool-call\n", ":1: 'acp//tool-call' is not a key"),
        ("../x/tool-call\n", ":1: '../x/tool-call' is not a key"),
        ("acp/gemini/tool-call/a b\n", ":1: 'acp/gemini/tool-call/a b' is not a key"),
        ("acp/gemini/toolcall\n", ":1: there is no event kind 'toolcall'"),
        ("acp/gemini/turn\n\nacp/gemini/turn\n", ":3: acp/gemini/turn is already in line 1"),
    ],
)
def test_invalid_allowlist_names_the_line(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(AllowlistError) as error:
        allowlist(tmp_path / "list", text)

    assert str(error.value).startswith(f"{tmp_path / 'list'}{fault}")


def test_unreadable_allowlist_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    with pytest.raises(AllowlistError, match="binary: not UTF-8 text"):
        Allowlist.read(tmp_path / "binary")
    with pytest.raises(AllowlistError, match="missing: there is no such file"):
        Allowlist.read(tmp_path / "missing")
    with pytest.raises(AllowlistError, match="Is a directory"):
        Allowlist.read(tmp_path)
