"""What is for an agent and has a secret, where none may be stored: the frame is kept in memory until the publisher has
written it, and the journal gets it with the secret masked. After a restart of the daemon, it can't be sent any more."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from tooltap.daemon.export.redaction import masked_title
from tooltap.daemon.journal.interface import Dispatch
from tooltap.protocol.answers import ForAgent
from tooltap.traces.recording.secrets import mask_lines, mask_secrets

MOST_BYTES = 16 * 1_048_576
"""Most bytes of frames that are kept. Beyond that, the oldest are dropped: they fail if their publisher comes back."""


class Unstored:
    """The frames with a secret of all streams, by their ids."""

    def __init__(self) -> None:
        self._frames: OrderedDict[str, ForAgent] = OrderedDict()
        self._bytes = 0

    def mask(self, dispatch: Dispatch) -> Dispatch:
        """Return what may be stored of something new for an agent, and keep the rest."""
        dispatch = msgspec.structs.replace(dispatch, by=masked_title(dispatch.by, mask_secrets))
        frame = dispatch.frame
        if frame is None or (masked := _masked(frame)) == frame:
            return dispatch
        self._frames[dispatch.id] = frame
        self._bytes += _size(frame)
        while self._bytes > MOST_BYTES:
            _, dropped = self._frames.popitem(last=False)
            self._bytes -= _size(dropped)
        return msgspec.structs.replace(dispatch, frame=masked, masked=True)

    def frame_of(self, dispatch: Dispatch) -> ForAgent | None:
        """Return what the publisher is to write; None if it is not known any more."""
        return self._frames.get(dispatch.id) if dispatch.masked else dispatch.frame

    def forget(self, dispatch: str) -> None:
        """Drop the frame with this id, if it is kept: it has been written, or refused."""
        if (frame := self._frames.pop(dispatch, None)) is not None:
            self._bytes -= _size(frame)


def _masked(frame: ForAgent) -> ForAgent:
    texts = {name: text for name in ("line", "path", "to_client") if (text := getattr(frame, name)) is not None}
    masked = mask_lines([text.encode() for text in texts.values()])
    return msgspec.structs.replace(frame, **{name: one.decode() for name, one in zip(texts, masked, strict=True)})


def _size(frame: ForAgent) -> int:
    return len(frame.line) + len(frame.path or "") + len(frame.to_client or "")
