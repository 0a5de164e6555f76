"""The publisher of `docs/how-to/publish.md`: each line takes effect once, although both are killed with `kill -9`."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from tests.daemon.lives import Lives
from tests.docs.pages import DOCS, tagged
from tests.test_layout import ROOT

PROGRAM = ROOT / "clients" / "python" / "publish.py"
LINES = 10_000
KILLS = 8
TIMEOUT = 120.0


def test_page_shows_the_program() -> None:
    assert tagged(DOCS / "how-to" / "publish.md", "publish.py") == PROGRAM.read_text()


def test_each_line_is_ingested_once_although_both_are_killed(tmp_path: Path) -> None:
    """In as many streams as it takes until each was killed twice halfway: on a busy machine a publisher may have ended
    before that is noticed."""
    chance = random.Random(7)
    halfway = {"daemon": 0, "publisher": 0}

    with Lives(tmp_path, snapshot_bytes=64 * 1024) as lives:
        lives.start()
        for stream in map(str, count(1)):
            file = tmp_path / f"{stream}.jsonl"
            file.write_bytes(b"".join(orjson.dumps(_said(number, stream)) + b"\n" for number in range(LINES)))
            publisher = _publish(lives, file, stream)
            for number in range(KILLS):
                _wait_for_more(lives, publisher)
                time.sleep(chance.random() / 20)
                victim = "publisher" if number % 2 else "daemon"
                if victim == "publisher":
                    publisher.kill()
                    publisher.wait()
                    publisher = _publish(lives, file, stream)
                else:
                    lives.kill()
                    lives.wait()
                    lives.start()
                halfway[victim] += 0 < len(_texts(lives, stream)) < LINES - 1
            assert publisher.wait(TIMEOUT) == 0
            assert _output(file).splitlines()[-1] == f"{LINES}"
            assert _texts(lives, stream) == [f"line {number}" for number in range(1, LINES)]
            if min(halfway.values()) >= 2:
                break
        lives.stop()
        lives.wait()


def test_stream_with_other_lines_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    for file, number in ((first, 1), (second, 2)):
        file.write_bytes(orjson.dumps(_said(0)) + b"\n" + orjson.dumps(_said(number)) + b"\n")

    with Lives(tmp_path) as lives:
        lives.start()
        assert _publish(lives, first).wait(TIMEOUT) == 0
        refused = _publish(lives, second)

        assert refused.wait(TIMEOUT) == 1
        assert "lines of another file" in _output(second)
        assert _texts(lives) == ["line 1"]


def _said(number: int, session: str = "s") -> dict[str, Any]:
    if not number:
        return {"type": "system", "subtype": "init", "session_id": session, "cwd": "/", "tools": [], "uuid": "u0"}
    content = [{"type": "text", "text": f"line {number}"}]
    message = {"id": f"m{number}", "type": "message", "role": "assistant", "model": "m", "content": content}
    return {"type": "assistant", "message": message, "session_id": session, "uuid": f"u{number}"}


def _publish(lives: Lives, file: Path, stream: str = "one") -> subprocess.Popen[bytes]:
    command = [sys.executable, str(PROGRAM), str(file), stream, str(lives.settings["socket"])]
    with file.with_suffix(".out").open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


def _output(file: Path) -> str:
    return file.with_suffix(".out").read_text()


def _texts(lives: Lives, stream: str = "one") -> list[str]:
    """The texts of a stream in the journal's file, in order."""
    database = sqlite3.connect(f"file:{lives.settings['journal']}?mode=ro", uri=True)
    bodies = [orjson.loads(body) for (body,) in database.execute("SELECT body FROM events ORDER BY seq")]
    database.close()
    return [one["text"] for one in bodies if one["kind"] == "message" and one["stream"] == stream]


def _stored(lives: Lives) -> int:
    """How many events are in the journal's file."""
    database = sqlite3.connect(f"file:{lives.settings['journal']}?mode=ro", uri=True)
    (count,) = database.execute("SELECT count(*) FROM events").fetchone()
    database.close()
    return int(count)


def _wait_for_more(lives: Lives, publisher: subprocess.Popen[bytes]) -> None:
    known = _stored(lives)
    while _stored(lives) == known and publisher.poll() is None:
        time.sleep(0.01)
