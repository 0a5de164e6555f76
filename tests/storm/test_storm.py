"""The checker of a storm finds what is wrong in a record: each of its comparisons is tried with one false value in the
record of a real daemon."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest

from tests.daemon.events import commit, event
from tests.daemon.export.collector import collecting, spans_in
from tests.daemon.running import running
from tests.daemon.web.browsing import until
from tests.storm.agents import CALL_EVERY, line, session_id, word
from tests.storm.checker import Answering, Expected, Export, Record, Row, Search, Subscriber, check, unexplained, unsent
from tests.storm.collector import Collector, Exported, exported, exported_of
from tests.storm.connection import cursors
from tests.storm.publishers import Published, published
from tests.storm.readers import Reader, Received, plain, position, received
from tests.storm.world import NAME
from tooltap.daemon.journal.sqlite.writer import Writer
from tooltap.daemon.sessions.repetitions import Compared, as_history
from tooltap.daemon.telemetry.sender import DELETED
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Turn, decode, with_seq

SESSIONS = {1: 45, 2: 60}
"""Session -> lines."""
CALL = "toolu_1_20"
ASKING = "storm-asks-1"
RESPONSE: dict[str, Any] = {
    "kind": "permission-response",
    "id": "a:1:0",
    "stream": "a",
    "session": ASKING,
    "line": 1,
    "permissionId": "101",
    "outcome": "allowed",
}


@pytest.fixture(scope="module")
def true(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """What a daemon says of two sessions, and of a permission."""
    return recorded(tmp_path_factory.mktemp("record"))


def recorded(folder: Path) -> Record:
    with collecting() as (url, sent), running(folder, otlp={"url": url, "metrics_interval": 0}) as daemon:
        for number, total in SESSIONS.items():
            with daemon.connect() as wire:
                wire.send("ingest", stream=f"p{number}", framing="tapped", dialect="claude-stream")
                wire.write(b"".join(b'{"line":%b}\n' % line(number, at, total) for at in range(1, total + 1)))
                wire.send("end")
                wire.until("done")
        daemon.until_indexed()
        until(lambda: daemon.stats()["telemetry"]["behind"] == 0, "the spans")
        with daemon.connect() as wire:
            wire.send("subscribe", after="start", follow=False)
            lines = [one.rstrip(b"\n") for one in wire.lines() if one.startswith(b'{"seq"')]
        with daemon.connect() as wire:
            listed = wire.ask("sessions")["sessions"]
            hits = [one["seq"] for one in wire.ask("search", query=word(1, 5))["hits"]]
    latest = json.loads(lines[-1])["seq"] + 1
    lines.append(json.dumps({"seq": latest, **RESPONSE}, separators=(",", ":")).encode())
    record = folder / "all.received"
    reader = Reader("socket", "", str(record), {}, 0, "", "", "")
    reader.take(lines)
    everything = received(record)
    sums = dict(everything.events)
    calls = Received(
        [(seq, sums[seq]) for one in lines if b'"kind":"tool-call"' in one and (seq := json.loads(one)["seq"])],
        [],
        everything.faulty,
        latest,
    )
    rows = [
        Row(one["session"], one["events"], one["calls"], one["inputTokens"], one["outputTokens"], one["costUsd"])
        for one in listed
    ]
    return Record(
        lines=lines,
        streams={number: Expected(total, total) for number, total in SESSIONS.items()},
        stored=received(record),
        latest=latest,
        subscribers=[Subscriber("all", {}, everything), Subscriber("calls", {"kind": ["tool-call"]}, calls)],
        answers=[Answering(ASKING, "101", [("allowed", "accepted"), ("denied", "refused")], ["allowed"])],
        exports=[Export("html", 1, 0, " ".join(word(1, at) for at in range(1, 46)) + "</html>", False)],
        searches=[Search(1, 5, hits, True)],
        rows=rows,
        spans=[exported_of(one) for request in sent for one in spans_in(request.body)],
        other=Received([(seq, crc32(plain(one))) for seq, one in enumerate(lines, 1)], [], [], latest),
        cursors=[0, 5, latest],
    )


def drop_event(record: Record) -> None:
    """As if a commit had been lost: nobody got it, and it is not stored."""
    seq = _seq(record, b'"kind":"message"')
    record.lines = [one for one in record.lines if not one.startswith(b'{"seq":%d,' % seq)]


def drop_line(record: Record) -> None:
    number, total = 2, SESSIONS[2]
    record.streams[number] = Expected(total + 1, total + 1)


def change_number(record: Record) -> None:
    """An event comes a second time, with a `seq` of its own."""
    lines = list(record.lines)
    again = {**json.loads(lines[4]), "seq": record.latest + 1}
    record.lines = [*lines, json.dumps(again).encode()]
    record.latest += 1


def swap_lines(record: Record) -> None:
    lines = list(record.lines)
    first, second = json.loads(lines[4]), json.loads(lines[5])
    first["seq"], second["seq"] = second["seq"], first["seq"]
    lines[4:6] = [json.dumps(second).encode(), json.dumps(first).encode()]
    record.lines = lines


def change_text(record: Record) -> None:
    lines = list(record.lines)
    lines[4] = lines[4].replace(b'"text":"w', b'"text":"wx')
    record.lines = lines


def unparse(record: Record) -> None:
    lines = list(record.lines)
    lines[4] = lines[4].replace(b'"kind":"message"', b'"kind":"unparsed"')
    record.lines = lines


def stranger(record: Record) -> None:
    del record.streams[2]


def too_many_lines(record: Record) -> None:
    record.streams[2] = Expected(10, 20)


def deliver_nothing(record: Record) -> None:
    record.subscribers[0].received.events.pop(7)


def deliver_twice(record: Record) -> None:
    events = record.subscribers[0].received.events
    events.insert(7, events[7])


def deliver_changed(record: Record) -> None:
    seq, crc = record.subscribers[0].received.events[7]
    record.subscribers[0].received.events[7] = seq, crc ^ 1


def deliver_unwanted(record: Record) -> None:
    seq = _seq(record, b'"kind":"message"')
    events = record.subscribers[1].received.events
    events[:] = sorted([*events, record.stored.events[seq - 1]])


def call_gone(record: Record) -> None:
    """A subscriber gets a gap with an event that is still there."""
    record.subscribers[0].received.events.pop(7)
    record.subscribers[0].received.gaps.append((8, 8))


def call_damaged(record: Record) -> None:
    record.subscribers[1].received.faulty.append((8, 8))


def store_less(record: Record) -> None:
    record.stored.events.pop(7)


def store_changed(record: Record) -> None:
    seq, crc = record.stored.events[7]
    record.stored.events[7] = seq, crc ^ 1


def store_more(record: Record) -> None:
    record.stored.events.append((record.latest + 1, 0))


def damage(record: Record) -> None:
    record.stored.faulty.append((3, 4))


def accept_twice(record: Record) -> None:
    record.answers[0].attempts[1] = ("denied", "accepted")


def write_twice(record: Record) -> None:
    record.answers[0].written.append("allowed")


def write_nothing(record: Record) -> None:
    record.answers[0].written.clear()


def write_other(record: Record) -> None:
    record.answers[0].written[:] = ["denied"]


def answer_unasked(record: Record) -> None:
    record.answers[0].attempts[:] = [("allowed", "refused"), ("denied", "unknown")]


def expire_what_was_answered(record: Record) -> None:
    record.answers[0].attempts[:] = [("allowed", "accepted"), ("denied", "expired")]


def journal_twice(record: Record) -> None:
    again = {"seq": record.latest + 1, **RESPONSE, "id": "a:2:0", "line": 2}
    record.lines = [*record.lines, json.dumps(again).encode()]
    record.latest += 1


def export_less(record: Record) -> None:
    record.exports[0] = record.exports[0]._replace(text=(record.exports[0].text or "").replace(word(1, 7), ""))


def export_half(record: Record) -> None:
    record.exports[0] = record.exports[0]._replace(text=(record.exports[0].text or "")[:-4])


def export_nothing(record: Record) -> None:
    record.exports[0] = record.exports[0]._replace(text=None)


def end_badly(record: Record) -> None:
    record.exports[0] = record.exports[0]._replace(code=-11)


def find_nothing(record: Record) -> None:
    record.searches[0].hits.clear()


def find_twice(record: Record) -> None:
    record.searches[0].hits.append(record.searches[0].hits[0])


def find_other(record: Record) -> None:
    record.searches[0].hits[0] = record.latest - 5


def find_nonsense(record: Record) -> None:
    record.searches[0].hits[0] = record.latest + 5


def count_events(record: Record) -> None:
    record.rows[0] = record.rows[0]._replace(events=record.rows[0].events + 1)


def count_calls(record: Record) -> None:
    record.rows[0] = record.rows[0]._replace(calls=record.rows[0].calls - 1)


def count_tokens(record: Record) -> None:
    record.rows[0] = record.rows[0]._replace(input_tokens=record.rows[0].input_tokens + 10)


def count_output(record: Record) -> None:
    record.rows[0] = record.rows[0]._replace(output_tokens=0)


def cost_more(record: Record) -> None:
    record.rows[0] = record.rows[0]._replace(cost=(record.rows[0].cost or 0) + 0.01)


def lose_span(record: Record) -> None:
    record.spans = [one for one in record.spans if one.about != CALL]


def lose_turn(record: Record) -> None:
    record.spans = [one for one in record.spans if one.parent]


def change_span(record: Record) -> None:
    record.spans = [*record.spans, _call(record)._replace(checksum=0)]


def name_span_anew(record: Record) -> None:
    record.spans = [*record.spans, _call(record)._replace(id="0123456789abcdef")]


def invent_span(record: Record) -> None:
    record.spans = [*record.spans, _call(record)._replace(id="0123456789abcdef", about="toolu_1_21")]


def end_later(record: Record) -> None:
    record.spans = [one._replace(ended=one.ended + 1) if one.about == CALL else one for one in record.spans]


def begin_earlier(record: Record) -> None:
    record.spans = [one._replace(began=one.began - 1) if one.about == CALL else one for one in record.spans]


def fail_call(record: Record) -> None:
    record.spans = [one._replace(failed=True) if one.about == CALL else one for one in record.spans]


def share_id(record: Record) -> None:
    record.spans = [one._replace(id=_call(record).id) if one.about == "toolu_1_40" else one for one in record.spans]


def move_span(record: Record) -> None:
    """A call is in a turn that nobody has sent."""
    record.spans = [one._replace(parent="0123456789abcdef") if one.about == CALL else one for one in record.spans]


def read_nothing(record: Record) -> None:
    """The other daemon has no event 8, and every later one."""
    _other(record).events.pop(7)


def read_twice(record: Record) -> None:
    events = _other(record).events
    events.append((events[-1][0] + 1, events[7][1]))


def read_out_of_order(record: Record) -> None:
    events = _other(record).events
    events[7:9] = [(8, events[8][1]), (9, events[7][1])]


def read_changed(record: Record) -> None:
    seq, crc = _other(record).events[7]
    _other(record).events[7] = seq, crc ^ 1


def read_less(record: Record) -> None:
    del _other(record).events[-3:]


def name_what_is_there(record: Record) -> None:
    """The other daemon says that an event was deleted, which is still in the journal."""
    _other(record).events.pop(7)
    record.other = _other(record)._replace(missing=((8, 8),))


def read_damaged(record: Record) -> None:
    _other(record).faulty.append((8, 8))


def read_from_before(record: Record) -> None:
    record.cursors[:] = [9, 5, record.latest]


def read_on_too_early(record: Record) -> None:
    record.cursors[-1] -= 1


def note(record: Record) -> None:
    record.wrong.append("the daemon ended with 70")


def _call(record: Record) -> Exported:
    return next(one for one in record.spans if one.about == CALL)


def _other(record: Record) -> Received:
    assert record.other is not None
    return record.other


def _seq(record: Record, part: bytes) -> int:
    return next(int(json.loads(one)["seq"]) for one in record.lines if part in one)


FALSE: dict[Callable[[Record], None], str] = {
    drop_event: "recorder: ",
    drop_line: "acknowledged lines",
    change_number: "in the journal twice",
    swap_lines: "out of order",
    change_text: "text of another",
    unparse: "is unparsed",
    stranger: "nobody published it",
    too_many_lines: "has a line 21 of 20",
    deliver_nothing: "all did not get event 8",
    deliver_twice: "all got event 8 after 8",
    deliver_changed: "all got another event 8",
    deliver_unwanted: "calls got event",
    call_gone: "still in the journal",
    call_damaged: "calls got events 8 to 8 as",
    store_less: "neither in the journal nor in a gap",
    store_changed: "is another one in the journal",
    store_more: "beyond the end",
    damage: "events 3 to 4 are damaged",
    accept_twice: "2 answers were accepted",
    write_twice: "the agent got 2 answers",
    write_nothing: "the agent got 0 answers",
    write_other: "allowed was accepted, and the agent got denied",
    answer_unasked: "which nobody answered",
    expire_what_was_answered: "expired; the agent got",
    journal_twice: "and the journal has ['allowed', 'allowed']",
    export_less: "messages are missing, first that of line 7",
    export_half: "half a page",
    export_nothing: "there is no file",
    end_badly: "ended with -11",
    find_nothing: "is not found",
    find_twice: "is found 2 times",
    find_other: "is found at event",
    find_nonsense: "does not exist",
    count_events: "events, and",
    count_calls: "calls, and",
    count_tokens: "input_tokens, and",
    count_output: "output_tokens, and",
    cost_more: "is listed",
    lose_span: f"{CALL} of {session_id(1)}, which ended at",
    lose_turn: "its span was not sent",
    change_span: "came again, and is another one",
    name_span_anew: "2 spans, and 1 of them in the journal",
    invent_span: "1 spans, and 0 of them in the journal",
    end_later: "1 spans, and 0 of them in the journal",
    begin_earlier: "1 spans, and 0 of them in the journal",
    fail_call: "1 spans, and 0 of them in the journal",
    share_id: "is of several things",
    move_span: "has spans inside of 1 others that did not come",
    read_nothing: "the other daemon did not get event 8, and does not say so",
    read_twice: "the other daemon got event 8 again, or out of order",
    read_out_of_order: "the other daemon got event 8 again, or out of order, as 9",
    read_changed: "event 8 of the other daemon is none of its remote",
    read_less: "the other daemon did not get event",
    name_what_is_there: "the other daemon did not get event 8, which is still in the journal",
    read_damaged: "the other daemon got events 8 to 8 as damaged",
    read_from_before: "has read after event 5, and before that after 9",
    read_on_too_early: "the other daemon would read on after event",
    note: "the daemon ended with 70",
}


def test_a_true_record_has_no_difference(true: Record) -> None:
    assert check(true) == []
    assert len(true.subscribers[1].received.events) == sum(
        at % CALL_EVERY == 0 and at + 1 < total for total in SESSIONS.values() for at in range(1, total)
    )


@pytest.mark.parametrize("falsify", FALSE, ids=lambda one: one.__name__)
def test_a_false_record_is_found(true: Record, falsify: Callable[[Record], None]) -> None:
    record = copy.deepcopy(true)
    falsify(record)
    assert [one for one in check(record) if FALSE[falsify] in one] != []


Insert = Callable[[Writer, str, Compared], list[int | None]]


def lose_one(insert: Insert) -> Insert:
    """The journal acknowledges an event, and does not have it afterwards."""

    def broken(self: Writer, stream: str, compared: Compared) -> list[int | None]:
        seqs = insert(self, stream, compared)
        self._rows[:] = [row for row in self._rows if word(2, 7).encode() not in row[4]]
        return seqs

    return broken


def store_one_twice(insert: Insert) -> Insert:
    def broken(self: Writer, stream: str, compared: Compared) -> list[int | None]:
        outputs = [*compared.outputs]
        again = [at for at, one in enumerate(outputs) if isinstance(one, Produced) and word(2, 7).encode() in one.body]
        for at in again:
            outputs.insert(at, outputs[at])
        return [
            seq for at, seq in enumerate(insert(self, stream, compared._replace(outputs=outputs))) if at not in again
        ]

    return broken


@pytest.mark.parametrize(
    ("fault", "said"),
    [(lose_one, "neither in the journal nor in a gap"), (store_one_twice, "in the journal twice")],
    ids=["lose_one", "store_one_twice"],
)
def test_a_broken_product_is_found(
    fault: Callable[[Insert], Insert], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the record is false, but the daemon that it is of."""
    monkeypatch.setattr(Writer, "_insert_outputs", fault(Writer._insert_outputs))
    assert [one for one in check(recorded(tmp_path)) if said in one] != []


