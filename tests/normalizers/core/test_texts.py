"""Chunks of text become one event per block, and the state stays small however long the text grows."""

from typing import Any

import msgspec
import orjson

from tests.normalizers.reading import emitted
from tests.normalizers.toy import Toy
from tooltap.normalizers.core.items import Context, Limits, OutputChunk
from tooltap.normalizers.core.state import OpenText
from tooltap.protocol.events import Message, Reasoning


def run(*lines: dict[str, Any], partials: bool = False, limits: Limits | None = None) -> list[Any]:
    parser = Toy(Context(stream="s", partials=partials, limits=limits or Limits()))
    items: list[Any] = []
    for line in lines:
        items += emitted(parser.feed(orjson.dumps(line))[1])
    return items + emitted(parser.close("end"))


def chunk(text: str, **more: Any) -> dict[str, Any]:
    return {"do": "chunk", "text": text, **more}


def test_chunks_become_one_message_at_block_end() -> None:
    items = run(chunk("Hel"), chunk("lo"), {"do": "begin"}, {"do": "finish"})

    message = next(item for item in items if isinstance(item, Message))
    assert (message.text, message.id) == ("Hello", "s:4:0")


def test_new_role_or_message_id_ends_block() -> None:
    items = run(chunk("a", id="1"), chunk("b", id="2"), chunk("c", id="2", role="reasoning"))

    assert [(type(item), item.text, item.message_id) for item in items] == [
        (Message, "a", "1"),
        (Message, "b", "2"),
        (Reasoning, "c", "2"),
    ]


def test_agents_have_separate_blocks() -> None:
    items = run(chunk("a"), chunk("x", agent="sub"), chunk("b"), chunk("y", agent="sub"))

    assert [(item.agent, item.text) for item in items] == [(None, "ab"), ("sub", "xy")]


def test_turn_end_keeps_blocks_of_overlapping_turn() -> None:
    items = run(
        {"do": "begin", "turn": "one"},
        chunk("first", key="a"),
        {"do": "begin", "turn": "two"},
        chunk("sec", key="b"),
        {"do": "finish", "turn": "one"},
        chunk("ond", key="b"),
        {"do": "finish", "turn": "two"},
    )

    messages = [item for item in items if isinstance(item, Message)]
    assert [(item.text, item.turn, item.line) for item in messages] == [("first", "one", 5), ("second", "two", 7)]


def test_partial_text_without_whole_is_synthetic() -> None:
    items = run(chunk("sure"), chunk("half", key="k", preview=True))

    assert [(item.text, item.synthetic) for item in items] == [("sure", False), ("half", True)]


def test_partials_have_code_point_offsets_and_no_ids() -> None:
    lines = (chunk("h\U0001f600"), chunk("llo"))

    live = run(*lines, partials=True)

    assert [(item.text, item.offset) for item in live if item.partial] == [("h\U0001f600", 0), ("llo", 2)]
    assert [item for item in live if not item.partial] == run(*lines)


def test_long_text_streams_to_output_body() -> None:
    limits = Limits(string_bytes=10)
    items = run(*[chunk(f"é{n}\n") for n in range(10)], limits=limits)

    *pieces, message = items
    body = b"".join(piece.data for piece in pieces)
    assert all(isinstance(piece, OutputChunk) for piece in pieces)
    assert [piece.offset for piece in pieces] == [0, *range(12, 40, 4)]
    assert body.decode() == "".join(f"é{n}\n" for n in range(10))
    assert message.text == "é0\né1\né"
    ref = message.outputs["/text"]
    assert (ref.output_id, ref.bytes, ref.lines) == (pieces[0].output_id, 40, 10)


def test_text_of_just_the_limit_is_whole() -> None:
    (whole,) = run(chunk("é" * 4), chunk("\n\n"), limits=Limits(string_bytes=10))
    piece, cut = run(chunk("é" * 4), chunk("\n\n"), limits=Limits(string_bytes=9))

    assert (whole.text, whole.outputs) == ("éééé\n\n", None)
    assert (cut.text, piece.data) == ("éééé\n", whole.text.encode())


def test_dump_of_a_version_without_previews_is_of_whole_texts() -> None:
    assert msgspec.convert({"role": "user", "session": "s", "buffer": {}}, OpenText).preview is False


def test_long_text_keeps_state_small() -> None:
    parser = Toy(Context(stream="s"))
    for _ in range(2_000):
        parser.feed(orjson.dumps(chunk("x" * 1_000)))

    assert len(parser.dump()) < 70_000
