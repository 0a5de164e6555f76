"""A batch of events: its chunks carry the events that they are of."""

from __future__ import annotations

from tests.daemon.events import call, message
from tooltap.daemon.hub import Batch, Selection
from tooltap.daemon.journal.interface import Committed, StoredEvent
from tooltap.daemon.show.skins.display import CallTimes
from tooltap.protocol.events import with_seq
from tooltap.protocol.filters import Filter


def test_every_chunk_has_the_events_of_its_lines() -> None:
    events = [call("1"), message("one"), call("2")]
    batch = Batch([Committed(events, [4, 5, 6])], 3, CallTimes())
    for wanted, seqs in ((Filter(), [4, 5, 6]), (Filter(kind=("tool-call",)), [4, 6])):
        [chunk] = batch.chunks(Selection(wanted, False))
        assert chunk.seqs == seqs
        assert chunk.data == b"".join(with_seq(seq, events[seq - 4].body) + b"\n" for seq in seqs)
        assert [one.body for one in chunk.events] == [events[seq - 4].body for seq in seqs]


def test_the_head_is_decoded_once_for_all_readers() -> None:
    batch = Batch([Committed([call("1")], [1])], 0, CallTimes())
    first, second = (batch.chunks(Selection(wanted, True))[0] for wanted in (Filter(), Filter(kind=("tool-call",))))
    head = StoredEvent.of(1, first.events[0]).head
    assert head.call_id == "1"
    assert StoredEvent.of(1, second.events[0]).head is head
