"""A backfill by several processes: the same results as by one, and nothing lost or left behind, whatever dies."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.running import TIMEOUT
from tests.daemon.taps.following import (
    CLAUDE,
    CLAUDE_SESSION,
    CODEX,
    PRINTED,
    Follower,
    append,
    expected,
    ids,
    lines_of,
    make_old,
    moved_to_now,
    prompt_line,
    publish,
    title_line,
)
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.taps.follow.file import PORTION_TURNS
from tooltap.daemon.taps.follow.follower import AHEAD, WORTH_TURNS
from tooltap.daemon.taps.follow.settings import Follow
from tooltap.daemon.taps.stream_ids import recording_id

LINES = lines_of(CLAUDE)
MCP = lines_of(CLAUDE.with_name("mcp.jsonl"))
TURN = 1_024
"""So that a portion is 16 kB, and a backfill of 160 kB is worth several processes."""
_CLOSED = re.compile(rb'("id":"[^"]+:\d+c:\d+".*?)"ts":\d+,')
"""Up to when a stream was closed, in the events of its end."""
_ID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|toolu_\w+|msg_\w+")


def session_lines(session: str, times: int) -> list[bytes]:
    """A long session: recorded ones, again and again, with ids of their own."""
    text = b""
    for number, recorded in zip(range(times), itertools.cycle((LINES, MCP)), strict=False):
        own = re.search(rb'"sessionId":"([^"]+)"', b"".join(recorded))
        assert own is not None

        def renew(found: re.Match[bytes], number: int = number, own: bytes = own[1]) -> bytes:
            if found[0] == own:
                return session.encode()
            return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{session}{number}{found[0].decode()}")).encode()

        text += _ID.sub(renew, b"".join(recorded))
    return text.splitlines(keepends=True)


def long_session(follower: Follower, times: int = 20) -> list[bytes]:
    """Write a session that had ended before the daemon starts."""
    lines = session_lines(CLAUDE_SESSION, times)
    append(follower.session, lines)
    make_old(follower.session, 60)
    return lines


def workers_of(daemon: int) -> list[int]:
    """The worker processes, which are children of the daemon, or forks of one."""
    found: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if state != "Z" and b"backfill_worker" in command:
            found[int(status.parent.name)] = int(parent)
    return [process for process, parent in found.items() if daemon in (parent, found.get(parent))]


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + TIMEOUT
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.005)  # between questions
    return value


def stored(journal: Path) -> dict[str, Any]:
    """Everything in a journal, without the order among streams, the time of commits, and who made them."""
    connection = sqlite3.connect(journal)
    sources = {row[0]: row[1:] for row in connection.execute("SELECT id, stream, session FROM sources")}
    labels = {row[0]: row[1:] for row in connection.execute("SELECT id, kind, provider, tool, raw_tool FROM labels")}
    events: dict[Any, list[Any]] = {}
    for source, label, agent, body in connection.execute("SELECT source, label, agent, body FROM events ORDER BY seq"):
        of_source = events.setdefault(sources[source], [])
        of_source.append((labels[label], agent, _CLOSED.sub(rb"\1", body)))
    streams = {}
    for (info,) in connection.execute("SELECT info FROM streams"):
        one = json.loads(info)
        del one["updated"], one["daemon"]
        streams[one["stream"]] = one
    names = {row[0]: row[1] for row in connection.execute("SELECT id, output_id FROM bodies")}
    bodies: dict[str, bytes] = dict.fromkeys(names.values(), b"")
    for body, data in connection.execute("SELECT body, data FROM pieces ORDER BY body, start"):
        bodies[names[body]] += data
    return {"events": events, "streams": streams, "bodies": bodies}


def test_several_processes_store_what_one_stores(tmp_path: Path) -> None:
    follower = Follower(tmp_path, turn_bytes=TURN)
    sessions = [str(uuid.uuid5(uuid.NAMESPACE_URL, str(number))) for number in range(6)]
    for number, session in enumerate(sessions):
        path = follower.projects / f"{session}.jsonl"
        lines = session_lines(session, 2 + 6 * number)
        long = json.loads(lines[2])
        long["message"]["content"] = "x" * 200_000  # longer than a portion, and than an event may be
        append(path, [*lines, b"no JSON\n", json.dumps(long).encode() + b"\n", *lines[:30], lines[30][:-20]])
        make_old(path, 3_600)
    rollout = follower.rollouts / "rollout-2026-11-21T10-00-00-0196fbb0-0000-7000-8000-000000000000.jsonl"
    append(rollout, lines_of(CODEX) * 20)
    make_old(rollout, 3_600)
    journals = []
    drifts = []
    started: list[set[int]] = []

    def has_ended(stats: dict[str, Any]) -> bool:
        started[-1].update(workers_of(follower.pid))  # meanwhile: one that has nothing to do ends
        return bool(stats["streams"]["ended"] == 7)

    for jobs in (1, 3):
        follower.settings["follow"]["jobs"] = jobs
        follower.settings["journal"] = str(tmp_path / f"{jobs}.db")
        started.append(set())
        with follower:
            drifts.append(follower.wait_stats(has_ended)["drift"])
            follower.stop()
            follower.wait()
        journals.append(stored(tmp_path / f"{jobs}.db"))

    assert journals[0] == journals[1]
    assert journals[0]["bodies"]
    assert sorted(map(str, drifts[0]["agents"])) == sorted(map(str, drifts[1]["agents"]))
    kinds = [{(one["kind"], one["place"]) for one in drift["findings"]} for drift in drifts]
    assert kinds[0] == kinds[1] != set()
    assert len(started[0]) == 0 < len(started[1])


@pytest.mark.parametrize("failpoint", ["after-commit:3", "before-commit:5", "before-ack:4", "during-snapshot:2"])
def test_backfill_continues_after_daemon_was_killed(tmp_path: Path, failpoint: str) -> None:
    follower = Follower(tmp_path, turn_bytes=TURN, jobs=2)
    lines = long_session(follower, 40)
    follower.start(failpoint)
    lines = follower.until_dead(lines)
    with follower:
        events = follower.events_after_title(follower.session, "After")

    assert follower.hits() == [failpoint.partition(":")[0]]
    assert ids(events) == expected(follower.session, "claude-transcript", lines)


def test_backfill_into_nats_continues_after_daemon_was_killed(tmp_path: Path, nats_place: NatsPlace) -> None:
    follower = Follower(tmp_path, turn_bytes=TURN, jobs=2)
    follower.settings["journal"] = str(nats_place)
    lines = long_session(follower, 40)
    follower.start("before-ack:4")
    lines = follower.until_dead(lines)
    with follower:
        events = follower.events_after_title(follower.session, "After")

    assert follower.hits() == ["before-ack"]
    assert ids(events) == expected(follower.session, "claude-transcript", lines)


def test_workers_end_with_killed_daemon(tmp_path: Path) -> None:
    follower = Follower(tmp_path, turn_bytes=TURN, jobs=2)
    long_session(follower)
    with follower:
        workers = until(lambda: workers_of(follower.pid))
        follower.kill()
        follower.wait()
        until(lambda: not any(map(is_running, workers)))


def test_shutdown_does_not_wait_for_workers(tmp_path: Path) -> None:
    follower = Follower(tmp_path, turn_bytes=TURN, jobs=2)
    follower.settings["shutdown_grace"] = 3_600.0  # nothing ends the daemon if it waits
    lines = long_session(follower, 100)
    with follower:
        workers = until(lambda: workers_of(follower.pid))
        os.kill(workers[0], signal.SIGSTOP)  # it never gives a result
        follower.stop()
        follower.wait()
        with suppress(ProcessLookupError):  # one that had not begun ends by itself
            os.kill(workers[0], signal.SIGCONT)
        until(lambda: not any(map(is_running, workers)))
        follower.start()
        events = follower.events_after_title(follower.session, "After")

    assert follower.died == [0]
    assert ids(events) == expected(follower.session, "claude-transcript", lines)


def test_daemon_continues_when_worker_was_killed(tmp_path: Path) -> None:
    follower = Follower(tmp_path, turn_bytes=TURN, jobs=2)
    lines = long_session(follower, 40)
    with follower:
        os.kill(until(lambda: workers_of(follower.pid))[0], signal.SIGKILL)
        events = follower.events_after_title(follower.session, "After")

    assert ids(events) == expected(follower.session, "claude-transcript", lines)


def test_file_that_grows_during_its_backfill(tmp_path: Path) -> None:
    follower = Follower(tmp_path, turn_bytes=TURN, jobs=2)
    lines = long_session(follower, 40)
    with follower:
        until(lambda: workers_of(follower.pid))
        for title in map(str, range(20)):
            append(follower.session, [title_line(title)])
        events = follower.events_after_title(follower.session, "After")

    more = [title_line(title) for title in map(str, range(20))]
    assert ids(events) == expected(follower.session, "claude-transcript", lines + more)


def test_covered_file_is_read_by_the_daemon_itself(tmp_path: Path) -> None:
    follower = Follower(tmp_path, turn_bytes=TURN, jobs=2, grace=30.0, tolerance=30.0)
    with follower, follower.connect() as wire:
        publish(wire, "run-1", lines_of(PRINTED))
        wire.send("end")
        wire.until("done")
        follower.stop()
        follower.wait()
        lines = [*moved_to_now(LINES), *(prompt_line(f"Prompt {number}", 60) for number in range(400))]
        append(follower.session, lines)
        make_old(follower.session, 40)
        follower.start()
        read = follower.read(follower.session, len(lines))
        assert not workers_of(follower.pid)
        events = follower.events_when(lambda events: any(event.get("text") == "Prompt 399" for event in events))

    assert read["skipped"]["told-elsewhere"] == 1
    stream = recording_id(str(follower.session))
    _, *told = [event["text"] for event in events if event["stream"] == stream and event.get("role") == "user"]
    assert told == [f"Prompt {number}" for number in range(400)]


STUCK = """
import signal, sys
if "backfill_worker" in str(sys.orig_argv):
    from tooltap.daemon.taps.follow import backfill_worker
    backfill_worker.normalize = lambda request: signal.pause()
