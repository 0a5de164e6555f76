"""Decodes the bodies of HTTP messages incrementally, by their content coding."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeAlias

import brotli  # type: ignore[import-untyped]
import zstandard

__all__ = ["CodingError", "Decode", "decoder"]

Decode: TypeAlias = Callable[[bytes], bytes]
"""Decodes the next bytes of a body; raises `CodingError`."""

_ANY_ZLIB = zlib.MAX_WBITS | 32


class CodingError(ValueError):
    """A body cannot be decoded; the message is a part of a sentence for the user."""


def decoder(codings: str) -> Decode:
    """Return a decoder. `codings`: the value of `Content-Encoding`. Raises `CodingError` for an unknown one."""
    steps = [_step(name) for coding in reversed(codings.split(",")) if (name := coding.strip().lower())]

    def decode(data: bytes) -> bytes:
        try:
            for step in steps:
                data = step(data)
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            raise CodingError(f"its coding {codings!r} cannot be read: {error}") from None
        return data

    return decode


def _step(name: str) -> Decode:
    if name == "identity":
        return lambda data: data
    if name in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(_ANY_ZLIB).decompress
    if name == "br":
        return brotli.Decompressor().process  # type: ignore[no-any-return]
    if name == "zstd":
        return zstandard.ZstdDecompressor().decompressobj().decompress
    raise CodingError(f"its coding {name!r} is not known")
