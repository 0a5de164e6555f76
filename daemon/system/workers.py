"""An ordered process pool: the same work on many items, with results in the order of the items.

    with Workers(work, items, jobs=4, weigh=size) as workers:
        for number in range(len(items)):
            for value in workers.values(number):
                ...

`work` is an importable function, or a partial of one; it yields values that can be pickled. Items are distributed in
small batches. Results that arrive out of order are buffered: in memory up to `MAX_MEMORY`, then in a temporary file up
to `MAX_FILE`; after that, workers wait. With one job, or little work, everything is done in this process.

Workers ignore Ctrl-C, which is for the parent process, and end with it even if it is killed: each has a socket whose
other end only the parent holds.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, NamedTuple, Self, TypeAlias, TypeVar

from tooltap.daemon.system.processes import import_nothing_from_here

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

WORTH = 1 << 20
"""Least total weight (see `weigh`) for which starting processes pays off; less work is done in this process."""
BATCH = 1 << 18
"""Weight of a batch: items are sent to a worker together until they weigh this much."""
SHARES = 4
"""Least number of batches per worker; batches are made smaller for that, so that all workers end at about the same
time."""
MESSAGE = 1 << 18
"""Bytes of a message: values are sent together until they have this size."""
SMALL = 1 << 6
"""Bytes for which a value counts that is neither bytes nor a list."""
MAX_MEMORY = 1 << 26
MAX_FILE = 1 << 32
"""Most bytes of buffered out-of-order results, in memory and on disk."""
PATIENCE = 3.0
"""Seconds for a worker to clean up after a request to end, before it is killed."""
CHECK = 1.0
"""Longest wait in seconds: a signal that arrives right before waiting begins is noticed only afterwards."""
STOPPING = (signal.SIGINT, signal.SIGTERM)

Item = TypeVar("Item")
Value = TypeVar("Value")
Batch: TypeAlias = list[tuple[int, Any]]
"""Items with their numbers."""


class WorkerDiedError(Exception):
    """A worker ended before its work was done. The message is a sentence."""


class _Failed(NamedTuple):
    """An exception that `work` raised: its class, arguments and attributes. The exception itself is not pickled,
    because unpickling would call its `__init__`."""

    kind: type[Exception]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    @property
    def error(self) -> Exception:
        error = self.kind.__new__(self.kind, *self.arguments)
        error.__dict__.update(self.attributes)
        return error


class _End:
    """Marks the end of an item's values."""


class _InFile(NamedTuple):
    """A message buffered in the temporary file."""

    start: int
    size: int


class _Worker:
    def __init__(self, process: BaseProcess, link: Connection) -> None:
        self.process = process
        self.link = link
        self.batch: int | None = None
        """Number of the batch that it works on, or None."""


