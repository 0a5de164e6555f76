"""Replies to `files`: what a session changed, read from its events in the journal."""

from __future__ import annotations

import anyio
import msgspec

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.normalizers.changes.session_files import KINDS, SessionFiles
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import FrameError
from tooltap.protocol.replies import FileChange, FileDiff, FilesResult
from tooltap.protocol.requests import FilesRequest

__all__ = ["files_of"]


async def files_of(journal: Journal, request: FilesRequest, max_bytes: int) -> FilesResult:
    """`max_bytes`: of the encoded result. Raises `FrameError` and `JournalError`."""
    files = SessionFiles()
    wanted = Filter(session=(request.session,), kind=KINDS)
    after, last = journal.oldest - 1, journal.latest
    is_known = False
    while after < last:
        found, after = await journal.read(after, wanted, up_to=last)
        is_known = is_known or bool(found)
        await anyio.to_thread.run_sync(_note, files, found)
    if not is_known and not await journal.streams_of(request.session):
        raise FrameError("not-found", f"there is no session {request.session!r}")
    if request.file is None:
        return await anyio.to_thread.run_sync(_list, files, max_bytes)
    one = await anyio.to_thread.run_sync(files.diff, request.file)
    if one is None:
        raise FrameError("not-found", f"session {request.session!r} has not changed {request.file!r}")
    result = FilesResult(files=[_without_diff(one)], complete=True, file=one)
    if len(msgspec.json.encode(result)) > max_bytes:
        raise FrameError("too-large", f"the diff of {request.file!r} does not fit into a reply")
    return result


def _note(files: SessionFiles, found: list[StoredEvent]) -> None:
    for stored in found:
        files.note(stored.seq, msgspec.json.decode(stored.body))


def _list(files: SessionFiles, max_bytes: int) -> FilesResult:
    result = FilesResult(files=files.changes(), complete=files.complete)
    while len(msgspec.json.encode(result)) > max_bytes:
        result = FilesResult(files=result.files[: len(result.files) // 2], complete=False)
    return result


def _without_diff(one: FileDiff) -> FileChange:
    return FileChange(**{name: getattr(one, name) for name in FileChange.__struct_fields__})
