"""Cuts a fixture from a recorded stream: `python -m tests.cut SOURCE TARGET`.

Takes out what has no place in a repository and what nobody would review (`traces/recording/redact.py`), and leaves
every line, key and id as the agent printed it.
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
