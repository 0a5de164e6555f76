"""A new user's machine: a home with the stored sessions of several agents, and how soon `tooltap up` shows them.

`make lab-newcomer CAPTURES='<folder> …'` fills the home from recordings and checks what is promised: of 100 stored
sessions, the first is listed within 5 s of the very first start, and all within 15 s.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from tests.cli.command import COMMAND
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.discovery import ConnectError

__all__ = ["Home", "Shown", "fill", "measure", "stored"]

SESSIONS = 100
FIRST, ALL = 5.0, 15.0
"""Promised seconds until the first session is listed, and all."""
HOUR = 3600
_ID = re.compile(rb'"(?:sessionId|session_id|id)":\s*"([0-9a-f-]{36})"')
STORES = {
    "transcript": ".claude/projects/-work-{number}/{id}.jsonl",
    "rollout": ".codex/sessions/2026/11/rollout-2026-11-21T10-00-00-{id}.jsonl",
    "gemini-chat": ".gemini/tmp/project-{number}/chats/session-{id}.jsonl",
}
"""Word in the name of a folder of recordings -> path at which the agent stores such a file."""


class Home(NamedTuple):
    path: Path
    sessions: int

    @property
    def environment(self) -> dict[str, str]:
        """Environment of a login, without variables of tooltap."""
        runtime = self.path.parent / "runtime"
        runtime.mkdir(mode=0o700, exist_ok=True)
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            "XDG_DATA_HOME": str(self.path / ".local" / "share"),  # so that no other daemon of this user is found
            "XDG_RUNTIME_DIR": str(runtime),
        }

    @property
    def socket(self) -> Path:
        return self.path.parent / "runtime" / "tooltap.sock"


class Shown(NamedTuple):
    first: float
    """Seconds from the start until the daemon lists the first session."""
    all: float
    slowest: float
    """Maximum seconds of a request for the list."""


def stored(folder: Path) -> list[Path]:
    """Recordings of whole sessions as agents store them, below a folder; not those of subagents."""
    found = (path for path in sorted(folder.rglob("*.jsonl")) if _store(path) and "agent" not in path.name)
    return [path for path in found if _ID.search(_head(path))]


def fill(home: Path, recordings: list[Path], sessions: int = SESSIONS) -> Home:
    """Store sessions in a home, each under an id of its own that begins as the recording's: with its time."""
    for number, recording in zip(range(sessions), cycle(recordings), strict=False):
        found = _ID.search(_head(recording))
        assert found is not None
        name = f"{found[1][:24].decode()}{number + 1:012x}"
        path = home / STORES[_store(recording)].format(number=number % 7, id=name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(recording.read_bytes().replace(found[1], name.encode()))
        at = time.time() - HOUR * (number + 1)
        os.utime(path, (at, at))
    return Home(home, sessions)


def _store(recording: Path) -> str:
    folders = "/".join(recording.parts[-3:-1])
    words = (*STORES, "gemini/session")
    word = next((one for one in words if one in folders), "")
    return "gemini-chat" if word == "gemini/session" else word


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(4_096)


@contextmanager
def up(home: Home, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `tooltap up` in a home, with its output in a file beside the home."""
    with (
        open(home.path.parent / "output", "wb") as output,
        subprocess.Popen(
            [*COMMAND, "up", "--no-open", *options],
            env=home.environment,
            cwd=home.path,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def measure(home: Home, limit: float) -> Shown:
    """Start `tooltap up` and wait until all sessions are listed. Raises `TimeoutError`."""
    begun = time.monotonic()
    first, slowest, listed = 0.0, 0.0, 0
    with up(home) as process:
        while listed < home.sessions:
            if time.monotonic() - begun > limit or process.poll() is not None:
                said = (home.path.parent / "output").read_text(errors="replace")
                raise TimeoutError(f"{listed} of {home.sessions} sessions after {limit:.0f} s: {said}")
            asked = time.monotonic()
            try:
                listed = len(ask("sessions", path=home.socket, limit=1_000, timeout=limit)["sessions"])
            except ConnectError:
                time.sleep(0.02)
                continue
            now = time.monotonic()
            slowest = max(slowest, now - asked)
            first = first or (now - begun if listed else 0.0)
            time.sleep(0.05)
        return Shown(first, time.monotonic() - begun, slowest)


def main() -> int:
    recordings = [path for folder in sys.argv[1:] for path in stored(Path(folder))]
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        shown = measure(fill(Path(folder) / "home", recordings), 120.0)
    print(json.dumps({"recordings": len(recordings), "sessions": SESSIONS, **shown._asdict()}))
    return 0 if shown.first <= FIRST and shown.all <= ALL else 1


if __name__ == "__main__":
    sys.exit(main())
