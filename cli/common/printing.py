"""Everything that commands print goes through here, and nothing reaches a terminal that could control it.

A text is cleaned when it is printed, unless it is `Clean`, which only this module makes: `styled` cleans its text and
adds our colours. To join texts in any other way than with `joined` gives an ordinary one, which is cleaned again and
loses its colours. So what is forgotten is safe. A line is printed as one line, whatever it holds, and is bounded.

JSON keeps its values exactly: what a terminal would obey is written as an escape. Only lines of events are left as they
are where no terminal shows them: programs may rely on getting the bytes that the journal has.
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
"""Code points of the id of a stream or a session: as many as the id of a stream may have."""
STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


class Clean(str):
    """A text that can be printed as it is."""


def styled(text: str, style: str) -> Clean:
    """The text in one of `STYLES`."""
    return Clean(f"\x1b[{STYLES[style]}m{_spaced(text)}\x1b[0m")


def joined(parts: Iterable[str], between: str = "") -> Clean:
    """The parts as one line, those that are `Clean` with their colours."""
    cleaned: list[str] = []
    room = MAX_LINE
    for part in parts:
        cleaned.append(part if isinstance(part, Clean) else _spaced(part, room))
        room = max(room - len(cleaned[-1]), 1)
    return Clean(between.join(cleaned))


def cleaned(text: str) -> Clean:
    """A text of several lines."""
    return Clean(sanitize(text))


def lines_of(*texts: Clean) -> Clean:
    """The texts, and a newline after each."""
    return Clean("".join(f"{text}\n" for text in texts))


def _spaced(text: str, length: int = MAX_LINE) -> str:
    """As one line, with the spaces that align it."""
    line = sanitize(text[: 4 * length]).replace("\n", " ").replace("\t", " ")
    return line if len(line) <= length else f"{line[: length - 1]}…"


def short(text: object, length: int = MAX_PART) -> str:
    """A name, title, version or other short text from outside, as part of a line."""
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
    """Print a sentence about what is wrong on standard error, as `tooltap: …`."""
    on_stderr(f"tooltap: {one_line(message, MAX_LINE)}")


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
    """As `say_text`, but it may wait for `flush`."""
    _write(sys.stdout, text if isinstance(text, Clean) else sanitize(text))


def write_events(lines: bytes) -> None:
    """Write events as JSON lines to standard output, at the latest with `flush`. Only a terminal gets escapes."""
    if at_terminal():
        _write(sys.stdout, lines)
    elif sys.stdout is not None:
        sys.stdout.buffer.write(lines)


def flush(*, err: bool = False) -> None:
    if (stream := sys.stderr if err else sys.stdout) is not None:
        stream.flush()


def binary_output() -> BinaryIO:
    """Standard output for a file that is written to it."""
    return sys.stdout.buffer


def at_terminal(*, err: bool = False) -> bool:
    stream = sys.stderr if err else sys.stdout
    return stream is not None and stream.isatty()


def wants_colour() -> bool:
    return at_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal(*, err: bool = False) -> TextIO:
    """The stream without its guard, for a library that draws on a terminal, and is given nothing but clean text."""
    stream: Any = sys.stderr if err else sys.stdout
    return stream.unguarded if isinstance(stream, Guarded) else stream


def _line(text: str) -> str:
    return text if isinstance(text, Clean) else _spaced(text)


def _write(stream: TextIO | None, text: str | bytes) -> None:
    """Text, or JSON as bytes."""
    if stream is None:  # it was closed before we started
        return
    if isinstance(text, bytes):
        # In another encoding than UTF-8, bytes of a character could be controls.
        plain = stream.encoding.lower() != "utf-8" and stream.isatty()
        stream.buffer.write(sanitize_json(text, plain=plain))
    else:
        stream.buffer.write(text.encode(stream.encoding, "replace"))  # what cannot be encoded would stop the command


@contextmanager
def progress(size: int, *, data_on_stdout: bool) -> Iterator[Callable[[int], None]]:
    """Draw a progress bar on a terminal, unless the command prints data on it. Return a function to call with the
    number of bytes just read, of `size` in all."""
    if size == 0 or not at_terminal(err=True) or (data_on_stdout and at_terminal()):
        yield lambda _: None
        return
    import click  # a tap prints without it

    with click.progressbar(length=size, file=terminal(err=True)) as bar:
        yield bar.update
