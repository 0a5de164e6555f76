"""`tooltap serve`: one daemon per socket and journal, with subcommands for its state and its end."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket as socket_module
import sqlite3
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import CLAUDE, CODEX, COMMAND, environment, sentence, serving, start, tooltap
from tests.daemon.constants import VARIABLE
from tests.daemon.web.browsing import Browser
from tooltap.traces.recording.reader import TraceReader


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "s.sock"


@pytest.mark.parametrize(("number", "wanted"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signal_stops_cleanly(number: signal.Signals, wanted: int, socket: Path, tmp_path: Path) -> None:
    patient = {VARIABLE: json.dumps({"shutdown_timeout": 60.0})}  # usually it ends after 1.7 s in any case
    with serving(socket, tmp_path, **patient) as daemon:
        daemon.send_signal(number)
        code, output, log = daemon.end()

    assert (code, output) == (wanted, b"")
    assert json.loads(log.splitlines()[-1])["event"] == "stopped"
    assert not socket.exists()


def test_status_and_stop(socket: Path, tmp_path: Path) -> None:
    with serving(socket, tmp_path) as daemon:
        status = tooltap("serve", "status", "--socket", socket)
        stop = tooltap("serve", "--socket", socket, "stop")
        code, _, _ = daemon.end()
    gone = tooltap("serve", "status", "--socket", socket)

    assert status.stdout.decode().startswith(f"tooltap 0.1.0, pid {daemon.process.pid}, up 0:0")
    assert (stop.returncode, stop.stdout, stop.stderr) == (0, b"", b"")
    assert code == 0
    assert (gone.returncode, gone.stdout) == (1, b"")


def test_status_shows_followed_files(socket: Path, tmp_path: Path) -> None:
    with serving(socket, tmp_path, "--follow", "codex", CODEX_HOME=str(tmp_path)):
        status = tooltap("serve", "status", "--socket", socket)

    assert status.stdout.decode().splitlines()[-1] == "following: 0 files, 0 open, 0 waiting"


def test_second_daemon_on_socket_or_journal_exits(socket: Path, tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with serving(socket, tmp_path):
        same_socket = tooltap("serve", "--socket", socket, "--journal", f"sqlite:{tmp_path / 'other.db'}")
        same_journal = tooltap("serve", "--socket", tmp_path / "other.sock", "--journal", f"sqlite:{journal}")

    for finished, place in ((same_socket, socket), (same_journal, journal)):
        assert (finished.returncode, finished.stdout) == (1, b"")
        assert str(place) in sentence(finished)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--journal", "oracle:x"], "unknown journal 'oracle:x': write sqlite:PATH or nats:"),
        (["--config", "/nowhere/tooltap.toml"], "cannot read /nowhere/tooltap.toml: No such file or directory"),
        (["--follow", "claude,amp"], "no session files of 'amp' are known; there are aider, agy, auggie, claude"),
        (["--web", "8422"], "web: listen is HOST:PORT, such as 127.0.0.1:8422, not '8422'"),
        (["--follow", "claude", "--backfill", "soon"], "backfill is all, none or an age like 36h or 7d, not 'soon'"),
    ],
)
def test_invalid_configuration_is_exit_2(arguments: list[str], wanted: str, socket: Path) -> None:
    finished = tooltap("serve", "--socket", socket, *arguments)

    assert (finished.returncode, finished.stdout) == (2, b"")
    assert wanted in sentence(finished)


@pytest.fixture
def web(tmp_path: Path) -> list[object]:
    """Options to serve browsers at a free port, with the token in this folder."""
    config = tmp_path / "web.toml"
    config.write_text(f'[web]\ntoken_file = "{tmp_path / "token"}"\nlisten = "127.0.0.1:0"\n')
    return ["--config", config, "--web"]


def on_terminal(command: list[str], **options: Any) -> tuple[subprocess.Popen[bytes], int]:
    """Start a command whose output is a terminal; return it, and the terminal's other end."""
    ours, terminal = pty.openpty()
    try:
        return subprocess.Popen(command, stdout=terminal, stdin=subprocess.DEVNULL, **options), ours
    finally:
        os.close(terminal)


