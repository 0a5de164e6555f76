"""Rebuild a stream from the journal: load its snapshot, then feed it its tail with the stored times.

The tail was committed with its events, so what the parser emits for it is thrown away, after a comparison: lines,
dialect and the checksum over event ids must equal the committed ones. Only then will the parser treat the next line as
the parser that was lost would have done. The checksum covers every event, also those that were left out because another
stream reports them.

If the comparison fails (the parser was upgraded in between, or retention took the state), a fresh parser continues at
the next line and emits a reset. The reset is written with the stream's next commit: reading an ended stream changes
nothing.

Lines that `auto` held when the stream was stored have emitted nothing yet. If a newer sniffer recognises them now,
their events are new and are not thrown away.
"""

from __future__ import annotations

from typing import Any

import anyio.to_thread
import msgspec

from tooltap.daemon.ingest.live_stream import SNAPSHOT_FORMAT, LiveStream, Snapshot, context_of, ids_of, load_normalizer
from tooltap.daemon.journal.interface import Journal, JournalError, StoredStream, StreamInfo
from tooltap.daemon.system.logs import faults
from tooltap.daemon.views.results import StreamViews
from tooltap.normalizers.catalog.registry import UnknownDialectError
from tooltap.normalizers.core.items import Limits
from tooltap.normalizers.core.state import Call, PendingPermission
from tooltap.normalizers.stream.normalizer import AUTO, Output, StreamNormalizer
from tooltap.normalizers.stream.reset import LeftOpen, place_of
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.inputs import Close, Line, Lost, each
from tooltap.traces.drift.drift import Drift

_snapshot_decoder = msgspec.msgpack.Decoder(Snapshot)


async def resume(
    journal: Journal,
    stored: StoredStream,
    *,
    limits: Limits,
    snapshot_bytes: int,
    now: int,
    drift: Drift | None = None,
    views: StreamViews | None = None,
    masks: bool = False,
) -> LiveStream:
    if views is not None:
        try:
            await views.restore(journal, stored.info.stream)
        except JournalError:
            raise
        except Exception as error:  # a view that shows a call's input is not made
            faults.note("open calls could not be read for views", place_of(error), error, stream=stored.info.stream)
    # In a thread: a long tail takes time, and other streams must not wait for it.
    try:
        rebuilt = await anyio.to_thread.run_sync(_rebuild, stored, limits)
    except Exception as error:
        faults.note("a stream could not be rebuilt", place_of(error), error, stream=stored.info.stream)
        rebuilt = None
    if rebuilt is not None:
        normalizer, outputs = rebuilt
        return LiveStream(
            stored.info,
            normalizer,
            committed_state=stored.info.state,
            snapshot_bytes=snapshot_bytes,
            tail_bytes=sum(len(one.line) for record in stored.tail for one in each(record) if isinstance(one, Line)),
            snapshot_size=len(stored.snapshot or b""),
            outputs=outputs,
            drift=drift,
            views=views,
            masks=masks,
        )
    normalizer = _fresh(stored.info, limits)
    rows = await journal.open_calls(stream=stored.info.stream)
    try:
        outputs = normalizer.restart(stored.info.lines, stored.info.statistics, _left_open(stored.info, rows), now)
    except Exception as error:  # what was open stays so in the journal until the stream ends
        faults.note("what a stream had open could not be closed", place_of(error), error, stream=stored.info.stream)
        normalizer = _fresh(stored.info, limits)
        outputs = normalizer.restart(stored.info.lines, stored.info.statistics, LeftOpen(), now)
    return LiveStream(
        stored.info,
        normalizer,
        committed_state=stored.info.state,
        snapshot_bytes=snapshot_bytes,
        outputs=outputs,
        needs_snapshot=True,
        drift=drift,
        views=views,
        masks=masks,
    )


def _rebuild(stored: StoredStream, limits: Limits) -> tuple[StreamNormalizer, list[Output]] | None:
    """The normalizer as it was, and its outputs that are not committed; None if it is not the same as before."""
    info = stored.info
    context = context_of(info, limits)
    ids = 0
    try:
        if stored.snapshot is None:
            normalizer = StreamNormalizer(context, info.asked_dialect)
        else:
            snapshot = _snapshot_decoder.decode(stored.snapshot)
            if snapshot.format != SNAPSHOT_FORMAT:
                return None
            normalizer = load_normalizer(snapshot.normalizer, context)
            ids = snapshot.ids
    except (msgspec.MsgspecError, UnknownDialectError):
        return None
    outputs: list[Output] = []
    for record in stored.tail:
        for one in each(record):
            outputs += _feed(normalizer, one)
    if normalizer.lines != info.lines:
        return None
    if info.lines and not info.statistics.lines:
        # All lines were held for sniffing and none has emitted anything. What they emit now is new.
        return normalizer, outputs
    # A line that raised only then, or only now: the ids are equal, but on one side the event is `unparsed`.
    is_misread = normalizer.statistics.unparsed != info.statistics.unparsed
    if normalizer.dialect != info.dialect or ids_of(outputs, ids) != info.ids or is_misread:
        return None
    normalizer.statistics = info.statistics
    return normalizer, []


def _feed(normalizer: StreamNormalizer, record: Line | Lost | Close) -> list[Output]:
    match record:
        case Line():
            line = record.line if record.size is None else LongLine(record.line, record.size)
            return normalizer.feed(line, record.t, record.direction)
        case Lost():
            return normalizer.lost(record.lines, record.bytes, record.reason, record.t)
        case Close():
            return normalizer.close(record.reason, record.t)


def _fresh(info: StreamInfo, limits: Limits) -> StreamNormalizer:
    try:
        return StreamNormalizer(context_of(info, limits), info.dialect or info.asked_dialect)
    except UnknownDialectError:  # its package is no longer installed
        return StreamNormalizer(context_of(info, limits), AUTO)


def _left_open(info: StreamInfo, rows: dict[str, list[dict[str, Any]]]) -> LeftOpen:
    calls = {
        row["callId"]: msgspec.convert(
            {**row, "id": row["callId"], "raw_name": row.get("rawToolName", row["name"])}, Call
        )
        for row in rows["calls"]
    }
    permissions = {
        row["permissionId"]: PendingPermission(
            session=row["session"], call_id=row.get("callId"), turn=row.get("turn"), agent=row.get("agent")
        )
        for row in rows["permissions"]
    }
    return LeftOpen(calls, permissions, session=info.last_session)