"""
"""Makes a worker give no result, from its first task on, for as long as the daemon lives."""


def test_backfill_reads_few_files_at_once_and_delays_no_new_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(STUCK)
    follower = Follower(tmp_path, turn_bytes=TURN, jobs=2)
    follower.environment["PYTHONPATH"] = str(tmp_path)
    sessions = [str(uuid.uuid5(uuid.NAMESPACE_URL, str(number))) for number in range(20)]
    for session in sessions:
        path = follower.projects / f"{session}.jsonl"
        append(path, session_lines(session, 20))
        make_old(path, 60)
    with follower:
        until(lambda: len(workers_of(follower.pid)) == 2)
        follower.events_after_title(follower.session, "New")
        statistics = follower.stats()["following"]
        workers = workers_of(follower.pid)
    until(lambda: not any(map(is_running, workers)))  # though they never look whether the daemon lives

    assert statistics["files"] == len(sessions) + 1
    assert statistics["open"] == AHEAD * 2 + 1


NOTED = """
import os, sys
if "backfill_worker" in str(sys.orig_argv):
    from tooltap.daemon.taps.follow import backfill_worker
    def note(request, normalize=backfill_worker.normalize):
        portion = normalize(request)
        with open(os.environ["NOTES"], "a") as notes:
            print(portion.after.offset - request.position.offset, file=notes)
        return portion
    backfill_worker.normalize = note
