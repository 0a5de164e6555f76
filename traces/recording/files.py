"""Names of the files of a trace, and the order in which they are read.

The newest records are in the file that the trace is named after. When it is full, it is renamed with the next number:
`t.0001.jsonl` is older than `t.0002.jsonl`, which is older than `t.jsonl`. A shell lists them in the same order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from glob import escape
from pathlib import Path

__all__ = ["budgeted", "expand", "next_rotated", "parts"]

GENERATED = "tooltap-*-pid-*.jsonl"
"""Names that `writer.trace_path` generates. Other files in the folder are never counted or removed."""
NUMBERED = re.compile(r"(?P<stem>.+)\.(?P<number>\d{4,})(?P<suffix>\.[^.]*)?")


def parts(path: Path) -> list[Path]:
    """The existing files of a trace, oldest first. A rotated file is a part by itself."""
    return _rotated(path) + [path] * path.exists()


def next_rotated(path: Path) -> Path:
    """The name that the full file gets when the trace is rotated."""
    rotated = _rotated(path)
    last = _split(rotated[-1])[1] if rotated else 0
    return path.with_name(f"{path.stem}.{last + 1:04}{path.suffix}")


def _rotated(path: Path) -> list[Path]:
    """The rotated files of a trace, oldest first."""
    found = [(_split(other), other) for other in path.parent.glob(f"{escape(path.stem)}.*")]
    return [other for (trace, number), other in sorted(found) if trace == path and number]


def _split(path: Path) -> tuple[Path, int]:
    """The trace that a file is a part of, and the part's number; 0 for the newest part, which has no number."""
    found = NUMBERED.fullmatch(path.name)
    if found is None:
        return path, 0
    return path.with_name(found["stem"] + (found["suffix"] or "")), int(found["number"])


def budgeted(path: Path) -> list[Path]:
    """The files that share the size budget of this trace: its own parts and, if tooltap generated its name, all traces
    with generated names in the folder."""
    others = path.parent.glob(GENERATED) if path.match(GENERATED) else ()
    return sorted({*parts(path), *others})


def expand(paths: Iterable[Path]) -> list[Path]:
    """The files of the named traces and folders of traces, each once, the parts of one trace together and oldest first.

    Raises `FileNotFoundError` for a path that does not exist, and for a folder without a trace.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            in_folder = {_split(file)[0] for file in path.glob("*.jsonl")}
            found = [part for trace in sorted(in_folder) for part in parts(trace)]
        else:
            found = parts(path)
        if not found:
            raise FileNotFoundError(
                2, "no trace in this folder" if path.is_dir() else "No such file or directory", str(path)
            )
        files += found
    traces = [_split(file)[0] for file in files]
    return sorted({*files}, key=lambda file: (traces.index(_split(file)[0]), _split(file)[1] or math.inf))
