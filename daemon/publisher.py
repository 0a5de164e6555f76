"""Publishers' connections: bytes from the socket into a stream, acknowledgements back."""

from __future__ import annotations

from tooltap.daemon.connection import Connection
from tooltap.protocol.frames import FrameError, Ingest
from tooltap.protocol.stats import Statistics

__all__ = ["Publishers"]


class Publishers:
    async def serve(self, connection: Connection, frame: Ingest) -> None:
        raise FrameError("unsupported", "ingest is not offered yet", fatal=True)

    async def end(self, stream: str) -> Statistics:
        raise FrameError("not-found", f"there is no stream {stream!r}")

    async def stop(self) -> None:
        pass
