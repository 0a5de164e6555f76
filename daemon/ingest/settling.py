"""The due-list of silent streams: one timer for all of them, and none where nothing is due.

A stream is settled when it has been silent for `seconds`: its parser emits what it holds back, and provisional ends of
turns (`Parser.settle_all`). A stream is in the list only while its parser has something to emit then.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable

import anyio

from tooltap.daemon.journal.interface import CorruptError, JournalError, UnstorableError
from tooltap.daemon.system.logs import Trouble, faults, get_logger
from tooltap.normalizers.stream.reset import place_of

_log = get_logger("ingest")


class Settling:
    """`settle` settles a stream that is due."""

    def __init__(self, seconds: float, settle: Callable[[str], Awaitable[None]]) -> None:
        self.seconds = seconds
        """Silence after which a stream is settled."""
        self._settle = settle
        self._due: dict[str, float] = {}
        """Stream -> time on the clock of the event loop, in seconds."""
        self._heap: list[tuple[float, str]] = []
        """Entries that are not in `_due` were replaced, and are skipped."""
        self._wake = anyio.Event()
        self._trouble = Trouble(
            _log, "silent streams cannot be settled; it is tried again", "silent streams are settled again"
        )

    def add(self, stream: str, silent: float = 0.0) -> None:
        """Settle a stream that has been silent for `silent` seconds when the rest has passed. Replaces what was
        planned for the stream."""
        due = anyio.current_time() + max(0.0, self.seconds - silent)
        self._due[stream] = due
        heapq.heappush(self._heap, (due, stream))
        if self._heap[0][1] == stream:
            self._wake.set()

    async def run(self) -> None:
        """Settle streams as they become due. Runs until cancelled."""
        while True:
            self._wake = anyio.Event()
            due = self._next()
            with anyio.move_on_after(None if due is None else due - anyio.current_time()):
                await self._wake.wait()
            while (due := self._next()) is not None and due <= anyio.current_time():
                _, stream = heapq.heappop(self._heap)
                del self._due[stream]
                try:
                    await self._settle(stream)
                    self._trouble.end()
                except Exception as error:
                    if is_of_journal(error):
                        self._trouble.begin(str(error))
                        self.add(stream)
                        continue
                    # It is settled after its next line, or ends.
                    faults.note("a silent stream could not be settled", place_of(error), error, stream=stream)

    def _next(self) -> float | None:
        """Return when the next stream is due; None if none is."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


def is_of_journal(error: Exception) -> bool:
    """Whether the journal cannot be written now, and may be later: the disk is full, for example."""
    return isinstance(error, JournalError) and not isinstance(error, CorruptError | UnstorableError)