def test_link_is_printed_to_a_terminal(socket: Path, tmp_path: Path, web: list[object]) -> None:
    arguments = map(str, ["serve", "--socket", socket, "--journal", tmp_path / "journal.db", *web])
    with open(tmp_path / "log", "wb") as log:
        daemon, terminal = on_terminal([*COMMAND, *arguments], stderr=log, env=environment())
    with daemon, open(terminal, "rb", buffering=0) as screen:
        try:
            printed = screen.readline().decode().strip()
            url, _, code = printed.partition("/#login=")
            logged_in = Browser(url, "").log_in(printed)
        finally:
            daemon.kill()

    assert code
    assert logged_in["Cookie"].startswith(f"tooltap-{url.rpartition(':')[2]}=")
    assert code not in (tmp_path / "log").read_text()


def test_link_and_token_are_printed_on_request_only(socket: Path, tmp_path: Path, web: list[object]) -> None:
    with serving(socket, tmp_path, *web) as daemon:
        link, other = (tooltap("serve", "link", "--socket", socket).stdout.decode().strip() for _ in range(2))
        token = tooltap("serve", "token", "--socket", socket).stdout.decode()
        status = tooltap("serve", "--socket", socket, "status").stdout.decode()
        stats = tooltap("stats", "--json", "--socket", socket).stdout.decode()
        url, _, code = link.partition("/#login=")
        with urllib.request.urlopen(f"{url}/healthz") as answer:
            health = answer.read()
        tooltap("serve", "stop", "--socket", socket)
        end, printed, log = daemon.end()

    assert token == (tmp_path / "token").read_text()
    assert link != other
    assert f"web: {url}, " in status
    assert json.loads(stats)["web"]["url"] == url
    assert health == b'{"status":"ok"}'
    assert (end, printed) == (0, b"")
    assert not [one for one in (token.strip(), code) if one in status + stats + log.decode()]


def test_browsers_are_listed_and_logged_out(socket: Path, tmp_path: Path, web: list[object]) -> None:
    with serving(socket, tmp_path, *web):
        link = tooltap("serve", "link", "--socket", socket).stdout.decode().strip()
        browser = Browser(
            link.partition("/#")[0], tooltap("serve", "token", "--socket", socket).stdout.decode().strip()
        )
        browser.log_in(link, {"User-Agent": "\x9b31mowned" + "x" * 1_000})
        known, other = browser.log_in(), browser.log_in()
        names = [one["Cookie"].partition("=")[2].partition(".")[0] for one in (known, other)]
        listed = tooltap("serve", "sessions", "--socket", socket)
        as_json = tooltap("serve", "sessions", "--json", "--socket", socket)
        revoked = tooltap("serve", "revoke", names[0], "--socket", socket)
        statuses = [browser.get("/api/stats", one).status for one in (known, other)]
        again = tooltap("serve", "revoke", names[0], "--socket", socket)
        everyone = tooltap("serve", "revoke", "--all", "--socket", socket)
        nobody = tooltap("serve", "sessions", "--socket", socket)
        neither = tooltap("serve", "revoke", "--socket", socket)

    assert listed.stdout.count(b"\n") == 4
    assert "\x9b" not in listed.stdout.decode()
    assert {*names} < {json.loads(one)["id"] for one in as_json.stdout.splitlines()}
    assert revoked.stdout.decode() == f"{names[0]}: logged out\n"
    assert statuses == [403, 200]
    assert (again.returncode, sentence(again)) == (1, f"no browser is logged in as '{names[0]}'")
    assert everyone.stdout.count(b"logged out") == 2
    assert nobody.stdout == b"LOGIN\tBROWSER\tFROM\tSINCE\tLAST USED\tENDS IF UNUSED\n"
    assert (neither.returncode, sentence(neither).partition(" (")[0]) == (2, "name the logins to end, or give --all")


