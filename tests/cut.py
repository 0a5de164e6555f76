"""Makes a fixture from a recorded stream: `python -m tests.cut SOURCE TARGET`.

It redacts private data and shortens long texts (`traces/recording/redact.py`), and keeps every line, key and id as the
agent printed it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tooltap.traces.recording.redact import Redactor


def main(source: str, target: str) -> None:
    lines = Path(source).read_bytes().split(b"\n")
    redactor = Redactor()
    for line in lines:
        redactor.learn(line)
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_bytes(b"\n".join(map(redactor.redact, lines)))


if __name__ == "__main__":
    main(*sys.argv[1:])
