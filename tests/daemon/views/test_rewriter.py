"""Commands that make views of results: real processes, well and badly behaved."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.daemon.publishing import tapped
from tests.daemon.running import TIMEOUT, Running
from tests.daemon.views.viewing import call, ended, history, made_view, publish, result, shell, viewing
from tooltap.daemon.journal.nats.place import NatsPlace

pytestmark = [pytest.mark.usefixtures("toy"), pytest.mark.process]

BASH = call("c", "Bash", command="make")
PRINTED = result("c", {"stdout": "hello\n", "exit_code": 0})


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def wait_idle(daemon: Running, **counts: int) -> None:
    until(lambda: counts.items() <= daemon.stats()["rewriting"].items(), str(counts))


def is_gone(pid: int) -> bool:
    """The process has ended, or is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second if it ends while its file is read
        return True


def rewriting(script: str, name: str = "Bash") -> dict[str, Any]:
    return {name: {"rewrite": shell(script)}}


def test_view_follows_its_result(tmp_path: Path) -> None:
    with viewing(tmp_path, rewriting("cat >/dev/null; echo shown")) as daemon:
        [one] = ended(daemon, BASH, PRINTED)
        view = made_view(daemon)
        asked = daemon.connect().ask("event", seq=one["seq"], view="display")["event"]
        replayed = history(daemon, kind=["tool-update"])

    assert "display" not in one
    assert view["display"] == {"origin": "rewriter", "text": "shown\n"}
    assert view["id"] == "s:2d:" + one["id"].rpartition(":")[2]
    assert (view["callId"], view["name"], view["line"], view["session"]) == ("c", "Bash", 2, one["session"])
    assert view["seq"] > one["seq"]
    assert replayed == [view]
    assert asked["display"] == view["display"]
    assert "output" not in asked


def test_command_reads_call_and_result(tmp_path: Path) -> None:
    with viewing(tmp_path, {"Bash": {"rewrite": ["cat"], "mime_type": "application/json"}}) as daemon:
        publish(daemon, BASH, PRINTED)
        display = made_view(daemon)["display"]

    assert display["mimeType"] == "application/json"
    assert json.loads(display["text"]) == {
        "tool": "Bash",
        "input": {"command": "make"},
        "output": {"stdout": "hello\n", "exit_code": 0},
        "text": "hello\n",
        "status": "completed",
        "provider": "toymaker",
        "session": "s",
        "assistantView": "unknown",
    }


@pytest.mark.parametrize(
    ("script", "reason", "detail"),
    [
        ("echo oh no >&2; exit 3", "it failed", "exit code 3: oh no"),
        ("kill -SEGV $$", "it failed", "signal 11"),
        ("echo shown; kill -9 $$", "it failed", "signal 9"),
        ("sleep 1000", "it takes too long", ""),
        ("echo shown; exec >&-; sleep 1000", "it takes too long", ""),
        ("while :; do echo flood; done", "it answers too much", ""),
        ("while :; do echo flood; done >&2", "it takes too long", ""),
        (r"printf 'a\377b'", "its answer is not UTF-8", None),
        ("echo hello", "it answers only what the model saw", ""),
        ("true", "it answers only what the model saw", ""),
        (None, "it cannot be started", None),
    ],
)
def test_failing_command_is_logged_once(tmp_path: Path, script: str | None, reason: str, detail: str | None) -> None:
    command = ["no-such-command"] if script is None else shell(script)
    bounds = {"timeout": 0.4 if reason == "it takes too long" else 20, "output_bytes": 10_000}
    with capture_logs() as logs, viewing(tmp_path, {"Bash": {"rewrite": command}}, rewriting=bounds) as daemon:
        publish(daemon, BASH, PRINTED, call("d", "Bash"), result("d", "hello"))
        wait_idle(daemon, running=0, unshown=2)

        assert history(daemon, kind=["tool-update"]) == []
        [one, _] = history(daemon, kind=["tool-result"])
        shown = daemon.connect().ask("event", seq=one["seq"], view="display")["event"]
    assert shown["output"]["stdout"] == "hello\n"
    [warning] = [entry for entry in logs if entry["log_level"] == "warning"]
    assert (warning["command"], warning["reason"]) == (tuple(command), reason)
    assert detail is None or warning["detail"] == detail


