"""Waits for changes of sessions: a subscription in a thread, for commands that ask the daemon again after each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

KINDS = ("session", "turn", "tool-call", "tool-result", "permission-request", "permission-response", "usage")
"""Events whose display events change what is said of a session."""


class Changes:
    """Subscription to display events in a thread, which calls `wake` when one arrives, or the daemon disconnects or is
    back; once until `are_there` is made false again."""

    def __init__(self, socket: Path | None, wake: Callable[[], object]) -> None:
        self.are_there = False
        self._socket = socket
        self._wake = wake
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        from tooltap.daemon.client.blocking import BlockingSubscription
        from tooltap.daemon.client.discovery import RETRY_MOST, ConnectError, DaemonError, DisconnectedError
        from tooltap.protocol.filters import Filter
        from tooltap.protocol.frames import Subscribe

        frame = Subscribe(after="now", filter=Filter(kind=KINDS), as_="display")
        while True:
            try:
                for _ in BlockingSubscription(self._socket, frame, reconnect=False):
                    self._note()
            except (ConnectError, DaemonError, DisconnectedError):
                self._note()
                time.sleep(RETRY_MOST)

    def _note(self) -> None:
        if not self.are_there:
            self.are_there = True
            self._wake()
