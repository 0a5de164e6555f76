"""What is held back of a stream's next commit: its events, and neither their bodies nor what is only live."""

from __future__ import annotations

import orjson
import pytest

from tests.daemon.events import info
from tooltap.daemon.ingest.live_stream import Lines, LiveStream
from tooltap.normalizers.core.items import Context, Limits, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer


@pytest.mark.usefixtures("toy")
def test_bodies_and_partials_are_not_held() -> None:
    normalizer = StreamNormalizer(Context(stream="s", limits=Limits(string_bytes=40)), "toy")
    normalizer.want_partials(True)
    live = LiveStream(info(), normalizer, committed_state="open", snapshot_bytes=1_000_000)
    for value in (
        {"do": "call", "id": "1", "name": "Bash"},
        {"do": "result", "id": "1", "output": {"stdout": "x" * 100}},
        {"do": "chunk", "text": "so far", "preview": True},
    ):
        live.apply(Lines((orjson.dumps(value),), 1))
    events = [one.body.decode() for one in live.pending]

    live.hold()

    assert live.info.pending_displays == events
    assert [orjson.loads(event)["kind"] for event in events] == ["tool-call", "tool-result"]
    assert normalizer.statistics.events == 0
    left = live.take(1).outputs
    assert [one.kind if isinstance(one, Produced) and one.partial else type(one) for one in left] == [
        OutputChunk,
        OutputChunk,
        "message",
    ]
