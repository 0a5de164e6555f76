"""Writes to an agent beside its client: answers, prompts and interrupts that come from the daemon (`proxy --answers`).

What comes from the daemon goes between two lines of the client, never inside one, and whole. Of a request of the agent,
the first answer counts. If it came from the daemon, a later one of the client is dropped: the agent never gets it, so
it is not tapped either. Only the client's `cancelled` always passes, because some agents wait for it. If the client was
first, the frame is refused.

All else passes unchanged, in the chunks in which it came. Lines are held until their newline only where one of them may
have to be dropped: the client's once an answer has been written for it, the agent's while the response to a line that
we wrote is due.

Memory is bounded: a line longer than `MAX_LINE_BYTES` is passed on unread, and so are responses to a request that is
`KEPT` answers old. This is imported before the agent is started, so it imports no JSON.
"""

from __future__ import annotations

import os
import select
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from tooltap.daemon.taps.pipes import CHUNK, STDIN, STDOUT, Tap, leave, read, write
from tooltap.normalizers.wire.framing import MAX_LINE_BYTES

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tooltap.protocol.answers import ForAgent

KEPT = 4_096
"""Number of answered requests that are remembered, the client's and ours each."""

CLIENT_WAS_FIRST = "the agent's own client answered first"
ANSWERED = "it was answered already"
CLOSED = "the agent's input is closed"
NO_LINE = "this tap writes lines to the agent, and this is no single line"


class Answering:
    """What is written to one agent beside its client. Each direction belongs to one thread, and `write` to any event
    loop."""

    def __init__(self) -> None:
        self._wakeup, self._wakeup_end = os.pipe()
        self.wakeup_output, self._wakeup_output_end = os.pipe()
        """Readable when there is something for `insert_output`."""
        for end in (self._wakeup_end, self._wakeup_output_end):
            os.set_blocking(end, False)
        self._input = _Lines(self._is_for_agent, lambda: bool(self._ours))
        self._output = _Lines(self._is_for_client, lambda: bool(self._asked))
        self._lock = threading.Lock()
        self._frames: deque[tuple[ForAgent, Future[str | None]]] = deque()
        """What waits to be written to the agent."""
        self._closed = False
        """Whether the agent's input is closed."""
        self._for_client: deque[bytes] = deque()
        """Lines that wait to be written to the client."""
        self._ours = _Keys()
        """Keys of the agent's requests that we have answered."""
        self._clients = _Keys()
        """Those that the client has answered."""
        self._asked = _Keys()
        """Keys of our requests to which the agent's response is due."""

    async def write(self, frame: ForAgent) -> str | None:
        """Write a frame to the agent between two lines of its client. Return None once it is written, or the reason why
        it never will be."""
        import asyncio
        from concurrent.futures import Future

        if frame.path is not None or "\n" in f"{frame.line}{frame.to_client}":
            return NO_LINE
        written: Future[str | None] = Future()
        written.set_running_or_notify_cancel()  # from now on, nobody can cancel it
        with self._lock:
            if self._closed:
                return CLOSED
            self._frames.append((frame, written))
        _wake(self._wakeup_end)
        return await asyncio.wrap_future(written)

    # -- input --------------------------------------------------------------------------------------------------------

    def pass_input(self, program: IO[bytes], tap: Tap) -> None:
        """Pass the client's input, and what comes from the daemon, until either side closes it."""
        agent = program.fileno()
        more = True
        while more:
            self._insert_input(agent, tap)
            ready, _, _ = select.select([STDIN, self._wakeup], [], [])
            if self._wakeup in ready:
                os.read(self._wakeup, CHUNK)
            if STDIN in ready:
                try:
                    data = read(STDIN)
                except BlockingIOError:  # another process has read it
                    continue
                passed = self._input.feed(data) if data else self._input.finish()
                if passed:
                    tap(passed)
                more = write(agent, passed) and bool(data)
        with self._lock:
            self._closed = True
        program.close()
        leave(STDIN)
        for _, written in self._frames:
            written.set_result(CLOSED)

    def _insert_input(self, agent: int, tap: Tap) -> None:
        while self._frames and self._input.is_between_lines:
            frame, written = self._frames.popleft()
            written.set_result(self._write(agent, frame, tap))

    def _write(self, agent: int, frame: ForAgent, tap: Tap) -> str | None:
        """Write a frame, and return the reason if that is impossible."""
        if frame.answers in self._clients:
            return CLIENT_WAS_FIRST
        if frame.answers in self._ours:
            return ANSWERED
        if not _takes_data(agent):
            return CLOSED
        if frame.asks is not None:
            self._asked.add(frame.asks)
        if frame.answers is not None:
            self._ours.add(frame.answers)
        data = frame.line.encode() + b"\n"
        tap(data)
        if not write(agent, data):
            return CLOSED
        if frame.to_client is not None:
            self._for_client.append(frame.to_client.encode() + b"\n")
            _wake(self._wakeup_output_end)
        return None

    def _is_for_agent(self, line: bytes) -> bool:
        """Say whether the agent gets a line of the client."""
        from tooltap.protocol.answers import response_key

        message = _message(line)
        key = response_key(message)
        if key is None:
            return True
        if key in self._ours:
            return _is_cancelled(message)
        self._clients.add(key)
        return True

    # -- output -------------------------------------------------------------------------------------------------------

    def pass_output(self, source: int, tap: Tap) -> bool | None:
        """Pass a chunk of the agent's output. Return False at its end, and None if the client has closed it. Raises
        `BlockingIOError` if the agent has ended, and only its children may still print."""
        try:
            data = read(source)
        except BlockingIOError:
            write(STDOUT, self._output.finish())
            raise
        if not data:
            write(STDOUT, self._output.finish())
            return False
        passed = self._output.feed(data)  # before the daemon gets a request, and may answer it
        tap(data)
        return write(STDOUT, passed) or None

    def insert_output(self) -> bool:
        """Write what waits for the client, if nothing of a line of the agent has been passed on. Return False if the
        client has closed it."""
        while self._for_client and self._output.is_between_lines:
            if not write(STDOUT, self._for_client.popleft()):
                return False
        return True

    def _is_for_client(self, line: bytes) -> bool:
        """Say whether the client gets a line of the agent."""
        from tooltap.protocol.answers import request_key, response_key

        message = _message(line)
        if asking := request_key(message):  # a new request, even if it has the id of an earlier one
            self._ours.discard(asking)
            self._clients.discard(asking)
        responding = response_key(message)
        if responding is None or responding not in self._asked:
            return True
        self._asked.discard(responding)
        return False


