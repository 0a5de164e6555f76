"""`tooltap replay`: a trace gives the same events again, and `--diff` reports what a changed normalizer changes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import CLAUDE, CODEX, DEMO, here, sentence, tooltap
from tests.daemon.running import Running, running
from tests.daemon.taps.following import publish_more
from tests.test_end_to_end import recordings
from tooltap.daemon.journal.sqlite.tables import EVENT_SUM, add_functions
from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.core.writer import Writer
from tooltap.protocol.events import Event, ToolCall
from tooltap.traces.recording.writer import parts

FIXTURES = Path(__file__).parents[2] / "fixtures"
ONE_OF_EACH = [
    (max if dialect == "gemini-chat" else min)((FIXTURES / dialect).glob("*/*.jsonl")) for dialect in builtin()
]
"""No two of one session: the daemon would have its prompt once, a replay has it in both streams."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "traces" / "t.jsonl"


@pytest.fixture
def daemon(tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A daemon that writes a trace in files of 64 KiB."""
    monkeypatch.setenv("HAPPIER_STACK_TOOL_TRACE", "1")
    monkeypatch.setenv("HAPPIER_STACK_TOOL_TRACE_FILE", str(trace))
    with running(tmp_path, trace_file_bytes=65_536) as one:
        yield one


def ingest(daemon: Running, *arguments: object) -> None:
    assert here("ingest", "--socket", daemon.path, *arguments).returncode == 0


def traced(daemon: Running, records: int) -> None:
    """Wait until this many records are on disk."""
    while daemon.stats()["trace"]["records"] < records:
        pass


def events(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def stored(daemon: Running) -> list[dict[str, Any]]:
    """All events in the journal, in the form of `replay`."""
    tail = here("tail", "--socket", daemon.path, "--after", "start", "--no-follow", "--mode", "json")
    return [{key: value for key, value in event.items() if key != "seq"} for event in events(tail.stdout)]


def by_stream(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {one["stream"]: [event for event in found if event["stream"] == one["stream"]] for one in found}


def test_replay_gives_the_journals_events(daemon: Running, trace: Path, tmp_path: Path) -> None:
    """Through rotated files, with what the publisher declared, byte for byte."""
    ingest(daemon, *(path for path in ONE_OF_EACH if path.parts[-3] != "legacy"))
    ingest(daemon, "--dialect", "legacy", *(path for path in ONE_OF_EACH if path.parts[-3] == "legacy"))
    ingest(daemon, "--session", "mine", "--provider", "my-agent", "--stream", "declared", CODEX)
    lines = sum(one["lines"] for one in daemon.stats()["perStream"])
    traced(daemon, lines + len(ONE_OF_EACH) + 1)  # and one mark for the end of each

    replayed = here("replay", trace)
    assert len(parts(trace)) > 2
    assert by_stream(events(replayed.stdout)) == by_stream(stored(daemon))
    compared = here("replay", "--diff", "--socket", daemon.path, trace.parent)
    assert (compared.returncode, compared.stderr) == (0, b"")
    total = len(stored(daemon))
    assert compared.stdout.decode() == f"{total} events of {len(ONE_OF_EACH) + 1} streams, no difference\n"
    from_file = here("replay", "--journal", tmp_path / "journal.db", trace)
    assert (from_file.returncode, from_file.stdout) == (0, compared.stdout)


def test_comparison_is_the_same_for_any_number_of_jobs(daemon: Running, trace: Path, tmp_path: Path) -> None:
    ingest(daemon, *(one.path for one in recordings()[::5]))
    streams = daemon.stats()["perStream"]
    assert len(streams) > 10  # enough for three processes
    traced(daemon, sum(one["lines"] for one in streams) + len(streams))  # and one mark for the end of each

    for place in (("--diff", "--socket", daemon.path), ("--journal", tmp_path / "journal.db")):
        one, three = (tooltap("replay", *place, trace, "--jobs", jobs) for jobs in (1, 3))
        assert (one.returncode, one.stderr) == (three.returncode, three.stderr) == (0, b"")
        assert one.stdout == three.stdout


def test_replay_knows_the_prompt_of_the_publisher(daemon: Running, trace: Path) -> None:
    lines = CLAUDE.read_bytes().splitlines()
    with daemon.connect() as wire:
        wire.send("ingest", stream="s", framing="tapped", prompt="Fix it")
        for line in lines:
            wire.write(json.dumps({"t": 1_795_293_555_000, "line": line.decode()}).encode() + b"\n")
        wire.send("end")
        wire.until("done")
    traced(daemon, len(lines) + 1)

    replayed = events(here("replay", trace).stdout)
    assert [one["text"] for one in replayed if one.get("role") == "user"] == ["Fix it"]
    assert replayed == stored(daemon)
    assert trace.read_bytes().count(b"Fix it") == 1


def test_no_secret_is_a_difference(daemon: Running, trace: Path) -> None:
    """One in the prompt, of which no line has a mark that it was masked."""
    with daemon.connect() as wire:
        wire.send("ingest", stream="s", framing="tapped", prompt="Log in with ghp_" + "a1" * 18)
        for line in (lines := CLAUDE.read_bytes().splitlines()):
            wire.write(json.dumps({"t": 1_795_293_555_000, "line": line.decode()}).encode() + b"\n")
        wire.send("end")
        wire.until("done")
    traced(daemon, len(lines) + 1)

    compared = here("replay", "--diff", "--socket", daemon.path, trace)

    assert compared.returncode == 0, compared.stdout.decode()
    assert "ghp_" in json.dumps(stored(daemon))


def test_replay_of_interrupted_stream_gives_the_same_events(daemon: Running, trace: Path) -> None:
    """The stream is suspended and resumed, loses lines, contains a secret, ends, is opened again, and is still open."""
    lines = CLAUDE.read_bytes().splitlines()
    secret = json.dumps({"type": "user", "message": {"role": "user", "content": "ghp_" + "a1" * 18}}).encode()
    for batch in (lines[:2], [b""], lines[2:3], [secret, *lines[3:]], lines[:2]):
        with daemon.connect() as wire:
            wire.send("ingest", stream="s", framing="tapped")
            for line in batch:
                wire.write(json.dumps({"t": 1_795_293_555_000, "line": line.decode()}).encode() + b"\n")
            if not batch[0]:
                wire.send("lost", lines=3, bytes=70, reason="full")
            if batch[0] == secret:
                wire.send("end")
                wire.until("done")
            wire.finish()
            wire.until("suspended") if batch[0] != secret else wire.rest()
    traced(daemon, len(lines) + 6)

    compared = here("replay", "--diff", "--socket", daemon.path, trace)

    assert compared.returncode == 0, compared.stdout.decode()
    assert "lost" in {one.get("code") for one in stored(daemon)}


def changed(monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], None]) -> None:
    """Simulate another version of tooltap, which changes tool calls."""
    current = Writer.emit_in

    def other(self: Writer, kind: type[Event], fields: dict[str, Any], *arguments: Any) -> Produced:
        if kind is ToolCall:
            change(fields)
        return current(self, kind, fields, *arguments)

    monkeypatch.setattr(Writer, "emit_in", other)


def rename(call: dict[str, Any]) -> None:
    call["name"] = "Shell"
    call["input"]["timeout_ms"] = call["input"].pop("command")


def test_replay_of_a_stream_that_was_silent_gives_the_same_events(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its provisional end is not on the wire; the trace has a mark in its place."""
    monkeypatch.setenv("HAPPIER_STACK_TOOL_TRACE", "1")
    monkeypatch.setenv("HAPPIER_STACK_TOOL_TRACE_FILE", str(trace))
    text = {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "id": "m", "stop_reason": None}
    common = {"sessionId": "s", "isSidechain": False, "timestamp": "2026-01-30T10:00:00.000Z"}
    lines = [
        {"type": "user", "uuid": "u", "message": {"role": "user", "content": "Go."}, **common},
        {"type": "assistant", "uuid": "a", "message": {**text, "usage": {"output_tokens": 3}}, **common},
    ]
    with running(tmp_path, settle_timeout=0.1) as daemon:
        with daemon.connect() as wire, daemon.subscribe(after="start") as subscriber:
            wire.send("ingest", stream="silent", framing="tapped", dialect="claude-transcript")
            publish_more(wire, [json.dumps(line).encode() for line in lines], 2)
            while not subscriber.read().get("provisional"):
                pass
            wire.send("end")
            wire.until("done")
        traced(daemon, 4)

        replayed = here("replay", trace)
        assert events(replayed.stdout) == stored(daemon)


def test_changed_normalizer_is_reported_per_event(
    daemon: Running, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(daemon, "--stream", "claude", CLAUDE)
    traced(daemon, 6)
    [call] = [one for one in stored(daemon) if one["kind"] == "tool-call"]
    changed(monkeypatch, rename)

    diffed = here("replay", "--diff", "--socket", daemon.path, trace)

    assert diffed.returncode == 1
    command = json.dumps(call["input"]["command"])
    assert diffed.stdout.decode().splitlines() == [
        f"~ claude line {call['line']}: tool-call Shell",
        f"    - /input/command: {command[:59]}…",
        f"    + /input/timeout_ms: {command[:59]}…",
        '    ~ /name: "Bash" → "Shell"',
        "",
        "                     same   added removed changed",
        "tool-call Shell         0       0       0       1",
        "1 of 8 events differ: 0 added, 0 removed, 1 changed",
    ]


def test_call_with_a_secret_is_the_same(daemon: Running, trace: Path, tmp_path: Path) -> None:
    """The trace has masked it; the journal has it, and its beginning in the preview."""
    secret = "sk-proj-" + "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ"
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": f"curl -H 'Bearer {secret}' http://a/"}}
    lines = [
        {"type": "system", "subtype": "init", "session_id": "s", "cwd": "/", "tools": [], "model": "m"},
        {"type": "assistant", "session_id": "s", "message": {"id": "m", "role": "assistant", "content": [call]}},
    ]
    recording = tmp_path / "secret.jsonl"
    recording.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    ingest(daemon, "--stream", "claude", "--dialect", "claude-stream", recording)
    traced(daemon, 3)
    [preview] = [one["preview"] for one in stored(daemon) if one["kind"] == "tool-call"]

    diffed = here("replay", "--diff", "--socket", daemon.path, trace)

    assert preview == "curl -H 'Bearer sk-proj-abcdefghijklmnop"
    assert diffed.returncode == 0, diffed.stdout.decode()


def test_difference_as_json(daemon: Running, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(daemon, "--stream", "claude", CLAUDE)
    traced(daemon, 6)
    changed(monkeypatch, lambda call: call.update(title="new"))

    diffed = here("replay", "--diff", "--json", "--socket", daemon.path, trace)

    assert diffed.returncode == 1
    difference = json.loads(diffed.stdout)
    assert (difference["same"], difference["missing"]) == (False, [])
    assert difference["total"] == {"same": 7, "added": 0, "removed": 0, "changed": 1}
    assert difference["events"]["tool-call Bash"] == {"same": 0, "added": 0, "removed": 0, "changed": 1}
    [change] = difference["changes"]
    assert change["fields"] == [{"path": "/title", "change": "added", "after": "new"}]
    assert (change["stream"], change["kind"], change["about"]) == ("claude", "tool-call", "Bash")


def test_added_and_removed_events_are_reported(daemon: Running, trace: Path, tmp_path: Path) -> None:
    """The journal is from a version that gave a notice instead of usage events."""
    ingest(daemon, "--stream", "claude", CLAUDE)
    traced(daemon, 6)
    first, second = (one for one in stored(daemon) if one["kind"] == "usage")
    envelope = ("v", "id", "stream", "line", "ts", "session", "protocol", "provider", "dialect")
    notice = {key: first[key] for key in envelope} | {
        "kind": "notice",
        "level": "info",
        "code": "tokens",
        "text": "4,800",
    }
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        of_usage = "label IN (SELECT id FROM labels WHERE kind='usage')"
        connection.execute(f"DELETE FROM events WHERE seq=(SELECT max(seq) FROM events WHERE {of_usage})")
        add_functions(connection)
        connection.execute(f"UPDATE events SET body=? WHERE {of_usage}", (json.dumps(notice).encode(),))
        connection.execute(f"UPDATE events SET checksum={EVENT_SUM} WHERE {of_usage}")
    connection.close()

    diffed = here("replay", "--journal", tmp_path / "journal.db", trace)

    assert diffed.returncode == 1
    lines = diffed.stdout.decode().splitlines()
    assert f"- claude line {first['line']}: notice tokens" in lines
    assert '    {"level":"info","code":"tokens","text":"4,800"}' in lines
    for usage in (first, second):
        assert f"+ claude line {usage['line']}: usage {usage['scope']}" in lines
    assert lines[-1] == "3 of 9 events differ: 2 added, 1 removed, 0 changed"


def test_partial_trace_is_compared_from_its_first_line(daemon: Running, trace: Path) -> None:
    ingest(daemon, "--stream", "claude", CLAUDE)
    traced(daemon, 6)
    records = trace.read_bytes().splitlines(keepends=True)
    late = trace.with_name("late.jsonl")
    late.write_bytes(b"".join(records[4:]))

    diffed = here("replay", "--diff", "--json", "--socket", daemon.path, late)

    compared = json.loads(diffed.stdout)["total"]
    lines = {one["line"] for one in stored(daemon)}
    assert max(lines) == 5
    assert compared["same"] + compared["changed"] + compared["removed"] == sum(
        one["line"] == 5 for one in stored(daemon)
    )


def test_torn_record_and_repeated_file_are_skipped(daemon: Running, trace: Path) -> None:
    ingest(daemon, "--stream", "claude", CLAUDE)
    traced(daemon, 6)
    with open(trace, "ab") as file:
        file.write(b'{"v":1,"stream":"claude","n":6,"li')

    replayed = here("replay", trace, trace)

    assert replayed.returncode == 0
    assert sentence(replayed) == f"{trace}: 1 damaged record(s) skipped"
    assert events(replayed.stdout) == stored(daemon)
    assert here("replay", "--diff", "--socket", daemon.path, trace).returncode == 0


def test_restarted_stream_name_is_another_stream(daemon: Running, trace: Path, tmp_path: Path) -> None:
    ingest(daemon, "--stream", "claude", CLAUDE)
    traced(daemon, 6)
    records = [json.loads(line) for line in trace.read_bytes().splitlines()]
    older = [{**one, "line": one["line"].replace("tool_use", "old_use")} for one in records[:4]]
    both = tmp_path / "both.jsonl"
    both.write_text("".join(json.dumps(one) + "\n" for one in older + records))

    compared = here("replay", "--diff", "--socket", daemon.path, both)

    assert (compared.returncode, compared.stdout.decode()) == (0, "8 events of 1 stream, no difference\n")
    assert len(events(here("replay", both).stdout)) > 8


def test_replay_has_the_streams_statistics(daemon: Running, trace: Path) -> None:
    ingest(daemon, "--stream", "claude", CLAUDE)
    traced(daemon, 6)
    [expected] = [one for one in daemon.stats()["perStream"] if one["stream"] == "claude"]

    replayed = here("replay", "--stats-json", trace)

    assert json.loads(replayed.stderr) == {key: expected[key] for key in json.loads(replayed.stderr)}


def test_streams_missing_in_the_journal_are_named(daemon: Running, trace: Path, tmp_path: Path) -> None:
    ingest(daemon, "--stream", "claude", CLAUDE)
    ingest(daemon, "--stream", "gone", DEMO / "gemini.jsonl")
    traced(daemon, 31)
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        connection.execute("DELETE FROM events WHERE source IN (SELECT id FROM sources WHERE stream='gone')")
    connection.close()

    compared = here("replay", "--journal", tmp_path / "journal.db", trace)

    assert compared.returncode == 0
    assert compared.stdout.decode().splitlines() == [
        "gone: the journal holds none of its events",
        "8 events of 1 stream, no difference",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jsonl"], "none.jsonl: No such file or directory"),
        (["claude.jsonl"], "claude.jsonl is not a trace of tooltap"),
        (["folder"], "no trace in this folder"),
        (["--diff", "--socket", "none.sock", "trace.jsonl"], "no daemon is listening"),
        (["--journal", "none.db", "trace.jsonl"], "none.db"),
        (["--journal", "claude.jsonl", "trace.jsonl"], "claude.jsonl"),
        (["--json", "trace.jsonl"], "--json needs --diff"),
        (["plugin.jsonl"], "there is no dialect 'acme'"),
        ([], "Missing argument"),
    ],
)
def test_impossible_comparison_is_exit_2(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record = {"v": 1, "stream": "s", "n": 1, "line": "{}"}
    (tmp_path / "trace.jsonl").write_text(json.dumps(record) + "\n")
    (tmp_path / "plugin.jsonl").write_text(json.dumps({**record, "dialect": "acme"}) + "\n")
    (tmp_path / "claude.jsonl").write_bytes(CLAUDE.read_bytes())
    (tmp_path / "folder").mkdir()

    finished = here("replay", *arguments)

    assert finished.returncode == 2
    assert message in sentence(finished)


def test_journal_of_other_streams_is_an_error(daemon: Running, trace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"v": 1, "stream": "other", "n": 1, "dialect": "acp", "line": "{}"}) + "\n")

    compared = tooltap("replay", "--diff", "--socket", daemon.path, other)

    assert compared.returncode == 2
    assert sentence(compared) == "the journal holds no event of the trace's streams"
