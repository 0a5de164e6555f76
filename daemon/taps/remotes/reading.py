"""Commits what `sending.py` writes: each event of a remote once, in streams and sessions of its own.

Ids of streams, sessions, output bodies and requests get the name of the remote before them, so nothing that a remote
says can reach a stream or a session of another machine. Each stream's position in the remote's journal is committed
with its events (`StreamInfo.remote`). The stream `NAME/` has the position up to which everything is committed, where
the next connection resumes, and the notices about what is missing.

If the remote's journal was replaced or set back, its numbers begin anew: a new epoch. A stream that was read in an
earlier epoch continues after the last line that was read of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec

from tooltap.daemon.export.redaction import masked_line, masked_output
from tooltap.daemon.journal.interface import Commit, Journal, RemotePosition, StreamInfo, place_of_output
from tooltap.daemon.journal.json_lines import OutputLine
from tooltap.daemon.sessions.joining import is_telemetry, remove_reported
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.taps.remotes.sending import Working
from tooltap.daemon.taps.remotes.settings import Bounds
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.normalizers.wire.framing import LongLine, Splitter
from tooltap.protocol.events import Notice, Usage, decode
from tooltap.protocol.frames import ErrorFrame, Gap, Live, Subscribed
from tooltap.protocol.replies import StreamState
from tooltap.protocol.stats import Statistics
from tooltap.traces.recording.secrets import mask_secrets

BATCH_EVENTS = 500
BATCH_BYTES = 1024 * 1024
"""Most events and bytes of one commit, about."""
STREAMS_IN_MEMORY = 1_000

_SEQ = re.compile(rb'\{"seq":(\d{1,18}),')
_JOURNAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STREAM = re.compile(r"[A-Za-z0-9._~/-]{1,200}")
_frames = msgspec.json.Decoder(Subscribed | Live | Gap | ErrorFrame | OutputLine | Working)
_REASONS = {
    "retention": "it had deleted them before they were read",
    "corrupt": "they are damaged in its journal",
}


class BadRemoteError(Exception):
    """The remote has sent what no tooltap sends; the message is one sentence for the user."""


class Reader:
    """Reads the lines of one connection to a remote."""

    def __init__(self, journal: Journal, name: str, bounds: Bounds, *, masks: bool) -> None:
        self.is_live = False
        """Everything that the remote had when the connection began is committed."""
        self.behind: int | None = None
        """How many events of the remote were missing here when it was last known; None: not known yet."""
        self._journal = journal
        self._name = name
        self._masks = masks
        self._bounds = bounds
        self._splitter = Splitter(bounds.line_bytes)
        self._infos: dict[str, StreamInfo] = {}
        self._own: StreamInfo
        self._place: RemotePosition
        """Position after everything that was read, whether or not it is committed."""
        self._stream: StreamInfo | None = None
        """The stream of the events that wait to be committed."""
        self._batch: list[Produced | OutputChunk] = []
        self._bytes = 0
        self._bodies: dict[str, tuple[str, bytearray]] = {}
        """Bodies of the next event: id -> type and bytes."""
        self._latest: int | None = None
        """The last `seq` of the remote when the connection began; None: it has not said a word yet."""
        self._touched: set[str] = set()
        """Streams with commits since the last frame `working`."""

    async def open(self) -> str:
        """Return the cursor after which the remote is to send. Raises `JournalError` and `BadRemoteError`."""
        self._own = await self._info(f"{self._name}/", provider="tooltap", dialect="remote")
        place = self._own.remote
        assert place is not None
        self._place = msgspec.structs.replace(place)
        return f"{place.journal}:{place.seq}" if place.seq else "start"

    async def feed(self, data: bytes) -> None:
        """Read bytes, and commit what they complete. Raises `JournalError` and `BadRemoteError`."""
        for line in self._splitter.feed(data):
            if isinstance(line, LongLine):
                raise self._beyond("a line", "line_bytes")
            await self._read(line)
        if self._splitter.pending > self._bounds.line_bytes:
            raise self._beyond("a line", "line_bytes")
        await self._commit_all()

    async def close(self) -> None:
        """Note that the remote is away: none of its streams is open. Raises `JournalError`."""
        self._infos.clear()  # they may be ahead of the journal, if a commit has failed
        for info in await self._unended():
            if info.state == "open":
                await self._set_state(info, "suspended")

    # -- lines ----------------------------------------------------------------------------------------------------

    async def _read(self, line: bytes) -> None:
        if (found := _SEQ.match(line)) is not None:
            await self._event(int(found[1]), b"{" + line[found.end() :])
            return
        try:
            frame = _frames.decode(line)
        except msgspec.ValidationError:
            if not line.startswith(b'{"op":'):
                raise BadRemoteError(self._not_ours(line)) from None
            return  # a newer release says more
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise BadRemoteError(self._not_ours(line)) from None
        match frame:
            case Subscribed():
                await self._subscribed(frame)
            case Gap():
                await self._gap(frame)
            case OutputLine():
                self._output(frame)
            case Live():
                self.is_live = True
            case Working(streams):
                await self._commit_all()
                await self._note_working({f"{self._name}/{one}" for one in streams})
            case ErrorFrame():
                raise BadRemoteError(frame.message)

    def _not_ours(self, line: bytes) -> str:
        what = f"the remote has sent a line that is not tooltap's: {line[:80].decode(errors='replace')!r}"
        is_first = self._latest is None
        return f"{what}; the files with which a shell starts there must print nothing" if is_first else what

    def _beyond(self, what: str, bound: str) -> BadRemoteError:
        """`bound`: the name of the setting that `what` exceeds."""
        most = getattr(self._bounds, bound)
        where = f"after event {self._place.seq}" if self._place.seq else "before its first event"
        return BadRemoteError(
            f"{where}, the remote has sent {what} of more than {most:,} bytes: raise `{bound}` in the table `remotes`"
            " of the configuration, and restart the daemon"
        )

    async def _subscribed(self, frame: Subscribed) -> None:
        if _JOURNAL.fullmatch(frame.journal) is None:
            raise BadRemoteError("the remote's journal has an id that no journal has")
        self._latest = frame.latest
        if self._place.journal not in ("", frame.journal):
            await self._begin_epoch(frame.journal)
        self._place.journal = frame.journal

    async def _gap(self, gap: Gap) -> None:
        if gap.reason == "reset":
            if self._place.seq:  # the journal has the same id, but it was set back
                await self._begin_epoch(self._place.journal)
        elif gap.to > max(self._place.gap, self._place.seq):
            self._place.gap = gap.to
            what = f"events {gap.from_} to {gap.to} of {self._name}, or some of them, are missing"
            data = {"from": gap.from_, "to": gap.to, "reason": gap.reason}
            await self._notice(f"{what}: {_REASONS[gap.reason]}", data)

    async def _begin_epoch(self, journal: str) -> None:
        await self._commit_all()
        self._place = RemotePosition(journal=journal, epoch=self._place.epoch + 1)
        await self._notice(
            f"the journal of {self._name} was replaced or set back: what it has now is read from its beginning, and"
            " what was read before stays",
            {"reason": "reset"},
        )

    async def _notice(self, text: str, data: dict[str, Any]) -> None:
        """Commit a notice, after all events before it, with the position from which it follows."""
        await self._commit_batch()
        stream = self._own.stream
        self._own.told += 1
        notice = Notice(
            v=2,
            id=f"{stream}:0d:{self._own.told}",
            stream=stream,
            line=0,
            session=stream,
            protocol="tooltap",
            provider="tooltap",
            dialect="remote",
            host=self._name,
            ts=wall_clock(),
            level="warning",
            code="lost",
            text=text,
            data=data,
        )
        await self._commit_place(Produced.of(notice))

    def _output(self, part: OutputLine) -> None:
        if place_of_output(part.output_id) is None or not isinstance(part.mime_type, str):
            raise BadRemoteError("the remote has sent an output that is of no event")
        _, body = self._bodies.setdefault(part.output_id, (part.mime_type, bytearray()))
        data = part.text.encode() if isinstance(part.text, str) else part.b64
        if not isinstance(data, bytes) or part.offset != len(body):
            raise BadRemoteError("the remote has sent a part of an output in the wrong place")
        body += data
        if sum(len(one) for _, one in self._bodies.values()) > self._bounds.body_bytes:
            raise self._beyond("outputs of one event", "body_bytes")

    async def _event(self, seq: int, body: bytes) -> None:
        bodies, self._bodies = self._bodies, {}
        if seq <= self._place.seq:
            return
        if not self._place.journal:
            raise BadRemoteError("the remote has sent an event before it said of which journal it is")
        try:
            event = self._own_event(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._place.seq = seq
            await self._notice(f"event {seq} of {self._name} cannot be read: {error}", {"from": seq, "to": seq})
            return
        if event is None:
            self._place.seq = seq
            return
        info = await self._info(event.stream, provider=event.provider, dialect=event.fields.dialect)
        position, line = info.remote, event.fields.line
        assert position is not None
        if event.id == position.first and position.epoch == self._place.epoch and position.seq < seq:
            info, position = await self._begin_again(event)
        if position.epoch == self._place.epoch and not position.again:
            is_known = seq <= position.seq
        else:
            is_known = line <= position.line
        if not is_known:
            if isinstance(event.fields, Notice) and event.fields.code == "replaced":
                await self._withdraw(event.session)
            if self._stream is not info or len(self._batch) >= BATCH_EVENTS or self._bytes >= BATCH_BYTES:
                await self._commit_batch()
            self._stream = info
            for output_id, (mime_type, data) in bodies.items():
                await self._add_body(event.stream, f"{self._name}/{output_id}", mime_type, bytes(data))
            self._batch.append(event)
            self._bytes += len(event.body)
            first, last = position.first or event.id, max(line, position.line)
            info.remote = RemotePosition(epoch=self._place.epoch, seq=seq, line=last, first=first)
            info.last_session = event.session
            info.forgotten = False
        self._place.seq = seq

    async def _begin_again(self, event: Produced) -> tuple[StreamInfo, RemotePosition]:
        """Note that the remote reads a stream again, of which this is the first event, as it does with a session file
        whose session it had deleted. What is here is left out, unless it was deleted here, too."""
        await self._commit_batch()
        self._infos.pop(event.stream, None)
        info = await self._info(event.stream, provider=event.provider, dialect=event.fields.dialect)
        assert info.remote is not None
        position = msgspec.structs.replace(info.remote, again=not info.forgotten)
        info.remote = msgspec.structs.replace(position, first="", line=0) if info.forgotten else position
        await self._commit(info, ())
        return info, info.remote

    async def _withdraw(self, session: str) -> None:
        """Delete what telemetry has reported of a session, as the remote has done because the session's file reports
        all of it again."""
        await self._commit_batch()
        streams = await self._journal.streams_of(session)
        if not streams or not all(map(is_telemetry, streams)):
            return
        for one in streams:
            if one.state != "ended":
                await self._set_state(one, "ended")
            self._infos.pop(one.stream, None)
        await remove_reported(self._journal, session)

    def _own_event(self, body: bytes) -> Produced | None:
        """Return the event as one of this journal's; None for one that the remote has read from a remote of its own,
        which may be this machine. Raises `BadRemoteError` and `msgspec.MsgspecError`."""
        if self._masks:
            body = masked_line(body, mask_secrets)
        event = decode(body)
        if _STREAM.fullmatch(event.stream) is None or not event.id.startswith(f"{event.stream}:"):
            raise BadRemoteError("the remote has sent an event of another stream than it names")
        fields = msgspec.json.decode(body)
        if "host" in fields:
            return None
        prefixed = ["id", "stream", "session", "alias", "forkedFrom", "parentSession", "resumes", "beside"]
        if isinstance(event, Usage):
            prefixed.append("request")
        for key in [*prefixed, "replaces"]:
            if isinstance(value := fields.get(key), str):
                fields[key] = f"{self._name}/{value}"
        self._prefix_outputs(fields, event.stream)
        fields["host"] = self._name
        encoded = msgspec.json.encode(fields)
        return Produced.of(decode(encoded), encoded)

    def _prefix_outputs(self, fields: dict[str, Any], stream: str) -> None:
        left: list[Any] = [fields]
        while left:
            one = left.pop()
            if isinstance(one, dict):
                left += one.values()
                named = one.get("outputId")
                if isinstance(named, str) and named.startswith(f"{stream}:") and place_of_output(named) is not None:
                    one["outputId"] = f"{self._name}/{named}"
            elif isinstance(one, list):
                left += one

    async def _add_body(self, stream: str, output_id: str, mime_type: str, data: bytes) -> None:
        """Add the part of a body that the journal does not have."""
        if not output_id.startswith(f"{stream}:"):
            raise BadRemoteError("the remote has sent an output of another stream than its event's")
        chunks = (one for one in self._batch if isinstance(one, OutputChunk) and one.output_id == output_id)
        found = await self._journal.output(output_id, 0, 1, "bytes")
        size = sum(len(one.data) for one in chunks) + (0 if found is None else found.total)
        if self._masks:
            data = b"" if size else masked_output(data, mask_secrets)
        if len(data) > size:
            self._batch.append(OutputChunk(output_id, size, data[size:], mime_type))
            self._bytes += len(data) - size

    # -- commits --------------------------------------------------------------------------------------------------

    async def _info(self, stream: str, *, provider: str, dialect: str) -> StreamInfo:
        if (known := self._infos.get(stream)) is not None:
            return known
        stored = await self._journal.load_stream(stream)
        if stored is None:
            info = StreamInfo(
                stream=stream,
                asked_dialect=dialect,
                dialect=dialect,
                provider=provider,
                state="suspended",
                remote=RemotePosition(),
                statistics=Statistics(stream=stream, dialect=dialect, provider=provider),
            )
        elif (info := stored.info).remote is None:
            raise BadRemoteError(f"stream {stream} is one of this machine: give the remote another name")
        if len(self._infos) >= STREAMS_IN_MEMORY:
            await self._commit_batch()
            self._infos.clear()
        self._infos[stream] = info
        return info

    async def _commit_all(self) -> None:
        """Commit what was read, and then that it was. Without this, the next connection reads again from where the last
        one was committed, and each stream leaves out what it has."""
        await self._commit_batch()
        if self._own.remote != self._place:
            await self._commit_place()
        self.behind = max((self._latest or 0) - self._place.seq, 0)

    async def _commit_place(self, *notices: Produced) -> None:
        self._own.remote = msgspec.structs.replace(self._place)
        await self._commit(self._own, notices)

    async def _commit_batch(self) -> None:
        batch, self._batch, self._bytes = self._batch, [], 0
        info, self._stream = self._stream, None
        if info is None:
            return
        if self.is_live or info.state == "ended":
            info.state = "open" if self.is_live else "suspended"
        self._touched.add(info.stream)
        await self._commit(info, batch)

    async def _commit(self, info: StreamInfo, outputs: Sequence[Produced | OutputChunk]) -> None:
        info.updated = wall_clock()
        with anyio.CancelScope(shield=True):  # what is queued is written, and `close` must find it
            await self._journal.commit(Commit(info, info.lines, outputs, ()))

    # -- the states of streams ------------------------------------------------------------------------------------

    async def _note_working(self, working: set[str]) -> None:
        """Open the streams whose sessions are running or waiting, and end the others. One that has had events since the
        last such frame may not be in it yet, and waits for the next."""
        touched, self._touched = self._touched, set()
        for info in await self._unended():
            state: StreamState = "open" if info.stream in working else "ended"
            if info.state != state and (state == "open" or info.stream not in touched):
                await self._set_state(info, state)

    async def _unended(self) -> list[StreamInfo]:
        stored = [*await self._journal.streams("open"), *await self._journal.streams("suspended")]
        return [one for one in stored if one.stream.startswith(f"{self._name}/") and one.stream != self._own.stream]

    async def _set_state(self, info: StreamInfo, state: StreamState) -> None:
        info = self._infos.get(info.stream, info)
        info.state = state
        await self._commit(info, ())
