"""What commands print on terminals of three widths: no line is wider, and what tells most is there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.command import CLAUDE, CODEX, here
from tests.cli.hostile.runs import on_a_terminal
from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running, running
from tooltap.cli.common.columns import columns_of, fit, fit_end, padded, wrapped
from tooltap.protocol.events import Message, Notice, PermissionRequest, SessionEvent, Turn

LONG = "long value with 漢字 and " * 20
PATH = "/tmp/" + "folder/" * 60 + "file.py"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    web = {"enabled": True, "listen": "127.0.0.1:0"}
    with running(tmp_path_factory.mktemp("daemon"), web=web) as one:
        for recording in (CLAUDE, CODEX):
            assert here("ingest", "--socket", one.path, "--provider", "p" * 60, recording).returncode == 0
        name = "n" * 150
        facts: dict[str, Any] = {"title": LONG, "cwd": PATH, "model": "m" * 80, "agent_version": "9" * 60}
        one.commit(
            commit(
                event(SessionEvent, "s", state="started", session=name, **facts),
                event(Turn, "s", state="started", turn="t", session=name),
                event(Message, "s", role="user", text=LONG, session=name),
                message(LONG + "x" * 300, session=name),
                call("c", name="Bash", session=name, input={"command": LONG}, preview=LONG[:40]),
                result("c", status="failed", is_error=True, session=name, output={"errorMessage": LONG}),
                call("open", name="t" * 90, session=name, ts=2**42),
                event(Notice, "s", level="error", code="c" * 50, text=LONG, session=name),
                event(PermissionRequest, "s", permission_id="p", type="permission", title=LONG, session=name),
            )
        )
        yield one


COMMANDS = {
    "sessions": ["SESSION", "nnn"],
    "show last": ["long value with", "✗ Bash"],
    "show last --full": ["long value with", "✗ Bash"],
    "tail --no-follow --after start": ["The command failed with exit code 3."],
    "tail --no-follow --after start --mode verbose": ["✗ Bash", "> long value", "── gemini"],
    "stats": ["lines (", "streams: "],
    "top": ["tooltap · ", "waiting", "asks: "],
    "doctor --timeout 60": ["the web page is at", "ok "],
    "serve status": ["web: http://127.0.0.1:", "journal "],
    "serve sessions": ["LOGIN", "BROWSER"],
}
"""Command -> what its output has at every width."""


@pytest.mark.parametrize("columns", [60, 100, 160])
@pytest.mark.parametrize("words", COMMANDS)
def test_no_line_is_wider_than_the_terminal(
    words: str, columns: int, daemon: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("PAGER", "")
    shown = on_a_terminal(*words.split(), "--socket", daemon.path, columns=columns)
    text = COLOURS.sub("", shown.output.decode())

    assert shown.errors == b""
    to_copy = [line for line in text.splitlines() if " && gemini --resume " in line]  # whole: a terminal wraps it
    assert {line for line in text.splitlines() if columns_of(line) > columns} == {*to_copy}
    flat = " ".join(text.split())
    assert [one for one in COMMANDS[words] if one.strip() not in flat] == []


def test_damages_of_a_journal_fit(daemon: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    place = daemon.daemon.config.journal
    shown = on_a_terminal("journal", "check", "--journal", f"sqlite:{place}", columns=60)

    assert max(map(columns_of, COLOURS.sub("", shown.output.decode()).splitlines())) <= 60


def test_wide_characters_take_two_columns() -> None:
    assert (columns_of("a漢e\u0301"), fit("漢字漢字", 5), fit_end("漢字漢字", 5)) == (4, "漢字…", "…漢字")
    assert list(wrapped("漢字漢字", 4)) == ["漢字", "漢字"]
    assert list(wrapped("漢字", 1)) == ["漢", "字"]
    assert list(wrapped("one two  three", 7, hanging=2)) == ["one two", "  three"]
    assert list(wrapped("a" * 7, 3, hanging=1)) == ["aaa", " aa", " aa"]
    assert list(wrapped("  " + "b" * 5, 4)) == ["  bb", "bbb"]
    assert list(wrapped("", 4)) == [""]


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (FAMILY, 2),
        ("\u26a0\ufe0f", 2),
        ("\u26a0", 1),
        ("1\ufe0f\u20e3", 2),
        ("\U0001f44d\U0001f3fd", 2),
        ("\U0001f1e9\U0001f1ea", 2),
        ("\u2764\ufe0f\u200d\U0001f525", 2),
        ("a\u200bb", 2),
        ("naïve… – ✓ ✗ где", 16),
    ],
)
def test_characters_are_as_wide_as_terminals_show_them(text: str, columns: int) -> None:
    assert columns_of(text) == columns
    assert columns_of(padded(text, 30)) == 30


def test_no_character_is_cut_in_two() -> None:
    assert fit(f"a{FAMILY}bc", 4) == f"a{FAMILY}…"
    assert fit(f"a{FAMILY}bc", 3) == "a…"
    assert fit_end(f"ab{FAMILY}c", 4) == f"…{FAMILY}c"
    assert fit_end(f"ab{FAMILY}c", 3) == "…c"
    assert fit("abce\u0301x", 5) == "abce\u0301x"
    assert list(wrapped(FAMILY * 3, 4)) == [FAMILY * 2, FAMILY]


@pytest.mark.process
def test_plain_text_loads_no_tables() -> None:
    code = (
        "import sys; from tooltap.cli.common.columns import columns_of, fit, wrapped; "
        "fit('naïve… ' * 40, 9), columns_of('✓ – ├'), list(wrapped('a b ' * 40, 9)); "
        "sys.exit('wcwidth' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
