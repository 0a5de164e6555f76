"""One stream's part of the trace: committed lines, as trace records.

While `auto` has not recognised the dialect, the first lines are held here as they are in the parser, so that every
record carries the dialect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tooltap.daemon.ingest.live_stream import RECORD_BYTES, LiveStream
from tooltap.daemon.ingest.masking import masked_prompt
from tooltap.daemon.journal.interface import Commit, StreamInfo, TailRecord
from tooltap.traces.recording.record import Declared, TraceRecord
from tooltap.traces.recording.writer import TraceWriter

__all__ = ["StreamTrace"]

NOTHING = Declared()


class StreamTrace:
    def __init__(self, writer: TraceWriter, live: LiveStream) -> None:
        self._writer = writer
        self.live = live
        info = live.info
        declared = Declared(
            provider=info.provider,
            session=info.session,
            agent=info.agent,
            parent=info.parent,
            mcp_servers=info.mcp_servers,
        )
        self._declared = declared
        self._prompt = masked_prompt(info.prompt)
        self._held: list[Commit] = []

    def add(self, commit: Commit) -> None:
        """Add a durable commit."""
        self._held.append(commit)
        if self.live.normalizer.dialect is not None or not self.live.normalizer.holds_lines:
            self.release()

    def release(self) -> None:
        """Write what is held."""
        for commit in self._held:
            if commit.tail:
                tail = [one for record in commit.tail for one in record.inputs()]
                size = sum(len(one.line) + RECORD_BYTES for one in tail)
                dialect, known = self.live.normalizer.dialect, self._held[-1].info
                records = _records(tail, commit.base_lines, dialect, known, self._declared, self._prompt)
                self._writer.write(records, len(tail), size)
        self._held = []


def _records(
    tail: Sequence[TailRecord],
    number: int,
    dialect: str | None,
    known: StreamInfo,
    declared: Declared,
    prompt: str | None,
) -> Iterator[TraceRecord]:
    """`number`: lines before these. `known`: the latest information about the stream."""
    for one in tail:
        number += {"lost": one.lines, "close": 0}.get(one.kind, 1)
        stated = msgspec.structs.replace(declared, prompt=prompt) if number == 1 else declared
        record = TraceRecord(
            v=1,
            t=one.t,
            stream=known.stream,
            dialect=dialect,
            provider=known.statistics.provider,
            agent_version=known.agent_version,
            declared=None if stated == NOTHING else stated,
            n=number,
            dir=one.direction,
        )
        if one.kind == "lost" or one.kind == "close":
            record.op, record.reason = one.kind, one.reason
            record.lines, record.size = one.lines or None, one.size or None
        else:
            record.b64, record.size = one.line, one.size or None
        yield record
