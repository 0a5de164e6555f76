"""Bodies of display outputs, which are held in memory for a while and fetched like those in the journal.

They expire, and the oldest are evicted when all together are too large. An id proves whether it was issued for this
journal, so an expired body, even one of an earlier process, is distinguished from one that never existed.
"""

from __future__ import annotations

import re
import secrets
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from tooltap.daemon.journal.interface import MAX_SLICE, OutputSlice, count_lines, whole_lines

_ID = re.compile(r"display-([0-9a-f]{16})-([0-9a-f]{8})")


class CannotFitError(Exception):
    """The body is too large for the cache; the message is one sentence for its sender."""


class CachedOutput(NamedTuple):
    data: bytes
    mime_type: str
    type: str
    path: str | None
    language: str | None
    lines: int
    expires: float

    def slice(self, offset: int, length: int, unit: Literal["bytes", "lines"]) -> OutputSlice:
        if unit == "bytes":
            part = self.data[offset : offset + min(length, MAX_SLICE)]
            return OutputSlice(part, offset, len(self.data), self.mime_type)
        return OutputSlice(self._lines(offset, length), offset, self.lines, self.mime_type)

    def _lines(self, offset: int, count: int) -> bytes:
        if offset >= self.lines:
            return b""
        start = len(self.data) - len(self.data.split(b"\n", offset)[-1])
        return whole_lines(self.data[start : start + MAX_SLICE], count)


OUTPUT_CACHE_BYTES = 64 * 1024 * 1024
"""Bytes of display outputs held in memory; beyond this, the oldest are evicted."""
OUTPUT_TTL = 1_800.0
"""Seconds after which a display output expires."""


class OutputCache:
    """`journal`: id of the journal. `ttl`: seconds. `clock`: monotonic, in seconds."""

    def __init__(
        self,
        journal: str,
        *,
        max_bytes: int = OUTPUT_CACHE_BYTES,
        ttl: float = OUTPUT_TTL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._journal = journal
        self._max_bytes = max_bytes
        self._ttl = ttl
        self._clock = clock
        self._cached: dict[str, CachedOutput] = {}
        """Oldest first."""
        self._bytes = 0
        self._reserved = 0
        """Bytes reserved for bodies that are being received."""
        self._stored = self._expired = self._evicted = 0

    @contextmanager
    def room(self, size: int) -> Iterator[None]:
        """Reserve room for a body that is being received. Raises `CannotFitError`."""
        self._make_room(size)
        self._reserved += size
        try:
            yield
        finally:
            self._reserved -= size

    def put(self, data: bytes, mime_type: str, kind: str, path: str | None = None, language: str | None = None) -> str:
        """Store a body and return its id. Raises `CannotFitError`."""
        self._make_room(len(data))
        nonce = secrets.token_hex(8)
        output_id = f"display-{nonce}-{self._check(nonce)}"
        cached = CachedOutput(data, mime_type, kind, path, language, count_lines(data), self._clock() + self._ttl)
        self._cached[output_id] = cached
        self._bytes += len(data)
        self._stored += 1
        return output_id

    def get(self, output_id: str) -> CachedOutput | None:
        self.sweep()
        return self._cached.get(output_id)

    def has_expired(self, output_id: str) -> bool:
        """Whether an id that `get` does not find was issued."""
        match = _ID.fullmatch(output_id)
        return match is not None and match[2] == self._check(match[1])

    def sweep(self) -> None:
        """Drop expired bodies. Call this regularly, to free their memory."""
        now = self._clock()
        while self._cached and next(iter(self._cached.values())).expires <= now:
            self._drop()
            self._expired += 1

    def statistics(self) -> dict[str, int]:
        """`kept` and `bytes` as of now; `stored`, `expired` and `evicted` since startup."""
        self.sweep()
        return {
            "kept": len(self._cached),
            "bytes": self._bytes,
            "stored": self._stored,
            "expired": self._expired,
            "evicted": self._evicted,
        }

    def _make_room(self, size: int) -> None:
        self.sweep()
        if self._reserved + size > self._max_bytes:
            raise CannotFitError(f"{size} bytes do not fit: display outputs may have {self._max_bytes} bytes in all")
        while self._bytes + self._reserved + size > self._max_bytes:
            self._drop()
            self._evicted += 1

    def _drop(self) -> None:
        oldest = next(iter(self._cached))
        self._bytes -= len(self._cached.pop(oldest).data)

    def _check(self, nonce: str) -> str:
        return f"{zlib.crc32(f'{self._journal}:{nonce}'.encode()):08x}"
