"""Notices files of the daemon that have another name (a hard link), and logs each once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tooltap.daemon.system.logs import get_logger
from tooltap.traces.recording.own_file import LINKED, has_other_name

_log = get_logger("files")


class HardLinks:
    """`files`: returns the files in use."""

    def __init__(self, files: Callable[[], Iterable[Path]]) -> None:
        self._files = files
        self._found: set[str] = set()

    def look(self) -> None:
        """Look at all files, which takes one system call for each. Call this every few seconds."""
        files = {str(path): has_other_name(path) for path in self._files()}
        found = {path for path, is_linked in files.items() if is_linked}
        for path in sorted(found - self._found):
            _log.warning(f"a file {LINKED}", file=path)
        for path in sorted((self._found - found) & files.keys()):
            _log.info("a file has no other name any more", file=path)
        self._found = found

    def statistics(self) -> dict[str, str]:
        """`hardLinks` in the reply to `stats`: file -> problem. Empty if no file has another name."""
        return dict.fromkeys(sorted(self._found), f"it {LINKED}")
