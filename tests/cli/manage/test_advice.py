"""The advice of `tooltap doctor` is followed to the letter: afterwards the problem is gone.

`FOLLOWED` names the test that does it. `UNFOLLOWED` says why no test can follow the rest; new advice must be in one of
them.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from structlog.testing import capture_logs

from tests.cli.command import COMMAND, Child, environment, here, start, tooltap
from tests.cli.manage.test_doctor import WELCOME, Examined, Reported, bound, examined, write
from tests.daemon.constants import VARIABLE
from tests.daemon.events import commit, message
from tests.daemon.export.collector import collecting
from tests.daemon.ingest.test_drift import SHELL
from tests.daemon.journal.test_journal_damage import COLUMNS, damage, fill
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import TIMEOUT, Wire, running
from tests.daemon.taps.following import CLAUDE
from tests.daemon.taps.test_follow_machines import PRIVATE, require_machines
from tests.daemon.test_files_in_use import until
from tests.http_server import HttpServer, Request, Response
from tests.test_layout import ROOT
from tests.traces.drift.altering import altered, rename
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.system.paths import daemon_folders
from tooltap.daemon.taps.delivery.spool import Header, Spool
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.frames import Ingest

HERE = "tests/cli/manage/test_advice.py::"
SPOOLS = "tests/cli/manage/test_doctor_spools.py::"
FILES = "tests/daemon/test_files_in_use.py::"
LIMITS = "tests/cli/manage/test_advice_limits.py::"
CHMOD = HERE + "test_chmod_mends_it"

FOLLOWED = {
    "Raise `follow.projects` in the configuration file to follow more of them.": (
        "tests/cli/manage/test_doctor.py::test_projects_that_an_agent_lists_are_named"
    ),
    "Until it can be read, name its folders in the configuration file (`follow.folders`).": (
        "tests/cli/manage/test_doctor.py::test_list_of_projects_that_cannot_be_read_is_a_problem"
    ),
    "Start it, or correct `url` and `headers` in `[otlp]`, and send the daemon SIGHUP; what waits is sent then.": HERE
    + "test_corrected_collector_gets_what_waits",
    "If it takes only spans, set `metrics_interval = 0` in `[otlp]`, and send SIGHUP.": HERE
    + "test_collector_of_spans_is_sent_no_metrics",
    "Run {}.": CHMOD,
    "Run {}, or set TOOLTAP_SOCKET to a place of your own.": CHMOD,
    "With the daemon stopped, run {}. Backups are made by `tooltap journal backup`.": HERE
    + "test_copy_takes_the_place_of_a_file_with_another_name",
    "Run {}, or choose another place: `tooltap serve --journal sqlite:PATH`.": CHMOD,
    "Run {} once: it takes them in. A journal has one daemon at a time.": SPOOLS
    + "test_spool_of_a_daemon_elsewhere_is_named",
    "Run {}; until then, {} not followed.": HERE + "test_unreadable_session_files_are_read_again",
    "Correct it, and check it with `tooltap config check`. The findings below assume the defaults.": HERE
    + "test_corrected_configuration_is_valid",
    "Move it away, or set TOOLTAP_SOCKET.": HERE + "test_what_is_no_socket_is_moved_away",
    "Do what it says, use the version that wrote it, or run `tooltap serve --journal sqlite:PATH`.": HERE
    + "test_another_journal_is_served",
    "Raise the limit (sysctl, or `follow.watches`), and restart the daemon.": LIMITS
    + "test_raised_limit_of_watches_watches_all",
    "Raise `index_bytes` in the configuration file, and restart the daemon, to search more of them.": LIMITS
    + "test_raised_index_bytes_search_more",
    "{} publishes them.": HERE + "test_stopping_and_following_publishes_sessions",
    "Raise `retention_bytes` in the configuration file, and restart the daemon, to keep more from now on.": HERE
    + "test_raised_limit_keeps_more",
    "Their lines are in no journal; the files are named after their streams. Delete them when you like.": HERE
    + "test_spools_in_quarantine_are_deleted",
    "What could be read is in the journal, and the rest was reported as lost; delete them when you like.": SPOOLS
    + "test_damaged_spool_is_named",
    "Move away what is there, or end that program: the daemon makes its socket again within seconds.": FILES
    + "test_place_of_the_socket_that_is_taken_is_noticed_until_it_is_free",
    "Free some space, unless it says what else to do. `run` and `proxy` spool meanwhile, as far as they can.": FILES
    + "test_full_disk_is_noticed_and_the_daemon_goes_on_when_it_is_freed",
    "Start one with `tooltap serve`, or have it started for you with `tooltap service install`.": HERE
    + "test_daemon_is_started_where_there_is_none",
    "`tooltap service install` starts it with your session.": HERE + "test_service_is_installed",
    "Restart it: `tooltap serve stop`, then as you started it.": HERE + "test_daemon_of_another_version_is_restarted",
    "Read the daemon's log, or stop {} and start it again.": HERE + "test_hung_daemon_is_stopped_and_started",
    "Read its log; if this persists, stop {} and start it again.": HERE
    + "test_daemon_that_says_nothing_more_is_stopped_and_started",
    "Set TOOLTAP_SOCKET to a place of your own.": HERE
    + "test_place_of_ones_own_is_set_where_the_socket_is_of_another_user",
    "Make it readable, or choose another place.": HERE + "test_another_place_is_chosen_where_one_cannot_be_read",
    "Read the daemon's log, or give these programs TOOLTAP_SOCKET.": HERE
    + "test_socket_is_set_where_the_daemon_has_no_record",
    "Set TOOLTAP_SOCKET where it matters which of them a program talks to.": HERE
    + "test_socket_is_set_where_there_are_two_daemons",
    "Make it writable, or choose another place: docs/reference/settings.md names the setting of each.": HERE
    + "test_another_place_is_chosen_for_spools",
    "Make it writable, or choose another place with TOOLTAP_TRACE_DIR.": HERE
    + "test_another_place_is_chosen_for_traces",
    "TOOLTAP_TRACE=1 switches it on.": HERE + "test_trace_is_switched_on",
    "Free some space: what does not fit is lost.": HERE + "test_space_is_freed",
    "Free some space before the disk is full.": HERE + "test_space_is_freed",
    "A running daemon moves damaged ones to the quarantine; move others away.": HERE
    + "test_unreadable_spool_is_moved_away_by_a_daemon",
    "Run `tooltap journal check`; `tooltap journal repair` keeps what is intact.": HERE
    + "test_repair_mends_what_a_daemon_has_found",
    "Run `tooltap journal check`; with the daemon stopped, `tooltap journal repair` keeps what is intact.": HERE
    + "test_repair_mends_what_the_daemon_reports",
    "They were damaged. Subscribers get a gap in their place.": HERE + "test_repair_mends_what_the_daemon_reports",
    "Everything else works. Free some space, or read the daemon's log; the daemon tries again by itself.": HERE
    + "test_index_that_cannot_be_written_is_made_when_its_place_is_free",
    "Install one, or tap one of your own: `tooltap run -- COMMAND`.": HERE
    + "test_agent_is_installed_or_a_command_is_tapped",
    "Try it yourself: {} --version.": HERE + "test_agent_without_a_version_is_tried",
    "Run `tooltap drift` after a session to check for unknown output.": HERE + "test_drift_answers_after_a_session",
    "Run `tooltap drift` to see them.": HERE + "test_drift_shows_what_is_misread",
    "Run `tooltap drift`, and report which version of the agent wrote them.": HERE
    + "test_drift_says_which_version_wrote_what_is_not_understood",
    "Make it readable; until then its sessions are not followed.": HERE
    + "test_store_that_cannot_be_read_is_made_readable",
    "The first session creates them. If they are elsewhere, {}.": HERE + "test_stores_elsewhere_are_set",
    "{} keeps them in the journal; or set `{}` in {}.": HERE + "test_setting_of_the_agent_keeps_its_files",
    "Correct or uninstall the package {}.": "tests/cli/check/test_dialect.py::"
    "test_package_that_the_doctor_names_is_uninstalled",
    "Direct its standard error to a file, or read the pipe.": LIMITS + "test_log_is_complete_in_a_file",
    "Raise the limit of open files (ulimit -n), or close clients; those that wait are served then.": LIMITS
    + "test_clients_are_served_once_the_daemon_may_open_files",
    "It was started with other folders, or lists them still: restart it.": HERE
    + "test_daemon_that_follows_other_folders_is_restarted",
}
"""Advice -> the test that follows it."""

UNFOLLOWED = {
    "They are not sent again; the daemon's log says why it refused them.": "it advises nothing but to read the log",
    "Look at its load. What waits is sent, unless retention deletes it first.": "whoever is slow is outside",
    "Look at the collector's load, or raise `retention_bytes` or `retention_days`.": (
        "whoever is slow is outside: tests/daemon/telemetry/test_sender.py deletes what waits"
    ),
    "Run {} to use it.": "it installs packages from an index, which tests do not use",
    "See why: journalctl --user -u {}.": "the logs of a service are systemd's, which runs no service of a test",
    "Subscribers get a gap in their place; look at the server's disks and its log.": (
        "what a server has lost stays lost: tests/daemon/journal/test_nats_damage.py has the gaps"
    ),
    "The daemon's log says when; find out who wiped, restored or purged its store.": (
        "whoever did it is outside: tests/daemon/journal/test_nats_reset.py sees that the daemon begins anew"
    ),
    "Follow on the machine where the agents run, if that is too late; what it caches comes later still.": (
        "it takes another machine"
    ),
    "Report this, with the lines, if you can; the log has the place.": "it asks for a report",
    "Their sessions are missing. Upgrade tooltap, or report which version of the agent wrote them.": (
        "it asks for a version that does not exist yet, or a report"
    ),
    "It is tried again. `tooltap remote list` says how all of them are.": (
        "the daemon tries: tests/daemon/taps/test_remotes_ssh.py kills the connection, and each event is here once"
    ),
    "The machine was busy.": "it advises nothing",
    "Nothing need be removed: the daemon keeps its traces within a limit.": "it advises nothing",
    "Programs with the daemon's token, and browsers that are logged in, go on.": (
        "it advises nothing; the problem before it says what to do, and tests/daemon/test_files_in_use.py does it"
    ),
    "Wait for it; until then, each search says up to which event it has searched.": (
        "waiting is no command: tests/daemon/search/test_indexing.py waits, and searches meanwhile"
    ),
    "Read the daemon's log; the spool stays until it can be taken in.": (
        "a bug of ours is in the log: tests/daemon/taps/test_drain.py makes one, and the spool is taken in afterwards"
    ),
}
"""Advice that no test follows -> why not."""


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


@contextmanager
def sending(home: Path, url: str) -> Iterator[tuple[DaemonProcess, Path]]:
    """A daemon with spans for a collector, and its configuration file."""
    file = write(home / "tooltap.toml", f'otlp.url = "{url}"\notlp.metrics_interval = 0.05\n')
    with DaemonProcess(home, "--config", file).wait_ready() as daemon:
        assert here("ingest", "--socket", daemon.path, CLAUDE).returncode == 0
        yield daemon, file


def collectors_of(daemon: DaemonProcess) -> list[str]:
    return [one.level for one in examined("--socket", daemon.path).findings["otlp"]]


def test_corrected_collector_gets_what_waits(home: Path) -> None:
    with bound() as port, collecting() as (url, sent), sending(home, f"http://127.0.0.1:{port}") as (daemon, file):
        until(lambda: collectors_of(daemon) == ["problem"])
        file.write_text(f'otlp.url = "{url}"\n')
        os.kill(daemon.process.pid, signal.SIGHUP)
        until(lambda: collectors_of(daemon) == ["ok"] and sent)


def test_collector_of_spans_is_sent_no_metrics(home: Path) -> None:
    def respond(request: Request, response: Response) -> None:
        response.whole(404 if request.target == "/v1/metrics" else 200, b"")

    with HttpServer(respond) as server, sending(home, server.url) as (daemon, file):
        until(lambda: collectors_of(daemon) == ["ok", "note"])
        file.write_text(f'otlp.url = "{server.url}"\notlp.metrics_interval = 0\n')
        os.kill(daemon.process.pid, signal.SIGHUP)
        until(lambda: collectors_of(daemon) == ["ok"])


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
def served(*arguments: object, **variables: object) -> Iterator[Child]:
    with start(*arguments, env=environment(**{name: str(value) for name, value in variables.items()})) as daemon:
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


WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
"""Begins the command line of a program for which the permissions of files matter, although root starts it."""

ONLY_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def unreadable(*options: object) -> list[dict[str, str]]:
    """What the doctor says of files that cannot be read, with permissions that matter."""
    command = [*WITHOUT_RIGHTS, *COMMAND, "doctor", "--json", *map(str, options)]
    found = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=False).stdout
    return [one for one in json.loads(found)["findings"] if one["area"] == "sessions" and one["level"] == "problem"]


@pytest.mark.programs(*WITHOUT_RIGHTS[:1])
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize(
    "owner", ["own", pytest.param("foreign", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root"))]
)
def test_unreadable_session_files_are_read_again(home: Path, number: int, owner: str) -> None:
    """A running daemon says it once, and reads them as soon as it can."""
    store = home / ".claude" / "projects"
    paths = [write(store / "-ws" / f"{one}.jsonl", CLAUDE.read_text()) for one in range(number)]
    for path in paths:
        if owner == "own":
            path.chmod(0)
        else:
            path.chmod(0o600)
            os.chown(path, 65_534, 65_534)
    often = {VARIABLE: json.dumps({"follow.rescan": 0.5})}
    with DaemonProcess(home, "--follow", "claude", within=WITHOUT_RIGHTS, **often) as daemon:
        daemon.wait_ready()
        with daemon.connect() as wire:
            until(lambda: len(wire.ask("stats")["following"]["unreadable"]) == number)
            said = wire.ask("stats")["following"]["unreadable"]
        reason = "Permission denied" if owner == "own" else "it belongs to another user"
        [found] = unreadable("--socket", daemon.path)
        [command] = re.findall(r"^Run (?:sudo )?(.+?); until then, ", found["advice"])
        subprocess.run(shlex.split(command), check=True)

        assert said == {str(path): "Permission denied" for path in paths}
        what = str(paths[0]) if number == 1 else f"3 session files of claude, such as {paths[0]}"
        assert found["text"] == f"cannot read {what}: {reason}"
        assert unreadable("--socket", daemon.path) == []
        with daemon.connect() as wire:
            until(lambda: not wire.ask("stats")["following"]["unreadable"])
            until(lambda: bool(wire.ask("stats")["perStream"]))  # the others are copies
        daemon.process.terminate()
        assert daemon.wait() == 0
        assert sum(one["event"] == "cannot be followed" for one in daemon.log) == number


def test_spools_in_quarantine_are_deleted(home: Path) -> None:
    file = write(home / "data" / "spool" / "quarantined" / "one.spool", "\0" * 10_000)
    assert advised(examined(), "cannot be read").endswith("Delete them when you like.")
    file.unlink()

    assert problems(examined()) == []


# -- the daemon and its socket ----------------------------------------------------------------------------------------


def commands(advice: str) -> list[list[str]]:
    """The commands of tooltap that a text has in backticks: the words after `tooltap` of each."""
    return [shlex.split(one) for one in re.findall(r"`tooltap (.+?)`", advice)]


def finding(area: str, said: str, *options: object) -> Reported:
    """The one finding of an area that says this."""
    [found] = [one for one in examined(*options).findings[area] if said in one.text]
    return found


def says(area: str, said: str, *options: object) -> bool:
    return any(said in one.text for one in examined(*options).findings[area])


@pytest.mark.process
def test_daemon_is_started_where_there_is_none(home: Path) -> None:
    [start_it, install_it] = commands(finding("daemon", "no daemon is listening").advice)
    with served(*start_it):
        assert finding("daemon", "listening at").level == "ok"
    assert install_it == ["service", "install"]  # which is followed below


@pytest.mark.process
def test_service_is_installed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a systemd that says yes to everything."""
    (home / "bin").mkdir()
    (home / "bin" / "systemctl").write_text("#!/bin/sh\necho active\n")
    (home / "bin" / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("tooltap.daemon.system.services.BOOTED", home)
    [command] = commands(finding("service", "the daemon is not a service").advice)

    assert here(*command).returncode == 0
    assert finding("service", "is installed in").text.endswith(", and active")


OLDER = """
import sys, tooltap
tooltap.__version__ = "0.0.9"
from tooltap.cli.main import main
sys.argv = ["tooltap", "serve"]
main()
"""


@pytest.mark.process
def test_daemon_of_another_version_is_restarted(home: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OLDER], stderr=subprocess.PIPE, env=environment()) as older:
        assert older.stderr is not None
        while b"listening" not in (line := older.stderr.readline()):
            assert line, "the daemon has ended"
        try:
            [stop] = commands(finding("daemon", "the daemon is tooltap 0.0.9, this is").advice)
            assert here(*stop).returncode == 0
            assert older.wait(TIMEOUT) == 0
        finally:
            older.kill()
    with served("serve"):
        assert finding("daemon", "listening at").level == "ok"


