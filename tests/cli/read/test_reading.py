"""`tail`, `sessions`, `show`, `stats`: the content of the journal, for terminals and pipes."""

from __future__ import annotations

import json
import os
import pty
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import CLAUDE, CODEX, COMMAND, DEMO, environment, here, sentence, start
from tests.daemon.events import commit, event, message
from tests.daemon.running import Running, running
from tooltap.protocol.events import SessionEvent


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A daemon that holds one recording of each of four agents, in this order."""
    with running(tmp_path_factory.mktemp("daemon")) as one:
        for name in ("claude-code", "codex", "gemini", "opencode"):
            finished = here("ingest", "--socket", one.path, "--stream", name, DEMO / f"{name}.jsonl")
            assert finished.returncode == 0
        yield one


def event_lines(daemon: Running, **filters: list[str]) -> list[bytes]:
    """Event lines as received by plain socket code."""
    with daemon.subscribe(after="start", follow=False, filter=filters) as wire:
        lines = iter(wire.line, b"")
        return [line for line in lines if not line.startswith(b'{"op"')]


def tail(daemon: Running, *arguments: str) -> bytes:
    finished = here("tail", "--socket", daemon.path, "--no-follow", "--after", "start", *arguments)
    assert (finished.returncode, finished.stderr) == (0, b"")
    return finished.stdout


def test_tail_shows_assistant_texts(daemon: Running) -> None:
    assert tail(daemon).decode().splitlines() == [
        "The command failed with exit code 3.",
        "Now the edit.",
        "Changed Hello to Howdy in src/app.py.",
        "Now the edit.",
        "Changed Hello to Howdy in src/app.py.",
        "Two Python files.",
    ]


def test_verbose_shows_a_line_per_call_and_result(daemon: Running) -> None:
    shown = tail(daemon, "--mode", "verbose").decode()

    assert (
        "▸ Bash echo partial output; echo 'boom: somethi\n✗ Bash echo partial output; echo 'boom: somethi (exit 3"
        in shown
    )
    assert "▸ Patch src/app.py\n" in shown
    assert "✓ Edit src/app.py\n" in shown
    assert "✓ Glob **/*.py\n" in shown
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("──")] == [
        "claude",
        "codex",
        "gemini",
        "opencode",
    ]
    assert "\x1b" not in shown


def test_json_mode_prints_event_lines_unchanged(daemon: Running) -> None:
    assert tail(daemon, "--mode", "json") == b"".join(event_lines(daemon))


@pytest.mark.parametrize(
    "filters",
    [
        {"provider": ["codex", "gemini"]},
        {"kind": ["tool-call"]},
        {"stream": ["opencode"], "kind": ["tool-call", "tool-result"]},
        {"tool": ["exec_command"]},
        {"tool": ["Glob", "Edit"], "provider": ["opencode", "gemini"]},
    ],
)
def test_filters(filters: dict[str, list[str]], daemon: Running) -> None:
    options = [word for name, values in filters.items() for value in values for word in (f"--{name}", value)]
    wanted = event_lines(daemon, **filters)

    assert 0 < len(wanted) < len(event_lines(daemon))
    assert tail(daemon, "--mode", "json", *options) == b"".join(wanted)


def test_tail_resumes_after_cursor(daemon: Running) -> None:
    everything = event_lines(daemon)
    with daemon.connect() as wire:
        journal = wire.ask("stats")["journal"]["id"]

    assert tail(daemon, "--mode", "json", "--after", "7") == b"".join(everything[7:])
    assert tail(daemon, "--mode", "json", "--after", f"{journal}:7") == b"".join(everything[7:])


def test_cursor_of_another_journal_warns(daemon: Running) -> None:
    finished = here("tail", "--socket", daemon.path, "--no-follow", "--mode", "json", "--after", "0123456789abcdef:7")

    assert finished.stdout == b"".join(event_lines(daemon))
    assert finished.stderr == b"tooltap: events 1 to 0 are gone: this is another journal\n"


def test_since_starts_with_events_of_that_age(daemon: Running) -> None:
    now = time.time_ns() // 1_000_000
    lines = [{"t": now - hours * 3_600_000, "dir": "out", "line": f"{hours} h ago"} for hours in (9, 5, 3, 1)]
    recording = "".join(json.dumps(line) + "\n" for line in lines).encode()
    here("ingest", "--socket", daemon.path, "--stream", "old", "--dialect", "acp", stdin=recording)
    arguments = ["--no-follow", "--mode", "json", "--stream", "old", "--since", "4h"]
    shown = here("tail", "--socket", daemon.path, *arguments).stdout

    assert [json.loads(line)["text"] for line in shown.splitlines()] == ["3 h ago", "1 h ago"]


def test_events_by_when_they_happened(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        for name, day in (("younger", 20), ("older", 10)):  # the younger session is read first
            lines = [event_of(name, day, number) for number in range(3)]
            (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
            assert here("ingest", "--socket", daemon.path, tmp_path / f"{name}.jsonl").returncode == 0

        stored = [json.loads(line) for line in tail(daemon, "--mode", "json").splitlines()]
        sorted_ = [json.loads(line) for line in tail(daemon, "--mode", "json", "--by", "time").splitlines()]
        shown = tail(daemon, "--by", "time", "--mode", "verbose").decode()

    assert [one["ts"] for one in stored] != sorted([one["ts"] for one in stored])
    assert sorted_ == sorted(stored, key=lambda one: (one["ts"], one["seq"]))
    assert shown.index("> older 2") < shown.index("> younger 0")


def event_of(session: str, day: int, number: int) -> str:
    """A prompt, as Claude Code stores it."""
    message = {"role": "user", "content": f"{session} {number}"}
    about = {"sessionId": session, "cwd": "/w/app", "version": "2.1.330", "isSidechain": False, "parentUuid": None}
    ts = f"2026-11-{day}T04:00:0{number}.000Z"
    return json.dumps({"type": "user", "uuid": f"{session}{number}", "timestamp": ts, "message": message, **about})


def test_new_events_are_followed_until_interrupt(daemon: Running) -> None:
    with start("tail", "--socket", daemon.path, "--mode", "json", "--stream", "later", "--after", "start") as tailing:
        here("ingest", "--socket", daemon.path, "--stream", "later", CODEX)
        assert json.loads(tailing.line())["stream"] == "later"
        tailing.send_signal(signal.SIGINT)

        assert tailing.process.wait(60) == 130
        assert tailing.end()[2] == b""


def test_partials_on_request(daemon: Running) -> None:
    arguments = ["--mode", "json", "--partials", "--stream", "partial", "--kind", "message"]
    with start("tail", "--socket", daemon.path, *arguments) as tailing:
        while not any(one["partials"] for one in daemon.stats()["subscribers"]):
            pass
        here("ingest", "--socket", daemon.path, "--stream", "partial", CODEX)
        events = [json.loads(tailing.line()) for _ in range(7)]

    assert [event["text"] for event in events if event.get("partial")] == [
        "Now the edit.",
        "Changed Hello to H",
        "owdy in src/app.py",
        ".",
    ]
    assert all(("seq" in event) != event.get("partial", False) for event in events)


def test_sessions_newest_first(daemon: Running) -> None:
    finished = here("sessions", "--socket", daemon.path)
    head, *rows = [line.split("\t") for line in finished.stdout.decode().splitlines()]
    of_agents = [row for row in rows if row[5] in ("claude", "gemini", "opencode")]

    columns = "STATUS TITLE PROJECT BRANCH AGENT MODEL CALLS ERRORS TOKENS COST TIME HOST FROM PINNED LAST"
    assert head == ["SESSION", *columns.split()]
    times = [row[-1] for row in rows]
    assert times == sorted(times, reverse=True)
    assert {row[1] for row in rows} <= {"completed", "failed", "interrupted", "unknown"}
    (claude,) = [row for row in of_agents if row[5] == "claude"]
    assert (claude[3], claude[7]) == ("ws", "1")


def test_sessions_in_which_nothing_was_done_are_listed_on_request(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.commit(commit(event(SessionEvent, state="started", cwd="/ws")))
        hidden = here("sessions", "--socket", daemon.path)
        shown = here("sessions", "--socket", daemon.path, "--empty")

    wanted = b"tooltap: nothing was asked, said or done in 1 session; `--empty` lists what there is\n"
    assert (hidden.stdout, hidden.stderr) == (b"", wanted)
    assert [line.split("\t")[0] for line in shown.stdout.decode().splitlines()] == ["SESSION", "session-1"]


def test_session_names_what_it_comes_from(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        origin: dict[str, Any] = {"forked_from": "8b5a1c00-aaaa", "parent_session": "2f40b229-bbbb"}
        daemon.commit(commit(event(SessionEvent, state="started", **origin), message("Done.")))
        finished = here("sessions", "--socket", daemon.path)
        head, row = [line.split("\t") for line in finished.stdout.decode().splitlines()]

        daemon.commit(commit(event(SessionEvent, "t", session="2f40b229-bbbb", state="started"), stream="t"))
        daemon.commit(commit(message("Hi", "t", session="2f40b229-bbbb"), stream="t", base=1))
        narrow = on_a_terminal(*COMMAND, "sessions", "--socket", daemon.path, NO_COLOR="1", COLUMNS="80")
        shown = here("show", "2f40b229", "--socket", daemon.path).stdout.decode()
        shown_fork = here("show", "session-1", "--socket", daemon.path).stdout.decode()

    assert dict(zip(head, row, strict=True))["FROM"] == "forked from 8b5a1c00, started by 2f40b229"
    assert [line.split()[2] for line in narrow.splitlines()[1:]] == ["gemini", "↳"]
    assert "started session-1" in shown
    assert "started by 2f40b229-bbbb" in shown_fork


def test_sessions_are_filtered(daemon: Running) -> None:
    def listed(*options: str) -> list[str]:
        finished = here("sessions", "--socket", daemon.path, "--json", *options)
        return [json.loads(line)["provider"] for line in finished.stdout.splitlines()]

    assert listed("--agent", "claude") == ["claude"]
    assert listed("--agent", "claude", "--project", "ws", "--since", "2020-01-01") == ["claude"]
    assert listed("--agent", "claude", "--project", "/tmp/ws") == ["claude"]
    assert listed("--until", "2020-01-01") == []
    none = here("sessions", "--socket", daemon.path, "--agent", "nobody")
    assert (none.returncode, none.stdout) == (0, b"")
    assert none.stderr.startswith(b"tooltap: no session matches these filters; without them there are ")
    for words in (("--until", "2026-02-01", "--since", "2026-02-02"), ("--since", "today", "--until", "yesterday")):
        empty = here("sessions", "--socket", daemon.path, *words)
        assert (empty.returncode, b"--until is before --since" in empty.stderr) == (2, True)
    wrong = here("sessions", "--socket", daemon.path, "--since", "tomorrow")
    assert wrong.returncode == 2
    assert b"'tomorrow' is not an age such as 2h or 1d, nor a day such as today or 2026-11-24" in wrong.stderr


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (60, ["SESSION", "STATUS", "TITLE", "AGENT", "LAST"]),
        (100, ["SESSION", "STATUS", "TITLE", "PROJECT", "AGENT", "CALLS", "COST", "LAST"]),
    ],
)
def test_table_of_sessions_has_the_columns_that_fit(daemon: Running, columns: int, shown: list[str]) -> None:
    table = on_a_terminal(*COMMAND, "sessions", "--socket", daemon.path, NO_COLOR="1", COLUMNS=str(columns))
    lines = table.splitlines()

    assert set(shown) <= set(lines[0].split())
    assert max(map(len, lines)) <= columns
    assert all(" ago" in line or "now" in line or "20" in line for line in lines[1:] if not line.startswith("50 of"))


def test_sessions_as_json_and_limited(daemon: Running) -> None:
    everything = here("sessions", "--socket", daemon.path, "--json").stdout.splitlines()
    two = here("sessions", "--socket", daemon.path, "--json", "--limit", "2").stdout.splitlines()

    assert two == everything[:2]
    assert "claude" in {json.loads(one)["provider"] for one in everything}


def test_session_is_removed_by_id(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        here("ingest", "--socket", daemon.path, "--dialect", "claude-stream", CLAUDE)
        [listed] = here("sessions", "--socket", daemon.path, "--json").stdout.splitlines()
        name, events = (json.loads(listed)[key] for key in ("session", "events"))

        removed = here("sessions", "rm", name, "--socket", daemon.path)
        again = here("sessions", "rm", name, "--socket", daemon.path)

        assert removed.stdout.decode() == f"{name}: {events} events deleted\n"
        assert (again.returncode, sentence(again)) == (1, f"there is no session '{name}'")
        assert here("sessions", "--socket", daemon.path, "--json").stdout == b""


def test_session_that_cannot_be_removed_keeps_no_other(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        here("ingest", "--socket", daemon.path, "--dialect", "claude-stream", CLAUDE)
        [listed] = here("sessions", "--socket", daemon.path, "--json").stdout.splitlines()
        name, events = (json.loads(listed)[key] for key in ("session", "events"))

        removed = here("sessions", "rm", "none", name, "--socket", daemon.path)

        assert removed.stdout.decode() == f"{name}: {events} events deleted\n"
        assert (removed.returncode, sentence(removed)) == (1, "there is no session 'none'")
    away = here("sessions", "rm", "one", "two", "three", "--socket", tmp_path / "none.sock")
    assert (away.returncode, len(away.stderr.splitlines())) == (1, 1)


def test_show_prints_each_view(daemon: Running) -> None:
    [line] = event_lines(daemon, stream=["claude-code"], kind=["tool-result"])
    event = json.loads(line)
    raw, assistant, display = (show(daemon, event["seq"], "--view", view) for view in ("raw", "assistant", "display"))

    assert raw == event
    assert "_raw" in raw["output"]
    [block] = assistant["modelView"]["blocks"]
    assert block == {"type": "text", "text": "Exit code 3\npartial output\nboom: something broke"}
    assert "output" not in assistant
    assert show(daemon, event["seq"]) == display


def show(daemon: Running, *arguments: object) -> dict[str, Any]:
    finished = here("show", "--socket", daemon.path, *arguments)
    assert finished.returncode == 0
    event: dict[str, Any] = json.loads(finished.stdout)
    return event


def test_missing_event_is_one_sentence(daemon: Running) -> None:
    finished = here("show", "--socket", daemon.path, "99999")

    assert (finished.returncode, finished.stdout) == (1, b"")
    assert sentence(finished) == "there is no event 99999"


def test_stats(daemon: Running) -> None:
    text = here("stats", "--socket", daemon.path).stdout.decode()
    statistics = json.loads(here("stats", "--socket", daemon.path, "--json").stdout)

    assert text.startswith(f"tooltap {statistics['version']}, pid {os.getpid()}, up 0:0")
    assert "\nclaude-code: claude-stream, claude\n  5 lines (6,220 bytes) = 5 with events" in text
    assert {one["stream"] for one in statistics["perStream"]} >= {"claude-code", "codex", "gemini", "opencode"}


def on_a_terminal(*arguments: object, **changes: str) -> str:
    """The output of a command on a capable terminal of 80 columns."""
    command = [*map(str, arguments)]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, environment(**{"TERM": "xterm", "COLUMNS": "80", **changes}))
    shown = b""
    with os.fdopen(terminal, "rb", buffering=0) as screen:
        try:
            while data := screen.read(4096):
                shown += data
        except OSError:  # on Linux: the other side of the terminal is closed
            pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return shown.decode().replace("\r\n", "\n")


def test_terminal_gets_colours_and_tables_unless_disabled(daemon: Running) -> None:
    follow = ["tail", "--socket", daemon.path, "--no-follow", "--after", "start", "--mode", "verbose"]
    coloured = on_a_terminal(*COMMAND, *follow)
    plain = on_a_terminal(*COMMAND, *follow, NO_COLOR="1")
    table = on_a_terminal(*COMMAND, "sessions", "--socket", daemon.path, NO_COLOR="1")

    assert "\x1b[33m▸\x1b[0m Bash echo partial" in coloured
    assert "\x1b" not in plain
    piped = tail(daemon, "--mode", "verbose").decode().splitlines()
    assert [line[:70] for line in plain.splitlines()] == [line[:70] for line in piped]
    assert table.startswith("SESSION ")
    assert not {"\t", "\x1b"} & set(table)
    assert session_of(daemon, "claude-code")[:8] in table


def session_of(daemon: Running, stream: str) -> str:
    session: str = json.loads(event_lines(daemon, stream=[stream])[0])["session"]
    return session
