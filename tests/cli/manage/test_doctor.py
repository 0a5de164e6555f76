"""`tooltap doctor` reports what it finds and gives advice on problems, and nothing stops it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.command import COMMAND, environment, here, sentence
from tests.cli.screen import started
from tests.daemon.events import commit, event
from tests.daemon.lives import Lives
from tests.daemon.running import Running, running
from tests.daemon.taps.following import CLAUDE, CODEX
from tests.daemon.web.browsing import until
from tests.test_layout import ROOT
from tooltap import __version__
from tooltap.daemon.doctor import EXTRAS, collector, drift, remotes, search_index, sessions, troubles
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.taps.follow.settings import Follow
from tooltap.normalizers.catalog.registry import agents
from tooltap.protocol.events import Turn

WELCOME = {
    "op": "welcome",
    "protocol": 1,
    "schema": 2,
    "daemon": "tooltap/0.0.9",
    "journal": "j",
    "oldest": 1,
    "latest": 0,
}
VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "TOOLTAP_SOCKET")


class Reported(NamedTuple):
    level: str
    text: str
    advice: str


class Examined(NamedTuple):
    code: int
    findings: dict[str, list[Reported]]
    """Findings by area."""

    def problems(self) -> list[str]:
        return [
            reported.text for findings in self.findings.values() for reported in findings if reported.level == "problem"
        ]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without tooltap, configuration or agents."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "config"), ("XDG_DATA_HOME", "data"), ("PATH", "bin")):
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.setenv(name, str(tmp_path / folder))
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("TOOLTAP_SPOOL", str(tmp_path / "data" / "spool"))
    return tmp_path


def examined(*options: object) -> Examined:
    finished = here("doctor", "--json", "--timeout", 60, *options)
    reported = json.loads(finished.stdout)
    findings: dict[str, list[Reported]] = {}
    for one in reported["findings"]:
        findings.setdefault(one["area"], []).append(Reported(one["level"], one["text"], one["advice"] or ""))
    everything = [one for area in findings.values() for one in area]

    assert finished.stderr == b""
    assert {level: reported[level] for level in ("ok", "note", "problem")} == {
        level: sum(one.level == level for one in everything) for level in ("ok", "note", "problem")
    }
    assert all(one.advice.endswith(".") for one in everything if one.level != "ok")
    return Examined(finished.returncode, findings)


def test_bare_machine_has_no_problems(home: Path) -> None:
    found = examined()

    assert (found.code, found.problems()) == (0, [])
    assert found.findings["tooltap"][0].text.startswith(f"tooltap {__version__} in ")
    [daemon] = found.findings["daemon"]
    assert daemon.level == "note"
    assert daemon.text == f"no daemon is listening at {home / 'run' / 'tooltap.sock'}"
    assert "`tooltap serve`" in daemon.advice
    assert [one.text for one in found.findings["agents"]] == [f"none of {', '.join(agents())} is on the PATH"]
    assert [one.level for one in found.findings["sessions"]] == ["note"]
    assert [one.text for one in found.findings["journal"]][1].startswith("there is no journal at ")
    assert list((home / "data").iterdir()) == []  # it has changed nothing


def test_running_daemon_is_reported(home: Path, daemon: Running) -> None:
    found = examined("--socket", daemon.path)

    assert (found.code, found.problems()) == (0, [])
    assert found.findings["daemon"][0] == Reported(
        "ok", f"tooltap {__version__}, pid {os.getpid()}, listening at {daemon.path}", ""
    )
    assert f"{daemon.path} is private" in [one.text for one in found.findings["socket"]]
    assert found.findings["journal"][0].text.startswith(f"{home} is writable, ")
    assert found.findings["journal"][1].text.startswith(f"{home / 'journal.db'} has ")
    assert [one.text for one in found.findings["web"]] == ["the daemon serves no web page"]
    assert [one.text for one in found.findings["traces"]] == ["the daemon writes no trace of raw lines"]
    assert [one.level for one in found.findings["drift"]] == ["ok"]


@pytest.mark.parametrize(
    ("index", "found"),
    [
        (None, []),
        ({"documents": 2, "floor": 0}, [("ok", "the search index has 2 texts")]),
        ({"documents": 2, "floor": 9}, [("note", "events up to 9 are not searched: the index would be larger than ")]),
        (
            {"problem": "the search index cannot be written: full"},
            [("note", "the search index cannot be written: full")],
        ),
        (
            {"rebuilding": "the search index is damaged", "behind": 1},
            [("note", "the search index is damaged, and is being rebuilt: 1 event not searched yet")],
        ),
    ],
)
def test_the_search_index_is_reported(index: dict[str, Any] | None, found: list[tuple[str, str]]) -> None:
    reported = list(search_index({"search": index}))
    assert [(one.level, one.text[: len(text)]) for one, (_, text) in zip(reported, found, strict=True)] == found


URL = "http://127.0.0.1:4318/v1/traces"


@pytest.mark.parametrize(
    ("sending", "found"),
    [
        (None, [("ok", "the daemon sends nothing to a collector")]),
        ({"sent": 2}, [("ok", f"the collector {URL} has got 2 spans since the daemon started")]),
        (
            {"behind": 1, "problem": "it answered 503"},
            [("problem", f"the collector {URL} does not take spans: it answered 503; 1 event waits")],
        ),
        (
            {"behind": 9, "behindMs": 61_500},
            [("note", f"the collector {URL} falls behind: 9 events wait, the first for 61 s")],
        ),
        (
            {"sent": 2, "metricsProblem": "it answered 404"},
            [
                ("ok", f"the collector {URL} has got 2 spans since the daemon started"),
                ("note", f"the collector {URL} takes no metrics: it answered 404"),
            ],
        ),
        (
            {"sent": 1, "deleted": {"from": 5, "to": 8}},
            [
                ("ok", f"the collector {URL} has got 1 span since the daemon started"),
                ("note", "retention deleted events 5 to 8, or some of them, before their spans were sent"),
            ],
        ),
        (
            {"sent": 1, "refused": 1},
            [
                ("ok", f"the collector {URL} has got 1 span since the daemon started"),
                ("note", f"the collector {URL} has refused 1 span since the daemon started"),
            ],
        ),
    ],
)
def test_collector_is_reported(sending: dict[str, Any] | None, found: list[tuple[str, str]]) -> None:
    counted = {"url": URL, "sent": 0, "refused": 0, "behind": 0, "behindMs": 0}
    reported = list(collector({} if sending is None else {"telemetry": {**counted, **sending}}))

    assert [(one.level, one.text) for one in reported] == found


def test_unreachable_collector_is_a_problem(home: Path) -> None:
    with bound() as port, running(home, otlp={"url": f"http://127.0.0.1:{port}"}) as daemon:
        daemon.commit(commit(event(Turn, state="completed")))
        until(lambda: "problem" in daemon.stats()["telemetry"], "the problem")
        found = examined("--socket", daemon.path)

    assert found.code == 1
    [otlp] = found.findings["otlp"]
    assert otlp.text == (
        f"the collector http://127.0.0.1:{port}/v1/traces does not take spans: it cannot be reached: "
        f"[Errno {errno.ECONNREFUSED}] {os.strerror(errno.ECONNREFUSED)}; 1 event waits"
    )


@contextmanager
def bound() -> Iterator[int]:
    """A port that nobody listens at, nor can."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_daemon_of_another_version_is_a_note(home: Path) -> None:
    def answer(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as asked:
            connection.sendall(json.dumps(WELCOME).encode() + b"\n")
            reported = {
                "op": "reply",
                "id": json.loads(asked.readline())["id"],
                "ok": True,
                "result": {"version": "0.0.9"},
            }
            connection.sendall(json.dumps(reported).encode() + b"\n")

    place = home / "run" / "tooltap.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        place.chmod(0o600)
        listening.listen()
        daemon = threading.Thread(target=answer, args=(listening,))
        daemon.start()
        found = examined()
        daemon.join()
    [reported] = found.findings["daemon"]

    assert (found.code, reported.level) == (0, "note")
    assert reported.text == f"the daemon is tooltap 0.0.9, this is {__version__}"


def test_unresponsive_daemon_is_a_problem(home: Path) -> None:
    place = home / "run" / "tooltap.sock"
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(place))
        place.chmod(0o600)
        mute.listen()
        found = examined("--timeout", "0.1")

    assert found.code == 1
    assert found.problems() == [f"cannot connect to {place}: timed out"]


