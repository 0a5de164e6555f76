"""Work for one stream, whose errors concern no other stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tooltap.daemon.system.logs import faults
from tooltap.normalizers.stream.guard import place_of

__all__ = ["contained"]


@contextmanager
def contained(what: str, **about: object) -> Iterator[None]:
    """Log and count what raises in here. `what`: a sentence that says what did not happen."""
    try:
        yield
    except Exception as error:
        faults.note(what, place_of(error), error, **about)
