"""Content codings of HTTP: decodes bodies in pieces, so that a few bytes that stand for gigabytes take no memory.

The package brotli, of the extra `gateway`, is imported only for a body that needs it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Protocol, TypeAlias

import zstandard

__all__ = ["PIECE", "CodingError", "Decode", "decoder"]

Decode: TypeAlias = Callable[[bytes], Iterable[bytes]]
"""Decodes the next bytes of a body, or at its end none, to one piece or more; raises `CodingError`. A few bytes may be
gigabytes, so a piece is about `PIECE` long, whatever it is made of."""

PIECE = 65_536
_SLICE = 128
"""Bytes that zstd decodes at a time: each four of them may be a block of 128 KiB."""
_ANY_ZLIB = zlib.MAX_WBITS | 32
_GZIP = b"\x1f\x8b"


class CodingError(ValueError):
    """A body cannot be decoded; the message is a part of a sentence for the user."""


class _BrotliError(ValueError):
    """What `brotli.error` is where brotli may not be installed."""


def decoder(codings: str) -> Decode:
    """Return a decoder. `codings`: the value of `Content-Encoding`. Raises `CodingError` for an unknown one."""
    steps = [_step(name) for coding in reversed(codings.split(",")) if (name := coding.strip().lower())]

    def decode(data: bytes) -> Iterator[bytes]:
        pieces: Iterable[bytes] = (data,)
        for step in steps:
            pieces = chain.from_iterable(map(step, pieces))
        try:
            yield from pieces
        except (zlib.error, zstandard.ZstdError, _BrotliError) as error:
            raise CodingError(f"its coding {codings!r} cannot be read: {error}") from None

    return decode


def _step(name: str) -> Decode:
    if name == "identity":
        return lambda data: (data,)
    if name in ("gzip", "x-gzip"):
        return _Members(partial(_Zlib, _ANY_ZLIB)).decode
    if name == "deflate":
        return _Deflate().decode
    if name == "br":
        return _brotli()
    if name == "zstd":
        return _Members(_Zstd).decode
    raise CodingError(f"its coding {name!r} is not known")


def _brotli() -> Decode:
    try:
        import brotli  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise CodingError("its coding 'br' needs the package brotli, which is not installed") from None
    body = brotli.Decompressor()

    def decode(data: bytes) -> Iterator[bytes]:
        try:
            piece = body.process(data, output_buffer_limit=PIECE)
            yield piece
            while piece or not body.can_accept_more_data():  # which may be true while there is more to return
                piece = body.process(b"", output_buffer_limit=PIECE)
                yield piece
        except brotli.error as error:
            raise _BrotliError(str(error)) from None

    return decode


class _Member(Protocol):
    """One member of a body."""

    rest: bytes
    """What it has not decoded, or, at its end, what is behind it."""

    has_more: bool
    """Whether it may have decoded more than it has returned."""

    @property
    def is_over(self) -> bool: ...

    def decode(self, data: bytes) -> bytes:
        """Decode the beginning of the data."""
        ...


class _Zlib:
    def __init__(self, window: int) -> None:
        self._member = zlib.decompressobj(window)
        self.rest, self.has_more = b"", False

    @property
    def is_over(self) -> bool:
        return self._member.eof

    def decode(self, data: bytes) -> bytes:
        piece = self._member.decompress(data, PIECE)
        self.rest = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        self.has_more = len(piece) == PIECE and not self._member.eof
        return piece


class _Zstd:
    def __init__(self) -> None:
        self._member = zstandard.ZstdDecompressor().decompressobj()
        self.rest, self.has_more = b"", False

    @property
    def is_over(self) -> bool:
        return self._member.eof

    def decode(self, data: bytes) -> bytes:
        piece = self._member.decompress(data[:_SLICE])
        self.rest = (self._member.unused_data if self._member.eof else b"") + data[_SLICE:]
        return piece


class _Members:
    """Decodes a body of one or more members (gzip, RFC 1952) or frames (zstd, RFC 8878), one after the other.

    `begin`: returns the next member.
    """

    def __init__(self, begin: Callable[[], _Member]) -> None:
        self._begin = begin
        self._member = begin()
        self._error: Exception | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Decode the next bytes. An error behind bytes that are decoded is raised at the next call, or at the end of
        the body, which is a call without data."""
        if self._error is not None:
            raise self._error
        has_decoded = False
        yield b""
        try:
            while data or self._member.has_more:
                if self._member.is_over and not (data := data.lstrip(b"\0")):  # gzip may be padded
                    break
                if self._member.is_over:
                    self._member = self._begin()
                piece = self._member.decode(data)
                data = self._member.rest
                has_decoded |= bool(piece)
                yield piece
        except (zlib.error, zstandard.ZstdError) as error:
            if not has_decoded:
                raise
            self._error = error


class _Deflate:
    """Decodes `deflate`: zlib (RFC 1950), or the bare data that some servers send (RFC 1951), as browsers do."""

    def __init__(self) -> None:
        self._head = b""
        self._members: _Members | None = None

    def decode(self, data: bytes) -> Iterable[bytes]:
        if self._members is None:
            self._head += data
            if len(self._head) < len(_GZIP):
                return (b"",)
            data = self._head
            has_header = data.startswith(_GZIP) or (
                data[0] & 15 == zlib.DEFLATED and int.from_bytes(data[:2]) % 31 == 0
            )
            window = _ANY_ZLIB if has_header else -zlib.MAX_WBITS
            self._members = _Members(partial(_Zlib, window))
        return self._members.decode(data)
