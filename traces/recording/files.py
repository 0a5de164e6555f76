"""How the files of a trace are named, and in which order they are read.

The newest records are in the file the trace is named after. When it is full it is renamed to the next number:
`t.0001.jsonl` is older than `t.0002.jsonl`, which is older than `t.jsonl`; a shell lists them in that order, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from glob import escape
from pathlib import Path

__all__ = ["budgeted", "expand", "next_rotated", "parts"]

OWN = "tooltap-*-pid-*.jsonl"
"""Files named by `writer.trace_path`; whatever else lies in their folder is not ours."""
NUMBERED = re.compile(r"(?P<stem>.+)\.(?P<number>\d{4,})(?P<suffix>\.[^.]*)?")


def parts(path: Path) -> list[Path]:
    """All files of a trace that are there, oldest first; of a rotated file itself alone."""
    return _rotated(path) + [path] * path.exists()


def next_rotated(path: Path) -> Path:
    """The name under which the trace is put away when it is full."""
    done = _rotated(path)
    last = _split(done[-1])[1] if done else 0
    return path.with_name(f"{path.stem}.{last + 1:04}{path.suffix}")


def _rotated(path: Path) -> list[Path]:
    """What was rotated away from a trace, oldest first."""
    found = [(_split(other), other) for other in path.parent.glob(f"{escape(path.stem)}.*")]
    return [other for (trace, number), other in sorted(found) if trace == path and number]


def _split(path: Path) -> tuple[Path, int]:
    """The trace a file is a part of, and its number; 0 for the newest part, which has none."""
    found = NUMBERED.fullmatch(path.name)
    if found is None:
        return path, 0
    return path.with_name(found["stem"] + (found["suffix"] or "")), int(found["number"])


def budgeted(path: Path) -> list[Path]:
    """The files that share the size budget of this trace: its own parts; and where it was named by us, all traces that
    tooltap has left in this folder."""
    others = path.parent.glob(OWN) if path.match(OWN) else ()
    return sorted({*parts(path), *others})


def expand(paths: Iterable[Path]) -> list[Path]:
    """The files a user means who names traces and folders of traces: each once, those of one trace together and oldest
    first, in whatever order they are named.

    Raises `FileNotFoundError` for a name under which there is nothing, and for a folder without a trace.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            there = {_split(file)[0] for file in path.glob("*.jsonl")}
            found = [part for trace in sorted(there) for part in parts(trace)]
        else:
            found = parts(path)
        if not found:
            raise FileNotFoundError(2, "no trace there" if path.is_dir() else "No such file or directory", str(path))
        files += found
    traces = [_split(file)[0] for file in files]
    return sorted({*files}, key=lambda file: (traces.index(_split(file)[0]), _split(file)[1] or math.inf))
