"""Bisection of a failed commit: inputs are committed in ever smaller parts, until only what cannot be committed is left
alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from tooltap.daemon.ingest.inputs import DROPPABLE, Input, parts_of, replacement_of
from tooltap.daemon.ingest.live_stream import LiveStream
from tooltap.daemon.journal.interface import JournalError, StreamConflictError, UnstorableError
from tooltap.daemon.system.logs import faults
from tooltap.normalizers.stream.reset import place_of, reason_of


def is_final(error: Exception) -> bool:
    """Whether the same would happen to any other commit."""
    return isinstance(error, JournalError | StreamConflictError) and not isinstance(error, UnstorableError)


async def commit_in_parts(
    stream: str,
    inputs: list[Input],
    reload: Callable[[], Awaitable[LiveStream]],
    commit: Callable[[LiveStream], Awaitable[None]],
    is_over: Callable[[], bool],
) -> LiveStream:
    """Commit what is in `inputs`, also what is added meanwhile, and take it out. A line that cannot be committed alone
    is committed as `unparsed`. Returns the stream after that, unless `is_over`.

    `reload` rebuilds the stream from the journal. Raises `JournalError`, `StreamConflictError`, and what a part raises
    that cannot be replaced."""
    live = await reload()
    while inputs and not is_over():
        groups = [list(inputs)]
        while groups and not is_over():
            group = groups.pop()  # the first of `inputs`
            try:
                for one in group:
                    live.apply(one)
                await commit(live)
            except Exception as error:
                if is_final(error):
                    raise
                live = await reload()
                parts = _smaller(group, error, stream)
                inputs[: len(group)] = parts
                middle = len(parts) // 2
                groups += [part for part in (parts[middle:], parts[:middle]) if part]
            else:
                del inputs[: len(group)]
    return live


def _smaller(group: list[Input], error: Exception, stream: str) -> list[Input]:
    """Everything in a group that could not be committed, or what replaces the only thing in it."""
    parts = [part for one in group for part in parts_of(one)]
    if len(parts) > 1:
        return parts
    instead = replacement_of(parts[0], reason_of(error))
    if instead is None and not isinstance(parts[0], DROPPABLE):
        raise error
    faults.note("a line could not be committed", place_of(error), error, stream=stream)
    return [] if instead is None else [instead]


@contextmanager
def contained(what: str, **about: object) -> Iterator[None]:
    """Log and count what raises in here. `what`: a sentence that says what did not happen."""
    try:
        yield
    except Exception as error:
        faults.note(what, place_of(error), error, **about)