def test_events_in_a_gap_are_not_missed(true: Record) -> None:
    """Retention has deleted the first events before a subscriber came to them."""
    record = copy.deepcopy(true)
    del record.stored.events[:9], record.subscribers[0].received.events[4:9]
    record.subscribers[0].received.gaps.append((5, 9))
    record.searches.clear()
    assert check(record) == []


def test_other_daemon_may_lack_what_it_says_to_have_been_deleted(true: Record) -> None:
    record = copy.deepcopy(true)
    del _other(record).events[:9], record.stored.events[:9]
    record.other = _other(record)._replace(missing=((1, 9),))
    assert [one for one in check(record) if one.startswith("remote")] == []


def test_what_the_other_daemon_has_deleted_itself_is_not_missed(true: Record) -> None:
    record = copy.deepcopy(true)
    events = _other(record).events
    events[:] = [one for one in events if one[0] not in (5, 6, 8, 9)]  # 7 is of a session that was kept
    _other(record).gaps.append((5, 9))
    assert check(record) == []


def test_event_that_was_read_again_here_may_be_there_as_often(true: Record) -> None:
    record = copy.deepcopy(true)
    first = json.loads(next(iter(record.lines)))
    again = json.dumps(first | {"seq": record.latest + 1}, separators=(",", ":")).encode()
    record.lines = [*record.lines, again]
    record.latest += 1
    record.cursors[-1] += 1
    _other(record).events.append((len(_other(record).events) + 1, crc32(plain(again))))
    assert [one for one in check(record) if one.startswith("remote")] == []