class _Lines:
    """Finds the lines in the data of one direction, and drops some. `is_passed`: says of a line whether it is passed
    on; `holds`: whether a line is held until its newline, since it may have to be dropped."""

    def __init__(self, is_passed: Callable[[bytes], bool], holds: Callable[[], bool]) -> None:
        self._is_passed = is_passed
        self._holds = holds
        self._parts: list[bytes] = []
        """The incomplete line, unless it is too long."""
        self._size = 0
        self._is_begun = False
        """Whether part of the incomplete line has been passed on."""

    @property
    def is_between_lines(self) -> bool:
        """Whether what has been passed on ends with a line."""
        return not self._is_begun

    def feed(self, data: bytes) -> bytes:
        """Return what to pass on now that this data has come."""
        passed: list[bytes] = []
        start = 0
        while start < len(data):
            end = data.find(b"\n", start) + 1
            passed.append(self._add(data[start : end or len(data)], is_end=end > 0))
            start = end or len(data)
        return b"".join(passed)

    def finish(self) -> bytes:
        """Return what to pass on at the end of the data: an unterminated last line, if it was held."""
        return b"" if self._is_begun else self._add(b"", is_end=True)

    def _add(self, part: bytes, *, is_end: bool) -> bytes:
        self._parts.append(part)
        self._size += len(part)
        is_long = self._size > MAX_LINE_BYTES
        if not (is_end or is_long or self._is_begun) and self._holds():
            return b""
        was_begun = self._is_begun
        passed = part if was_begun else b"".join(self._parts)
        if not is_end:
            self._is_begun = True
            if is_long:
                self._parts.clear()
            return passed
        is_passed = is_long or self._is_passed(b"".join(self._parts)) or was_begun
        self._parts.clear()
        self._size = 0
        self._is_begun = False
        return passed if is_passed else b""


class _Keys:
    """The latest `KEPT` keys. Both threads may use them."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, None] = OrderedDict()

    def add(self, key: str) -> None:
        self._keys[key] = None
        while len(self._keys) > KEPT:
            self._keys.popitem(last=False)

    def discard(self, key: str) -> None:
        self._keys.pop(key, None)

    def __contains__(self, key: str | None) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)


def _message(line: bytes) -> Any:
    """Decode a line that may be a request with an id, or a response; None for any other."""
    import orjson

    if b'"id"' not in line and b'"request_id"' not in line:
        return None
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _is_cancelled(response: dict[str, Any]) -> bool:
    """Say whether a response is ACP's `cancelled`, which a client gives to all open requests when it cancels a
    turn."""
    outcome: Any = response
    for name in ("result", "outcome", "outcome"):
        outcome = outcome.get(name) if isinstance(outcome, dict) else None
    return bool(outcome == "cancelled")


def _takes_data(pipe: int) -> bool:
    """Wait until a pipe takes more data. Return False if its reader has closed it."""
    poll = select.poll()
    poll.register(pipe, select.POLLOUT)
    [(_, events)] = poll.poll()
    return not events & (select.POLLERR | select.POLLHUP)


def _wake(end: int) -> None:
    try:
        os.write(end, b"\0")
    except BlockingIOError:  # it is awake
        pass
