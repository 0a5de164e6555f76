"""Reader of Antigravity's transcripts, written after public readers of them.

A conversation has two files of the same steps, a line for each: `transcript.jsonl` has shortened texts, and is always
there; `transcript_full.jsonl` has the whole ones, but older versions did not write it, and it may begin later. The
document has each step once: {"steps": [step, …]}, where a line that is not JSON stays a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import orjson

from tooltap.normalizers.catalog.dialect import Folder


class AntigravityStore:
    """Implements `FolderReader`."""

    files: tuple[str, ...] = ("transcript.jsonl", "transcript_full.jsonl")

    def document(self, folder: Folder) -> bytes:
        short, full = (list(_steps(folder, name)) for name in self.files)
        first = next((index for one in full if (index := _index(one)) is not None), None)
        if first is not None:
            short = [one for one in short if (index := _index(one)) is not None and index < first]
        return orjson.dumps({"steps": short + full})


def _steps(folder: Folder, name: str) -> Iterator[Any]:
    with suppress(FileNotFoundError):
        for line in folder.lines(name, b"\n"):
            if not line.isspace():
                try:
                    yield orjson.loads(line)
                except orjson.JSONDecodeError:
                    yield line.decode(errors="replace").rstrip("\n")


def _index(step: Any) -> int | None:
    index = step.get("step_index") if isinstance(step, dict) else None
    return index if isinstance(index, int) else None