class Workers(Generic[Item, Value]):
    """Does the same work on many items in a pool of processes. `weigh` estimates the work for an item, in bytes. Errors
    of `work` are raised in the item's turn."""

    def __init__(
        self, work: Callable[[Item], Iterable[Value]], items: Sequence[Item], *, jobs: int, weigh: Callable[[Item], int]
    ) -> None:
        self._work = work
        self._items = items
        weights = list(map(weigh, items))
        is_worth = jobs > 1 and len(items) > 1 and sum(weights) >= WORTH
        self._batches = _batches(weights, min(BATCH, sum(weights) // (jobs * SHARES))) if is_worth else []
        self._batch_of = {number: at for at, batch in enumerate(self._batches) for number in batch}
        self._jobs = min(jobs, len(self._batches))
        self._given = 0
        """Number of batches given to workers so far."""
        self._workers: list[_Worker] = []
        self._received: list[deque[bytes | _InFile]] = [deque() for _ in self._batches]
        self._unpacked: list[deque[tuple[int, Any]]] = [deque() for _ in self._batches]
        self._held = _Held()
        self._usual: Any = None
        """The previous handler of SIGTERM."""

    def __enter__(self) -> Self:
        if self._jobs:
            in_main = threading.current_thread() is threading.main_thread()
            if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                self._usual = signal.signal(signal.SIGTERM, self._terminate)
            try:
                self._start()
            except BaseException:
                self.__exit__(None, None, None)
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._held.close()
        if self._usual is not None:
            signal.signal(signal.SIGTERM, self._usual)

    def __iter__(self) -> Iterator[Value]:
        """The values of all items, in order."""
        for number in range(len(self._items)):
            yield from self.values(number)

    def values(self, number: int) -> Iterator[Value]:
        """The values of an item. Raises `WorkerDiedError`, `OSError`, and what `work` raises."""
        if not self._jobs:
            yield from self._work(self._items[number])
            return
        at = self._batch_of[number]
        unpacked = self._unpacked[at]
        while True:
            while not unpacked:
                unpacked.extend(pickle.loads(self._next_message(at)))
            of, value = unpacked.popleft()
            if of < number:  # the rest of an item that nobody wanted to its end
                continue
            if isinstance(value, _End):
                return
            if isinstance(value, _Failed):
                raise value.error
            yield value

    def _next_message(self, wanted: int) -> bytes:
        received = self._received[wanted]
        while not received:
            self._receive(wanted)
        return self._held.release(received.popleft())

    def _receive(self, wanted: int) -> None:
        """Wait at most `CHECK` seconds for messages of the wanted batch, and of others while there is room to buffer
        them. Gives new batches to workers that are done."""
        from multiprocessing.connection import wait

        everyone = self._held.has_room or wanted >= self._given
        listening: dict[object, _Worker] = {
            one.link: one for one in self._workers if one.batch is not None and (everyone or one.batch == wanted)
        }
        for ready in wait((one.link for one in listening.values()), CHECK):
            worker = listening[ready]
            assert worker.batch is not None
            try:
                message = worker.link.recv_bytes()
            except (EOFError, OSError):
                raise self._death_of(worker) from None
            if message:
                held = self._held.hold(message, in_memory=worker.batch == wanted)
                self._received[worker.batch].append(held)
            else:
                self._give(worker)

    def _give(self, worker: _Worker) -> None:
        """Give the next batch, if there is one, to an idle worker."""
        worker.batch = None
        if self._given == len(self._batches):
            return
        worker.batch = self._given
        self._given += 1
        try:
            worker.link.send([(number, self._items[number]) for number in self._batches[worker.batch]])
        except OSError:
            raise self._death_of(worker) from None

    def _death_of(self, worker: _Worker) -> WorkerDiedError:
        worker.process.join(PATIENCE)
        code = worker.process.exitcode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        return WorkerDiedError(f"a worker process was ended {how} before its work was done; is there enough memory?")

    # -- beginning and end ----------------------------------------------------------------------------------------

    def _start(self) -> None:
        from multiprocessing import Pipe, get_context, resource_tracker

        # To fork a process is quick, and safe as long as it has one thread. macOS's own libraries start threads.
        is_safe = sys.platform == "linux" and threading.active_count() == 1
        context: Any = get_context("fork" if is_safe else "spawn")
        if not is_safe:
            import_nothing_from_here()
            resource_tracker.ensure_running()  # `start` would do it, and unblock the signals
        # A worker that Ctrl-C reached before it ignores it would print a traceback.
        usual = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        try:
            for _ in range(self._jobs):
                ours, theirs = Pipe()
                inherited = [ours, *(one.link for one in self._workers)] if is_safe else []
                process = context.Process(target=_serve, args=(theirs, inherited, self._work), daemon=True)
                process.start()
                theirs.close()
                self._workers.append(_Worker(process, ours))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        for worker in self._workers:
            self._give(worker)

    def _stop(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.link.close()
        deadline = time.monotonic() + PATIENCE
        for worker in workers:
            worker.process.join(max(deadline - time.monotonic(), 0))
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        """Handler of SIGTERM: end the workers, then this process by the same signal."""
        self._stop()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


class _Held:
    """Buffer of out-of-order messages, in memory and on disk."""

    def __init__(self) -> None:
        self._in_memory = 0
        self._file: BinaryIO | None = None
        self._written = 0
        self._unread = 0

    @property
    def has_room(self) -> bool:
        return self._written < MAX_FILE

    def hold(self, message: bytes, *, in_memory: bool) -> bytes | _InFile:
        """Buffer a message. `in_memory`: keep it in memory regardless of the limit. Raises `OSError`."""
        if in_memory or self._in_memory + len(message) <= MAX_MEMORY:
            self._in_memory += len(message)
            return message
        import tempfile

        start = self._written
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
            while self._written < start + len(message):
                self._written += os.pwrite(self._file.fileno(), message[self._written - start :], self._written)
        except OSError as error:
            raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None
        self._unread += 1
        return _InFile(start, len(message))

    def release(self, message: bytes | _InFile) -> bytes:
        if isinstance(message, bytes):
            self._in_memory -= len(message)
            return message
        assert self._file is not None
        data = os.pread(self._file.fileno(), message.size, message.start)
        self._unread -= 1
        if not self._unread:
            self._file.truncate(0)
            self._written = 0
        return data

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _batches(weights: Sequence[int], enough: int) -> list[range]:
    """Divide the items into consecutive ranges that weigh at least `enough`."""
    batches: list[range] = []
    start = weight = 0
    for number, one in enumerate(weights):
        weight += one
        if weight >= enough or number == len(weights) - 1:
            batches.append(range(start, number + 1))
            start, weight = number + 1, 0
    return batches


# -- in the worker ----------------------------------------------------------------------------------------------------


def _serve(link: Connection, inherited: list[Connection], work: Callable[[Any], Iterable[Any]]) -> None:
    """Main loop of a worker. `inherited`: sockets that only the parent may hold, to be closed."""
    for one in inherited:
        one.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    sys.unraisablehook = _leave_at_once
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    batches: queue.SimpleQueue[Batch] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(link, batches), daemon=True).start()
    while True:
        _do(link, work, batches.get())


def _leave(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough, and what is cleaned up now must not be disturbed
    sys.exit(128 + number)


def _leave_at_once(unraisable: sys.UnraisableHookArgs) -> None:
    """Leave where the signal came during a callback of the interpreter, as of an import: its exception is ignored."""
    if isinstance(unraisable.exc_value, SystemExit):
        os._exit(128 + signal.SIGTERM)
    sys.__unraisablehook__(unraisable)


def _take(link: Connection, batches: queue.SimpleQueue[Batch]) -> None:
    """Receive batches, in a thread, so that a busy worker notices at once when the parent is gone, and ends."""
    try:
        while True:
            batches.put(link.recv())
    except (EOFError, OSError):
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGTERM)
        time.sleep(PATIENCE)
        os._exit(1)


def _do(link: Connection, work: Callable[[Any], Iterable[Any]], batch: Batch) -> None:
    message: list[tuple[int, Any]] = []
    size = 0
    for number, item in batch:
        end: _End | _Failed = _End()
        try:
            for value in work(item):
                message.append((number, value))
                size += _size(value)
                if size >= MESSAGE:
                    _send(link, pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
                    message, size = [], 0
        except Exception as error:
            end = _failed(error)
        message.append((number, end))
    _send(link, pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
    _send(link, b"")


def _size(value: Any) -> int:
    """Approximate size of a value in bytes."""
    if isinstance(value, bytes):
        return len(value) + SMALL
    return sum(map(_size, value)) if isinstance(value, list | tuple) else SMALL


def _send(link: Connection, message: bytes) -> None:
    try:
        link.send_bytes(message)
    except OSError:  # nobody listens any more
        sys.exit(1)


def _failed(error: Exception) -> _Failed:
    try:
        reduced: tuple[Any, ...] = tuple(error.__reduce__())
        failed = _Failed(type(error), reduced[1], error.__dict__)
        pickle.dumps(failed)
    except Exception:
        return _Failed(RuntimeError, (f"{type(error).__name__}: {error}",), {})
    return failed