def test_foreign_listener_is_a_problem(home: Path) -> None:
    (home / "run" / "tooltap.sock").touch(0o600)
    found = examined()

    assert found.code == 1
    assert f"{home / 'run' / 'tooltap.sock'} exists, but is not a socket" in found.problems()


def test_accessible_socket_is_a_problem(home: Path, daemon: Running) -> None:
    daemon.path.chmod(0o666)
    daemon.path.parent.chmod(0o777)
    found = examined("--socket", daemon.path)

    assert found.code == 1
    assert found.problems() == [
        f"the socket cannot be in {daemon.path.parent}: other users may write to it (mode 0777)",
        f"{daemon.path} has mode 0666, which is not private",
    ]
    assert f"Run chmod 600 {daemon.path}." in [one.advice for one in found.findings["socket"]]


def test_journal_that_others_may_exchange_is_a_problem(home: Path) -> None:
    folder = home / "data" / "tooltap"
    folder.mkdir()
    folder.chmod(0o777)
    found = examined()

    assert (found.code, found.problems()) == (
        1,
        [f"the journal cannot be in {folder}: other users may write to it (mode 0777)"],
    )
    folder.chmod(0o1777)
    assert examined().code == 0


def test_broken_configuration_does_not_hide_other_findings(home: Path) -> None:
    file = home / "config" / "tooltap" / "tooltap.toml"
    file.parent.mkdir()
    file.write_text('retention_days = "long"\n')
    found = examined()

    assert found.code == 1
    assert found.problems() == [f"{file}:1: retention_days: expected `float`, got `str`"]
    assert set(examined("--config", ROOT / "docs" / "display.toml").findings) == set(found.findings)