def test_nothing_waits_for_a_hanging_command(tmp_path: Path) -> None:
    """Neither the result, the publisher nor the shutdown; and no process is left behind."""
    pids = tmp_path / "pids"
    script = f"echo $$ >> {pids}; sleep 1000 & echo $! >> {pids}; wait"
    with viewing(tmp_path, rewriting(script), rewriting={"timeout": 1_000}, shutdown_timeout=0.2) as daemon:
        [one] = ended(daemon, BASH, PRINTED)
        until(lambda: pids.exists() and len(pids.read_text().split()) == 2, "both processes")

        assert one["output"]["stdout"] == "hello\n"
        assert daemon.stats()["rewriting"]["running"] == 1
    for pid in pids.read_text().split():
        until(lambda pid=pid: is_gone(int(pid)), "the process is killed")  # type: ignore[misc]


def test_forked_processes_are_killed(tmp_path: Path) -> None:
    with viewing(tmp_path, rewriting("sleep 1000 & echo $!"), rewriting={"timeout": 1_000}) as daemon:
        publish(daemon, BASH, PRINTED)
        pid = int(made_view(daemon)["display"]["text"])

    until(lambda: is_gone(pid), "the process is killed")


@pytest.mark.programs("setsid")
def test_detached_process_does_not_delay_the_view(tmp_path: Path) -> None:
    """A process in its own process session keeps the pipe open."""
    with viewing(tmp_path, rewriting("setsid sleep 1000 & echo $!"), rewriting={"timeout": 1_000}) as daemon:
        publish(daemon, BASH, PRINTED)
        pid = int(made_view(daemon)["display"]["text"])

    os.kill(pid, 9)


def test_concurrency_is_bounded(tmp_path: Path) -> None:
    started, go = tmp_path / "started", tmp_path / "go"
    script = f"echo x >> {started}; until [ -e {go} ]; do sleep 0.01; done; echo shown"
    lines = [line for one in "abcde" for line in (call(one, "Bash"), result(one, "text"))]
    with viewing(tmp_path, rewriting(script), rewriting={"concurrency": 2}) as daemon:
        publish(daemon, *lines)
        until(lambda: started.exists() and len(started.read_text().split()) == 2, "two have started")
        wait_idle(daemon, running=2, waiting=3)
        go.touch()
        wait_idle(daemon, running=0, waiting=0, waitingBytes=0, shown=5)

        assert {one["callId"] for one in history(daemon, kind=["tool-update"])} == set("abcde")


def test_waiting_results_are_bounded(tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"until [ -e {go} ]; do sleep 0.01; done; echo shown"
    lines = [line for one in "abcde" for line in (call(one, "Bash"), result(one, "x" * 1_000))]
    bounds = {"concurrency": 1, "waiting_bytes": 5_000}  # stdin holds a result twice: as JSON and as text
    with capture_logs() as logs, viewing(tmp_path, rewriting(script), rewriting=bounds) as daemon:
        publish(daemon, *lines)
        wait_idle(daemon, unshown=3)
        go.touch()
        wait_idle(daemon, shown=2, running=0)

    assert [entry["reason"] for entry in logs if entry["log_level"] == "warning"] == ["too many results are waiting"]


def test_long_view_is_an_output_body(tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done"
    with viewing(tmp_path, rewriting(script), stream={"string_bytes": 500}) as daemon:
        publish(daemon, BASH, PRINTED)
        display = made_view(daemon)["display"]
        body = daemon.connect().ask("output", outputId=display["outputId"], offset=98, length=2, unit="lines")

    assert display == {"origin": "rewriter", "outputId": display["outputId"], "mimeType": "text/plain"}
    assert (body["text"], body["total"]) == ("line 98\nline 99\n", 100)


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ({"*": {"rewrite": ["cat"]}}, "mcp__memory__search"),
        ({"*": {"rewrite": ["cat"]}}, "mcp_memory_search"),
        ({"*": {"rewrite": ["cat"]}}, "memory_search"),
        ({"*": {"rewrite": ["cat"]}, "memory_search": {"ask": True}}, "memory_search"),
        ({"*": {"rewrite": ["cat"]}, "Bash": {"rewrite": []}}, "Bash"),
        ({"*": {"rewrite": ["cat"]}, "Bash": {"silent": True}}, "Bash"),
        ({"Read": {"rewrite": ["cat"]}}, "Bash"),
    ],
)
def test_mcp_results_are_not_rewritten(tmp_path: Path, rules: dict[str, Any], name: str) -> None:
    with viewing(tmp_path, rules) as daemon:
        publish(daemon, call("c", name), result("c", "text"), end=False)

        assert daemon.stats()["rewriting"] == dict.fromkeys(
            ("running", "waiting", "waitingBytes", "shown", "unshown"), 0
        )


