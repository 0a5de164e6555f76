"""What is masked of a stream before it is committed, if the journal is to hold no secrets.

Lines are masked before they are parsed, so that nothing of them is in the events, the bodies, the parser's state or the
tail. A secret that came in pieces, in several lines, is whole only in the event that they become: so events are masked,
too. It may still be in the state and in the tail until the next snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

from tooltap.daemon.ingest.live_stream import LiveStream
from tooltap.daemon.journal.interface import Commit
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.stream.normalizer import Output
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.events import decode
from tooltap.traces.recording.secrets import mask_lines, mask_secrets

__all__ = ["masked_input", "masked_prompt", "taken_from"]


def masked_input(lines: Sequence[bytes | LongLine]) -> list[bytes | LongLine]:
    masked = mask_lines([one.head if isinstance(one, LongLine) else one for one in lines])
    return [
        new if not isinstance(one, LongLine) else one._replace(head=new) for one, new in zip(lines, masked, strict=True)
    ]


def masked_prompt(prompt: str | None) -> str | None:
    return None if prompt is None else mask_secrets(prompt.encode()).decode()


def taken_from(live: LiveStream, now: int) -> Commit:
    """The stream's next commit, masked if it is to be."""
    commit = live.take(now)
    return commit._replace(outputs=_masked_events(commit.outputs)) if live.masks else commit


def _masked_events(outputs: Sequence[Output]) -> Sequence[Output]:
    events = [one for one in outputs if isinstance(one, Produced)]
    masked = {
        id(one): Produced.of(decode(body), body)
        for one, body in zip(events, mask_lines([one.body for one in events]), strict=True)
        if body is not one.body
    }
    return [masked.get(id(one), one) for one in outputs] if masked else outputs
