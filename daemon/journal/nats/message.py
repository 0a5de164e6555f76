"""Encoding a commit as messages of a JetStream stream, and decoding them.

Nearly every commit is one message on its stream's own subject. A commit that is too large for a message, or has more
than 4,096 events, is an atomic batch of consecutive messages. Each message holds whole events, so that events can be
read from any one message. Everything else in a commit (tail, snapshot, chunks of output bodies: the "rest") is one byte
string, split where a message is full. The last message holds the stream's `StreamInfo` after the commit.

A message ends with a checksum over the whole message. For a damaged message, or one that is not tooltap's,
`decode_part` raises `DamagedError`, and readers report its events as lost. The data of chunks is compressed block by
block, where that is shorter.

The `seq` of an event is the sequence of its message times 4,096, plus its index: below 2**53 for 2·10¹² messages.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from tooltap.daemon.journal.interface import Commit, JournalError, StoredEvent, StreamInfo
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.protocol.inputs import Input

EVENTS_A_MESSAGE = 4_096
ENVELOPE_BYTES = 1_024
"""Bytes of a message reserved for its headers and for fields other than events, rest and info."""
EVENT_BYTES = 8
"""Overhead of an event in addition to its body, in bytes."""
BLOCK_BYTES = 262_144
"""Block size for compressing the data of a chunk. Blocks allow random access."""
SHORTEST = 256
"""Bytes of the shortest block that is compressed."""
LEVEL = 1
"""Level of zlib compression. Higher levels take several times as long, and save a few percent."""
SUM_BYTES = 4
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class DamagedError(Exception):
    """A message cannot be decoded, or its checksum is wrong."""


class CommitPart(msgspec.Struct, array_like=True):
    """One message: part `index` of the `count` parts of a commit."""

    commit: str
    """`<daemon>/<number>`: a daemon recognises its own commits by it."""
    index: int
    count: int
    since: int
    """Sequence of the message from which the stream's parser can be rebuilt; 0: the first part of this commit."""
    events: list[bytes]
    rest: bytes
    info: msgspec.Raw
    """`StreamInfo` in the last part, null in others."""
    sum: bytes = bytes(SUM_BYTES)
    """CRC-32 of all preceding bytes of the message."""

    @property
    def is_last(self) -> bool:
        return self.index == self.count - 1

    def stream_info(self) -> StreamInfo:
        return _info_decoder.decode(self.info)


class BodyChunk(NamedTuple):
    output_id: str
    mime_type: str
    size: int
    blocks: tuple[int, ...] = ()
    """Stored length of each block; shorter than its data if it is compressed. Empty: none is compressed."""


class Rest(msgspec.Struct, array_like=True):
    """The head of the rest of a commit (see above); the data of the chunks follows it."""

    tail: list[Input]
    snapshot: bytes | None
    chunks: list[BodyChunk]


_part_decoder = msgspec.msgpack.Decoder(CommitPart)
_info_decoder = msgspec.msgpack.Decoder(StreamInfo)
_rest_decoder = msgspec.msgpack.Decoder(Rest)
_encode = msgspec.msgpack.encode
LENGTH_BYTES = 4


def token(stream: str) -> str:
    """Escape a stream's id to one token of a NATS subject."""
    return quote(stream, safe="").replace(".", "%2E")


def end_of(message: int) -> int:
    """The highest `seq` that message `message` can have."""
    return message * EVENTS_A_MESSAGE + EVENTS_A_MESSAGE - 1


def events_of(message: int, events: Iterable[bytes]) -> list[StoredEvent]:
    first = message * EVENTS_A_MESSAGE
    return [StoredEvent(first + index, body) for index, body in enumerate(events)]


def decode_part(data: bytes) -> CommitPart:
    """Decode and verify a message. Raises `DamagedError`."""
    try:
        part = _part_decoder.decode(data)
    except UNREADABLE as error:
        raise DamagedError(str(error)) from None
    if zlib.crc32(memoryview(data)[:-SUM_BYTES]) != int.from_bytes(part.sum):
        raise DamagedError("its checksum is wrong")
    return part


