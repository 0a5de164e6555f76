"""Events as text: the same markers for every provider, and nothing of a provider's that a terminal would obey."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import DEMO
from tooltap.cli.render import Renderer, harmless, one_line
from tooltap.normalizers.contract import normalize, read_recording
from tooltap.protocol.events import encode

FIXTURES = Path(__file__).parent.parent / "fixtures"
SHELL_FAILS = {
    "claude": DEMO / "claude-code.jsonl",
    "gemini": FIXTURES / "acp/gemini-0.61.0/shell-fails.jsonl",
    "opencode": FIXTURES / "acp/opencode-1.18.33/shell-fails.jsonl",
    "codex": FIXTURES / "acp/codex-acp-2.6.0/shell-fails.jsonl",
}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "stream": "s", "session": "1", "provider": "claude", **fields}


def shown(*events: dict[str, Any], verbose: bool = True) -> str:
    renderer = Renderer(verbose=verbose, colour=False)
    return "".join(map(renderer.render, events))


def events_of(path: Path, dialect: str) -> list[dict[str, Any]]:
    return [json.loads(encode(one)) for one in normalize(dialect, read_recording(path.read_bytes()))]


def test_text_mode_shows_what_the_assistant_said_and_nothing_else() -> None:
    events = events_of(DEMO / "codex.jsonl", "codex-mcp")

    assert shown(*events, verbose=False) == "Now the edit.\nChanged Hello to Howdy in src/app.py.\n"


@pytest.mark.parametrize("provider", SHELL_FAILS)
def test_verbose_markers_are_the_same_for_every_provider(provider: str) -> None:
    """All ran the same command, which failed; what the wire says of its end differs."""
    path = SHELL_FAILS[provider]
    dialect = "claude-stream" if provider == "claude" else "acp"
    lines = shown(*events_of(path, dialect)).splitlines()

    assert lines[0].startswith(f"── {provider} ")
    [call] = [line for line in lines if line.startswith("▸")]
    [result] = [line for line in lines if line.startswith(("✓", "✗"))]
    preview = "echo partial output; echo 'boom: somethi"
    assert call == f"▸ Bash {preview}" or provider == "opencode"  # OpenCode names the command in an update
    assert result.startswith((f"✗ Bash {preview} (exit 3", f"✓ Bash {preview}"))


def test_a_session_is_named_whenever_it_changes() -> None:
    said = [event("message", role="assistant", text=text) for text in "abc"]
    said[1]["session"] = "2"
    said[1]["provider"] = "codex"

    assert shown(*said) == "── claude 1\na\n\n── codex 2\nb\n\n── claude 1\nc\n"


def test_a_subagents_lines_are_indented() -> None:
    call = event("tool-call", callId="c", name="Read", preview="a.py", agent="sub")

    assert shown(call) == "── claude 1\n│ ▸ Read a.py\n"


def test_previews_of_unfinished_text_and_history_are_not_shown() -> None:
    said = event("message", role="assistant", text="x")

    assert shown({**said, "partial": True}, {**said, "replay": True}) == ""
    assert shown({**said, "partial": True}, {**said, "replay": True}, verbose=False) == ""


@pytest.mark.parametrize(
    ("result", "line"),
    [
        ({"status": "completed", "output": {"exit_code": 0}, "durationMs": 1234}, "✓ Bash ls (exit 0, 1.2 s)"),
        ({"status": "completed", "output": {}}, "✓ Bash ls"),
        ({"status": "failed", "output": {"errorMessage": "no\nway"}}, "✗ Bash ls (no way)"),
        ({"status": "denied", "output": {"errorMessage": "not now"}}, "■ Bash ls (denied, not now)"),
        ({"status": "interrupted", "output": {}}, "■ Bash ls (interrupted)"),
        ({"status": "completed", "async": True, "output": {}}, "✓ Bash ls (goes on in the background)"),
    ],
)
def test_a_result_says_how_it_ended(result: dict[str, Any], line: str) -> None:
    call = event("tool-call", callId="c", name="Bash", preview="ls")
    lines = shown(call, event("tool-result", callId="c", name="Bash", **result)).splitlines()

    assert lines[-1] == line


def test_a_preview_that_comes_late_is_shown_with_the_result() -> None:
    call = event("tool-call", callId="c", name="Glob", title="glob")
    update = event("tool-update", callId="c", name="Glob", preview="**/*.py")
    result = event("tool-result", callId="c", name="Glob", status="completed", output={})

    assert shown(call, update, result).splitlines()[1:] == ["▸ Glob", "✓ Glob **/*.py"]


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (event("permission-request", type="permission", name="Bash", title="rm -rf"), "? Bash rm -rf"),
        (event("permission-response", outcome="denied", by="user"), "? denied by user"),
        (event("notice", level="error", code="lost", text="3 lines lost"), "! lost 3 lines lost"),
        (event("turn", state="failed", reason="max_turns"), "■ turn failed max_turns"),
        (event("unparsed", reason="not-json", text="x\x00y"), "! unparsed not-json x␀y"),
        (event("message", role="user", text="do\nit"), "> do\n> it"),
    ],
)
def test_other_kinds(one: dict[str, Any], line: str) -> None:
    assert shown(one) == f"── claude 1\n{line}\n"


@pytest.mark.parametrize(
    "one",
    [
        event("notice", level="info", code="hook", text="x"),
        event("turn", state="completed"),
        event("usage", scope="turn"),
        event("a-kind-of-tomorrow", anything=1),
    ],
)
def test_what_is_not_shown(one: dict[str, Any]) -> None:
    assert shown(one) == ""


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x1b[2J\x1b[H", "␛[2J␛[H"),
        ("a\tb\r\nc", "a\tb\nc"),
        ("50%\r100%", "50%␍100%"),
        ("\x9b31m\x7f", "\ufffd31m␡"),
        ("abc\u202ecba", "abc\ufffdcba"),
        ("日本 👩‍👩‍👧 é", "日本 👩‍👩‍👧 é"),
    ],
)
def test_control_characters_are_made_harmless(text: str, safe: str) -> None:
    assert harmless(text) == safe


@pytest.mark.parametrize("field", ["name", "preview", "session", "provider"])
def test_no_field_reaches_the_terminal_as_it_is(field: str) -> None:
    call = event("tool-call", callId="c", name="Bash", preview="ls")
    call[field] = "x\x1b[2Jy\nz"
    text = shown(call)

    assert "\x1b" not in text
    assert text.count("\n") == 2


def test_one_line_is_short() -> None:
    assert one_line("a  b\n c", 10) == "a b c"
    assert one_line("x" * 1_000_000, 10) == "x" * 9 + "…"


def test_colours_only_where_wanted() -> None:
    call = event("tool-call", callId="c", name="Bash", preview="ls")

    assert "\x1b[" not in Renderer(verbose=True, colour=False).render(call)
    assert "\x1b[33m▸\x1b[0m Bash ls" in Renderer(verbose=True, colour=True).render(call)
