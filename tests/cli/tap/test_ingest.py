"""`tooltap ingest`: every line of a file takes effect once, however often the file is ingested."""

from __future__ import annotations

import base64
import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import CLAUDE, CODEX, environment, here, sentence, serving, start, tooltap
from tests.daemon.constants import VARIABLE
from tests.daemon.running import Running
from tooltap.daemon.taps.stream_ids import recording_id

MIB = 1024 * 1024


def events_of(daemon: Running, stream: str) -> list[dict[str, Any]]:
    with daemon.subscribe(after="start", follow=False, filter={"stream": [stream]}) as wire:
        return [event for event in wire.rest() if "kind" in event]


def streams_of(daemon: Running) -> dict[str, dict[str, Any]]:
    return {one["stream"]: one for one in daemon.stats()["perStream"]}


def normalized(path: Path) -> list[str]:
    """Line and index of the event ids that `normalize` gives for the same file."""
    events = here("normalize", path).stdout.splitlines()
    return [json.loads(line)["id"].split(":", 1)[1] for line in events]


def test_ingest_gives_the_events_of_normalize(daemon: Running) -> None:
    finished = tooltap("ingest", "--socket", daemon.path, "--stats-json", CLAUDE, CODEX)
    claude, codex, total = map(json.loads, finished.stderr.splitlines())

    assert (finished.returncode, finished.stdout) == (0, b"")
    assert (claude["stream"], codex["stream"]) == (recording_id(str(CLAUDE)), recording_id(str(CODEX)))
    assert "op" not in claude
    assert (claude["dialect"], codex["dialect"]) == ("claude-stream", "codex-mcp")
    assert total["lines"] == claude["lines"] + codex["lines"]
    for path in (CLAUDE, CODEX):
        ids = [event["id"].split(":", 1)[1] for event in events_of(daemon, recording_id(str(path)))]
        assert ids == normalized(path)
    assert {one["state"] for one in streams_of(daemon).values()} == {"ended"}


def test_folder_is_the_recordings_below_it(daemon: Running, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for recording in (CLAUDE, CODEX):
        (tmp_path / "deep" / recording.name).write_bytes(recording.read_bytes())
    finished = here("ingest", "--socket", daemon.path, "--stats-json", tmp_path)

    assert finished.returncode == 0
    found = [json.loads(line).get("stream") for line in finished.stderr.splitlines()]
    assert found == [*(recording_id(str(tmp_path / "deep" / one.name)) for one in (CLAUDE, CODEX)), None]


def test_ingesting_again_changes_nothing(daemon: Running) -> None:
    once = here("ingest", "--socket", daemon.path, "--stats-json", CODEX)
    again = here("ingest", "--socket", daemon.path, "--stats-json", CODEX)

    assert once.stderr == again.stderr
    assert len(events_of(daemon, recording_id(str(CODEX)))) == json.loads(once.stderr)["events"]


def test_grown_file_is_resumed(daemon: Running, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = CLAUDE.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2]))
    here("ingest", "--socket", daemon.path, log)
    log.write_bytes(b"".join(lines))
    here("ingest", "--socket", daemon.path, log)
    [stream] = streams_of(daemon).values()
    calls = [event["callId"] for event in events_of(daemon, stream["stream"]) if event["kind"] == "tool-call"]

    assert stream["lines"] == len(lines)
    assert len(calls) == 1


