"""How far a subscription has been read: what each line from the daemon means for its cursor. No I/O."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tooltap.daemon.client.connection import DaemonError
from tooltap.protocol.frames import At, ErrorFrame, Gap, Live, Subscribe, Subscribed, decode_daemon_frame

__all__ = ["RETRY_FIRST", "RETRY_MOST", "Reading", "Received"]

RETRY_FIRST, RETRY_MOST = 0.1, 2.0
"""Seconds between attempts to reach a daemon that is away."""

Received: TypeAlias = bytes | Subscribed | Live | At | Gap
"""What a subscription gives: an event line without its newline, or a control frame."""


class Reading:
    def __init__(self, frame: Subscribe) -> None:
        self._frame = frame
        self._journal = ""
        self._seq: int | None = None
        self.finished = False
        """The replay is over, and nothing follows it."""

    @property
    def cursor(self) -> str | None:
        """Behind the last line taken. None until the daemon has said where the subscription begins."""
        return None if self._seq is None else f"{self._journal}:{self._seq}"

    @property
    def frame(self) -> Subscribe:
        """What to subscribe with, now or again."""
        return self._frame if self.cursor is None else msgspec.structs.replace(self._frame, after=self.cursor)

    def take(self, line: bytes) -> Received | None:
        """The next line; None for a frame this version does not know. Raises `DaemonError`."""
        if not line.startswith(b'{"op":'):
            if line.startswith(b'{"seq":'):
                self._seq = int(line[7 : line.index(b",")])
            return line
        frame = decode_daemon_frame(line)
        match frame:
            case Subscribed():
                self._journal, self._seq = frame.journal, frame.after
                return frame
            case Live() | At():
                self._seq = frame.seq
                self.finished = isinstance(frame, Live) and not self._frame.follow
                return frame
            case Gap():  # the cursor stays: some of what it names may be there still, and comes next
                return frame
            case ErrorFrame():
                raise DaemonError(frame.code, frame.message)
        return None
