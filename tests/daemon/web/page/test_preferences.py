"""Preferences: from the form to the cookie and back."""

from __future__ import annotations

import base64
from urllib.parse import urlencode

import pytest

from tooltap.daemon.web.page.preferences import (
    PreferenceError,
    Preferences,
    from_cookie,
    from_form,
    to_cookie,
)
from tooltap.normalizers.catalog.registry import agents
from tooltap.protocol.events import EventHead


def head(kind: str = "tool-call", dialect: str = "claude-stream", name: str | None = "Bash") -> EventHead:
    return EventHead(kind=kind, stream="s", dialect=dialect, name=name)


def form(*more: tuple[str, str], **fields: str) -> bytes:
    return urlencode([*fields.items(), *more]).encode()


def test_cookie_round_trip() -> None:
    preferences = Preferences(
        level="title",
        transcripts="full",
        tools={"Bash": "summary"},
        expanded="summary",
        tap="open",
        opens="unread",
        theme="dark",
    )

    assert from_cookie(to_cookie(preferences)) == preferences
    assert len(to_cookie(Preferences())) < 10


@pytest.mark.parametrize(
    "cookie",
    [None, "", "x", "äöü", "e30", "bm90IGpzb24=", base64.b64encode(b'{"level":"huge"}').decode(), "////" * 100],
    ids=["none", "empty", "short", "letters", "padding", "no JSON", "no such level", "bytes"],
)
def test_unreadable_cookie_counts_as_none(cookie: str | None) -> None:
    assert from_cookie(cookie) == Preferences()


def test_tool_level_overrides_default() -> None:
    preferences = Preferences(level="title", transcripts="full", tools={"Read": "summary"})

    assert preferences.level_of(head()) == "title"
    assert preferences.level_of(head(dialect="claude-transcript")) == "full"
    assert preferences.level_of(head(dialect="claude-transcript", name="Read")) == "summary"
    assert preferences.level_of(head(kind="notice", name=None)) == "title"


@pytest.mark.parametrize("dialect", sorted(agent.store.dialect for agent in agents().values() if agent.store))
def test_level_of_session_files_is_for_those_of_every_agent(dialect: str) -> None:
    """But for an agent that prints the same dialect as it stores: its events do not tell."""
    is_printed = any(
        agent.store.printed for agent in agents().values() if agent.store and agent.store.dialect == dialect
    )
    preferences = Preferences(level="title", transcripts="full")

    assert preferences.level_of(head(dialect=dialect)) == ("title" if is_printed else "full")


def test_messages_are_always_full() -> None:
    assert Preferences(level="title").level_of(head(kind="message", name=None)) == "full"


def test_expanded_level() -> None:
    preferences = Preferences(expanded="summary", tools_expanded={"Bash": "full"})

    assert preferences.expanded_of(head()) == "full"
    assert preferences.expanded_of(head(name="Read")) == "summary"


def test_form_has_row_per_tool() -> None:
    rows = [("tool", " Bash "), ("tool_level", "title"), ("tool_expanded", "")]
    rows += [("tool", "Read"), ("tool_level", ""), ("tool_expanded", "summary")]
    rows += [("tool", ""), ("tool_level", "full"), ("tool_expanded", "full")]

    read = from_form(
        form(*rows, level="full", tap="open", opens="waiting", theme="light", debug="on", back="/events?tool=Bash")
    )

    assert read.preferences == Preferences(
        level="full",
        tools={"Bash": "title"},
        tools_expanded={"Read": "summary"},
        tap="open",
        opens="waiting",
        debug=True,
        theme="light",
    )
    assert read.back == "/events?tool=Bash"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (form(level="huge"), "invalid preference: invalid enum value 'huge'"),
        (form(tap="dance"), "invalid preference: invalid enum value 'dance'"),
        (
            form(("tool", "x" * 201), ("tool_level", "full")),
            "invalid preference: expected `str`",
        ),
        (b"a=%FF", "this is not the preferences form"),
        (b"&a=1" * 1_001, "this is not the preferences form"),
    ],
    ids=["level", "tap", "long name", "not UTF-8", "fields"],
)
def test_foreign_form_is_refused(body: bytes, sentence: str) -> None:
    with pytest.raises(PreferenceError) as refused:
        from_form(body)

    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    "back", ["//evil.example", "/\\evil.example", "https://evil.example", "x", "", "/\r\nSet-Cookie: a"]
)
def test_form_redirects_only_to_this_site(back: str) -> None:
    assert from_form(form(back=back)).back == "/"


def test_too_long_cookie_is_refused() -> None:
    with pytest.raises(PreferenceError, match="too many tools for one cookie"):
        to_cookie(Preferences(tools={f"tool-{n:0100}": "full" for n in range(64)}))
