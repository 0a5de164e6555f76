"""How the files of a trace are named, and in which order they are read.

The newest records are in the file the trace is named after. When it is full it is renamed to the next number:
`t.0001.jsonl` is older than `t.0002.jsonl`, which is older than `t.jsonl`; a shell lists them in that order, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["budgeted", "expand", "is_rotated", "next_rotated", "parts"]

OWN = "tooltap-*-pid-*.jsonl"
"""Files named by `writer.trace_path`; whatever else lies in their folder is not ours."""
NUMBER = re.compile(r".*\.(\d{4,})")


def is_rotated(path: Path) -> bool:
    return NUMBER.fullmatch(path.stem if path.suffix == ".jsonl" else path.name) is not None


def rotated(path: Path) -> list[Path]:
    """What was rotated away from a trace, oldest first."""
    found = []
    for other in path.parent.glob(f"{_escaped(path.stem)}.*{_escaped(path.suffix)}"):
        number = other.name[len(path.stem) + 1 : len(other.name) - len(path.suffix)]
        if number.isdecimal() and len(number) >= 4:
            found.append((int(number), other))
    return [other for _, other in sorted(found)]


def next_rotated(path: Path) -> Path:
    """The name under which the trace is put away when it is full."""
    done = rotated(path)
    last = int(done[-1].name[len(path.stem) + 1 :].split(".")[0]) if done else 0
    return path.with_name(f"{path.stem}.{last + 1:04}{path.suffix}")


def parts(path: Path) -> list[Path]:
    """All files of a trace that are there, oldest first; of a rotated file itself alone."""
    return rotated(path) + [path] * path.exists()


def budgeted(path: Path) -> list[Path]:
    """The files that share the size budget of this trace: its own parts; and where it was named by us, all traces that
    tooltap has left in this folder."""
    others = path.parent.glob(OWN) if path.match(OWN) else ()
    return sorted({*parts(path), *others})


def expand(paths: Iterable[Path]) -> list[Path]:
    """The files a user means who names traces and folders of traces: each once, those of one trace oldest first.

    Raises `FileNotFoundError` for a name under which there is nothing, and for a folder without a trace.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            traces = {_base(file) for file in path.glob("*.jsonl")}
            found = [part for trace in sorted(traces) for part in parts(trace)]
        else:
            found = parts(path)
        if not found:
            raise FileNotFoundError(2, "no trace there" if path.is_dir() else "No such file or directory", str(path))
        files += found
    return list(dict.fromkeys(files))


def _base(path: Path) -> Path:
    """The trace a file is a part of."""
    return path.with_name(path.stem.rsplit(".", 1)[0] + path.suffix) if is_rotated(path) else path


def _escaped(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)