@pytest.mark.process
def test_hung_daemon_is_stopped_and_started(home: Path) -> None:
    with served("serve") as daemon:
        daemon.send_signal(signal.SIGSTOP)
        advice = finding("daemon", "timed out", "--timeout", "0.5").advice
        [pid] = re.findall(r"stop its process \((\d+)\) and start it again", advice)
        os.kill(int(pid), signal.SIGKILL)
        daemon.process.wait(TIMEOUT)
    with served("serve"):
        assert problems(examined()) == []


@pytest.mark.process
def test_daemon_that_says_nothing_more_is_stopped_and_started(home: Path) -> None:
    def leave(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(json.dumps(WELCOME).encode() + b"\n")

    place = home / "run" / "tooltap.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        place.chmod(0o600)
        listening.listen()
        daemon = threading.Thread(target=leave, args=(listening,))
        daemon.start()
        assert "stop its process and start it again" in advised(examined(), "does not answer")
        daemon.join()
    with served("serve"):
        assert problems(examined()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a socket of another user")
def test_place_of_ones_own_is_set_where_the_socket_is_of_another_user(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(home / "run" / "tooltap.sock"))
    os.chown(home / "run" / "tooltap.sock", 12_345, -1)
    assert "Set TOOLTAP_SOCKET to a place of your own." in [one.advice for one in problems(examined())]
    monkeypatch.setenv("TOOLTAP_SOCKET", str(home / "mine" / "t.sock"))

    assert problems(examined()) == []


def test_another_place_is_chosen_where_one_cannot_be_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "loop").symlink_to("loop")
    monkeypatch.setenv("TOOLTAP_SOCKET", str(home / "loop" / "t.sock"))
    assert {one.advice for one in problems(examined())} >= {"Make it readable, or choose another place."}
    monkeypatch.setenv("TOOLTAP_SOCKET", str(home / "mine" / "t.sock"))

    assert problems(examined()) == []


@pytest.mark.process
def test_socket_is_set_where_the_daemon_has_no_record(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(Path(daemon_folders()[0]))
    elsewhere = home / "elsewhere" / "t.sock"
    with served("serve", "--socket", elsewhere):
        assert finding("daemon", "no daemon is listening").level == "note"
        advice = finding("record", "the daemon has no record", "--socket", elsewhere).advice
        [variable] = re.findall(r"give these programs (\w+)\.", advice)
        monkeypatch.setenv(variable, str(elsewhere))
        assert finding("daemon", "listening at").level == "ok"


@pytest.mark.process
def test_socket_is_set_where_there_are_two_daemons(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = home / "other" / "t.sock"
    with served("serve"), served("serve", "--socket", other, "--journal", f"sqlite:{home / 'other.db'}"):
        found = finding("record", "you run other daemons")
        [named] = re.findall(r"daemons: (.+) \(pid", found.text)
        [variable] = re.findall(r"Set (\w+) where", found.advice)
        monkeypatch.setenv(variable, named)
        assert finding("daemon", "listening at").text.endswith(str(other))


# -- files ------------------------------------------------------------------------------------------------------------


def test_another_place_is_chosen_for_spools(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / "file")
    monkeypatch.setenv("TOOLTAP_SPOOL", str(home / "file" / "spool"))
    [page] = re.findall(r"(docs/\S+\.md) names the setting", advised(examined(), "cannot write to"))
    [variable] = re.findall(r"^\| `(\w+)` \| the folder of the spools", (ROOT / page).read_text(), re.MULTILINE)
    monkeypatch.setenv(variable, str(home / "data" / "spool"))

    assert problems(examined()) == []


@pytest.mark.process
def test_another_place_is_chosen_for_traces(home: Path) -> None:
    write(home / "file")
    with served("serve", TOOLTAP_TRACE="1", TOOLTAP_TRACE_DIR=home / "file" / "traces"):
        publish_one(home)
        until(lambda: says("traces", "cannot be written"))
        [variable] = re.findall(r"another place with (\w+)\.", finding("traces", "cannot be written").advice)
    with served("serve", TOOLTAP_TRACE="1", **{variable: home / "traces"}):
        publish_one(home)
        assert problems(examined()) == []


def publish_one(home: Path) -> None:
    """Publish a line, and wait until it is stored."""
    with Wire(home / "run" / "tooltap.sock") as wire:
        wire.send("ingest", stream=os.urandom(8).hex(), dialect="claude-stream")
        wire.until("ingesting")
        wire.write(b'{"type":"system","subtype":"init","session_id":"one"}\n')
        wire.until("ack")


@pytest.mark.process
def test_trace_is_switched_on(home: Path) -> None:
    with served("serve"):
        [(variable, value)] = re.findall(r"^(\w+)=(\w+) switches it on", finding("traces", "no trace").advice)
    with served("serve", **{variable: value}):
        assert says("traces", "the daemon writes raw lines to ")


ON_SMALL_DISK = """
mount -t tmpfs -o size=10m,mode=700 tmpfs "$0" || exit 99
for size in 100m 2g; do
    "$@" || :; echo; mount -o remount,size=$size "$0" || exit 99
done
"$@"
"""


@pytest.mark.process
def test_space_is_freed(home: Path) -> None:
    """On a disk that grows: from too little room to little, and to enough."""
    require_machines()
    (home / "data" / "spool").mkdir()
    command = [*PRIVATE, "sh", "-c", ON_SMALL_DISK, home / "data" / "spool", *COMMAND, "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, env=environment(), check=True)
    reports = [json.loads(one)["findings"] for one in done.stdout.splitlines() if one]
    [full, little, calm] = [next(one for one in report if one["area"] == "spool") for report in reports]

    assert (full["level"], full["advice"]) == ("problem", "Free some space: what does not fit is lost.")
    assert (little["level"], little["advice"]) == ("note", "Free some space before the disk is full.")
    assert calm["level"] == "ok"


@pytest.mark.process
def test_unreadable_spool_is_moved_away_by_a_daemon(home: Path) -> None:
    """And a folder with the name of one by the user."""
    (home / "data" / "spool").mkdir(mode=0o700)
    write(home / "data" / "spool" / "zeroed.spool", "\0" * 10_000)
    (home / "data" / "spool" / "folder.spool").mkdir()
    found = [one for one in problems(examined()) if "cannot be read" in one.text]
    assert [one.advice.partition(" moves")[0] for one in found] == ["A running daemon"] * 2
    with served("serve"):
        (home / "data" / "spool" / "folder.spool").rename(home / "data" / "folder.spool")
        until(lambda: ["Delete them when" in one.advice for one in problems(examined())] == [True])
        (home / "data" / "spool" / "quarantined" / "zeroed.spool").unlink()
        assert problems(examined()) == []


@pytest.mark.process
def test_copy_takes_the_place_of_a_file_with_another_name(home: Path) -> None:
    """The other names keep what was there, and a backup is a file of its own."""
    trace, journal, others = home / "a trace.jsonl", home / "data" / "tooltap" / "journal.db", home / "other names"
    spool = Spool.create(home / "data" / "spool", Header(socket="elsewhere", ingest=Ingest(stream="s", dialect="auto")))
    spool.close()
    others.mkdir()
    with served("serve", TOOLTAP_TRACE=1, TOOLTAP_TRACE_FILE=trace):
        publish_one(home)
        until(lambda: trace.exists() and trace.stat().st_size)
        for file in (journal, spool.path, trace):
            (others / file.name).hardlink_to(file)
        found = problems(examined())
        [backup] = {tuple(*commands(one.advice)) for one in found}
        assert here(*backup, home / "backup.db").returncode == 0
        assert here("serve", "stop").returncode == 0
    for one in found:
        [command] = re.findall(r"^With the daemon stopped, run (.+ && .+)\. Backups", one.advice)
        subprocess.run(command, shell=True, check=True)
    assert len(found) == 3
    with served("serve", TOOLTAP_TRACE=1, TOOLTAP_TRACE_FILE=trace):
        publish_one(home)
        assert problems(examined()) == []
    assert {one.stat().st_nlink for one in (journal, spool.path, trace, home / "backup.db", *others.iterdir())} == {1}


# -- the journal and its index ----------------------------------------------------------------------------------------


def damaged_journal(home: Path) -> Path:
    """A journal of which an event is damaged."""
    file = home / "data" / "tooltap" / "journal.db"
    asyncio.run(fill(file))
    damage(file, COLUMNS["body"], 77)
    return file


def follow_repair(advice: str) -> None:
    [check, repair] = commands(advice)
    assert tooltap(*check).returncode == 1
    assert tooltap(*repair).returncode == 0
    assert tooltap(*check).returncode == 0


@pytest.mark.process
def test_repair_mends_what_a_daemon_has_found(home: Path) -> None:
    file = damaged_journal(home)
    asyncio.run(verify(file))
    follow_repair(advised(examined(), "is damaged; this was found on"))

    assert problems(examined()) == []


async def verify(file: Path) -> None:
    """As a daemon does once a month."""
    journal = await SqliteJournal.open(file)
    assert await journal.scrub(1.0)
    await journal.close()


@pytest.mark.process
def test_repair_mends_a_first_page_that_is_damaged(home: Path) -> None:
    file = damaged_journal(home)
    with file.open("r+b") as pages:
        pages.write(b"no database")
    follow_repair(advised(examined(), "file is not a database"))

    assert problems(examined()) == []


@pytest.mark.process
def test_repair_mends_what_the_daemon_reports(home: Path) -> None:
    """Afterwards, the daemon names what is lost, and subscribers get a gap in its place."""
    damaged_journal(home)
    with served("serve") as daemon:
        assert gaps(home) == [(77, 77)]
        advice = advised(examined(), "the daemon has found damage in its journal")
        assert "with the daemon stopped" in advice
        assert here("serve", "stop").returncode == 0
        daemon.end()
    follow_repair(advice)
    with served("serve"):
        assert problems(examined()) == []
        lost = finding("journal", "events that the journal records as lost: 1")
        assert (lost.level, lost.advice) == ("note", "They were damaged. Subscribers get a gap in their place.")
        assert gaps(home) == [(77, 77)]


def gaps(home: Path) -> list[tuple[int, int]]:
    with Wire(home / "run" / "tooltap.sock") as wire:
        wire.send("subscribe", after="start", follow=False)
        return [(one["from"], one["to"]) for one in wire.rest() if one.get("op") == "gap"]


def test_index_that_cannot_be_written_is_made_when_its_place_is_free(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon tries again by itself, as the advice says."""
    monkeypatch.setattr("tooltap.daemon.search.indexer.RETRY", 0.05)
    place = home / "journal.db.search"
    place.mkdir()
    with capture_logs(), running(home) as daemon:
        until(lambda: says("search", "the search index cannot be", "--socket", daemon.path))
        found = finding("search", "the search index cannot be", "--socket", daemon.path)
        assert "tries again by itself" in found.advice
        place.rmdir()
        until(lambda: says("search", "the search index has", "--socket", daemon.path))


# -- agents and their sessions ----------------------------------------------------------------------------------------


def agent(home: Path, script: str) -> None:
    """The only agent on the PATH: Codex."""
    write(home / "bin" / "codex", f"#!/bin/sh\n{script}\n").chmod(0o755)


@pytest.mark.process
def test_agent_is_installed_or_a_command_is_tapped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home / "bin"))
    [tap] = commands(finding("agents", "is on the PATH").advice)
    assert tap[-1] == "COMMAND"
    done = tooltap(*tap[:-1], "/bin/echo", "hello")
    assert (done.returncode, done.stdout) == (0, b"hello\n")
    agent(home, "echo codex-cli 0.1.0")
    assert finding("agents", "codex 0.1.0 at ").level == "ok"


@pytest.mark.process
def test_agent_without_a_version_is_tried(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home / "bin"))
    agent(home, "echo something is wrong >&2; exit 3")
    [command] = re.findall(r"^Try it yourself: (.+)\.$", finding("agents", "does not print its version").advice)
    tried = subprocess.run(command, shell=True, capture_output=True, check=False)
    assert (tried.returncode, tried.stderr) == (3, b"something is wrong\n")
    agent(home, "echo codex-cli 0.1.0")
    assert finding("agents", "codex 0.1.0 at ").level == "ok"


@pytest.mark.process
@pytest.mark.parametrize("newer", ["codex-cli 99.1.0", "codex-cli 0.0.1-ours"])
def test_drift_answers_after_a_session(home: Path, monkeypatch: pytest.MonkeyPatch, newer: str) -> None:
    monkeypatch.setenv("PATH", str(home / "bin"))
    agent(home, f"echo {newer}")
    advice = {one.advice for one in examined().findings["agents"] if one.level == "note"} or {DRIFT}
    [command] = commands(advice.pop())
    with served("serve"):
        publish_one(home)
        assert (done := tooltap(*command)).returncode == 0, done.stderr


DRIFT = "Run `tooltap drift` after a session to check for unknown output."


def test_drift_shows_what_is_misread(home: Path) -> None:
    changed = altered(home / "changed.jsonl", SHELL, rename("aggregated_output", "output"))
    with capture_logs(), running(home) as daemon:
        assert here("ingest", "--socket", daemon.path, changed).returncode == 0
        said = "in agents' output that tooltap misreads"
        [command] = commands(finding("drift", said, "--socket", daemon.path).advice)
        done = here(*command, "--socket", daemon.path)
    assert done.returncode == 1
    assert b"aggregated_output" in done.stdout


def test_drift_says_which_version_wrote_what_is_not_understood(home: Path) -> None:
    lines = '{"kind":"hello","what":"a future format"}\n' * 60
    write(home / ".claude" / "projects" / "-ws" / "a.jsonl", lines)
    with capture_logs(), running(home, follow={"agents": ["claude"], "backfill": "all"}) as daemon:
        said = "no line was understood of 1 session file"
        until(lambda: says("sessions", said, "--socket", daemon.path))
        [command] = commands(finding("sessions", said, "--socket", daemon.path).advice)
        done = here(*command, "--socket", daemon.path)
    assert b"claude of unknown version (claude-transcript): 1 stream, 60 lines, 60 unparsed" in done.stderr, done


def test_store_that_cannot_be_read_is_made_readable(home: Path) -> None:
    (home / ".gemini").mkdir()
    (home / ".gemini" / "tmp").symlink_to("tmp")  # which leads to itself
    assert advised(examined(), "cannot read").startswith("Make it readable")
    (home / ".gemini" / "tmp").unlink()
    (home / ".gemini" / "tmp").mkdir()

    assert problems(examined()) == []


def test_stores_elsewhere_are_set(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [listed] = re.findall(r"set (.+), or `folders`", finding("sessions", "no folder of sessions").advice)
    elsewhere = home / "elsewhere"
    for name in listed.split(", "):
        monkeypatch.setenv(name, str(elsewhere / name))
    moved = re.findall(rf"\(({elsewhere}/.+?)\)", finding("sessions", "no folder of sessions").text)
    assert {Path(one).relative_to(elsewhere).parts[0] for one in moved} == {*listed.split(", ")}
    for one in moved:
        Path(one).mkdir(parents=True)

    assert not says("sessions", f"({elsewhere}/")


def test_setting_of_the_agent_keeps_its_files(home: Path) -> None:
    path = write(home / ".claude" / "projects" / "-ws" / "a.jsonl")
    os.utime(path, (time.time() - 40 * 86_400,) * 2)
    [(key, file)] = re.findall(r"or set `(\w+)` in (\S.*)\.$", finding("sessions", "claude deletes").advice)
    write(Path(file), json.dumps({key: 99_999}))

    assert finding("sessions", "claude deletes").level == "ok"


@pytest.mark.process
def test_daemon_that_follows_other_folders_is_restarted(home: Path) -> None:
    """The folder has come since it was started."""
    for name in ("one", "two"):
        write(home / name / "projects" / "-ws" / f"{name}.jsonl", CLAUDE.read_text().replace("demo", name))
    options = ("serve", "--follow", "claude", "--backfill", "all")
    both = {"CLAUDE_CONFIG_DIR": f"{home / 'one'},{home / 'two'}"}
    with served(*options, CLAUDE_CONFIG_DIR=home / "one"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLAUDE_CONFIG_DIR", both["CLAUDE_CONFIG_DIR"])
        until(lambda: says("sessions", "the daemon follows 1 of the 2 files of claude"))
        assert finding("sessions", "the daemon follows 1").advice.endswith("restart it.")
        here("serve", "stop")
    with served(*options, **both), pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLAUDE_CONFIG_DIR", both["CLAUDE_CONFIG_DIR"])
        until(lambda: not says("sessions", "the daemon follows "))


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


ADVICE = ("advice", "NOT_READ", "REPAIR", "SOCKET_TAKEN", "TOO_FEW_FILES")
"""Names that advice has in the source."""


def all_advice() -> set[str]:
    """The advice that the doctor's source has: third arguments of findings, and what they are called before."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / "daemon" / "doctor.py").read_text())):
        match node:
            case ast.Call(func=ast.Name(id="fine" | "note" | "problem"), args=[_, _, advice]):
                found.update(texts(advice))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in ADVICE:
                found.update(texts(value))
    return found


def test_every_advice_is_in_the_table() -> None:
    assert all_advice() == FOLLOWED.keys() | UNFOLLOWED.keys()
    assert not FOLLOWED.keys() & UNFOLLOWED.keys()


@pytest.mark.parametrize("test", sorted(set(FOLLOWED.values())))
def test_every_test_of_the_table_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"\ndef {name}(" in (ROOT / file).read_text()
