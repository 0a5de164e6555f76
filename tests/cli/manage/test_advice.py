"""The advice of `tooltap doctor` is followed to the letter: afterwards the problem is gone.

`FOLLOWED` names the test that does it. Advice in `UNFOLLOWED` is for what a test cannot follow here, or does not follow
yet; new advice must be in one of them.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from structlog.testing import capture_logs

from tests.cli.command import Child, here, start, tooltap
from tests.cli.manage.test_doctor import Examined, Reported, examined, write
from tests.daemon.events import commit, message
from tests.daemon.running import Wire, running
from tests.daemon.taps.following import CLAUDE
from tests.test_layout import ROOT
from tooltap.normalizers.core.items import OutputChunk

HERE = "tests/cli/manage/test_advice.py::"
SPOOLS = "tests/cli/manage/test_doctor_spools.py::"
CHMOD = HERE + "test_chmod_mends_it"

FOLLOWED = {
    "Run {}.": CHMOD,
    "Run {}, or set TOOLTAP_SOCKET to a place of your own.": CHMOD,
    "Run {}, or choose another place: `tooltap serve --journal sqlite:PATH`.": CHMOD,
    "Run {} once: it takes them in. A journal has one daemon at a time.": SPOOLS
    + "test_spool_of_a_daemon_elsewhere_is_named",
    "Correct it, and check it with `tooltap config check`. The findings below assume the defaults.": HERE
    + "test_corrected_configuration_is_valid",
    "Move it away, or set TOOLTAP_SOCKET.": HERE + "test_what_is_no_socket_is_moved_away",
    "Do what it says, use the version that wrote it, or run `tooltap serve --journal sqlite:PATH`.": HERE
    + "test_another_journal_is_served",
    "{} publishes them.": HERE + "test_stopping_and_following_publishes_sessions",
    "Raise `retention_bytes` in the configuration file, and restart the daemon, to keep more from now on.": HERE
    + "test_raised_limit_keeps_more",
    "Their lines are in no journal; the files are named after their streams. Delete them when you like.": HERE
    + "test_spools_in_quarantine_are_deleted",
}
"""Advice -> the test that follows it."""

UNFOLLOWED = {
    "Everything else works. Free some space, or read the daemon's log; the daemon tries again by itself.",
    "Free some space before the disk is full.",
    "Free some space, unless it says what else to do. `run` and `proxy` spool meanwhile, as far as they can.",
    "Free some space: what does not fit is lost.",
    "Direct its standard error to a file, or read the pipe.",
    "Install one, or tap one of your own: `tooltap run -- COMMAND`.",
    "It was started with other folders, or lists them still: restart it.",
    "Make it readable, or choose another place.",
    "Make it readable; until then its sessions are not followed.",
    "Make it writable, or choose another place with TOOLTAP_TRACE_DIR.",
    "Make it writable, or choose another place: docs/reference/settings.md names the setting of each.",
    "Follow on the machine where the agents run, if that is too late; what it caches comes later still.",
    "Raise the limit (sysctl), and restart the daemon.",
    "Raise `index_bytes` in the configuration file to search more of them.",
    "Raise the limit of open files (ulimit -n), or close clients; those that wait are served then.",
    "Read its log; if this persists, stop its process and start it again.",
    "Read the daemon's log, or give these programs TOOLTAP_SOCKET.",
    "Read the daemon's log, or stop its process and start it again.",
    "Read the daemon's log; the spool stays until it can be taken in.",
    "Restart it: `tooltap serve stop`, then as you started it.",
    "Run `tooltap drift` after a session to check for unknown output.",
    "Run `tooltap drift` to see them.",
    "Run `tooltap drift`, and report which version of the agent wrote them.",
    "Run `tooltap journal check`; `tooltap journal repair` keeps what is intact.",
    "Run `tooltap journal check`; with the daemon stopped, `tooltap journal repair` keeps what is intact.",
    "Run {} to use it.",
    "See why: journalctl --user -u {}.",
    "Set TOOLTAP_SOCKET to a place of your own.",
    "Set TOOLTAP_SOCKET where it matters which of them a program talks to.",
    "Start one with `tooltap serve`, or have it started for you with `tooltap service install`.",
    "Subscribers get a gap in their place; look at the server's disks and its log.",
    "TOOLTAP_TRACE=1 switches it on.",
    "The daemon's log says when; find out who wiped, restored or purged its store.",
    "The first session creates them. If they are elsewhere, {}.",
    "The machine was busy.",
    "Report this, with the lines, if you can; the log has the place.",
    "Their sessions are missing. Upgrade tooltap, or report which version of the agent wrote them.",
    "They were damaged. Subscribers get a gap in their place.",
    "Nothing need be removed: the daemon keeps its traces within a limit.",
    "Programs with the daemon's token, and browsers that are logged in, go on.",
    "Try it yourself: {} --version.",
    "Wait for it; until then, each search says up to which event it has searched.",
    "What could be read is in the journal, and the rest was reported as lost; delete them when you like.",
    "A running daemon moves damaged ones to the quarantine; move others away.",
    "`tooltap service install` starts it with your session.",
    "{} keeps them in the journal; or set `{}` in {}.",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without tooltap, whose home has a space in its name."""
    home = tmp_path / "my home"
    for name, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "config"), ("XDG_DATA_HOME", "data")):
        (home / folder).mkdir(exist_ok=True)
        monkeypatch.setenv(name, str(home / folder))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "TOOLTAP_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    (home / "run").mkdir(mode=0o700)
    (home / "data" / "tooltap").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "run"))
    monkeypatch.setenv("TOOLTAP_SPOOL", str(home / "data" / "spool"))
    return home


