"""Cursor of a subscription, and how each line from the daemon moves it. No I/O."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tooltap.daemon.client.discovery import DaemonError
from tooltap.protocol.frames import At, ErrorFrame, Gap, Live, Subscribe, Subscribed, decode_daemon_frame

Received: TypeAlias = bytes | Subscribed | Live | At | Gap
"""An item of a subscription: an event line without its newline, or a control frame."""


class Reading:
    """One subscription, across its connections."""

    def __init__(self, frame: Subscribe) -> None:
        self._frame = frame
        self._journal = ""
        self._seq: int | None = None
        self.finished = False
        """Whether the replay is over and no live events follow."""

    @property
    def cursor(self) -> str | None:
        """The cursor after the last line. None until the daemon has reported where the subscription begins."""
        return None if self._seq is None else f"{self._journal}:{self._seq}"

    @property
    def frame(self) -> Subscribe:
        """The frame that subscribes, or resumes after the cursor."""
        return self._frame if self.cursor is None else msgspec.structs.replace(self._frame, after=self.cursor)

    def take(self, line: bytes) -> Received | None:
        """Read the next line. Return None for a frame that this version does not know. Raises `DaemonError`."""
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
            case Gap():  # the cursor stays: some events in the gap may still exist and come next
                return frame
            case ErrorFrame():
                raise DaemonError(frame.code, frame.message)
        return None
