"""One stream's part of the trace: committed lines, as trace records.

While `auto` has not recognised the dialect, the first lines are held here as they are in the parser, so that every
record carries the dialect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tooltap.daemon.ingest.inputs import RECORD_BYTES
from tooltap.daemon.ingest.live_stream import LiveStream, masked_prompt
from tooltap.daemon.journal.interface import Commit, StreamInfo
from tooltap.protocol.inputs import Close, Line, Lost, each, lines_of
from tooltap.traces.recording.writer import Declared, TraceRecord, TraceWriter

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
                tail = [one for record in commit.tail for one in each(record)]
                size = sum((len(one.line) if isinstance(one, Line) else 0) + RECORD_BYTES for one in tail)
                dialect, known = self.live.normalizer.dialect, self._held[-1].info
                records = _records(tail, commit.base_lines, dialect, known, self._declared, self._prompt)
                self._writer.write(records, len(tail), size)
        self._held = []


def _records(
    tail: Sequence[Line | Lost | Close],
    number: int,
    dialect: str | None,
    known: StreamInfo,
    declared: Declared,
    prompt: str | None,
) -> Iterator[TraceRecord]:
    """`number`: lines before these. `known`: the latest information about the stream."""
    for one in tail:
        number += lines_of(one)
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
        )
        match one:
            case Line():
                record.dir, record.b64, record.size = one.direction, one.line, one.size
            case Lost():
                record.op, record.reason = "lost", one.reason
                record.lines, record.size = one.lines or None, one.bytes or None
            case Close():
                record.op, record.reason = "close", one.reason
        yield record