def problems(found: Examined) -> list[Reported]:
    return [one for findings in found.findings.values() for one in findings if one.level == "problem"]


def advised(found: Examined, said: str) -> str:
    [advice] = [one.advice for one in problems(found) if said in one.text]
    return advice


def test_chmod_mends_it(home: Path) -> None:
    with capture_logs(), running(home) as daemon:
        (home / "journal.db").chmod(0o644)
        daemon.path.chmod(0o666)
        daemon.path.parent.chmod(0o777)
        home.chmod(0o777)
        found = problems(examined("--socket", daemon.path))
        for one in found:
            command = re.fullmatch(r"Run (chmod .+?)(?:\.|, or .*)", one.advice)
            assert command is not None, one
            subprocess.run(command[1], shell=True, check=True)
        assert len(found) == 4
        assert problems(examined("--socket", daemon.path)) == []


def test_corrected_configuration_is_valid(home: Path) -> None:
    file = write(home / "config" / "tooltap" / "tooltap.toml", 'retention_days = "long"\n')
    [command] = re.findall(r"`tooltap (.+?)`", advised(examined(), "retention_days"))

    assert here(*command.split()).returncode == 2
    file.write_text("retention_days = 9\n")
    assert here(*command.split()).returncode == 0
    assert problems(examined()) == []


def test_what_is_no_socket_is_moved_away(home: Path) -> None:
    file = write(home / "run" / "tooltap.sock")
    file.chmod(0o600)
    assert advised(examined(), "is not a socket").startswith("Move it away")
    file.rename(home / "elsewhere")

    assert problems(examined()) == []


def test_another_journal_is_served(home: Path) -> None:
    file = write(home / "data" / "tooltap" / "journal.db", "no database")
    file.chmod(0o600)
    assert "`tooltap serve --journal sqlite:PATH`" in advised(examined(), "file is not a database")

    with running(home) as daemon:
        assert problems(examined("--socket", daemon.path)) == []


