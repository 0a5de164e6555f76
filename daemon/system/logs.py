"""The daemon's log, to stderr or a file: coloured lines on a terminal, otherwise one JSON object per line.

A message is a constant text; variable parts go into fields. Fields may hold untrusted text: it is truncated, and
sanitized for a terminal.

Logging never blocks: a thread writes the lines. If nobody reads standard error, up to `MAX_WAITING` characters of them
are queued, and later lines are dropped and counted.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections import Counter, deque
from io import StringIO
from typing import Any, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, ExcInfo, FilteringBoundLogger, Processor

from tooltap.daemon.system.sanitize import one_line, sanitize

Logger = FilteringBoundLogger

PLACES = 1_000
"""Most places in the code whose faults are counted separately."""
LONGEST = 300
"""Most characters of an error in the log."""
MAX_FIELD = 2_000
"""Most code points of a text in a field."""
MAX_WAITING = 1_048_576
"""Most characters of log lines in the queue."""
PATIENCE = 0.2
"""Seconds for which an ending process waits until its log lines are written."""


class LineWriter:
    """Writes lines to a file descriptor in its own thread. Has the methods that structlog calls on a logger."""

    def __init__(self, descriptor: int, max_waiting: int = MAX_WAITING) -> None:
        self.left_out = 0
        """Number of lines that were dropped."""
        self._descriptor = descriptor
        self._max_waiting = max_waiting
        self._lines: deque[str] = deque()
        self._waiting = 0
        """Characters of the queued lines, and of the one that is being written."""
        self._gap = 0
        """Number of lines dropped since the last one that was queued."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def msg(self, message: str) -> None:
        with self._changed:
            if self._waiting + len(message) > self._max_waiting:
                self.left_out += 1
                self._gap += 1
                return
            if self._gap:
                self._put(f'{{"event": "log lines were left out: nobody reads them", "lines": {self._gap}}}')
                self._gap = 0
            self._put(message)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    log = debug = info = warn = warning = fatal = failure = err = error = critical = exception = msg

    def flush(self, seconds: float = PATIENCE) -> None:
        """Wait until everything is written, at most `seconds`."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._waiting and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)

    def _put(self, line: str) -> None:
        self._lines.append(line)
        self._waiting += len(line)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines:
                    self._changed.wait()
                line = self._lines.popleft()
            try:
                self._write(line + "\n")
            except (OSError, ValueError):  # it is closed, or the reader is gone
                with self._changed:
                    self.left_out += 1
            with self._changed:
                self._waiting -= len(line)
                self._changed.notify_all()

    def _write(self, text: str) -> None:
        # Not through the file's buffer: Python fails to exit while a thread waits in there.
        data = memoryview(text.encode(errors="backslashreplace"))
        while data:
            data = data[os.write(self._descriptor, data) :]


_writer: LineWriter | None = None


def configure(level: str = "info", descriptor: int | None = None) -> None:
    """Set up the log. `level`: debug, info, warning or error; `descriptor`: of the file that it goes to, in place of
    stderr."""
    global _writer
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # No local variables in tracebacks: they hold what agents printed.
    rendering: list[Processor] = (
        [_harmless_fields, structlog.dev.ConsoleRenderer(exception_formatter=_harmless_traceback)]
        if descriptor is None and sys.stderr.isatty()
        else [
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            _bounded_fields,
            structlog.processors.JSONRenderer(),  # everything but ASCII becomes an escape
        ]
    )
    writer = _writer = LineWriter(sys.stderr.fileno() if descriptor is None else descriptor)
    atexit.register(writer.flush)

    def factory(*arguments: Any) -> LineWriter:
        return writer

    structlog.configure(
        processors=shared + rendering,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=factory,
    )


def _harmless_fields(_: object, __: str, event: EventDict) -> EventDict:
    for field, value in event.items():
        if field != "exc_info" and not isinstance(value, (bool, int, float, type(None))):
            event[field] = one_line(value if isinstance(value, str) else repr(value), MAX_FIELD)
    return event


def _harmless_traceback(to: TextIO, error: ExcInfo) -> None:
    plain = StringIO()
    structlog.dev.plain_traceback(plain, error)
    to.write("\n".join(line[:MAX_FIELD] for line in sanitize(plain.getvalue()).split("\n")))


def _bounded_fields(_: object, __: str, event: EventDict) -> EventDict:
    return {field: _bounded(value) for field, value in event.items()}


def _bounded(value: Any) -> Any:
    match value:
        case str():
            return value if len(value) <= MAX_FIELD else f"{value[: MAX_FIELD - 1]}…"
        case dict():
            return {key: _bounded(one) for key, one in value.items()}
        case list() | tuple():
            return [_bounded(one) for one in value]
    return value


def get_logger(area: str) -> Logger:
    logger: Logger = structlog.get_logger(area=area)
    return logger


def flush() -> None:
    """Wait a moment for queued log lines to be written, before the process ends."""
    if _writer is not None:
        _writer.flush()


def lines_left_out() -> int:
    """Number of dropped log lines, because nobody reads standard error."""
    return 0 if _writer is None else _writer.left_out


class Trouble:
    """A persistent problem, logged only when it begins (`begins`) and when it is over (`ends`)."""

    def __init__(self, log: Logger, begins: str, ends: str) -> None:
        self.problem: str | None = None
        """The current problem, or None."""
        self._log = log
        self._begins = begins
        self._ends = ends

    def begin(self, problem: str) -> None:
        """Record the problem; logged only if it is new or has changed."""
        if problem != self.problem:
            self.problem = problem
            self._log.warning(self._begins, reason=problem)

    def end(self) -> None:
        """Record that the problem is over; logged only if there was one."""
        if self.problem is not None:
            self.problem = None
            self._log.info(self._ends)


class Faults:
    """Register of contained errors: each affected one line, stream or reader, and nothing else. Each is logged in one
    line, and counted by its place in the code for `stats`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, what: str, place: str, error: BaseException, **about: object) -> None:
        """Log and count a contained error. `what`: a sentence; `place`: the code that failed. The first error of a
        place is logged with its traceback, unless the cause is the disk or a damaged file, and not our code."""
        if not self.counts[place] and not _is_of_disk(error):
            about["exc_info"] = error
        self.note_of_other(what, place, repr(error), **about)

    def note_of_other(self, what: str, place: str, error: str, **about: object) -> None:
        """Like `note`, for an error that was raised in another process: without a traceback."""
        _log.error(what, place=place, error=error[:LONGEST], **about)
        known = place in self.counts or len(self.counts) < PLACES
        self.counts[place if known else "…"] += 1


def _is_of_disk(error: BaseException) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return False
    import sqlite3  # not every process that logs has a journal

    return code & 0xFF in (
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,  # also if the disk failed once while it read
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
    )


faults = Faults()
"""The contained errors of this process."""

_log = get_logger("faults")