def test_configuration_locates_files(home: Path) -> None:
    file = home / "tooltap.toml"
    file.write_text(f'journal = "nats://127.0.0.1:1/team"\nsocket = "{home}/mine/t.sock"\n')
    found = examined("--config", file)

    assert found.code == 0
    assert found.findings["journal"][0].text == "the journal is nats://127.0.0.1:1/team; its daemon checks it"
    assert f"{home}/mine does not exist yet; the daemon creates it, private" in [
        one.text for one in found.findings["socket"]
    ]


def newer(file: Path) -> str:
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value)")
        database.execute("INSERT INTO meta VALUES ('format', 99)")
    database.close()
    return f"the journal {file} has format 99, written by another version of tooltap; this one knows only 1"


def another(file: Path) -> str:
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE mine (x)")
    database.close()
    return f"{file} is a database, but not a tooltap journal"


def text(file: Path) -> str:
    file.write_text("no database")
    return f"the journal {file} cannot be opened: file is not a database"


@pytest.mark.parametrize("make", [newer, another, text])
def test_unusable_journal_is_a_problem(make: Callable[[Path], str], home: Path) -> None:
    folder = home / "data" / "tooltap"
    folder.mkdir()
    wanted = make(folder / "journal.db")
    (folder / "journal.db").chmod(0o600)
    found = examined()

    assert (found.code, found.problems()) == (1, [wanted])


async def opened_and_closed(file: Path) -> None:
    await (await SqliteJournal.open(file)).close()


def test_journal_removed_in_use_is_a_problem_until_the_advice_is_followed(home: Path) -> None:
    file, kept = home / "journal.db", home / "kept.db"
    sentence = f"{file} was removed, renamed or replaced in use: put it back, or restart the daemon"
    with Lives(home) as lives:
        lives.start()
        file.rename(kept)
        found = examined("--socket", lives.settings["socket"]).problems()
        kept.rename(file)
        afterwards = examined("--socket", lives.settings["socket"]).problems()

    assert found == [f"the daemon cannot commit lines: {sentence}"]
    assert afterwards == []


def test_readable_journal_is_a_problem(home: Path, daemon: Running) -> None:
    (home / "journal.db").chmod(0o644)
    found = examined("--socket", daemon.path)

    assert found.code == 1
    assert found.problems() == [
        f"other users may read {home / 'journal.db'} (mode 0644), which holds what agents printed"
    ]


