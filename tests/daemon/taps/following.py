"""Agents' homes with growing session files, a daemon that follows them, and the events to expect."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.daemon.lives import Gone, Lives
from tests.daemon.running import TIMEOUT, Wire
from tests.test_layout import ROOT
from tooltap.daemon.taps.stream_ids import recording_id
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.inputs import Direction, write_tapped

FIXTURES = ROOT / "tests" / "fixtures"
CLAUDE = FIXTURES / "claude-transcript" / "claude-code-2.1.330" / "shell-fails.jsonl"
CLAUDE_SESSION = "3e15402d-3a5d-4fe2-84cb-c898c524f4f9"
PRINTED = FIXTURES / "claude-stream" / "claude-code-2.1.330" / "shell-fails.jsonl"
"""The output of the same run of Claude Code."""
CODEX = FIXTURES / "codex-rollout" / "codex-0.169" / "patch.jsonl"
GEMINI = FIXTURES / "gemini-chat" / "gemini-0.61.0" / "read.jsonl"
DOCUMENT = FIXTURES / "gemini-chat" / "gemini-written" / "document.json"
NEVER = {"suspend_timeout": 1e9, "settle_timeout": 1e9}
"""Settings for recordings of old sessions that grow: else a stream ends, or is settled, wherever its file ends for a
moment."""

_REQUEST = re.compile(rb'"(?:requestId|id)":"(?:req|msg)_')
_TIMESTAMP = re.compile(rb'(?<="timestamp":")\d{4}-\d\d-\d\dT[\d:.]+Z')


class Follower(Lives):
    """A daemon that follows all agents in `directory`."""

    def __init__(self, directory: Path, **follow: Any) -> None:
        settings = {"agents": ["claude", "codex", "gemini"], "grace": 0.0, "tolerance": 0.0, "rescan": 3600.0, **follow}
        super().__init__(directory, follow=settings)
        self.environment = {
            "CLAUDE_CONFIG_DIR": str(directory / "claude"),
            "CODEX_HOME": str(directory / "codex"),
            "GEMINI_CLI_HOME": str(directory / "gemini"),
            "TOOLTAP_SPOOL": str(directory / "spool"),
        }
        self.projects = directory / "claude" / "projects" / "-ws"
        self.rollouts = directory / "codex" / "sessions" / "2026" / "11" / "21"
        self.chats = directory / "gemini" / ".gemini" / "tmp" / "ws" / "chats"
        for folder in (self.projects, self.rollouts, self.chats):
            folder.mkdir(parents=True)

    @property
    def session(self) -> Path:
        return self.projects / f"{CLAUDE_SESSION}.jsonl"

    def __enter__(self) -> Follower:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)

    def restart(self, end: Callable[[], None]) -> None:
        """Restart the daemon. `end`: its `kill` or `stop`."""
        end()
        self.wait()
        self.start()

    def until_dead(self, lines: list[bytes]) -> list[bytes]:
        """Wait until the daemon has met its failpoint. Return the lines of the session, which has these at first: on a
        slow disk several commits become one, so that all lines may be read before; then it gets titles."""
        while self._process.is_alive():
            try:
                has_all = any(one["lines"] == len(lines) for one in self.stats()["perStream"])
            except (Gone, OSError, AssertionError):  # it is dying
                continue
            if has_all:
                lines = [*lines, title_line(f"More than {len(lines)} lines")]
                append(self.session, lines[-1:])
            time.sleep(0.01)  # between questions
        self.wait()
        return lines

    def events_when(self, until: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Return all events so far, once `until` holds for them."""
        with self.connect() as wire:
            wire.send("subscribe", after="start")
            events: list[dict[str, Any]] = []
            while not until(events):
                event = wire.read()
                if "op" not in event:
                    events.append(event)
        return events

    def events_after_title(self, path: Path, title: str) -> list[dict[str, Any]]:
        """Append a title to a session of Claude Code. Return all other events once the title is ingested."""
        append(path, [title_line(title)])
        events = self.events_when(lambda events: any(event.get("title") == title for event in events))
        return [event for event in events if event.get("title") != title]

    def events_after_lines(self, path: Path, lines: list[bytes]) -> list[dict[str, Any]]:
        """Return all events once those of these first lines of a session of Claude Code are ingested."""
        return self.events_when(lambda events: len(events) == len(expected(path, "claude-transcript", lines)))

    def read(self, path: Path, lines: int) -> dict[str, Any]:
        """Return the statistics of a file's stream once this many lines have been read."""
        stream = recording_id(str(path))

        def found(stats: dict[str, Any]) -> list[dict[str, Any]]:
            return [one for one in stats["perStream"] if (one["stream"], one["lines"]) == (stream, lines)]

        return found(self.wait_stats(lambda stats: bool(found(stats))))[0]

    def stats(self) -> dict[str, Any]:
        with self.connect() as wire:
            statistics: dict[str, Any] = wire.ask("stats")
            return statistics

    def wait_stats(self, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + 3 * TIMEOUT
        with self.connect() as wire:
            while not until(statistics := wire.ask("stats")):
                assert time.monotonic() < deadline, (statistics["perStream"], statistics["following"])
                time.sleep(0.01)  # between questions
            return dict(statistics)


def publish(wire: Wire, stream: str, lines: list[bytes]) -> None:
    """Publish lines like `tooltap run`. Return when all are durable, and leave the stream open."""
    wire.send("ingest", stream=stream, framing="tapped")
    publish_more(wire, lines, wire.until("ingesting")[-1]["lines"] + len(lines))


def publish_more(wire: Wire, lines: list[bytes], count: int, *, direction: Direction = "out") -> None:
    """Publish lines on a connection that `publish` has opened. Return when `count` lines are durable."""
    for line in lines:
        wire.write(write_tapped(line.removesuffix(b"\n"), int(time.time() * 1000), direction) + b"\n")
    while lines and wire.until("ack")[-1]["lines"] < count:
        pass


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def append(path: Path, lines: Iterable[bytes]) -> None:
    with path.open("ab") as file:
        file.write(b"".join(lines))


def named(lines: Iterable[bytes], session: object) -> list[bytes]:
    """The lines of a session of Claude Code as those of another session, with requests of its own: the same ones would
    be the same stream."""
    name = str(session).encode()
    return [_REQUEST.sub(rb"\g<0>" + name, line.replace(CLAUDE_SESSION.encode(), name)) for line in lines]


def title_line(title: str) -> bytes:
    return json.dumps({"type": "custom-title", "customTitle": title, "sessionId": CLAUDE_SESSION}).encode() + b"\n"


def prompt_line(text: str, seconds: float) -> bytes:
    """Return the line for a prompt in a session of Claude Code, dated this many seconds from now."""
    line = json.loads(lines_of(CLAUDE)[2])
    line["message"]["content"] = text
    line["uuid"] = str(uuid.uuid4())
    line["timestamp"] = datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return json.dumps(line).encode() + b"\n"


def moved_to_now(lines: Iterable[bytes], seconds: float = 0.0) -> list[bytes]:
    """Shift the timestamps of lines, so that they begin this many seconds from now."""
    text = b"".join(lines)
    stamps = [datetime.fromisoformat(stamp.decode()) for stamp in _TIMESTAMP.findall(text)]
    shift = datetime.now(stamps[0].tzinfo) + timedelta(seconds=seconds) - min(stamps)

    def move(found: re.Match[bytes]) -> bytes:
        moved = datetime.fromisoformat(found[0].decode()) + shift
        return moved.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()

    return _TIMESTAMP.sub(move, text).splitlines(keepends=True)


def expected(path: Path, dialect: str, lines: Iterable[bytes], session: str = CLAUDE_SESSION) -> list[str]:
    """Return the ids of the events of these lines, each once."""
    return events_of(recording_id(str(path)), dialect, [line.removesuffix(b"\n") for line in lines], session)


def events_of(stream: str, dialect: str, lines: Iterable[bytes], session: str) -> list[str]:
    normalizer = StreamNormalizer(Context(stream=stream, session=session), dialect)
    outputs = [output for line in lines for output in normalizer.feed(line)]
    return [output.event.id for output in outputs if isinstance(output, Produced)]


def ids(events: Iterable[dict[str, Any]]) -> list[str]:
    return [event["id"] for event in events]


def make_old(path: Path, age: float) -> None:
    """Set a file's last change. `age`: seconds ago."""
    then = time.time() - age
    os.utime(path, (then, then))