def test_replaced_file_is_a_new_stream(daemon: Running, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    short = CLAUDE.read_bytes().splitlines(keepends=True)[0]
    for content in (CLAUDE.read_bytes(), CODEX.read_bytes(), CODEX.read_bytes(), short):
        log.write_bytes(content)
        assert here("ingest", "--socket", daemon.path, log).returncode == 0
    first, second, third = sorted(streams_of(daemon).values(), key=lambda one: one["updated"])

    assert (first["stream"], first["dialect"]) == (recording_id(str(log)), "claude-stream")
    assert second["stream"].startswith(f"{recording_id(str(log))}~")
    assert (second["dialect"], second["lines"]) == ("codex-mcp", len(CODEX.read_bytes().splitlines()))
    assert third["lines"] == 1


def test_files_with_equal_names_are_separate_streams(daemon: Running, tmp_path: Path) -> None:
    paths = [tmp_path / folder / "a.jsonl" for folder in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(CLAUDE.read_bytes())
    here("ingest", "--socket", daemon.path, *paths)

    assert [one.split("~")[0] for one in streams_of(daemon)] == ["a", "a"]


def test_standard_input_is_a_new_or_named_stream(daemon: Running) -> None:
    for arguments in ([], ["-"], ["--stream", "mine"], ["--stream", "mine"]):
        assert here("ingest", "--socket", daemon.path, *arguments, stdin=CLAUDE.read_bytes()).returncode == 0
    streams = streams_of(daemon)

    assert sorted(name.split("-")[0] for name in streams) == ["mine", "stdin", "stdin"]
    assert streams["mine"]["lines"] == 5


def test_piped_lines_arrive_at_once(daemon: Running) -> None:
    with (
        daemon.subscribe(after="now") as wire,
        start("ingest", "--socket", daemon.path, "--dialect", "claude-stream") as ingest,
    ):
        assert wire.read()["op"] == "live"
        ingest.write(b"no json\n")
        assert wire.read()["kind"] == "unparsed"
        ingest.write(b"nor this\n")
        assert wire.read()["text"] == "nor this"
        what = b"standard input: none of 2 lines is of the dialect claude-stream; without --dialect it is recognised"
        assert ingest.end() == (1, b"", b"tooltap: " + what + b"\n")


def test_tapped_lines_keep_bytes_and_direction(daemon: Running, tmp_path: Path) -> None:
    tapped = tmp_path / "tapped.jsonl"
    records = [
        {"t": 1_795_293_851_000, "dir": "out", "line": "plain"},
        {"dir": "out", "b64": base64.b64encode(b"\xff!").decode()},
        {"op": "lost", "lines": 3, "bytes": 70, "reason": "spool full"},
        {"dir": "out", "line": "head", "bytes": 99_000_000},
        {"op": "end"},
    ]
    tapped.write_text("".join(json.dumps(record) + "\n" for record in records))
    here("ingest", "--socket", daemon.path, tapped, "--dialect", "acp")
    events = events_of(daemon, recording_id(str(tapped)))

    assert [(event["line"], event.get("reason", event.get("code"))) for event in events] == [
        (1, "not-json"),
        (2, "not-json"),
        (5, "lost"),
        (6, "too-long"),
    ]
    assert events[0]["ts"] == 1_795_293_851_000
    assert events[1]["text"] == "\ufffd!"
    assert events[3]["bytes"] == 99_000_000


def test_end_of_the_process_is_that_of_the_recording(daemon: Running, tmp_path: Path) -> None:
    tapped = tmp_path / "tapped.jsonl"
    started = {"type": "thread.started", "thread_id": "t"}
    records = [
        {"t": 1_795_293_851_000, "dir": "out", "line": json.dumps(started)},
        {"t": 1_795_293_852_000, "dir": "out", "line": '{"type":"turn.started"}'},
        {"op": "end", "t": 1_795_293_859_000, "exit": 3},
    ]
    tapped.write_text("".join(json.dumps(record) + "\n" for record in records))
    here("ingest", "--socket", daemon.path, tapped)

    *_, turn, session = events_of(daemon, recording_id(str(tapped)))
    assert (turn["state"], turn["reason"], turn["ts"]) == ("failed", "exit 3", 1_795_293_859_000)
    assert (session["state"], session["exitCode"], session["ts"]) == ("ended", 3, 1_795_293_859_000)


def test_line_of_100_mb_is_one_unparsed_event(daemon: Running, tmp_path: Path) -> None:
    long = tmp_path / "long.jsonl"
    with open(long, "wb") as file:
        for _ in range(100):
            file.write(b"x" * MIB)
        file.write(b"\nnot json")
    assert tooltap("ingest", "--socket", daemon.path, long).returncode == 1  # no line is understood
    events = events_of(daemon, recording_id(str(long)))

    assert [(event["line"], event["reason"], event["bytes"]) for event in events if event["kind"] == "unparsed"] == [
        (1, "too-long", 100 * MIB),
        (2, "not-json", 8),
    ]


def test_restarted_daemon_gets_each_line_once(tmp_path: Path) -> None:
    """The daemon is killed with `kill -9` during ingest, and restarted."""
    socket = tmp_path / "s.sock"
    lines = [b'{"n":%d}\n' % n for n in range(20_000)]
    with ExitStack() as stack:
        with serving(socket, tmp_path) as daemon:
            arguments = ["--socket", socket, "--dialect", "acp", "--stats-json", "--stream", "big"]
            patient = environment(**{VARIABLE: json.dumps({"source.patience": 60.0})})  # the next one may start slowly
            ingest = stack.enter_context(start("ingest", *arguments, env=patient))
            with start("tail", "--socket", socket, "--mode", "json", "--after", "start") as tail:
                ingest.write(b"".join(lines[:10_000]))
                assert json.loads(tail.line())["line"] == 1
            daemon.kill()
        with serving(socket, tmp_path):
            ingest.write(b"".join(lines[10_000:]))
            code, _, errors = ingest.end()
            events = tooltap("tail", "--socket", socket, "--mode", "json", "--after", "start", "--no-follow").stdout

    assert (code, json.loads(errors)["lines"]) == (1, 20_000)  # no line is understood
    assert [json.loads(line)["line"] for line in events.splitlines()] == list(range(1, 20_001))


def test_interrupted_pipe_exits_silently_with_130(daemon: Running) -> None:
    with start("ingest", "--socket", daemon.path, "--stream", "piped") as ingest:
        ingest.write(CLAUDE.read_bytes())
        while "piped" not in streams_of(daemon):
            pass
        ingest.send_signal(signal.SIGINT)

        assert ingest.process.wait(60) == 130
        assert ingest.end()[1:] == (b"", b"")


def test_unknown_dialect_is_wrong_usage(daemon: Running) -> None:
    finished = here("ingest", "--socket", daemon.path, "--dialect", "klingon", CLAUDE)

    assert finished.returncode == 2
    assert "there is no dialect 'klingon'" in sentence(finished)


def test_invalid_stream_id_is_wrong_usage(daemon: Running) -> None:
    finished = here("ingest", "--socket", daemon.path, "--stream", "no spaces", CLAUDE)

    assert finished.returncode == 2
    assert "stream" in sentence(finished)


def test_missing_file_fails_but_others_are_ingested(daemon: Running, tmp_path: Path) -> None:
    finished = here("ingest", "--socket", daemon.path, tmp_path / "none", CLAUDE)

    assert finished.returncode == 1
    assert sentence(finished) == f"{tmp_path / 'none'}: No such file or directory"
    assert list(streams_of(daemon)) == [recording_id(str(CLAUDE))]


def test_time_of_a_file_counts_only_where_no_line_states_one(daemon: Running, tmp_path: Path) -> None:
    said = {"type": "assistant", "session_id": "s", "message": {"id": "m", "content": [{"type": "text", "text": "Hi"}]}}
    begun = {"type": "system", "subtype": "init", "session_id": "s"}
    stated = {"type": "user", "session_id": "s", "message": {"content": "more"}, "timestamp": "2026-01-02T03:04:05Z"}
    times = {}
    for name, lines in {"stated": [begun, said, stated, said], "none": [begun, said]}.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(path, (1_780_000_000, 1_780_000_000))
        assert tooltap("ingest", "--socket", daemon.path, "--dialect", "claude-stream", path).returncode == 0
        times[name] = {event["ts"] for event in events_of(daemon, recording_id(str(path)))}

    assert times == {"stated": {1767323045000}, "none": {1780000000000}}


@pytest.mark.parametrize(
    ("dialect", "sentence_"),
    [
        ("auto", "none of 2 lines is in a format that tooltap knows; if you know its dialect, name it with --dialect"),
        ("codex-exec", "none of 2 lines is of the dialect codex-exec; without --dialect it is recognised"),
    ],
)
def test_stream_that_is_not_understood_fails(daemon: Running, tmp_path: Path, dialect: str, sentence_: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"not": "an agent"}\n{"nor": "this"}\n')

    finished = here("ingest", "--socket", daemon.path, "--dialect", dialect, path)

    assert finished.returncode == 1
    assert f"{path}: {sentence_}" in finished.stderr.decode()


def test_stream_of_which_a_part_is_understood_is_none_that_fails(daemon: Running, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_bytes(b"a banner\n" + CLAUDE.read_bytes())

    finished = here("ingest", "--socket", daemon.path, path)

    assert finished.returncode == 0
    assert sentence(finished) == f"{path}: 1 of 6 lines not understood; they are events of the kind `unparsed`"
