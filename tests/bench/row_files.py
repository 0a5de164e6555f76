"""The start of a daemon where many session files have been read, and a few have changed since: until all is live.

Each file has a prompt and an answer. The first daemon reads all; its time is not measured.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from pathlib import Path

from tests.bench.harness import Figure, Options, alternate, cpu_seconds, median
from tests.daemon.processes import DaemonProcess

__all__ = ["TITLE", "measure"]

TITLE = "files: the start with 5,000 session files of which 50 have changed"
FILES, CHANGED, FOLDERS = 5_000, 50, 100
TARGET = 5.0
"""Seconds, for 100,000 files on two idle cores."""
PERIOD = 0.25
"""Seconds between two questions: the daemon counts its files for each answer."""


def measure(options: Options) -> list[Figure]:
    files = max(10, round(FILES * options.scale))
    changed = min(CHANGED, files)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        paths = [_path(home, number) for number in range(files)]
        for number, path in enumerate(paths):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_lines(number))
        _until_live(home)

        def again() -> tuple[float, float]:
            for number, path in enumerate(paths[:changed]):
                with path.open("ab") as file:
                    file.write(_lines(number))
            return _until_live(home)

        runs = alternate({"daemon": again}, options.runs)["daemon"]
    return [
        median("until live", (one[0] for one in runs), "s", better="less", target=TARGET),
        median("until live, processor time", (one[1] for one in runs), "s", better="less"),
    ]


def _path(home: Path, number: int) -> Path:
    return home / "claude" / "projects" / f"-w-{number % FOLDERS}" / f"{_session(number)}.jsonl"


def _session(number: int) -> str:
    return str(uuid.UUID(int=number + 1))


def _lines(number: int) -> bytes:
    session, told, asked = _session(number), str(uuid.uuid4()), str(uuid.uuid4())
    common = {"sessionId": session, "cwd": "/w", "version": "2.1.330", "isSidechain": False}
    common["timestamp"] = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    prompt = {"role": "user", "content": f"Do task {number}."}
    answer = {
        "id": f"msg_{told}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Done."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }
    lines = (
        {**common, "type": "user", "uuid": asked, "parentUuid": None, "message": prompt},
        {**common, "type": "assistant", "uuid": told, "parentUuid": asked, "requestId": told, "message": answer},
    )
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _until_live(home: Path) -> tuple[float, float]:
    """Return the seconds from the start of a daemon until it has read all, and its processor time."""
    begun = time.perf_counter()
    environment = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / "claude"), "TOOLTAP_SPOOL": str(home / "spool")}
    (home / "tooltap.toml").write_text('[follow]\nbackfill = "all"\njobs = 1\n')
    arguments = ("--config", home / "tooltap.toml", "--follow", "claude")
    with DaemonProcess(home, *arguments, **environment) as daemon:
        daemon.wait_ready()
        with daemon.connect() as wire:
            while not wire.ask("stats", part="following")["following"]["backfill"]["complete"]:
                time.sleep(PERIOD)
        spent = time.perf_counter() - begun, cpu_seconds(daemon.process.pid)
        daemon.process.terminate()
        daemon.wait()
    return spent