def test_terminal_that_is_gone_does_not_stop_the_daemon(socket: Path, tmp_path: Path, web: list[object]) -> None:
    ours, terminal = pty.openpty()
    os.close(ours)
    try:
        with start("serve", "--socket", socket, "--journal", tmp_path / "journal.db", *web, stdout=terminal) as daemon:
            while b"listening" not in (line := daemon.log_line()):
                assert line
            status = tooltap("serve", "status", "--socket", socket)
    finally:
        os.close(terminal)

    assert (status.returncode, status.stderr) == (0, b"")


def test_no_link_without_web(socket: Path, tmp_path: Path) -> None:
    with serving(socket, tmp_path):
        link = tooltap("serve", "link", "--socket", socket)

    assert (link.returncode, link.stdout) == (1, b"")
    assert sentence(link) == "the daemon does not serve browsers; start it with: tooltap serve --web"


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"])
def test_remote_host_needs_allow_remote(socket: Path, tmp_path: Path, web: list[object], address: str) -> None:
    finished = tooltap("serve", "--socket", socket, "--journal", tmp_path / "journal.db", *web, address)

    assert (finished.returncode, finished.stdout) == (1, b"")
    assert sentence(finished).endswith(" can be reached from other machines: that needs --allow-remote")
    assert not (tmp_path / "journal.db").exists()


def test_allow_remote_listens_on_all_interfaces(socket: Path, tmp_path: Path, web: list[object]) -> None:
    with serving(socket, tmp_path, *web, "0.0.0.0:0", "--allow-remote"):
        link = tooltap("serve", "link", "--socket", socket)

    assert link.stdout.startswith(b"http://127.0.0.1:")


def test_port_in_use_is_one_sentence(socket: Path, tmp_path: Path, web: list[object]) -> None:
    with socket_module.create_server(("127.0.0.1", 0)) as other:
        place = f"127.0.0.1:{other.getsockname()[1]}"
        finished = tooltap("serve", "--socket", socket, "--journal", tmp_path / "journal.db", *web, place)

    assert (finished.returncode, finished.stdout) == (1, b"")
    assert sentence(finished) == f"cannot listen on {place}: Address already in use"


def test_readable_token_is_one_sentence(socket: Path, tmp_path: Path, web: list[object]) -> None:
    (tmp_path / "token").write_text("x" * 43)
    (tmp_path / "token").chmod(0o644)
    finished = tooltap("serve", "--socket", socket, "--journal", tmp_path / "journal.db", *web)

    assert (finished.returncode, finished.stdout) == (1, b"")
    assert sentence(finished).startswith(f"other users can read the token in {tmp_path / 'token'}; ")


def test_invalid_journal_is_rejected(socket: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    finished = tooltap("serve", "--socket", socket, "--journal", f"sqlite:{other}")

    assert finished.returncode == 1
    assert str(other) in sentence(finished)


def test_environment_enables_trace(socket: Path, tmp_path: Path) -> None:
    """The trace holds every raw line of two streams with number and direction, and no secret."""
    trace = tmp_path / "traces" / "t.jsonl"
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"type":"x","key":"ghp_%s"}\n' % ("a1" * 18))
    variables = {"HAPPIER_STACK_TOOL_TRACE": "1", "HAPPIER_STACK_TOOL_TRACE_FILE": str(trace)}
    with serving(socket, tmp_path, **variables) as daemon:
        for path, stream, code in ((CLAUDE, "claude", 0), (CODEX, "codex", 0), (secret, "secret", 1)):
            assert tooltap("ingest", "--socket", socket, "--stream", stream, path).returncode == code
        written = sum(len(path.read_bytes().splitlines()) + 1 for path in (CLAUDE, CODEX, secret))  # 1: the end
        while json.loads(tooltap("stats", "--json", "--socket", socket).stdout)["trace"]["records"] < written:
            pass
        daemon.send_signal(signal.SIGTERM)
        daemon.end()
    records = list(TraceReader(trace))
    claude = [record for record in records if record.stream == "claude"]
    codex = [record for record in records if record.stream == "codex"]

    assert [record.raw for record in claude] == CLAUDE.read_bytes().splitlines()
    assert [record.n for record in claude] == [1, 2, 3, 4, 5]
    assert {(record.dialect, record.provider, record.agent_version) for record in claude} == {
        ("claude-stream", "claude", "2.1.330")
    }
    assert [record.dir for record in codex] == [json.loads(line)["dir"] for line in CODEX.read_bytes().splitlines()]
    [masked] = [record for record in records if record.masked]
    assert masked.line == '{"type":"x","key":"[masked github-token]"}'