def test_event_that_was_read_again_here_may_be_there_once(true: Record) -> None:
    record = copy.deepcopy(true)
    lines = [*record.lines]
    again = json.dumps(json.loads(lines[0]) | {"seq": record.latest + 1}, separators=(",", ":")).encode()
    later = json.dumps(json.loads(lines[1]) | {"seq": record.latest + 2, "id": "new"}, separators=(",", ":")).encode()
    record.lines = [*lines, again, later]
    record.latest += 2
    record.cursors[-1] += 2
    _other(record).events.append((len(_other(record).events) + 1, crc32(plain(later))))
    assert [one for one in check(record) if one.startswith("remote")] == []


def test_request_that_was_read_again_here_under_another_id_is_history_there(true: Record) -> None:
    """The first time, the stream was settled before the request's last line, and not the second time."""
    record = copy.deepcopy(true)
    lines = [*record.lines]
    usage = next(json.loads(one) for one in lines if b'"kind":"usage"' in one) | {"request": "r"}
    lines[usage["seq"] - 1] = json.dumps(usage, separators=(",", ":")).encode()
    first = next(json.loads(one) for one in lines if json.loads(one)["stream"] == usage["stream"])
    read_again = [first | {"seq": record.latest + 1}, usage | {"seq": record.latest + 2, "id": f"{usage['id']}9"}]
    record.lines = [*lines, *(json.dumps(one, separators=(",", ":")).encode() for one in read_again)]
    record.latest += 2
    record.cursors[-1] += 2
    events = _other(record).events
    events[usage["seq"] - 1] = usage["seq"], crc32(plain(lines[usage["seq"] - 1]))
    body = msgspec.json.encode({key: value for key, value in read_again[1].items() if key != "seq"})
    there = as_history(Produced.of(decode(body), body))
    events.append((len(events) + 1, crc32(plain(with_seq(1, there.body)))))
    assert [one for one in check(record) if one.startswith("remote")] == []

    events[-1] = len(events), crc32(plain(with_seq(1, there.body.replace(b'"r"', b'"q"'))))
    assert [one for one in check(record) if "is none of its remote" in one] != []