def test_unwritable_folder_is_a_problem(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").touch()
    monkeypatch.setenv("TOOLTAP_SPOOL", str(home / "file" / "spool"))
    monkeypatch.setenv("HAPPIER_STACK_TOOL_TRACE", "1")
    monkeypatch.setenv("HAPPIER_STACK_TOOL_TRACE_DIR", str(home / "file" / "traces"))
    found = examined()

    assert found.code == 1
    assert found.problems() == [
        f"cannot write to {home / 'file' / place}: {home / 'file'} is not a folder" for place in ("spool", "traces")
    ]
    assert found.findings["traces"][0].text.startswith(f"a daemon started here would write raw lines to {home}/file/tr")


@pytest.mark.parametrize(("bound", "level"), [("LITTLE", "note"), ("TOO_LITTLE", "problem")])
def test_full_disk_is_reported(bound: str, level: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"tooltap.daemon.doctor.{bound}", 2**80)
    found = examined()

    assert [reported.level for reported in found.findings["spool"]] == [level]
    assert " left for " in found.findings["spool"][0].text


def test_unreadable_session_folder_is_a_problem(home: Path) -> None:
    claude = home / ".claude" / "projects" / "-ws"
    codex = home / ".codex" / "sessions" / "2026"
    for folder, file, name in ((claude, CLAUDE, "a.jsonl"), (codex, CODEX, "rollout-1.jsonl")):
        folder.mkdir(parents=True)
        shutil.copy(file, folder / name)
    (claude / "notes.txt").touch()
    (home / ".gemini").mkdir()
    (home / ".gemini" / "tmp").symlink_to("tmp")  # which leads to itself
    found = examined()

    assert found.code == 1
    assert [reported.text.partition(" (")[0] for reported in found.findings["sessions"][:2]] == [
        "claude has 1 session file",
        "codex has 1 session file",
    ]
    assert found.findings["sessions"][0].text.endswith(f"in {home / '.claude' / 'projects'}")
    assert found.problems() == [f"cannot read {home / '.gemini' / 'tmp'}: Too many levels of symbolic links"]


def texts(found: Examined) -> list[str]:
    return [one.text for one in found.findings["sessions"] if not one.text.startswith("no folder of sessions")]


def test_session_file_that_the_database_beside_it_has_is_not_counted(home: Path) -> None:
    folder = home / "data" / "goose" / "sessions"
    for name in ("old.jsonl", "copied.jsonl"):
        write(folder / name)
    with closing(sqlite3.connect(folder / "sessions.db")) as connection:
        connection.executescript(
            "CREATE TABLE sessions (id, updated_at); INSERT INTO sessions VALUES ('copied', NULL);"
            "CREATE TABLE messages (id, session_id, role, content_json, created_timestamp);"
            "INSERT INTO messages VALUES (1, 'copied', 'user', '[]', 1);"
        )
    found = [text for text in texts(examined()) if text.startswith("goose")]

    assert found == [f"goose has 1 session in {folder}", f"goose has 1 session file (0.0 MiB) in {folder}"]


def test_database_that_is_read_is_not_called_unread(home: Path) -> None:
    for place in ("data/zed/threads/threads.db", ".hermes/state.db"):
        write(home / place)
        (home / place).unlink()
        sqlite3.connect(home / place).close()

    assert not [text for text in texts(examined()) if " not read" in text]


def test_what_lies_in_a_store_and_is_not_read_is_named(home: Path) -> None:
    codex = home / ".codex"
    for place in (
        "sessions/2026/09/rollout-1.jsonl.xz",
        "sessions/2026/09/rollout-2.jsonl.xz",
        "sessions/index.json",
    ):
        write(codex / place)
    write(codex / "archived_sessions" / "rollout-3.ndjson")
    write(codex / "sessions" / "README.md")
    write(home / ".copilot" / "history-session-state" / "session-1.db")
    for place in ("a.jsonl", "a/subagents/agent-1.meta.json", "a/tool-results/b.json", "sessions-index.json"):
        write(home / ".claude" / "projects" / "-ws" / place)
    write(home / ".claude" / "projects" / "-ws" / "old.jsonl.gz")
    database = home / "data" / "opencode" / "opencode.db"
    database.parent.mkdir(parents=True)
    write(database.with_name("opencode3.sqlite"))
    write(database.with_name("auth.json"))
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(
            "CREATE TABLE event_sequence (aggregate_id, seq); CREATE TABLE event (id, aggregate_id, seq, type, data);"
            "CREATE TABLE project (id); INSERT INTO project VALUES (1); CREATE TABLE session_v3 (id);"
            "CREATE TABLE message_v3 (id); INSERT INTO message_v3 VALUES (1), (2);"
        )
    found = [text for text in texts(examined()) if " not read" in text]

    assert found == [
        f"claude: 1 .jsonl.gz file is not read in {home}/.claude/projects, such as -ws/old.jsonl.gz",
        f"codex: 1 .ndjson file is not read in {codex}/archived_sessions, such as rollout-3.ndjson",
        f"codex: 1 .json file is not read in {codex}/sessions, such as index.json",
        f"codex: 2 .jsonl.xz files are not read in {codex}/sessions, such as 2026/09/rollout-1.jsonl.xz",
        f"copilot: 1 .db file is not read in {home}/.copilot/history-session-state, such as session-1.db",
        f"opencode: 2 rows are not read of the table message_v3 in {database}",
        f"opencode: 1 .sqlite file is not read in {database.parent}, such as opencode3.sqlite",
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (None, "30 days (its default); 2 files are older, and 1 file will be within a week"),
        (
            '{"cleanupPeriodDays": 99}',
            "99 days (`cleanupPeriodDays` in {}); 1 file is older, and 0 files will be within a week",
        ),
        ("no JSON", "30 days (its default); 2 files are older, and 1 file will be within a week"),
    ],
)
def test_what_the_agent_deletes_is_said(home: Path, settings: str | None, said: str) -> None:
    file = home / ".claude" / "settings.json"
    for days in (1, 25, 40, 120):
        path = write(home / ".claude" / "projects" / "-ws" / f"{days}.jsonl")
        os.utime(path, (time.time() - days * 86_400,) * 2)
    if settings is not None:
        file.write_text(settings)

    assert f"claude deletes session files after {said.format(file)}" in texts(examined())


