"""What connects one daemon to another, and is killed: `python -m tests.storm.connection RECORD CUT ARGUMENT…` is
`tooltap ARGUMENT…`. It writes down after which cursor it reads, and dies as soon as the file CUT changes."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

__all__ = ["cursors"]

LOOK = 0.05


def cursors(record: Path) -> list[int]:
    """After which `seq` each connection was to read, in the order in which they were made."""
    rows = record.read_text().splitlines() if record.exists() else []
    return [0 if (after := json.loads(row)) == "start" else int(after.rpartition(":")[2]) for row in rows]


def _die_when_it_changes(cut: Path, seen: int) -> None:
    while cut.stat().st_mtime_ns == seen:
        time.sleep(LOOK)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    record, cut = map(Path, (sys.argv.pop(1), sys.argv.pop(1)))
    threading.Thread(target=_die_when_it_changes, args=(cut, cut.stat().st_mtime_ns), daemon=True).start()
    with record.open("a") as file:
        file.write(json.dumps(sys.argv[sys.argv.index("--after") + 1]) + "\n")

    from tooltap.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
