"""What a stream knows of views that commands are still to make of its results."""

from __future__ import annotations

from tooltap.daemon.journal.interface import StreamInfo
from tooltap.daemon.views.rewriter import Outcomes
from tooltap.normalizers.stream.normalizer import Output

__all__ = ["settle"]


def settle(info: StreamInfo, outcomes: Outcomes) -> list[Output] | None:
    """Note what became of views, and return what is to be committed with the note; None if it was known."""
    known = outcomes.keys() & info.rewriting.keys()
    if not known:
        return None
    # A new table: the writer may be encoding the old one.
    info.rewriting = {result: daemon for result, daemon in info.rewriting.items() if result not in known}
    return [output for result, outputs in outcomes.items() if result in known for output in outputs]
