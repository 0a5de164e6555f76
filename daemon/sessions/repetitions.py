"""What one stream reports of what another stream has reported already: each journal counts a request once.

A fork copies its parent's requests into a file of its own, a subagent is in its session's lines and in its own file,
and the same session may be tapped and read from a copy. So before events are stored, the journal looks their keys up:

- A request (`Usage.request`, with its provider) belongs to the stream that reported it first, in whatever session. In
  the same stream it counts once, too, unless the later event corrects the earlier one (`Usage.replaces`).
- A call of a subagent, with its updates and its result, belongs to the first stream that reports the call, and so does
  a message of a subagent. Only streams of the same session are compared: ids of calls are unique only there.

What another stream owns is stored as history: with `replay`, and in no turn. So all readers leave it out.

A session is a fork of another (`forkedFrom`) if the first request that it reports belongs to that one, or if it says
that it has copied a request which that one reports as its own, earlier or later; but not if it states that it
continues a session (`resumes`).

A key is a digest of 64 bits, so that a journal can store one for each request. Two of 10 million keys are equal with a
probability of 3 in a million.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from tooltap.normalizers.core.items import OutputChunk, Produced

KINDS = frozenset({"message", "reasoning", "tool-call", "tool-update", "tool-result"})
"""Kinds of events of a subagent that are compared."""


class Origin(NamedTuple):
    """The first report of something that has a key."""

    stream: str
    session: str
    event: str = ""
    """Id of the event, if the journal stores it."""
    history: bool = False
    """The stream says that it has copied this. So whoever reports it as its own takes it over."""


class Compared(NamedTuple):
    """A commit, compared with what is stored."""

    outputs: Sequence[Produced | OutputChunk]
    """The outputs to store."""
    new: dict[int, Origin]
    """Keys to store: those that are reported for the first time, or taken over."""
    forks: dict[str, str]
    """Session whose first request in this commit another session owns -> that session. It is a fork unless it has
    reported requests of its own before."""
    copies: dict[str, str]
    """Session that says that it has copied a request -> the session that owns the request."""


def key_of(event: Produced) -> int | None:
    """Return the key of an event, as a signed integer of 64 bits; None for one that is not compared."""
    if event.kind == "usage":
        request = event.fields.request
        return None if request is None else _digest("request", event.provider, request)
    if event.agent is None or event.kind not in KINDS or event.partial or event.replay:
        return None
    place = event.kind, event.provider, event.session, event.agent
    if event.kind in ("message", "reasoning"):
        said = event.fields
        if said.message_id is None:
            return _digest(*place, getattr(said, "role", ""), said.text)
        return _digest(*place, said.message_id, str(said.block))
    return _digest("call", *place[1:], event.fields.call_id)


def keys_of(outputs: Sequence[Produced | OutputChunk]) -> dict[str, int]:
    """Return id of an event -> its key, for the events that are compared."""
    keys = {}
    for output in outputs:
        if isinstance(output, Produced) and (output.agent is not None or output.kind == "usage"):
            key = key_of(output)
            if key is not None:
                keys[output.id] = key
    return keys


def compare(
    stream: str,
    outputs: Sequence[Produced | OutputChunk],
    keys: Mapping[str, int],
    known: Mapping[int, Origin],
) -> Compared:
    """Compare the outputs of a stream's commit with the first reports of their keys that are stored."""
    stored: list[Produced | OutputChunk] = []
    new: dict[int, Origin] = {}
    forks: dict[str, str] = {}
    copies: dict[str, str] = {}
    seen: set[str] = set()
    for output in outputs:
        if isinstance(output, Produced) and (key := keys.get(output.id)) is not None:
            origin = known.get(key) or new.get(key)
            is_new = origin is None or (origin.history and not output.replay)
            if is_new:
                new[key] = Origin(stream, output.session, output.id, output.replay)
            if origin is not None and origin.session != output.session and output.agent is None:
                if is_new:
                    copies.setdefault(origin.session, output.session)
                elif output.replay and not origin.history:
                    copies.setdefault(output.session, origin.session)
                elif output.kind == "usage" and output.session not in seen:
                    forks[output.session] = origin.session
            if output.kind == "usage" and output.agent is None:
                seen.add(output.session)
            if origin is not None and not is_new and not output.replay and _is_repetition(stream, output, origin):
                stored.append(as_history(output))
                continue
        stored.append(output)
    return Compared(stored, new, forks, copies)


def as_history(event: Produced) -> Produced:
    """Return an event as it is stored if another stream owns it."""
    return Produced.of(msgspec.structs.replace(event.event, replay=True, turn=None))


def _is_repetition(stream: str, event: Produced, origin: Origin) -> bool:
    if origin.stream != stream:
        return True
    return event.kind == "usage" and event.fields.replaces is None and event.id != origin.event


def _digest(*parts: str) -> int:
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)
