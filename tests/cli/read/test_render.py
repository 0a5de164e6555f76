"""Events as text: the same markers for every provider, and no control characters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from tests.cli.command import DEMO
from tooltap.cli.common import render
from tooltap.cli.common.render import Printer, Renderer
from tooltap.daemon.show.skins.display import display_events
from tooltap.daemon.system.sanitize import one_line, sanitize
from tooltap.protocol.display import AnyDisplayEvent, DisplayEvent, decode_display
from tooltap.protocol.frames import Live
from tooltap.testing import normalize, read_recording


def event(kind: str, **fields: Any) -> AnyDisplayEvent:
    """A display event as received over the socket."""
    line = {"kind": kind, "id": "s:1:0", "stream": "s", "session": "1", "provider": "claude", **fields}
    shown = decode_display(json.dumps(line))
    assert shown is not None
    return shown


def call(**fields: Any) -> AnyDisplayEvent:
    return event("tool_use", **{"callId": "c", "name": "Bash", "arg": "ls", **fields})


def result(**fields: Any) -> AnyDisplayEvent:
    return event("tool_result", **{"callId": "c", "name": "Bash", "status": "completed", **fields})


def shown(*events: DisplayEvent, verbose: bool = True) -> str:
    renderer = Renderer(verbose=verbose, colour=False)
    return "".join(map(renderer.render, events))


def events_of(path: Path, dialect: str) -> list[DisplayEvent]:
    return list(display_events(normalize(dialect, read_recording(path.read_bytes()))))


def test_text_mode_shows_only_assistant_texts() -> None:
    events = events_of(DEMO / "codex.jsonl", "codex-mcp")

    assert shown(*events, verbose=False) == "Now the edit.\nChanged Hello to Howdy in src/app.py.\n"


def test_session_header_on_change() -> None:
    texts = [event("text", text="a"), event("text", text="b", session="2", provider="codex"), event("text", text="c")]

    assert shown(*texts) == "── claude 1\na\n\n── codex 2\nb\n\n── claude 1\nc\n"


def test_subagent_lines_are_indented() -> None:
    assert shown(call(name="Read", arg="a.py", agent="sub")) == "── claude 1\n│ ▸ Read a.py\n"


@pytest.mark.parametrize("verbose", [False, True])
def test_partials_are_not_shown(verbose: bool) -> None:
    assert shown(event("text", text="x", partial=True), verbose=verbose) == ""


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"status": "completed", "exitCode": 0, "durationMs": 1234}, "✓ Bash ls (exit 0, 1.2 s)"),
        ({"status": "completed"}, "✓ Bash ls"),
        ({"status": "failed", "error": "no\nway"}, "✗ Bash ls (no way)"),
        ({"status": "denied", "error": "not now"}, "■ Bash ls (denied, not now)"),
        ({"status": "interrupted"}, "■ Bash ls (interrupted)"),
        ({"status": "completed", "async": True}, "✓ Bash ls (continues in the background)"),
        ({"display": {"origin": "rule", "text": "Listed 3 files\n"}}, "✓ Bash ls (Listed 3 files)"),
        ({"display": {"origin": "provider", "text": "-a\n+b"}}, "✓ Bash ls"),
        ({"silent": True}, "▸ Bash ls"),
    ],
)
def test_result_shows_its_outcome(fields: dict[str, Any], line: str) -> None:
    """A display of one line is shown; a silent result is not."""
    assert shown(call(), result(**fields)).splitlines()[-1] == line


def test_late_preview_is_shown_with_the_result() -> None:
    late = event("tool_update", callId="c", name="Glob", arg="**/*.py")

    assert shown(call(name="Glob", arg=""), late, result(name="Glob")).splitlines()[1:] == ["▸ Glob", "✓ Glob **/*.py"]


def test_late_display_is_shown_if_one_line() -> None:
    one, two = (
        event("tool_update", callId="c", name="Bash", display={"origin": "rewriter", "text": text})
        for text in ("2 files", "a\nb")
    )

    assert shown(call(), result(), one, two).splitlines()[1:] == ["▸ Bash ls", "✓ Bash ls", "▫ Bash 2 files"]


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (event("permission", permissionId="p", state="requested", name="Bash", title="rm -rf"), "? Bash rm -rf"),
        (event("permission", permissionId="p", state="denied", by="user"), "? denied by user"),
        (event("notice", level="error", code="lost", text="3 lines lost"), "! lost 3 lines lost"),
        (event("notice", level="warning", code="unparsed", text="not-json: x\x00y"), "! unparsed not-json: x␀y"),
        (event("prompt", role="user", text="do\nit"), "> do\n> it"),
        (event("prompt", role="system", text="Compacted\nin 3 s"), "⚙ Compacted in 3 s"),
        (
            event("text", text="Look:", attachments=[{"mimeType": "image/png", "name": "a.png"}]),
            "Look:\n▫ image/png a.png",
        ),
    ],
)
def test_other_kinds(one: DisplayEvent, line: str) -> None:
    assert shown(one) == f"── claude 1\n{line}\n"


@pytest.mark.parametrize(
    "one",
    [
        event("notice", level="info", code="hook", text="x"),
        event("reasoning", text="Hm."),
    ],
)
def test_hidden_kinds(one: DisplayEvent) -> None:
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
def test_control_characters_are_removed(text: str, safe: str) -> None:
    assert sanitize(text) == safe


@pytest.mark.parametrize("field", ["name", "arg", "session", "provider"])
def test_every_field_is_made_harmless(field: str) -> None:
    text = shown(call(**{field: "x\x1b[2Jy\nz"}))

    assert "\x1b" not in text
    assert text.count("\n") == 2


def test_one_line_is_short() -> None:
    assert one_line("a  b\n c", 10) == "a b c"
    assert one_line("x" * 1_000_000, 10) == "x" * 9 + "…"


def test_colours_only_on_request() -> None:
    assert "\x1b[" not in Renderer(verbose=True, colour=False).render(call())
    assert "\x1b[33m▸\x1b[0m Bash ls" in Renderer(verbose=True, colour=True).render(call())


def by_time(*lines: bytes) -> Printer:
    printer = Printer("json", None, by_time=True)
    printer.print_all([*lines, Live(seq=len(lines)), b'{"live":1,"ts":1}'])
    return printer


def test_sorted_events_come_before_live_ones(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    by_time(b'{"a":1,"ts":30}', b'{"b":1}', b'{"c":1,"ts":20}', b'{"d":1,"ts":20}')

    assert capfdbinary.readouterr().out == (
        b'{"c":1,"ts":20}\n{"d":1,"ts":20}\n{"a":1,"ts":30}\n{"b":1}\n{"live":1,"ts":1}\n'
    )


def test_what_is_sorted_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "MAX_SORTED", 1 << 20)
    line = b'{"ts":1,"text":"%s"}' % (b"x" * 1000)

    with pytest.raises(click.ClickException, match="more than 1 MiB of events to sort; name fewer with --since"):
        by_time(*[line] * 1100)


def test_turn_that_failed_provisionally_and_for_good_is_one_warning(capsys: pytest.CaptureFixture[str]) -> None:
    failed = {"code": "turn", "level": "error", "text": "failed: 429", "state": "failed"}
    line = {"kind": "notice", "id": "s:1:0", "stream": "s", "session": "1", "provider": "p", "turn": "t1", **failed}
    Printer("text", None).print_all(json.dumps(one).encode() for one in ({**line, "provisional": True}, line))

    assert capsys.readouterr().err == "tooltap: p 1: the turn failed: 429\n"