def test_event_of_a_remote_is_known_for_that_of_its_own_daemon(tmp_path: Path) -> None:
    there = b'{"seq":7,"kind":"message","text":"w","id":"s:1:0","stream":"s","session":"a","ts":5}'
    here = there.replace(b'"seq":7', b'"seq":9').replace(b'"s:1:0"', b'"%b/s:1:0"' % NAME.encode())
    here = here.replace(b'"stream":"s"', b'"stream":"%b/s"' % NAME.encode())
    here = here.replace(b'"a"', b'"%b/a"' % NAME.encode())[:-1] + b',"host":"%b"}' % NAME.encode()
    lost = {"seq": 10, "kind": "notice", "stream": f"{NAME}/", "data": {"from": 3, "to": 6, "reason": "retention"}}
    reset = lost | {"seq": 11, "data": {"reason": "reset"}}
    record = tmp_path / "other.received"
    reader = Reader("socket", "", str(record), {}, 0, "", "", "", NAME)
    reader.take([here, *(json.dumps(one, separators=(",", ":")).encode() for one in (lost, reset))])

    assert received(record) == Received([(9, crc32(plain(there)))], [], [(0, 0)], 11, ((3, 6),))
    assert position(record) == 11


@pytest.mark.process
def test_connection_notes_its_cursor_and_dies_when_it_is_cut(tmp_path: Path) -> None:
    record, cut = tmp_path / "connections", tmp_path / "cut"
    cut.touch()
    program = [sys.executable, "-m", "tests.storm.connection", str(record), str(cut)]
    with running(tmp_path) as daemon:
        environment = {**os.environ, "TOOLTAP_SOCKET": str(daemon.path)}
        for at, after in enumerate(("start", f"{daemon.daemon.journal.id}:0"), 1):
            command = [*program, "remote", "send", "--after", after]
            with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
                until(lambda: len(cursors(record)) == at, "the cursor")  # noqa: B023
                os.utime(cut, ns=(at, at))
                assert process.wait(60) == -signal.SIGKILL
    assert cursors(record) == [0, 0]


