"""What a stream is rebuilt from, and what shows that it is the same again."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from tooltap.daemon.journal.interface import StreamInfo
from tooltap.normalizers.core.items import Context, Limits, Produced
from tooltap.normalizers.stream.normalizer import Output

__all__ = ["SNAPSHOT_FORMAT", "Snapshot", "context_of", "ids_of"]

SNAPSHOT_FORMAT = 1


class Snapshot(msgspec.Struct, array_like=True):
    format: int
    ids: int
    """`StreamInfo.ids` at this point."""
    normalizer: bytes


def context_of(info: StreamInfo, limits: Limits) -> Context:
    return Context(
        stream=info.stream,
        provider=info.provider,
        session=info.session,
        agent=info.agent,
        parent=info.parent,
        mcp_servers=info.mcp_servers,
        prompt=info.prompt,
        limits=limits,
    )


def ids_of(outputs: Sequence[Output], ids: int) -> int:
    """The checksum over event ids, continued over these outputs."""
    for output in outputs:
        if isinstance(output, Produced) and not output.partial:
            ids = zlib.crc32(output.id.encode(), ids)
    return ids