@pytest.mark.process
def test_stopping_and_following_publishes_sessions(home: Path) -> None:
    write(home / ".claude" / "projects" / "-ws" / "a.jsonl", CLAUDE.read_text())
    with served("serve") as daemon:
        stop, follow = re.findall(r"`tooltap (.+?)`", of_claude(examined()))
        assert b"is already listening" in tooltap(*follow.split()).stderr  # which is why this one has to stop
        assert here(*stop.split()).returncode == 0
        assert daemon.end()[0] == 0
    with served(*follow.split()):
        with Wire(home / "run" / "tooltap.sock") as wire:
            wire.send("subscribe", after="start")
            wire.until("subscribed")
            while wire.read().get("seq") != 1:  # after partials
                pass
        assert of_claude(examined()) == ""


@contextmanager
def served(*arguments: str) -> Iterator[Child]:
    with start(*arguments) as daemon:
        while b"listening" not in (line := daemon.log_line()):
            assert line, "the daemon has ended"
        yield daemon


def of_claude(found: Examined) -> str:
    [advice] = [one.advice for one in found.findings["sessions"] if one.text.startswith("claude has")]
    return advice


def test_raised_limit_keeps_more(home: Path) -> None:
    body = OutputChunk("s:1:o0", 0, Random(1).randbytes(2_000_000), "text/plain")
    file = write(home / "config" / "tooltap" / "config.toml", "retention_bytes = 1000000\n")
    with capture_logs(), running(home, retention_bytes=1_000_000, retention_interval=3_600.0) as daemon:
        daemon.commit(commit(body, message("one"), lines=1, state="ended"))
        daemon.expire(0, 1_000_000)
        before = daemon.stats()["journal"]["retention"]
        [said] = removed_of(examined("--socket", daemon.path))
        assert "output body" in said.text
        assert "`retention_bytes` (1,000,000 bytes)" in said.text
        assert said.advice.startswith("Raise `retention_bytes` in the configuration file")

    file.write_text("retention_bytes = 10000000\n")
    with capture_logs(), running(home, retention_bytes=10_000_000, retention_interval=0.01) as daemon:
        assert [one.level for one in removed_of(examined("--socket", daemon.path))] == ["ok"]
        daemon.commit(commit(body, message("two", "t"), stream="t", lines=1, state="ended"))
        assert daemon.expire(0, 10_000_000) == 0
        assert daemon.stats()["journal"]["retention"] == before


def removed_of(found: Examined) -> list[Reported]:
    return [one for one in found.findings["journal"] if one.text.startswith("retention has removed")]


def test_spools_in_quarantine_are_deleted(home: Path) -> None:
    file = write(home / "data" / "spool" / "quarantined" / "one.spool", "\0" * 10_000)
    assert advised(examined(), "cannot be read").endswith("Delete them when you like.")
    file.unlink()

    assert problems(examined()) == []


# -- the table --------------------------------------------------------------------------------------------------------


def texts(node: ast.expr) -> list[str]:
    """The texts that an expression may have, with `{}` for what is put in."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)]
        case ast.IfExp(body=body, orelse=other):
            return [*texts(body), *texts(other)]
    return []


def all_advice() -> set[str]:
    """The advice that the doctor's source has: third arguments of findings, and what they are called before."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / "daemon" / "doctor.py").read_text())):
        match node:
            case ast.Call(func=ast.Name(id="fine" | "note" | "problem"), args=[_, _, advice]):
                found.update(texts(advice))
            case ast.Assign(targets=[ast.Name(id="advice" | "NOT_READ" | "REPAIR")], value=value):
                found.update(texts(value))
    return found


def test_every_advice_is_in_the_table() -> None:
    assert all_advice() == FOLLOWED.keys() | UNFOLLOWED
    assert not FOLLOWED.keys() & UNFOLLOWED


@pytest.mark.parametrize("test", sorted(set(FOLLOWED.values())))
def test_every_test_of_the_table_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"\ndef {name}(" in (ROOT / file).read_text()