def test_spans_may_be_missing_of_what_was_deleted_before_they_were_sent(true: Record) -> None:
    record = copy.deepcopy(true)
    record.spans = []
    assert [one for one in check(record) if one.startswith("span")] != []
    record.unsent.append((1, record.latest))
    assert check(record) == []


def test_turn_may_be_missing_of_which_a_call_was_sent(true: Record) -> None:
    record = copy.deepcopy(true)
    lose_turn(record)
    ends = [json.loads(one)["seq"] for one in record.lines if b'"state":"completed"' in one]
    record.unsent += [(seq, seq) for seq in ends]
    assert check(record) == []


def test_span_that_comes_again_unchanged_is_no_difference(true: Record) -> None:
    record = copy.deepcopy(true)
    record.spans = [*record.spans, *record.spans]
    assert check(record) == []


def test_a_span_does_not_end_before_it_begins_if_the_clock_jumped_back(true: Record) -> None:
    record = copy.deepcopy(true)
    lines = [json.loads(one) for one in record.lines]
    result = next(one for one in lines if one["kind"] == "tool-result" and one["callId"] == CALL)
    result["ts"] = _call(record).began - 5
    record.lines = [json.dumps(one, separators=(",", ":")).encode() for one in lines]
    record.spans = [one._replace(ended=one.began) if one.about == CALL else one for one in record.spans]
    assert [one for one in check(record) if one.startswith("span")] == []


