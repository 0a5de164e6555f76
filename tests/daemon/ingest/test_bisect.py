"""What happens to an input that cannot be committed by itself."""

from __future__ import annotations

import pytest

from tests.daemon.events import info
from tooltap.daemon.ingest.connection import commit_in_parts
from tooltap.daemon.ingest.live_stream import Input, Lines, LiveStream, Parent, Suspend
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.inputs import Close

pytestmark = pytest.mark.anyio


async def new() -> LiveStream:
    normalizer = StreamNormalizer(Context(stream="s"), "claude-stream")
    return LiveStream(info(), normalizer, committed_state="open", snapshot_bytes=1_000_000)


async def refuse(live: LiveStream) -> None:
    raise LookupError("not this one")


async def test_what_can_neither_be_replaced_nor_dropped_is_the_error() -> None:
    for one in (Close(1), Suspend()):
        inputs: list[Input] = [one]
        with pytest.raises(LookupError, match="not this one"):
            await commit_in_parts("s", inputs, new, refuse, lambda: False)
        assert inputs == [one]


async def test_what_the_stream_can_do_without_is_dropped() -> None:
    inputs: list[Input] = [Parent("call", 1)]
    await commit_in_parts("s", inputs, new, refuse, lambda: False)
    assert inputs == []


async def test_line_that_cannot_even_be_unparsed_is_the_error() -> None:
    inputs: list[Input] = [Lines([b"one", b"two"], 1)]
    with pytest.raises(LookupError, match="not this one"):
        await commit_in_parts("s", inputs, new, refuse, lambda: False)
    first, second = inputs
    assert isinstance(first, Lines)
    assert first.failed is not None
    assert second == Lines((b"two",), 1)
