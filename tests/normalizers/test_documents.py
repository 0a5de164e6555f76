"""JSON objects printed over many lines."""

import json

import orjson

from tests.normalizers.gemini import RECORDED, WRITTEN
from tests.normalizers.reading import recording
from tooltap.normalizers.documents import beginning
from tooltap.normalizers.gemini_chat import GeminiChat
from tooltap.normalizers.items import Context, Limits
from tooltap.normalizers.stream import StreamNormalizer
from tooltap.protocol.events import Unparsed

DOCUMENT = {"sessionId": "a", "projectHash": 'b"]}', "messages": [{"id": "m", "n": [1, {}]}, {}], "x": None}


def test_the_first_lines_of_a_document_say_what_is_complete_in_them() -> None:
    lines = json.dumps(DOCUMENT, indent=2).encode().split(b"\n")

    assert beginning(lines[:1]) == {}
    assert beginning(lines[:3]) == {"sessionId": "a", "projectHash": 'b"]}'}
    assert beginning(lines[:6]) == {"sessionId": "a", "projectHash": 'b"]}', "messages": [{"id": "m"}]}
    assert beginning(lines) == DOCUMENT


def test_lines_that_are_no_document_say_nothing() -> None:
    assert beginning([]) is None
    assert beginning([b'{"a": 1}']) is None
    assert beginning([b"{", b"  code: 403,", b"}"]) is None
    assert beginning([b"{", b'  "a": "cut']) is None


def test_noise_before_a_document_does_not_hide_it() -> None:
    assert beginning([b"Loading", b"", b"{", b'  "a": 1,']) == {"a": 1}


def test_any_indentation_and_line_end_will_do() -> None:
    for text in (json.dumps(DOCUMENT, indent="\t"), json.dumps(DOCUMENT, indent=8).replace("\n", "\r\n")):
        assert beginning(text.encode().split(b"\n")) == DOCUMENT


def test_a_document_longer_than_a_line_may_be_is_given_up() -> None:
    lines = [line.data for line in recording("gemini-chat", "document.json", WRITTEN)]
    parser = GeminiChat(Context(stream="s", limits=Limits(line_bytes=1_000)))

    found = [item for line in lines if isinstance(line, bytes) for item in parser.feed(line)[1]]

    assert isinstance(found[0], Unparsed)
    assert found[0].reason == "truncated"
    assert parser.state.document is None


def test_a_dialect_of_lines_leaves_braces_alone() -> None:
    """A Node process that prints an object is noise in a stream of lines."""
    normalizer = StreamNormalizer(Context(stream="s"), "gemini-stream")
    for line in (b"{", b"  code: 403,", b"}"):
        normalizer.feed(line)

    assert normalizer.statistics.unparsed == 3


def test_auto_chooses_only_dialects_that_may_come_as_documents() -> None:
    line = recording("gemini-stream", "read", RECORDED)[0].data
    assert isinstance(line, bytes)
    normalizer = StreamNormalizer(Context(stream="s"))

    for part in json.dumps(orjson.loads(line), indent=2).encode().split(b"\n"):
        normalizer.feed(part)

    assert normalizer.dialect is None
