"""One module prints, and what it prints cannot act; nothing else in the product can print by itself."""

from __future__ import annotations

import io
import json
import logging
import sys
from pathlib import Path

import pytest

from tests.cli.hostile.runs import on_a_terminal
from tests.cli.hostile.texts import FORGED, HOSTILE, LONG, offences
from tooltap.cli.common import printing
from tooltap.cli.common.guard import Guarded
from tooltap.cli.common.printing import Clean, joined, say, say_json, say_text, short, styled, warn
from tooltap.daemon.system.sanitize import sanitize_json


def shown_by(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """What is written to both streams from now on."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, "utf-8")
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, stream)
    return written


def test_line_is_one_bounded_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = shown_by(monkeypatch)
    for text in (HOSTILE, LONG, f"{FORGED[:3]}{HOSTILE}", "\ud800\udfff\udcff"):
        say(text)
        warn(text)
        say(joined([styled(text, "red"), text]))
        say(f"{short(text)} {styled(text, 'red')}")

    assert offences(shown.getvalue(), terminal=True) == []
    assert shown.getvalue().count(b"\n") == 16


def test_only_our_colours_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = shown_by(monkeypatch)
    say(joined(["a\x1b[31mb ", styled("c\x1b[31md", "red")]))
    say("a " + styled("b", "red"))
    say(f"a {styled('b', 'red')}")

    assert shown.getvalue() == b"ab \x1b[31mcd\x1b[0m\na b\na b\n"


def test_several_lines_keep_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = shown_by(monkeypatch)
    say_text("one\n\ttwo\x1b[2J\n")

    assert shown.getvalue().decode() == "one\n\ttwo␛[2J\n"


@pytest.mark.parametrize("plain", [False, True])
def test_json_is_exact_and_cannot_act(plain: bool) -> None:
    value = {f"{HOSTILE}": [HOSTILE, "\N{GRINNING FACE} é 日本 \x7f\x9b \u2028", "\\u009b", "\\\x9b"]}
    written = sanitize_json(json.dumps(value, ensure_ascii=False).encode(), plain=plain)

    assert json.loads(written) == value
    assert offences(written, terminal=False, json_lines=True) == []
    assert written.isascii() is plain


def test_json_without_controls_stays_as_it_is() -> None:
    line = '{"text":"日本 é € \N{GRINNING FACE} “ ”"}'.encode()

    assert sanitize_json(line) is line or sanitize_json(line) == line


def test_terminal_of_another_encoding_gets_no_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second byte of `ě` in UTF-8 is 9B, which begins a control sequence in Latin-1."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, "latin-1")
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdout", stream)
    say("ě é")
    say_json('{"ě":"é \N{GRINNING FACE}"}'.encode())

    assert written.getvalue() == b'? \xe9\n{"\\u011b":"\\u00e9 \\ud83d\\ude00"}\n'


def test_closed_stream_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    say("x")
    say_json(b"{}")
    say_text("x")

    assert not printing.at_terminal()


def test_whoever_prints_otherwise_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries, tracebacks, warnings, and what a developer has forgotten."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, "utf-8")
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, Guarded(stream))
    print(HOSTILE.replace(FORGED, ""), Clean(HOSTILE.replace(FORGED, "")))
    logging.getLogger("library").warning(HOSTILE.replace(FORGED, ""))
    try:
        raise ValueError(HOSTILE.replace(FORGED, ""))
    except ValueError as error:
        sys.__excepthook__(ValueError, error, error.__traceback__)
    print(LONG.replace(FORGED, ""), file=sys.stderr)

    assert b"Traceback" in written.getvalue()
    assert offences(written.getvalue(), terminal=False) == []


def test_traceback_on_request_does_not_act(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(HOSTILE.replace(FORGED, ""))

    monkeypatch.setattr("tooltap.cli.common.connection.request", fail)
    monkeypatch.setattr("tooltap.cli.read.stats.request", fail)
    shown = on_a_terminal("stats")

    assert b"this is a bug in tooltap" in shown.errors
    assert offences(shown.errors, terminal=True) == []