def test_trace_limits_are_options_and_in_stats(socket: Path, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    arguments = ["serve", "--socket", socket, "--journal", tmp_path / "j.db", "--trace-total-bytes", 2**24]
    arguments += ["--trace-file-bytes", 8_192]
    variables = environment(HAPPIER_STACK_TOOL_TRACE="1", HAPPIER_STACK_TOOL_TRACE_DIR=str(folder))
    with start(*arguments, env=variables) as daemon:
        while b"listening" not in daemon.log_line():
            pass
        assert tooltap("ingest", "--socket", socket, CODEX).returncode == 0
        while (trace := json.loads(tooltap("stats", "--json", "--socket", socket).stdout)["trace"])["records"] < 56:
            pass
        shown = tooltap("stats", "--socket", socket).stdout.decode()

    assert trace["rotated"] == len(list(folder.iterdir())) - 1 > 2
    assert max(path.stat().st_size for path in folder.iterdir()) <= 8_192
    assert trace["totalBytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert (trace["dropped"], trace["removed"], trace["problem"]) == (0, 0, None)
    assert f"trace {trace['path']}: 56 records, 0 dropped, 0.0 of 16 MiB\n" in shown


def test_invalid_limit_is_one_sentence(socket: Path) -> None:
    finished = tooltap("serve", "--socket", socket, "--trace-total-bytes", 5)

    assert finished.returncode == 2
    assert sentence(finished).startswith("configuration: trace_total_bytes: expected `int` >= 16384")


def test_unwritable_trace_does_not_stop_events(socket: Path, tmp_path: Path) -> None:
    variables = {"HAPPIER_STACK_TOOL_TRACE": "1", "HAPPIER_STACK_TOOL_TRACE_FILE": str(tmp_path)}
    with serving(socket, tmp_path, **variables) as daemon:
        fed = tooltap("ingest", "--socket", socket, "--stats-json", CLAUDE)
        while b"cannot be written" not in daemon.log_line():
            pass
        daemon.send_signal(signal.SIGTERM)
        _, _, log = daemon.end()

    assert json.loads(fed.stderr)["events"] == 8
    assert b"cannot be written" not in log  # it is logged once


def test_stuck_trace_disk_stops_neither_events_nor_shutdown(socket: Path, tmp_path: Path) -> None:
    """A pipe without a reader takes 64 KiB and then blocks its writer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    long = tmp_path / "long.jsonl"
    long.write_text(f'{{"type":"x","text":"{"x" * 200_000}"}}\n')
    variables = {"HAPPIER_STACK_TOOL_TRACE": "1", "HAPPIER_STACK_TOOL_TRACE_FILE": str(pipe)}
    with serving(socket, tmp_path, **variables) as daemon:
        assert tooltap("ingest", "--socket", socket, long).returncode == 1  # no line is understood
        fed = tooltap("ingest", "--socket", socket, "--stats-json", CLAUDE)
        daemon.send_signal(signal.SIGTERM)
        code, _, _ = daemon.end()

    assert (json.loads(fed.stderr)["events"], code) == (8, 0)


def test_file_in_place_of_socket_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with start("serve", "--socket", file / "s.sock") as serve:
        code, output, errors = serve.end()

    assert (code, output) == (1, b"")
    assert errors.startswith(b"tooltap: ")
    assert errors.count(b"\n") == 1
    assert file.read_text() == "mine"