def test_each_folder_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two accounts, and one whose folder is missing; the configuration names one more."""
    for name in (".claude", ".claude-work", "volume"):
        write(home / name / "projects" / "-ws" / "a.jsonl")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"~/.claude, {home}/.claude-work,{home}/gone")
    config = write(home / "config.toml", f'[follow]\nfolders = {{claude = ["{home}/volume", "~/.claude"]}}\n')
    found = examined("--config", config)

    places = [one.text.rpartition(" in ")[2] for one in found.findings["sessions"] if one.text.startswith("claude has")]
    assert places == [f"{home}/{name}/projects" for name in (".claude", ".claude-work", "volume")]
    (absent,) = [one.text for one in found.findings["sessions"] if one.text.startswith("no folder of sessions")]
    assert f"claude ({home}/gone/projects)" in absent
    assert f"codex ({home}/.codex/sessions)" in absent


def test_projects_that_an_agent_lists_are_named(home: Path) -> None:
    for name in ("a", "b", "c"):
        (home / name / ".crush").mkdir(parents=True)
    projects = [{"path": str(home / name), "data_dir": str(home / name / ".crush")} for name in ("a", "gone", "b", "c")]
    write(home / "data" / "crush" / "projects.json", json.dumps({"projects": projects}))
    config = write(home / "config.toml", "[follow]\nprojects = 3\n")
    found = [one for one in examined("--config", config).findings["sessions"] if one.text.startswith("crush")]

    assert [(one.level, one.text) for one in found] == [
        ("note", f"crush: 3 of the 4 projects in {home}/data/crush/projects.json are followed"),
        ("ok", f"crush has 0 sessions in {home}/a/.crush"),
        ("ok", f"crush has 0 sessions in {home}/b/.crush"),
    ]
    write(config, "follow.projects = 4\n")
    found = [one for one in examined("--config", config).findings["sessions"] if one.text.startswith("crush")]
    assert [one.text.rpartition(" in ")[2] for one in found] == [f"{home}/{name}/.crush" for name in ("a", "b", "c")]


def test_list_of_projects_that_cannot_be_read_is_a_problem(home: Path) -> None:
    path = write(home / "data" / "crush" / "projects.json", '{"projects": [')
    (home / "a" / ".crush").mkdir(parents=True)
    config = write(home / "config.toml", f'follow.folders.crush = ["{home}/a/.crush"]\n')
    found = {one.text: one.level for one in examined("--config", config).findings["sessions"]}

    assert found[f"cannot read {path}: not a list of projects of a known form"] == "problem"
    assert f"crush has 0 sessions in {home}/a/.crush" in found


@pytest.mark.parametrize("agents", [[], ["claude"]])
def test_following_is_advised_where_it_is_not_done(home: Path, agents: list[str]) -> None:
    path = home / ".claude" / "projects" / "-ws" / "a.jsonl"
    path.parent.mkdir(parents=True)
    shutil.copy(CLAUDE, path)
    with running(home, follow={"agents": agents, "backfill": "all"}) as daemon:
        while agents and daemon.stats()["following"]["agents"] != {"claude": 1}:
            pass
        found = examined("--socket", daemon.path).findings["sessions"]

    (claude,) = [one for one in found if one.text.startswith("claude has")]
    advised = "`tooltap serve stop`, then `tooltap serve --follow claude`, publishes them."
    assert claude.advice == ("" if agents else advised)


def test_files_that_a_daemon_has_not_listed_yet_need_no_other_daemon(home: Path) -> None:
    """It follows every agent."""
    write(home / ".claude" / "projects" / "-ws" / "a.jsonl")
    statistics = {"following": {"agents": {}}, "limits": {"follow": {"agents": ["all"]}}}

    (claude,) = [one for one in sessions(Follow(), statistics) if one.text.startswith("claude has")]
    assert claude.advice is None


def test_folder_that_cannot_be_watched_is_a_problem() -> None:
    [found] = troubles({"following": {"unwatched": {"/h/.claude/projects": "the limit of watches is reached"}}})

    assert found.level == "problem"
    assert found.text == (
        "the daemon cannot watch /h/.claude/projects, and lists it periodically: the limit of watches is reached"
    )


def test_remote_that_is_away_is_a_problem() -> None:
    away = {"name": "lab", "host": "lab", "problem": "after event 7, the remote has sent a line that is too long"}
    known = [{"name": "box", "host": "box", "since": 1}, away]
    [found] = remotes({"remotes": {"connections": known}})
    [fine] = remotes({"remotes": {"connections": known[:1]}})

    assert (found.level, fine.level) == ("problem", "ok")
    assert found.text == f"lab is not connected: {away['problem']}"


def test_drift_is_counted_in_words() -> None:
    findings = [{"severity": "alarm"}, {"severity": "notice"}]

    assert drift({"drift": {"findings": findings}}).text.startswith("the daemon has found 1 change in agents'")
    assert drift({"drift": {"findings": findings * 2}}).text.startswith("the daemon has found 2 changes in agents'")


def write(path: Path, text: str = "{}\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def install(home: Path, scripts: dict[str, str]) -> None:
    """Install agents, which note how they are called."""
    for name, script in scripts.items():
        (home / "bin" / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {home}/asked\n{script}\n')
        (home / "bin" / name).chmod(0o755)


@pytest.mark.process
def test_agents_are_only_asked_for_their_version(home: Path) -> None:
    """One cannot be started, one prints terminal escapes."""
    scripts = {
        "claude": "echo '2.1.330 (Claude Code)'",
        "codex": "echo codex-cli 99.1.0",
        "qwen": "printf '\\033[31mno version\\033[0m'; exit 3",
        "cursor-agent": "echo 2026.01.02-abc",
        "copilot": "echo 1.0.1",
    }
    install(home, scripts)
    (home / "bin" / "kimi").write_text("#!/nowhere/interpreter\n")
    (home / "bin" / "kimi").chmod(0o755)
    found = examined()
    reported = {one.text.partition(" ")[0]: one for one in found.findings["agents"]}
    at = f"at {home}/bin"

    assert found.code == 0
    assert sorted((home / "asked").read_text().splitlines()) == sorted(f"{name} --version" for name in scripts)
    assert reported["claude"] == Reported("ok", f"claude 2.1.330 {at}/claude: recorded", "")
    assert reported["codex"].level == "note"
    assert reported["codex"].text.startswith(f"codex 99.1.0 {at}/codex: newer than the newest recorded version, ")
    assert "`tooltap drift`" in reported["codex"].advice
    assert reported["qwen"].text.endswith("does not print its version: it prints none")
    assert reported["kimi"].text.endswith("does not print its version: No such file or directory")
    assert reported["cursor-agent"].text.endswith(": no version of it has been recorded")
    assert reported["copilot"] == Reported("ok", f"copilot 1.0.1 {at}/copilot: recorded versions are 1.0.102", "")


@pytest.mark.process
def test_agents_that_hang_are_ended(home: Path) -> None:
    """One hangs with a child, one never stops printing."""
    install(home, {"gemini": f"/bin/sleep 600 > {home}/alive & wait", "opencode": "exec /usr/bin/yes"})
    os.mkfifo(home / "alive")
    alive = os.open(home / "alive", os.O_RDONLY | os.O_NONBLOCK)
    found = examined("--timeout", "1")

    assert found.code == 0
    assert [one.text.partition(" at ")[0] for one in found.findings["agents"]] == ["gemini", "opencode"]
    for one in found.findings["agents"]:
        assert one.text.endswith("does not print its version: it takes longer than 1 s")
    os.set_blocking(alive, True)
    with open(alive, "rb") as child:
        assert child.read() == b""  # which ends when nobody can write to it any more


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("echo active", ("ok", "the service tooltap.service is installed in {unit}, and active")),
        ("echo failed; exit 3", ("problem", "the service tooltap.service has failed")),
        (
            "echo 'Failed to connect' >&2; exit 1",
            ("ok", "{unit} exists, but no systemd answers queries about it"),
        ),
    ],
)
@pytest.mark.process
def test_service_state_is_reported(
    answer: str, wanted: tuple[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = home / "config" / "systemd" / "user" / "tooltap.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    monkeypatch.setattr("tooltap.daemon.system.services.BOOTED", home)
    (home / "bin" / "systemctl").write_text(f"#!/bin/sh\n{answer}\n")
    (home / "bin" / "systemctl").chmod(0o755)
    [reported] = examined().findings["service"]

    assert reported[:2] == (wanted[0], wanted[1].format(unit=unit))


def test_pipe_gets_plain_text(home: Path) -> None:
    finished = here("doctor")
    lines = finished.stdout.decode().splitlines()

    assert finished.returncode == 0
    assert b"\x1b" not in finished.stdout
    assert lines[0].startswith(f"ok       tooltap   tooltap {__version__} in ")
    assert f"note     daemon    no daemon is listening at {home / 'run' / 'tooltap.sock'}" in lines
    assert lines[-1].startswith("no problems, ")


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_terminal_gets_colours_unless_disabled(variables: dict[str, str], coloured: bool, home: Path) -> None:
    with started([*COMMAND, "doctor"], environment(TERM="xterm", **variables), size=(60, 120)) as screen:
        assert screen.end() == 0

    assert (b"\x1b[33mnote    \x1b[0m daemon" in screen.shown) == coloured
    assert (b"\x1b" in screen.shown) == coloured


def test_wrong_usage_is_one_sentence() -> None:
    finished = here("doctor", "--timeout", "0")

    assert finished.returncode == 2
    assert "--timeout" in sentence(finished)


def test_every_extra_is_known() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert set(EXTRAS) == set(extras) - {"dev", "mcp", "web"}


def test_missing_extra_is_a_note(home: Path) -> None:
    """Runs in a Python that does not find the package."""
    program = (
        "import sys; sys.modules['nkeys'] = None; sys.argv = ['tooltap', 'doctor', '--json']\n"
        "from tooltap.cli.main import main; main()"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    [reported] = [one for one in json.loads(finished.stdout)["findings"] if one["area"] == "tooltap" and one["advice"]]

    assert reported == {
        "level": "note",
        "area": "tooltap",
        "text": "a journal on NATS needs packages that are not installed: nkeys",
        "advice": "Run pip install 'nats-py[nkeys]>=2.10' to use it.",
    }
