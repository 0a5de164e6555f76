"""Feeds handmade canonical events of calls that change files."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.changes.session_files import SessionFiles

__all__ = ["CWD", "Telling"]

CWD = "/work/project"


class Telling:
    """Numbers the events of calls and their results, and passes them on."""

    def __init__(self, files: SessionFiles | None = None) -> None:
        self.files = files or SessionFiles(CWD)
        self._seq = 0

    def call(
        self, name: str, given: dict[str, Any], answer: dict[str, Any] | None = None, status: str = "completed"
    ) -> int:
        """Pass on a call and its result, and return the `seq` of the call."""
        call_id = f"c{self._seq}"
        self._note("tool-call", callId=call_id, name=name, input=given, status="running")
        seq = self._seq
        self._note("tool-result", callId=call_id, name=name, output=answer or {}, status=status)
        return seq

    def read(self, path: str, text: str) -> int:
        lines = text.count("\n") + 1
        file = {"filePath": path, "content": text, "startLine": 1, "numLines": lines, "totalLines": lines}
        return self.call("Read", {"file_path": path}, {"type": "text", "file": file})

    def write(self, path: str, text: str, **answer: Any) -> int:
        return self.call("Write", {"file_path": path, "content": text}, answer)

    def edit(self, path: str, old: str, new: str, answer: dict[str, Any] | None = None, **more: Any) -> int:
        return self.call("Edit", {"file_path": path, "old_string": old, "new_string": new, **more}, answer)

    def _note(self, kind: str, **fields: Any) -> None:
        self._seq += 1
        self.files.note(self._seq, {"kind": kind, "stream": "s", "session": "one", **fields})
