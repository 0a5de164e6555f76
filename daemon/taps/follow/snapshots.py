"""Reads the sessions that an agent stores as a snapshot and a journal of what has changed since, each as a document.

The folder of a session has `meta.json`, which describes it, and `CURRENT`, which names the latest generation. The
manifest of a generation names the state of the session, the chunks that hold its history, and the segment of the
journal that follows. The document that the follower reads is built from them, again for each change:

    {"meta": …, "snapshot": …, "history": [entries of all chunks], "changes": [operations of the journal]}

The agent deletes a generation when there are two newer ones. So a file that is gone is looked for in the newest.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any

import orjson

from tooltap.daemon.taps.follow.places import look_at_session
from tooltap.daemon.taps.follow.reading import FILES, opened, read_head

__all__ = ["SNAPSHOTS"]

ATTEMPTS = 3
BLOCK = 1024 * 1024
_CHANGE = b'"type":"projection_delta"}\n'
"""How a record of the journal ends that changes the history; all others are much longer, and need not be decoded."""


class _AboveLimitError(Exception):
    """The document has more bytes than are read."""


def _head(path: str, limit: int) -> tuple[bytes, int]:
    """Return the document, and the time of the last change in ms since the epoch; of one that has more than `limit`
    bytes, at least as many. Raises `OSError`."""
    for attempt in range(ATTEMPTS):
        mtime = look_at_session(path).mtime_ms
        try:
            return _document(path, limit), mtime
        except _AboveLimitError:
            return bytes(limit + 1), mtime
        except FileNotFoundError as error:
            if not os.path.lexists(path):  # the session has been deleted
                raise
            if attempt == ATTEMPTS - 1:
                reason = f"a file that this session names is missing: {error.filename}"
                raise OSError(errno.EINVAL, reason, path) from error
        except (LookupError, TypeError, ValueError) as error:
            raise OSError(errno.EINVAL, f"not a session of a known form: {error!r}", path) from error
    raise AssertionError("the last attempt returns or raises")


def _document(path: str, limit: int) -> bytes:
    folder = os.path.dirname(path)
    generation = os.path.join(folder, "generations", str(_object(folder, "CURRENT", limit)["generation"]))
    manifest = _object(generation, "manifest.json", limit)
    state, journal = manifest["projection_state"], manifest["recovery_journal_segment"]
    snapshot, history, size = _object(generation, state["path"], limit)["snapshot"], [], 0
    for chunk in state["chunks"]:
        data = _bytes(os.path.join(folder, "chunks"), f"{chunk}.json", limit - size)
        size += len(data)
        history += orjson.loads(data)
    changes = []
    for line in _changes(_inside(folder, journal["path"]), limit):
        size += len(line)
        if size > limit:
            raise _AboveLimitError
        changes += orjson.loads(line)["payload"]["delta"]
    meta = _object(folder, os.path.basename(path), limit)
    return orjson.dumps({"meta": meta, "snapshot": snapshot, "history": history, "changes": changes})


def _changes(path: str, limit: int) -> Iterator[bytes]:
    """Return the records of a journal that change the history; the last one may be incomplete, and waits. Of a record
    above the limit the beginning is returned."""
    with opened(path) as (descriptor, _), open(descriptor, "rb", buffering=BLOCK, closefd=False) as journal:
        while line := journal.readline(limit + 1):
            end = line
            while not end.endswith(b"\n") and (more := journal.readline(limit + 1)):
                end = end[-len(_CHANGE) :] + more
            if end.endswith(_CHANGE):
                yield line


def _object(folder: str, name: str, limit: int) -> dict[str, Any]:
    value: dict[str, Any] = orjson.loads(_bytes(folder, name, limit))
    return value


def _bytes(folder: str, name: str, limit: int) -> bytes:
    data = read_head(_inside(folder, name), limit + 1)[0]
    if len(data) > limit:
        raise _AboveLimitError
    return data


def _inside(folder: str, name: str) -> str:
    """Return the path of a file that another one names. Raises `FileNotFoundError` for one that is elsewhere."""
    path = os.path.join(folder, name)
    if os.path.realpath(path) != path or not path.startswith(f"{folder}/"):
        raise FileNotFoundError(errno.ENOENT, "not in the session's folder", path)
    return path


SNAPSHOTS = FILES._replace(head=_head)
