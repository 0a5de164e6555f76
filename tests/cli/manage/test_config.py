"""`tooltap config check`, and reloading the configuration."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import CLAUDE, here, sentence
from tests.daemon.processes import DaemonProcess
from tests.test_layout import ROOT


def test_valid_file_is_confirmed() -> None:
    example = ROOT / "docs" / "display.toml"
    checked = here("config", "check", example)

    assert (checked.returncode, checked.stderr, checked.stdout.decode()) == (
        0,
        b"",
        f"{example} is valid: it has rules for 7 tools\n",
    )


def test_error_names_file_line_and_key(tmp_path: Path) -> None:
    file = tmp_path / "tooltap.toml"
    file.write_text("# silent\n[tools.Read]\nask = true\nsilent = 1\n")
    checked = here("config", "check", file)

    assert checked.returncode == 2
    assert sentence(checked) == f"{file}:4: tools.Read.silent: expected `bool`, got `int`"


def test_what_can_hardly_be_meant_is_said(tmp_path: Path) -> None:
    file = tmp_path / "tooltap.toml"
    file.write_text(
        "[tools.Bsh]\nmax_chars = 3\n"
        "[tools.Read]\nsilent = true\ntemplate = 'read'\n"
        "[tools.Grep]\nask = true\nrewrite = ['cat']\n"
        "[tools.memory_search]\nsilent = true\nmax_chars = 10\n"  # of a result that failed
        "[tools.Bash]\ntemplate = '{input.command}: {output.exitcode}'\n"
        "[tools.mcp__memory__search]\ntemplate = '{output.anything}'\n"
    )
    checked = here("config", "check", file)

    assert (checked.returncode, checked.stdout.decode()) == (0, f"{file} is valid: it has rules for 6 tools\n")
    assert checked.stderr.decode().splitlines() == [
        f"tooltap: {file}: tools.Bsh: no canonical tool has this name; did you mean 'Bash'?",
        f"tooltap: {file}: tools.Read: `template` has no effect: nothing is shown of a result that completed",
        f"tooltap: {file}: tools.Grep: `rewrite` has no effect: a result that is shown on request is not rewritten",
        f"tooltap: {file}: tools.Bash: Bash has no `output.exitcode` of its own; a result without it is shown without "
        "`template`",
    ]


def test_default_file_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`serve` reads the same file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert "No such file" in sentence(here("config", "check"))
    for folder in (tmp_path / "tooltap", tmp_path / "Library" / "Application Support" / "tooltap"):
        folder.mkdir(parents=True)
        (folder / "tooltap.toml").write_text("tools.Bash.max_chars = 'many'\n")

    assert "tooltap.toml:1: tools.Bash.max_chars: expected `int`" in sentence(here("config", "check"))
    assert "tooltap.toml:1: tools.Bash.max_chars: expected `int`" in sentence(here("serve"))


def ingest(daemon: DaemonProcess, stream: str) -> dict[str, Any]:
    """Ingest the recording as a new stream, and return its first result."""
    with daemon.connect() as wire:
        wire.send("ingest", stream=stream)
        wire.write(CLAUDE.read_bytes())
        wire.finish()
        wire.until("done")
    with daemon.connect() as wire:
        wanted = {"stream": [stream], "kind": ["tool-result"]}
        wire.send("subscribe", after="start", follow=False, filter=wanted)
        return next(event for event in wire.rest() if "op" not in event)


def reread(daemon: DaemonProcess) -> dict[str, Any]:
    """Wait for the log entry of the reload."""
    os.kill(daemon.process.pid, signal.SIGHUP)
    while "configuration" not in (entry := daemon.next_log()).get("event", ""):
        pass
    return entry


def test_log_says_which_tables_were_read_again(tmp_path: Path) -> None:
    file = tmp_path / "tooltap.toml"
    file.write_text("")
    with DaemonProcess(tmp_path, "--config", file).wait_ready() as daemon:
        said = reread(daemon)["takes_effect"]

    assert said == "answers, notify, otlp, prices, rewriting, tools, usage; the rest at the next start"


def test_daemon_reloads_file_and_keeps_settings_if_invalid(tmp_path: Path) -> None:
    file = tmp_path / "tooltap.toml"
    file.write_text("tools.Bash.max_chars = 3\n")
    with DaemonProcess(tmp_path, "--config", file).wait_ready() as daemon:
        before = ingest(daemon, "before")
        file.write_text("tools.Bash.max_chars = 5\n")
        assert reread(daemon)["event"] == "configuration reloaded"
        changed = ingest(daemon, "changed")
        file.write_text("\ntools.Bash.max_chars = -5\n")
        wrong = reread(daemon)
        kept = ingest(daemon, "kept")

    text = before["output"]["stdout"]
    assert [one["display"]["text"] for one in (before, changed, kept)] == [text[:3], text[:5], text[:5]]
    assert wrong["event"] == "the configuration is unchanged"
    assert wrong["reason"] == f"{file}:2: tools.Bash.max_chars: expected `int` >= 0"
