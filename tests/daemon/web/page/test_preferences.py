"""What a reader prefers: from the form to the cookie and back."""

from __future__ import annotations

import base64
from urllib.parse import urlencode

import pytest

from tooltap.daemon.web.page.heads import Head
from tooltap.daemon.web.page.preferences import (
    PreferenceError,
    Preferences,
    from_cookie,
    from_form,
    to_cookie,
)


def head(kind: str = "tool-call", dialect: str = "claude-stream", name: str | None = "Bash") -> Head:
    return Head(kind=kind, stream="s", dialect=dialect, name=name)


def form(*more: tuple[str, str], **fields: str) -> bytes:
    return urlencode([*fields.items(), *more]).encode()


def test_a_cookie_keeps_what_was_preferred() -> None:
    preferences = Preferences(
        level="title", transcripts="full", tools={"Bash": "summary"}, expanded="summary", tap="open", theme="dark"
    )

    assert from_cookie(to_cookie(preferences)) == preferences
    assert len(to_cookie(Preferences())) < 10


@pytest.mark.parametrize(
    "cookie",
    [None, "", "x", "äöü", "e30", "bm90IGpzb24=", base64.b64encode(b'{"level":"huge"}').decode(), "////" * 100],
    ids=["none", "empty", "short", "letters", "padding", "no JSON", "no such level", "bytes"],
)
def test_a_cookie_that_cannot_be_read_is_as_good_as_none(cookie: str | None) -> None:
    assert from_cookie(cookie) == Preferences()


def test_the_level_of_a_card_is_its_tools_else_of_where_it_comes_from() -> None:
    preferences = Preferences(level="title", transcripts="full", tools={"Read": "summary"})

    assert preferences.level_of(head()) == "title"
    assert preferences.level_of(head(dialect="claude-transcript")) == "full"
    assert preferences.level_of(head(dialect="claude-transcript", name="Read")) == "summary"
    assert preferences.level_of(head(kind="notice", name=None)) == "title"


def test_what_is_said_is_whole_at_every_level() -> None:
    assert Preferences(level="title").level_of(head(kind="message", name=None)) == "full"


def test_an_expanded_card_has_a_level_of_its_own() -> None:
    preferences = Preferences(expanded="summary", tools_expanded={"Bash": "full"})

    assert preferences.expanded_of(head()) == "full"
    assert preferences.expanded_of(head(name="Read")) == "summary"


def test_a_form_has_a_row_for_each_tool() -> None:
    rows = [("tool", " Bash "), ("tool_level", "title"), ("tool_expanded", "")]
    rows += [("tool", "Read"), ("tool_level", ""), ("tool_expanded", "summary")]
    rows += [("tool", ""), ("tool_level", "full"), ("tool_expanded", "full")]

    read = from_form(form(*rows, level="full", tap="open", theme="light", debug="on", back="/?tool=Bash"))

    assert read.preferences == Preferences(
        level="full", tools={"Bash": "title"}, tools_expanded={"Read": "summary"}, tap="open", debug=True, theme="light"
    )
    assert read.back == "/?tool=Bash"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (form(level="huge"), "this cannot be preferred: invalid enum value 'huge'"),
        (form(tap="dance"), "this cannot be preferred: invalid enum value 'dance'"),
        (
            form(("tool", "x" * 201), ("tool_level", "full")),
            "this cannot be preferred: expected `str`",
        ),
        (b"a=%FF", "this is not the form of the preferences"),
        (b"&a=1" * 1_001, "this is not the form of the preferences"),
    ],
    ids=["level", "tap", "long name", "not UTF-8", "fields"],
)
def test_a_form_that_is_none_of_ours_is_refused_in_a_sentence(body: bytes, sentence: str) -> None:
    with pytest.raises(PreferenceError) as refused:
        from_form(body)

    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    "back", ["//evil.example", "/\\evil.example", "https://evil.example", "x", "", "/\r\nSet-Cookie: a"]
)
def test_after_the_form_one_stays_on_this_site(back: str) -> None:
    assert from_form(form(back=back)).back == "/"


def test_more_tools_than_a_cookie_holds_are_refused() -> None:
    with pytest.raises(PreferenceError, match="more tools than a cookie holds"):
        to_cookie(Preferences(tools={f"tool-{n:0100}": "full" for n in range(64)}))