def test_a_call_that_is_corrected_may_have_two_spans_of_one_id(true: Record) -> None:
    record = copy.deepcopy(true)
    line = next(json.loads(one) for one in record.lines if b'"kind":"tool-result"' in one)
    corrected = line | {"seq": record.latest + 1, "id": f"{line['id']}9", "ts": line["ts"] + 5}
    record.lines = [*record.lines, json.dumps(corrected, separators=(",", ":")).encode()]
    record.latest += 1
    not_sent = f"span: execute_tool {CALL} of {session_id(1)}, which ended at {corrected['ts']}: its span was not sent"
    assert [one for one in check(record) if one.startswith(not_sent)] != []
    record.spans = [*record.spans, _call(record)._replace(ended=corrected["ts"], checksum=0)]
    assert [one for one in check(record) if one.startswith("span")] == []


def test_a_log_says_what_was_deleted_before_its_spans_were_sent() -> None:
    entries: list[dict[str, Any]] = [
        {"area": "telemetry", "level": "warning", "event": DELETED, "first": 5, "last": 8},
        {"area": "telemetry", "level": "info", "event": "spans are sent again"},
    ]
    assert [*unsent(b"\n".join(json.dumps(one).encode() for one in entries))] == [(5, 8)]


def test_a_collector_has_written_down_what_it_says_to_have_taken(tmp_path: Path) -> None:
    record = tmp_path / "spans.jsonl"
    with collecting() as (url, sent), running(tmp_path, otlp={"url": url, "metrics_interval": 0}) as daemon:
        daemon.commit(commit(event(Turn, state="completed", ts=5)))
        until(lambda: bool(sent), "the request")
    spans = [exported_of(one) for one in spans_in(sent[0].body)]
    collector = Collector(0, str(record), 1)
    collector._away_until = 0
    written = []
    for _ in range(300):
        before = record.stat().st_size
        written.append((collector.take(sent[0].body), record.stat().st_size > before))
    record.write_bytes(record.read_bytes() + b'["torn')
    Collector(0, str(record), 1)

    assert set(written) == {(200, True), (0, False), (0, True), (503, False)}
    assert set(exported(record)) == set(spans)