"""
"""Makes a worker note how many bytes each portion has: a commit may have several."""


def test_portion_is_bounded(tmp_path: Path) -> None:
    follower = Follower(tmp_path, turn_bytes=TURN, jobs=2)
    (tmp_path / "sitecustomize.py").write_text(NOTED)
    follower.environment |= {"PYTHONPATH": str(tmp_path), "NOTES": str(tmp_path / "notes")}
    lines = long_session(follower, 40)
    with follower:
        follower.read(follower.session, len(lines))
    sizes = list(map(int, (tmp_path / "notes").read_text().split()))

    assert len(sizes) > 2
    assert TURN < max(sizes) <= PORTION_TURNS * TURN


def test_short_backfill_starts_no_process(tmp_path: Path) -> None:
    follower = Follower(tmp_path, turn_bytes=TURN, jobs=2)
    lines = long_session(follower, 2)
    assert TURN * PORTION_TURNS < follower.session.stat().st_size < TURN * WORTH_TURNS
    with follower:
        follower.read(follower.session, len(lines))
        assert workers_of(follower.pid) == []


def test_default_is_the_usable_cores_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, processes in ((1, 1), (3, 3), (64, 4)):
        monkeypatch.setattr("tooltap.daemon.taps.follow.settings.usable_cores", lambda cores=cores: cores)
        assert Follow().processes == processes
    assert Follow(jobs=9).processes == 9


def test_worker_imports_neither_the_event_loop_nor_logs() -> None:
    """Each worker process imports its module anew."""
    code = "import sys, tooltap.daemon.taps.follow.backfill_worker as _; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert "tooltap.traces.drift.watch" in imported
    assert not {"anyio", "asyncio", "rich", "structlog"} & set(imported)
