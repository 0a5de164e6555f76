"""Shows what a command prints page by page, if its output is a terminal: with `$PAGER`, else `less -R`."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tooltap.cli.common.printing import at_terminal, terminal, warn

LESS = "FRX"
"""Options of `less`, if the user has set none: to end if all fits on the screen, show colours, leave the text."""


@contextmanager
def paged() -> Iterator[None]:
    """Send standard output to the pager until the end of the block, which ends early if the user leaves the pager."""
    words = _pager() if at_terminal() else []
    if not words:
        yield
        return
    environment = {**os.environ, "LESS": os.environ.get("LESS", LESS)}
    try:
        pager = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=terminal(), env=environment)
    except OSError as error:
        warn(f"PAGER cannot be started: {words[0]}: {error.strerror}")
        yield
        return
    assert pager.stdin is not None
    shown, streams = sys.stdout, sys
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pager has its own use for Ctrl-C
    output = io.TextIOWrapper(pager.stdin, "utf-8", errors="backslashreplace")
    streams.stdout = output
    try:
        yield
    except BrokenPipeError:
        pass
    finally:
        streams.stdout = shown
        with suppress(OSError):
            output.close()
        pager.wait()
        signal.signal(signal.SIGINT, usual)


def _pager() -> list[str]:
    """The words of the command; none to do without."""
    if "PAGER" not in os.environ:
        return ["less"] if shutil.which("less") else []
    try:
        return shlex.split(os.environ["PAGER"])
    except ValueError:
        return []