def test_a_deleted_session_may_be_read_again(true: Record) -> None:
    record = copy.deepcopy(true)
    first = record.stored.events[0][0]
    [line] = [one for one in record.lines if json.loads(one)["seq"] == first]
    again = json.loads(line) | {"seq": record.latest + 1}
    record.lines = [*record.lines, json.dumps(again, separators=(",", ":")).encode()]
    twice = f"journal: event {again['id']} is in the journal twice: {first} and {record.latest + 1}"
    assert twice in check(record)
    record.stored.events.pop(0)
    assert [one for one in check(record) if one.startswith(("journal", "stream"))] == []


def test_a_message_may_have_another_id_when_it_is_read_again(true: Record) -> None:
    record = copy.deepcopy(true)
    lines = [json.loads(one) for one in record.lines]
    said = next(one for one in lines if one["kind"] == "message" and one["text"].startswith("w"))
    begun = next(one for one in lines if one["stream"] == said["stream"])
    again = [begun | {"seq": record.latest + 1}, said | {"seq": record.latest + 2, "id": f"{said['id']}9"}]
    record.lines = [*record.lines, *(json.dumps(one, separators=(",", ":")).encode() for one in again)]
    twice = f"journal: event {again[1]['id']} is in the journal twice: {said['seq']} and {record.latest + 2}"
    assert twice in check(record)
    record.stored.events[:] = [one for one in record.stored.events if one[0] not in (begun["seq"], said["seq"])]
    assert [one for one in check(record) if one.startswith(("journal", "stream"))] == []


def test_a_killed_publisher_knows_what_was_acknowledged(tmp_path: Path) -> None:
    record = tmp_path / "publisher.jsonl"
    one = Published(7, 100, 40, ended=False)
    rows = [one._asdict(), one._replace(acked=60)._asdict(), {"wrong": "less is stored"}]
    record.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"session": 7, "ack')
    assert published(record) == ({7: one._replace(acked=60)}, ["less is stored"])


def test_a_killed_subscriber_resumes_where_it_was(tmp_path: Path) -> None:
    record = tmp_path / "a.received"
    reader = Reader("socket", "", str(record), {}, 0, "", "", "")
    reader.take([b'{"op":"subscribed"}', b'{"seq":3,"kind":"x"}', b'{"op":"gap","from":4,"to":6,"reason":"retention"}'])
    reader.take([b'{"op":"gap","from":7,"to":8,"reason":"corrupt"}', b'{"op":"at","seq":11}'])
    with record.open("ab") as file:
        file.write(b"e\1")  # torn
    assert position(record) == 11
    found = received(record)
    assert ([seq for seq, _ in found.events], found.gaps, found.faulty, found.position) == ([3], [(4, 6)], [(7, 8)], 11)


@pytest.mark.parametrize(
    ("entry", "is_explained"),
    [
        ({"area": "journal", "level": "error", "event": "a part of the journal is damaged", "table": "tail"}, False),
        ({"area": "daemon", "level": "critical", "event": "a bug"}, False),
        ({"area": "loop", "level": "warning", "event": "failed", "exception": "Traceback …"}, False),
        ({"area": "streams", "level": "warning", "event": "lines cannot be committed"}, True),
        ({"area": "journal", "level": "info", "event": "retention has removed events or output bodies"}, True),
    ],
)
def test_what_no_fault_explains_in_a_log_is_found(entry: dict[str, str], is_explained: bool) -> None:
    found = list(unexplained(json.dumps(entry).encode() + b"\ntorn {"))
    assert found == ([] if is_explained else [f"logged: {json.dumps(entry)}"])


def test_no_word_is_the_beginning_of_another() -> None:
    words = {word(number, at) for number in (1, 16, 0x0F000000) for at in (1, 16, 256, 3_000)}
    assert len({len(one) for one in words}) == 1
    assert len(words) == 12
    assert len({session_id(number) for number in (1, 16, 0x0F000000)}) == 3
