"""Output of all commands, sanitized so that no text from outside can control the terminal.

A text is sanitized when it is printed, unless it is `Clean`. Only this module makes `Clean` texts: `styled` sanitizes
its text and adds our colors. Joining texts in any other way than with `joined` gives an ordinary string, which is
sanitized again and loses its colors, so the default is safe. A line is printed as one line, whatever it contains, and
its length is limited.

JSON keeps its values exactly: control characters are written as escapes. Event lines are escaped on a terminal only;
elsewhere programs get exactly the bytes that the journal has.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, TextIO

from tooltap.cli.common.guard import MAX_LINE, Guarded
from tooltap.daemon.system.sanitize import MAX_PART, one_line, sanitize, sanitize_json

MAX_ID = 200
"""Code points printed of the id of a stream or a session; the maximum length of a stream's id."""
STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


class Clean(str):
    """A sanitized text, which is printed as it is."""


def styled(text: str, style: str) -> Clean:
    """Return the text, sanitized, in one of `STYLES`."""
    return Clean(f"\x1b[{STYLES[style]}m{_spaced(text)}\x1b[0m")


def joined(parts: Iterable[str], between: str = "") -> Clean:
    """Join parts into one line, and sanitize those that are not `Clean`; the others keep their colors."""
    cleaned: list[str] = []
    room = MAX_LINE
    for part in parts:
        cleaned.append(part if isinstance(part, Clean) else _spaced(part, room))
        room = max(room - len(cleaned[-1]), 1)
    return Clean(between.join(cleaned))


def cleaned(text: str) -> Clean:
    """Sanitize a text of several lines."""
    return Clean(sanitize(text))


def lines_of(*texts: Clean) -> Clean:
    """The texts, and a newline after each."""
    return Clean("".join(f"{text}\n" for text in texts))


def _spaced(text: str, length: int = MAX_LINE) -> str:
    """Sanitize a text as one line of at most `length` code points; spaces that align it are kept."""
    line = sanitize(text[: 4 * length]).replace("\n", " ").replace("\t", " ")
    return line if len(line) <= length else f"{line[: length - 1]}…"


def short(text: object, length: int = MAX_PART) -> str:
    """Sanitize and truncate a name, title, version or other short text from outside, for use within a line."""
    return one_line(str(text), length)


def say(text: str = "") -> None:
    """Print a line on standard output."""
    _write(sys.stdout, f"{_line(text)}\n")
    flush()


def on_stderr(text: str) -> None:
    """Print a line on standard error."""
    _write(sys.stderr, f"{_line(text)}\n")
    flush(err=True)


def warn(message: str) -> None:
    """Print a sentence about what is wrong on standard error, as `tooltap: …`. Spaces in it, as of a path, are kept."""
    on_stderr(f"tooltap: {_spaced(message)}")


def say_text(text: str) -> None:
    """Print a text of several lines, with its last newline, on standard output."""
    write_text(text)
    flush()


def say_json(value: bytes, *, err: bool = False) -> None:
    """Print one JSON value on a line."""
    _write(sys.stderr if err else sys.stdout, value + b"\n")
    flush(err=err)


def say_object(value: object) -> None:
    """Print a value as JSON on a line."""
    import orjson

    say_json(orjson.dumps(value))


def write_text(text: str) -> None:
    """Print as `say_text` does, but without flushing."""
    _write(sys.stdout, text if isinstance(text, Clean) else sanitize(text))


def write_events(lines: bytes) -> None:
    """Write events as JSON lines to standard output, without flushing. Control characters are escaped on a terminal
    only."""
    if at_terminal():
        _write(sys.stdout, lines)
    elif sys.stdout is not None:
        with _unless_unread(sys.stdout):
            sys.stdout.buffer.write(lines)


def flush(*, err: bool = False) -> None:
    if (stream := sys.stderr if err else sys.stdout) is not None:
        with _unless_unread(stream):
            stream.flush()


_outlives_readers = False
"""Whether a command goes on after a reader has closed the pipe."""


@contextmanager
def outliving_readers() -> Iterator[None]:
    """In the block, what nobody reads any more is discarded. Elsewhere it raises `BrokenPipeError`, which ends the
    command."""
    global _outlives_readers
    before, _outlives_readers = _outlives_readers, True
    try:
        yield
    finally:
        _outlives_readers = before


@contextmanager
def _unless_unread(stream: TextIO) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        if not _outlives_readers:
            raise
        discard(stream)


def discard(stream: TextIO) -> None:
    """Discard what is in the buffer of a standard stream, and all that will be written to it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def binary_output() -> BinaryIO:
    """Standard output as a binary stream, for commands whose output is a file."""
    return sys.stdout.buffer


def at_terminal(*, err: bool = False) -> bool:
    stream = sys.stderr if err else sys.stdout
    return stream is not None and stream.isatty()


def wants_colour() -> bool:
    return at_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal(*, err: bool = False) -> TextIO:
    """Return standard output or error without its guard, for code that draws on a terminal and passes only clean
    text."""
    stream: Any = sys.stderr if err else sys.stdout
    return stream.unguarded if isinstance(stream, Guarded) else stream


def _line(text: str) -> str:
    return text if isinstance(text, Clean) else _spaced(text)


def _write(stream: TextIO | None, text: str | bytes) -> None:
    """Write text, or JSON as bytes, bypassing the guard."""
    if stream is None:  # it was closed before we started
        return
    if isinstance(text, bytes):
        # In another encoding than UTF-8, bytes of a character could be controls.
        plain = stream.encoding.lower() != "utf-8" and stream.isatty()
        data = sanitize_json(text, plain=plain)
    else:
        data = text.encode(stream.encoding, "replace")  # what cannot be encoded would stop the command
    with _unless_unread(stream):
        stream.buffer.write(data)


@contextmanager
def progress(size: int, *, data_on_stdout: bool) -> Iterator[Callable[[int], None]]:
    """Draw a progress bar on a terminal, unless the command prints data on it. Yields a function to call with the
    number of bytes just read, of `size` in all."""
    if size == 0 or not at_terminal(err=True) or (data_on_stdout and at_terminal()):
        yield lambda _: None
        return
    import click  # a tap prints without it

    with click.progressbar(length=size, file=terminal(err=True)) as bar:
        yield bar.update
