"""What a line costs that something raised at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tooltap.normalizers.core.calls import Calls
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.permissions import Permissions
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.stream.reset import LeftOpen, may_have_changed
from tooltap.protocol.events import Event, ToolCall, ToolResult
from tooltap.testing import check_events


def line(**value: Any) -> bytes:
    return orjson.dumps(value)


def events(outputs: list[Output]) -> list[Event]:
    return [one.event for one in outputs if isinstance(one, Produced)]


def fail(*_: object, **__: object) -> None:
    raise MemoryError


def shown(found: list[Event]) -> list[tuple[str, ...]]:
    return [
        tuple(
            str(getattr(one, name))
            for name in ("reason", "code", "state", "status", "call_id", "permission_id")
            if getattr(one, name, None) is not None
        )
        for one in found
    ]


@pytest.fixture
def stream(toy: str) -> StreamNormalizer:
    return StreamNormalizer(Context(stream="s", session="mine"), toy)


OPENED = [line(do="begin"), line(do="call", id="a", name="X"), line(do="ask", id="p", call="a")]


def test_reader_that_raises_first_leaves_what_is_open(stream: StreamNormalizer) -> None:
    for one in OPENED:
        stream.feed(one)

    (event,) = events(stream.feed(line(do="fail")))
    after = events(stream.feed(line(do="result", id="a", output="done")))

    assert shown([event]) == [("parser-error: RuntimeError at normalizers.core.lines:read",)]
    assert (event.id, event.turn) == ("s:4:0", "t1")
    assert shown(after) == [("completed", "a")]


def test_state_in_doubt_is_reset_at_that_line(stream: StreamNormalizer, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [one for text in OPENED for one in events(stream.feed(text))]
    monkeypatch.setattr(Calls, "_bury", raising_once(Calls._bury))

    found = events(stream.feed(line(do="result", id="a", output="done")))
    after = events(stream.feed(line(do="result", id="a", output="late"))) + events(stream.close("end"))

    assert shown(found)[0] == ("parser-error: MemoryError at normalizers.core.calls:_result",)
    assert ("interrupted", "a") in shown(found)
    assert shown(found)[-1] == ("parser-reset",)
    assert [one.replaces is not None for one in after if isinstance(one, ToolResult)] == [True]
    check_events(before + found + after)
    statistics = stream.statistics
    assert (statistics.lines, statistics.with_events, statistics.unparsed) == (5, 4, 1)


@pytest.mark.parametrize(("method", "is_in_doubt"), [("end_turn", True), ("set_session", True), ("_read_all", False)])
def test_what_the_parser_itself_raises(method: str, is_in_doubt: bool) -> None:
    """What leads a line to its reader changes nothing that is open; sessions and turns are kept account of."""
    nothing = {"end_turn": ("completed",), "set_session": ("s",), "_read_all": ([1], b"", None)}[method]
    with pytest.raises(AttributeError) as raised:
        getattr(Parser, method)(None, *nothing)

    assert may_have_changed(raised.value) is is_in_doubt


def test_turns_are_numbered_as_if_there_had_been_no_reset(toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = StreamNormalizer(Context(stream="s"), toy)
    monkeypatch.setattr(Calls, "_bury", raising_once(Calls._bury))
    stream.feed(line(do="call", id="a", name="X"))
    stream.feed(line(do="result", id="a", output="done"))
    assert [one.turn for one in events(stream.feed(line(do="begin")))] == ["t1"]
    monkeypatch.setattr(Calls, "_bury", raising_once(Calls._bury))
    stream.feed(line(do="call", id="b", name="X"))
    stream.feed(line(do="result", id="b", output="done"))
    assert [one.turn for one in events(stream.feed(line(do="begin")))] == ["t2"]


def test_what_the_line_had_emitted_is_taken_back(stream: StreamNormalizer, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [one for text in OPENED[:2] for one in events(stream.feed(text))]
    torn = line(do="call", id="b", name="X") + line(do="result", id="a", output=1) + line(do="fail")

    found = events(stream.feed(torn))
    late = events(stream.feed(line(do="call", id="b", name="X"))) + events(stream.close("end"))

    assert found[0].id == "s:3:0"
    assert ("interrupted", "a") in shown(found)
    assert not [one for one in found if getattr(one, "call_id", None) == "b"]
    check_events(whole + found + late)
    assert stream.statistics.events == len(whole + found + late)


def test_what_comes_after_the_parser_is_contained_too(toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = StreamNormalizer(Context(stream="s", prompt="Hello"), toy)
    monkeypatch.setattr("tooltap.normalizers.stream.normalizer.bounded", fail)
    long = line(do="say", text="x" * 100_000)

    found = events(stream.feed(long)) + events(stream.feed(line(do="say", text="y")))

    assert [one.__class__.__name__ for one in found] == ["Unparsed", "Notice", "Message", "Message"]
    assert stream.statistics.unparsed == stream.statistics.with_events == 1


def test_line_whose_recognition_raises_is_unparsed_and_the_next_one_decides(
    toy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = StreamNormalizer(Context(stream="s"))
    with monkeypatch.context() as patched:
        patched.setattr("tooltap.normalizers.stream.normalizer.recognise", fail)
        assert stream.feed(line(do="say", text="x")) == []
    reloaded = StreamNormalizer.load(stream.dump(), Context(stream="s"))

    found = events(reloaded.feed(line(do="say", text="y")))

    assert [one.__class__.__name__ for one in found] == ["Unparsed", "Message"]
    assert shown(found)[0] == ("parser-error: MemoryError at normalizers.stream.normalizer:_recognise",)
    assert reloaded.statistics.lines == 2


def test_end_of_a_stream_that_raises_still_closes_what_is_open(
    stream: StreamNormalizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [one for text in OPENED for one in events(stream.feed(text))]
    monkeypatch.setattr(
        "tooltap.normalizers.core.permissions.Permissions.expire_all", raising_once(Permissions.expire_all)
    )

    whole += events(stream.close("end"))

    check_events(whole)
    assert ("interrupted", "a") in shown(whole)
    assert events(stream.close("end")) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_not_contained(
    stream: StreamNormalizer, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def stop(*_: object) -> None:
        raise error

    monkeypatch.setattr("tooltap.normalizers.core.parser.orjson.dumps", stop)
    with pytest.raises(error):
        stream.feed(line(do="say", text="x" * 1_000))


def raising_once(usual: Callable[..., Any]) -> Callable[..., Any]:
    raised = False

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal raised
        if not raised:
            raised = True
            raise MemoryError
        return usual(*arguments, **named)

    return call


def traced(n: int, **value: Any) -> bytes:
    return line(v=1, t=1, stream="run", dialect="toy", n=n, line=line(**value).decode())


def test_what_a_line_within_a_line_had_emitted_is_taken_back(toy: str) -> None:
    stream = StreamNormalizer(Context(stream="s"), "tooltap-trace")
    found = [
        one
        for text in (traced(1, do="begin"), traced(2, do="call", id="a", name="X"))
        for one in events(stream.feed(text))
    ]
    torn = line(v=1, t=1, stream="run", dialect="toy", n=3, line=(line(do="say", text="x") + line(do="fail")).decode())

    found += events(stream.feed(torn))
    late = events(stream.feed(traced(4, do="result", id="a", output="late"))) + events(stream.close("end"))

    assert [one.__class__.__name__ for one in found[2:]] == ["Unparsed", "ToolResult", "Turn", "Notice"]
    assert [(one.status, one.replaces) for one in late if isinstance(one, ToolResult)] == [("completed", found[3].id)]
    check_events(found + late)


def test_streams_within_a_stream_that_is_not_known_any_more_begin_anew(toy: str) -> None:
    lost = StreamNormalizer(Context(stream="s"), "tooltap-trace")
    before = events(lost.feed(traced(1, do="call", id="a", name="X")))
    stream = StreamNormalizer(Context(stream="s"), "tooltap-trace")

    found = events(stream.restart(1, lost.statistics, LeftOpen()))
    found += events(stream.feed(traced(2, do="call", id="a", name="X")))

    assert [one.call_id for one in found if isinstance(one, ToolCall)] == ["run@2/a"]
    check_events(before + found)
