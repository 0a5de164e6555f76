"""What is remembered of a stream is short, and base64 data never stays inside an object."""

from types import SimpleNamespace

from tests.normalizers.reading import emitted
from tests.normalizers.toy import Toy
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.state import SHORT, is_short, learn
from tooltap.normalizers.core.writer import take_bodies
from tooltap.protocol.events import SessionEvent


def test_learn_returns_and_sets_what_is_new() -> None:
    known = SimpleNamespace(title="old", mode="plan", model=None)

    assert learn(known, title="new", mode="plan", model="m1") == {"title": "new", "model": "m1"}
    assert (known.title, known.mode, known.model) == ("new", "plan", "m1")


def test_learn_ignores_what_is_absent_or_long() -> None:
    known = SimpleNamespace(title="old", mode="plan")

    assert learn(known, title="x" * (SHORT + 1), mode=None) == {}
    assert (known.title, known.mode) == ("old", "plan")
    assert is_short("x" * SHORT)
    assert not is_short(1)


def test_unchanged_session_is_not_emitted() -> None:
    parser = Toy(Context(stream="s"))

    assert parser.update_session({}) == "unchanged"
    assert parser.items == []


def test_changed_session_is_emitted() -> None:
    parser = Toy(Context(stream="s"))

    assert parser.update_session({"title": "new"}) is None
    (event,) = emitted(parser.items)
    assert isinstance(event, SessionEvent)
    assert (event.state, event.title) == ("updated", "new")


def test_bodies_become_attachments() -> None:
    parser = Toy(Context(stream="s"))

    value, attachments = take_bodies(parser, {"mimeType": "image/png", "data": "AAAA"})

    assert attachments is not None
    assert value == {"mimeType": "image/png", "outputId": attachments[0].output_id}
    assert attachments[0].bytes == 3
    assert take_bodies(parser, {"text": "hi"}) == ({"text": "hi"}, None)