def test_call_that_never_ran_is_not_rewritten(tmp_path: Path) -> None:
    with viewing(tmp_path, rewriting("cat")) as daemon:
        publish(daemon, BASH, result("c", None, status="denied", error="no"), call("d", "Bash"))  # and one interrupted

        assert {one["status"] for one in history(daemon, kind=["tool-result"])} == {"denied", "interrupted"}
        assert daemon.stats()["rewriting"]["running"] == 0


def test_view_does_not_change_its_stream(tmp_path: Path) -> None:
    for end in (False, True):
        folder = tmp_path / str(end)
        with viewing(folder, rewriting("echo shown")) as daemon:
            wire = publish(daemon, BASH, PRINTED, end=end)
            assert made_view(daemon)["display"]["text"] == "shown\n"
            wire.close()
            before = {**daemon.stats()["perStream"][0], "updated": 0}
        with viewing(folder, {}) as daemon:
            assert {**daemon.stats()["perStream"][0], "updated": 0} == {
                **before,
                "state": "ended" if end else "suspended",
            }
            publish(daemon, {"do": "say", "text": "more"})

            events = history(daemon)
            assert "parser-reset" not in [one.get("code") for one in events]
            assert len({one["id"] for one in events}) == len(events)


def test_view_made_at_shutdown_is_stored(tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"until [ -e {go} ]; do sleep 0.01; done; echo shown"
    with viewing(tmp_path, rewriting(script), shutdown_timeout=TIMEOUT) as daemon:
        publish(daemon, BASH, PRINTED, end=False)
        wait_idle(daemon, running=1)
        daemon.call(daemon.daemon.stop)
        until(lambda: not daemon.path.exists() or not _listens(daemon), "the socket is closed")
        go.touch()
    with viewing(tmp_path, {}) as daemon:
        assert made_view(daemon)["display"]["text"] == "shown\n"


@pytest.mark.parametrize("end", [True, False])
def test_one_daemon_of_a_shared_journal_makes_the_view(tmp_path: Path, nats_place: NatsPlace, end: bool) -> None:
    runs = tmp_path / "runs"
    shared: dict[str, Any] = {"tools": rewriting(f"echo x >> {runs}; echo shown"), "journal": str(nats_place)}
    with viewing(tmp_path / "a", **shared) as one, viewing(tmp_path / "b", **shared) as other:
        publish(one, BASH, PRINTED, end=end)
        view = made_view(other)

        assert made_view(one) == view
        assert view["display"] == {"origin": "rewriter", "text": "shown\n"}
        assert other.stats()["rewriting"]["shown"] == 0
    assert runs.read_text().split() == ["x"]


def _listens(daemon: Running) -> bool:
    try:
        daemon.connect().close()
    except (OSError, AssertionError):
        return False
    return True


def test_failure_is_stated_in_the_stream(tmp_path: Path) -> None:
    with viewing(tmp_path, rewriting("echo oh no >&2; exit 3")) as daemon:
        [one] = ended(daemon, BASH, PRINTED)
        until(lambda: history(daemon, kind=["notice"]), "the notice")
        [notice] = history(daemon, kind=["notice"])

    assert (notice["code"], notice["level"], notice["callId"]) == ("view-failed", "warning", "c")
    assert notice["text"] == "the command for Bash made no view: it failed"
    assert notice["data"] == {"result": one["id"], "reason": "it failed", "detail": "exit code 3: oh no"}
    assert notice["id"] == "s:2d:" + one["id"].rpartition(":")[2]


def test_command_that_wants_no_view_states_nothing(tmp_path: Path) -> None:
    with viewing(tmp_path, rewriting("true")) as daemon:
        publish(daemon, BASH, PRINTED)
        wait_idle(daemon, running=0, unshown=1)
        assert history(daemon, kind=["notice", "tool-update"]) == []
        assert pending(tmp_path) == {}


def test_number_of_waiting_results_is_bounded(tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"until [ -e {go} ]; do sleep 0.01; done; echo shown"
    lines = [line for one in "abcde" for line in (call(one, "Bash"), result(one, "text"))]
    bounds = {"concurrency": 1, "waiting_results": 2}
    with viewing(tmp_path, rewriting(script), rewriting=bounds) as daemon:
        publish(daemon, *lines)
        wait_idle(daemon, unshown=3)
        go.touch()
        wait_idle(daemon, shown=2, running=0)
        until(lambda: len(history(daemon, kind=["notice"])) == 3, "three notices")
        assert {one["data"]["reason"] for one in history(daemon, kind=["notice"])} == {"too many results are waiting"}
        assert pending(tmp_path) == {}


def test_stopped_daemon_leaves_views_to_the_next(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with viewing(tmp_path, rewriting(f"echo $$ >> {pids}; sleep 1000"), shutdown_timeout=0.2) as daemon:
        publish(daemon, BASH, PRINTED, call("d", "Bash", command="ls"), result("d", "text"))
        until(lambda: pids.exists() and len(pids.read_text().split()) == 2, "both run")
    assert len(pending(tmp_path)) == 2
    with viewing(tmp_path, {"Bash": {"rewrite": ["cat"]}}) as daemon:
        until(lambda: not pending(tmp_path), "nothing is missing")
        views = [json.loads(one["display"]["text"]) for one in history(daemon, kind=["tool-update"])]

    assert sorted((one["input"]["command"], one["text"], one["status"]) for one in views) == [
        ("ls", "text", "completed"),
        ("make", "hello\n", "completed"),
    ]


def test_next_daemon_of_a_shared_journal_makes_the_view(tmp_path: Path, nats_place: NatsPlace) -> None:
    # However long the rows take, the first daemon says that it is gone; else the other one waits three minutes.
    shared: dict[str, Any] = {"journal": str(nats_place), "shutdown_timeout": 0.2, "nats.close_timeout": TIMEOUT}
    with viewing(tmp_path / "a", rewriting("sleep 1000"), **shared) as daemon:
        publish(daemon, BASH, PRINTED)
        wait_idle(daemon, running=1)
    with viewing(tmp_path / "b", rewriting("echo shown"), **shared) as daemon:
        assert made_view(daemon)["display"] == {"origin": "rewriter", "text": "shown\n"}
        assert len(history(daemon, kind=["tool-update", "notice"])) == 1


def test_view_without_a_rule_is_stated(tmp_path: Path) -> None:
    with viewing(tmp_path, rewriting("sleep 1000"), shutdown_timeout=0.2) as daemon:
        publish(daemon, BASH, PRINTED)
        wait_idle(daemon, running=1)
    with viewing(tmp_path, {"Bash": {"ask": True}}) as daemon:
        until(lambda: history(daemon, kind=["notice"]), "the notice")
        [notice] = history(daemon, kind=["notice"])
        assert notice["data"]["reason"] == "no rule covers it any more"
        assert pending(tmp_path) == {}


def test_view_of_a_deleted_result_is_forgotten(tmp_path: Path) -> None:
    with viewing(tmp_path, rewriting("sleep 1000"), shutdown_timeout=0.2) as daemon:
        publish(daemon, BASH, PRINTED)
        wait_idle(daemon, running=1)
        remove_session(daemon)
        assert pending(tmp_path) == {}
    with viewing(tmp_path, rewriting("echo shown")) as daemon:
        assert (history(daemon), daemon.stats()["rewriting"]["shown"]) == ([], 0)


def test_command_that_ends_after_its_result_was_deleted_shows_nothing(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with viewing(tmp_path, rewriting(f"until [ -e {go} ]; do sleep 0.02; done; echo shown")) as daemon:
        publish(daemon, BASH, PRINTED).close()
        until(lambda: not daemon.daemon._streams.connections, "the publisher is gone")
        wait_idle(daemon, running=1)
        remove_session(daemon)
        go.touch()
        wait_idle(daemon, running=0)
        assert history(daemon) == []


def remove_session(daemon: Running) -> None:
    """Delete the only session."""
    with daemon.connect() as wire:
        [session] = wire.ask("sessions")["sessions"]
        wire.ask("remove", session=session["session"])
    assert history(daemon) == []


def pending(directory: Path) -> dict[str, str]:
    """What the journal names as missing."""
    with closing(sqlite3.connect(directory / "journal.db")) as database:
        rows = database.execute("SELECT info FROM streams").fetchall()
    return {result: daemon for (info,) in rows for result, daemon in json.loads(info)["rewriting"].items()}


def claude(*answers: tuple[str, str, bool]) -> bytes:
    """Lines of Claude Code: a call of each tool, with the text that the model gets and whether it is an error."""
    lines: list[dict[str, Any]] = [{"type": "system", "subtype": "init", "session_id": "S", "tools": [], "model": "m"}]
    for number, (tool, text, is_error) in enumerate(answers):
        use = {"type": "tool_use", "id": f"u{number}", "name": tool, "input": {"file_path": "/x", "command": "x"}}
        got = {"type": "tool_result", "tool_use_id": f"u{number}", "content": text, "is_error": is_error}
        lines += [
            {"type": "assistant", "session_id": "S", "message": {"id": f"m{number}", "content": [use]}},
            {"type": "user", "session_id": "S", "message": {"role": "user", "content": [got]}},
        ]
    return b"".join(tapped(line) for line in lines)


def publish_claude(daemon: Running, *answers: tuple[str, str, bool]) -> None:
    wire = daemon.connect()
    wire.send("ingest", stream="s", framing="tapped", dialect="claude-stream")
    wire.write(claude(*answers) + b'{"op":"end"}\n')
    wire.until("done")


@pytest.mark.parametrize(
    ("tool", "seen", "is_error", "text"),
    [
        ("Bash", "Exit code 1\nboom", True, "boom"),
        ("Read", "     1\thello\n     2\tworld", False, "hello\nworld"),
    ],
)
def test_command_reads_what_the_model_saw(tmp_path: Path, tool: str, seen: str, is_error: bool, text: str) -> None:
    with viewing(tmp_path, {tool: {"rewrite": ["cat"]}}) as daemon:
        publish_claude(daemon, (tool, seen, is_error))
        asked = json.loads(made_view(daemon)["display"]["text"])

    assert (asked["modelText"], asked["text"]) == (seen, text)


def test_command_reads_all_of_a_long_result(tmp_path: Path) -> None:
    """The event itself has only the first 65,536 characters."""
    seen = "".join(f"{number:06}\n" for number in range(15_000))
    with viewing(tmp_path, {"Bash": {"rewrite": ["cat"]}}) as daemon:
        publish_claude(daemon, ("Bash", seen, False))
        display = made_view(daemon)["display"]
        asked = json.loads(daemon.connect().ask("output", outputId=display["outputId"], length=10**6)["text"])

    assert asked["modelText"] == asked["text"] == seen
    assert asked["output"]["stdout"] == seen
    assert not asked.keys() & {"outputs", "incomplete", "textFile", "modelTextFile"}


def test_command_reads_a_large_result_from_a_file(tmp_path: Path) -> None:
    seen = "".join(f"{number:06}\n" for number in range(200_000))
    script = 'import json, os, sys; d = json.load(sys.stdin); p = d["modelTextFile"]; print(len(d["modelText"]), p); '
    script += 't = open(p, "rb").read(); print(len(t), t.count(10), d["outputs"].keys() >= {"/output/stdout"})'
    with viewing(tmp_path, {"Bash": {"rewrite": [sys.executable, "-c", script]}}) as daemon:
        publish_claude(daemon, ("Bash", seen, False))
        first, second = made_view(daemon)["display"]["text"].splitlines()

    length, path = first.split()
    assert (length, second) == ("65536", "1400000 200000 True")
    assert not Path(path).parent.exists()


@pytest.mark.parametrize(("printed", "shown"), [("Exit code 1\\nboom", False), ("boom", True)])
def test_view_is_stored_if_it_differs_from_what_the_model_saw(tmp_path: Path, printed: str, shown: bool) -> None:
    with viewing(tmp_path, rewriting(f"cat >/dev/null; printf '{printed}'")) as daemon:
        publish_claude(daemon, ("Bash", "Exit code 1\nboom", True))
        wait_idle(daemon, running=0, waiting=0, shown=int(shown), unshown=int(not shown))
        views = history(daemon, kind=["tool-update"])

    assert [view["display"]["text"] for view in views] == ["boom"] * shown


def test_result_to_be_asked_for_is_not_rewritten(tmp_path: Path) -> None:
    rules = {"*": {"rewrite": shell(f"touch {tmp_path}/ran; echo shown")}, "Bash": {"ask": True}}
    with viewing(tmp_path, rules) as daemon:
        [one] = ended(daemon, BASH, PRINTED)
        asked = daemon.connect().ask("event", seq=one["seq"], view="display")["event"]
        views = history(daemon, kind=["tool-update"])

    assert (one["ask"], one.get("display"), views) == (True, None, [])
    assert asked["output"]["stdout"] == "hello\n"
    assert not (tmp_path / "ran").exists()
