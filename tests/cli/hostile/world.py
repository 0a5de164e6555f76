"""Hostile surroundings of a command: recordings, a daemon that has read them, servers, files, programs."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.command import here
from tests.cli.hostile.texts import FILE_NAME, HOSTILE, LONG, poisoned
from tests.daemon.running import Running, running

__all__ = ["WELCOME", "World", "reply", "server", "world"]

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDINGS = (
    "acp/gemini-0.61.0/grep.jsonl",
    "claude-stream/claude-code-2.1.330/json-result.jsonl",
    "claude-stream/claude-code-2.1.330-written/hidden-in-shell.jsonl",
    "codex-exec/codex-0.169/api-error.jsonl",
    "codex-exec/codex-0.169/interrupted.jsonl",
)
WELCOME = b'{"op":"welcome","protocol":1,"schema":2,"daemon":"tooltap/1","journal":"j","oldest":1,"latest":9}\n'
HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: \x9b31m\x7f\x85\xc2\x9b" + b"x" * 20_000 + b"\r\n\r\n"
INFO = b'INFO {"server_id":"x","version":"2.12.0","max_payload":1048576,"headers":true}\r\n'

FILE = {
    "path": "p",
    "oldPath": "o",
    "kind": "renamed",
    "added": 1,
    "removed": 0,
    "complete": False,
    "omitted": "large",
    "calls": [1],
    "diff": "d",
    "hunks": [],
}
ANSWER = {
    "session": "s",
    "stream": "s",
    "seq": 1,
    "permissionId": "p",
    "outcome": "allowed",
    "optionId": "o",
    "remembers": "r",
    "by": "b",
    "ts": 1,
    "delivered": True,
}
FILES = {"files": [FILE], "complete": False, "file": FILE}


class World(NamedTuple):
    folder: Path
    """Folder with a hostile name, as have the files in it."""
    recordings: Path
    recording: Path
    edited: Path
    """File with a hostile text, which a session with a hostile title has written."""
    trace: Path
    journal: Path
    daemon: Running
    liar: Path
    """Socket of a daemon whose replies have hostile texts in place of all others."""
    refusing: Path
    """Socket of a daemon that refuses everything, with a hostile message."""
    http: int
    """Port of a server with hostile headers."""
    nats: int
    """Port of a server that refuses everything with a hostile error."""


@contextmanager
def world() -> Iterator[World]:
    with ExitStack() as stack:
        # Short, because a socket is in it.
        folder = Path(os.fsdecode(b"/tmp/tt" + str(os.getpid()).encode() + "\x1b]0;t\x07\n\u202e\x9b".encode()))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir()
        recordings = folder / "recordings"
        recordings.mkdir()
        for number, name in enumerate(RECORDINGS):
            (recordings / f"{number}{os.fsdecode(FILE_NAME)}.jsonl").write_bytes(_poisoned(FIXTURES / name))
        recording = min(recordings.iterdir())
        trace = folder / "t" / "trace.jsonl"
        changes = stack.enter_context(pytest.MonkeyPatch.context())
        changes.setenv("HAPPIER_STACK_TOOL_TRACE", "1")
        changes.setenv("HAPPIER_STACK_TOOL_TRACE_FILE", str(trace))
        daemon = stack.enter_context(running(folder))
        ingested = here("ingest", "--socket", daemon.path, "--provider", f"p{HOSTILE[:40]}", recordings)
        assert ingested.returncode == 0, ingested
        edited = _publish_edit(daemon, folder)
        _publish_names(daemon)
        _until_traced(daemon)
        journal = folder / f"copy{HOSTILE[:60].replace('/', '')}.db"
        copied = here("journal", "backup", journal, "--journal", f"sqlite:{folder / 'journal.db'}")
        assert copied.returncode == 0, copied
        daemon.until_indexed()
        with daemon.connect() as wire:
            replies = {
                "stats": wire.ask("stats"),
                "sessions": wire.ask("sessions", limit=9),
                "event": wire.ask("event", seq=2, view="raw"),
                "search": wire.ask("search", query="bash"),
                "ended-calls": wire.ask("ended-calls", limit=9),
                "waiting": wire.ask("waiting", mayAfter=0),
                "files": FILES,
                "changed-files": wire.ask("changed-files", limit=9),
                "remove": {"events": 1, "bodies": 1},
                "answer": ANSWER,
                "send": {"session": "s", "stream": "s", "id": "i", "delivered": False},
                "interrupt": {"session": "s", "stream": "s", "id": "i", "delivered": True},
            }
        liar, refusing = folder / "liar", folder / "refusing"
        lies = poisoned(replies, HOSTILE + "x" * 6_000)
        stack.enter_context(server(str(liar), WELCOME, lambda line: reply(line, lies)))
        stack.enter_context(server(str(refusing), WELCOME, lambda line: reply(line, {})))
        http = stack.enter_context(server(("127.0.0.1", 0), b"", lambda line: HTTP))
        nats = stack.enter_context(server(("127.0.0.1", 0), INFO, lambda line: b"-ERR '" + LONG.encode() + b"'\r\n"))
        yield World(folder, recordings, recording, edited, trace, journal, daemon, liar, refusing, http, nats)


def _poisoned(recording: Path) -> bytes:
    lines = [poisoned(json.loads(line)) for line in recording.read_bytes().splitlines()]
    lines.append({"type": HOSTILE, "jsonrpc": HOSTILE, HOSTILE: LONG})
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode() + b"\x1b]0;t\x07 \xff no JSON\n"


def _publish_edit(daemon: Running, folder: Path) -> Path:
    """Publish a session with a hostile name that writes a file, and write it."""
    edited = folder / "edited.py"
    text = HOSTILE.replace("\0", "") + "x" * 6_000 + "\n"
    edited.write_text(text, newline="")
    diff = {"type": "diff", "path": str(edited), "oldText": None, "newText": text}
    given = {"title": "write", "kind": "edit", "rawInput": {"file_path": str(edited), "content": text}}
    _publish(
        daemon,
        "edits",
        {"sessionUpdate": "session_info_update", "title": LONG},
        {"sessionUpdate": "tool_call", "toolCallId": "e", **given},
        {"sessionUpdate": "tool_call_update", "toolCallId": "e", "status": "completed", "content": [diff]},
    )
    return edited


def _publish_names(daemon: Running) -> None:
    """Publish a session and a stream with hostile names, a title, a permission, and a tool with a very long name."""
    _publish(
        daemon,
        "named",
        {"sessionUpdate": "session_info_update", "title": LONG},
        {"sessionUpdate": "tool_call", "toolCallId": "c", "title": LONG, "kind": "other", "rawInput": {}},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed", "rawOutput": LONG},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": HOSTILE.split("\n")[0]}},
    )


def _publish(daemon: Running, stream: str, *updates: dict[str, Any]) -> None:
    session = f"s{stream[0]}{HOSTILE}"
    lines: list[dict[str, Any]] = [
        {"id": 1, "method": "session/new", "params": {"cwd": f"/{HOSTILE}", "mcpServers": []}},
        {"id": 1, "result": {"sessionId": session}},
        *({"method": "session/update", "params": {"sessionId": session, "update": update}} for update in updates),
    ]
    wire = daemon.connect()
    wire.send("ingest", stream=stream, dialect="acp", provider=f"p{HOSTILE[:40]}")
    assert (frame := wire.read())["op"] == "ingesting", frame
    for line in lines:
        wire.write(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
    wire.finish()
    wire.until("done")


def _until_traced(daemon: Running) -> None:
    while (trace := daemon.stats()["trace"])["records"] < len(RECORDINGS):
        assert not trace["problem"], trace


def reply(line: bytes, results: dict[str, Any]) -> bytes:
    request = json.loads(line)
    if request["op"] in results:
        frame = {"op": "reply", "id": request["id"], "ok": True, "result": results[request["op"]]}
    else:
        frame = {"op": "error", "code": "bad-frame", "message": LONG}
    return json.dumps(frame).encode() + b"\n"


@contextmanager
def server(address: Any, greeting: bytes, answer: Callable[[bytes], bytes]) -> Iterator[int]:
    """Answer each line at a path or an address; yields the port."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    def talk(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            try:
                connection.sendall(greeting)
                for line in lines:
                    connection.sendall(answer(line))
            except OSError:
                pass

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1] if family == socket.AF_INET else 0
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