def encode_part(part: CommitPart) -> bytes:
    data = _encode(part)[:-SUM_BYTES]
    return data + zlib.crc32(data).to_bytes(SUM_BYTES)


def commit_of(data: bytes) -> str:
    """The commit id of a message; for a damaged message, an id derived from its checksum."""
    try:
        return decode_part(data).commit
    except DamagedError:
        return f"damaged {zlib.crc32(data):08x}"


def encode_commit(commit: Commit, commit_id: str, since: int, max_bytes: int) -> list[CommitPart]:
    """Encode a commit as messages of at most `max_bytes` each. Raises `JournalError` for an event that does not fit."""
    info = _encode(commit.info)
    room = max_bytes - ENVELOPE_BYTES - len(info)
    bodies = [output.body for output in commit.outputs if isinstance(output, Produced) and not output.partial]
    longest = max(map(len, bodies), default=0) + EVENT_BYTES
    if longest > room:
        raise JournalError(
            f"an event of {longest} bytes is too long for the NATS server: set its max_payload to"
            f" {max_bytes - room + longest} or more"
        )
    # Messages filled by the rest come first, all of one length, so that a chunk is found without reading them all.
    rest = _rest(commit)
    cut = len(rest) - len(rest) % room
    contents = [(rest[start : start + room], list[bytes]()) for start in range(0, cut, room)]
    for events in _packed(bodies, room, taken=len(rest) - cut):
        contents.append((rest[cut:], events))
        cut = len(rest)
    nothing = msgspec.Raw(_encode(None))
    parts = [
        CommitPart(commit_id, index, len(contents), since, events, of_rest, nothing)
        for index, (of_rest, events) in enumerate(contents)
    ]
    parts[-1].info = msgspec.Raw(info)
    return parts


def _rest(commit: Commit) -> bytes:
    chunks = [output for output in commit.outputs if isinstance(output, OutputChunk)]
    # A snapshot replaces the tail, including that of its own commit.
    tail = [] if commit.snapshot is not None else list(commit.tail)
    described, data = list[BodyChunk](), list[bytes]()
    for chunk in chunks:
        blocks = [_packed_block(block) for block in _blocks(chunk.data)]
        data += blocks
        described.append(BodyChunk(chunk.output_id, chunk.mime_type, len(chunk.data), tuple(map(len, blocks))))
    head = _encode(Rest(tail, commit.snapshot, described))
    return b"".join([len(head).to_bytes(LENGTH_BYTES, "big"), head, *data])


def _blocks(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), BLOCK_BYTES):
        yield data[start : start + BLOCK_BYTES]


def _packed_block(data: bytes) -> bytes:
    if len(data) < SHORTEST:
        return data
    packed = zlib.compress(data, LEVEL)
    return packed if len(packed) < len(data) else data


def unpacked(data: bytes, size: int) -> bytes:
    """Decompress a stored block, if it is not `size` bytes long already. Raises `DamagedError`."""
    if len(data) == size:
        return data
    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise DamagedError(str(error)) from None


def _packed(bodies: Sequence[bytes], room: int, taken: int) -> Iterator[list[bytes]]:
    """Distribute events over messages of `room` bytes, at least one message; `taken` bytes of the first are in use."""
    events: list[bytes] = []
    for body in bodies:
        size = len(body) + EVENT_BYTES
        if taken + size > room or len(events) == EVENTS_A_MESSAGE:
            yield events
            events, taken = [], 0
        events.append(body)
        taken += size
    yield events


def read_rest(rest: bytes) -> tuple[Rest, int]:
    """Decode the head of the rest. Returns it, and the offset at which the data of the chunks begins. Raises
    `DamagedError`."""
    start = LENGTH_BYTES + int.from_bytes(rest[:LENGTH_BYTES], "big")
    try:
        return _rest_decoder.decode(rest[LENGTH_BYTES:start]), start
    except UNREADABLE as error:
        raise DamagedError(str(error)) from None
