"""The `cline-session` dialect: versions of a document that bring messages again."""

from __future__ import annotations

from typing import Any

from tests.normalizers.reading import of, read, said
from tooltap.protocol.events import Event, Notice, Usage


def user(name: str, text: str) -> dict[str, Any]:
    return {"id": name, "role": "user", "content": text, "ts": 1_000}


def reply(name: str, text: str, ts: int = 1_795_486_041_348) -> dict[str, Any]:
    metrics = {"inputTokens": 100, "outputTokens": 10}
    return {"id": name, "role": "assistant", "content": [{"type": "text", "text": text}], "ts": ts, "metrics": metrics}


def document(*messages: dict[str, Any], session: str = "one") -> dict[str, Any]:
    common = {"version": 1, "updated_at": "2026-11-24T02:07:23.157Z", "agent": "lead"}
    return {**common, "sessionId": session, "origin": {"source": "cli"}, "messages": list(messages)}


OLD = (user("u1", "First"), reply("msg_A1", "One."), user("u2", "Second"), reply("msg_A2", "Two."))


def versions(*documents: dict[str, Any]) -> list[Event]:
    return read("cline-session", *documents)


def test_messages_that_a_compaction_keeps_are_read_once() -> None:
    summary = reply("msg_S", "Summary.")
    found = versions(document(*OLD), document(summary, *OLD[2:], user("u3", "Third"), reply("msg_A3", "Three.")))

    assert [text for _, text in said(found)] == ["First", "One.", "Second", "Two.", "Summary.", "Third", "Three."]
    assert len(of(Usage, found)) == 4
    assert [(one.code, one.data) for one in of(Notice, found)] == [("rewound", {"messages": 0})]


def test_shortened_history_rewinds() -> None:
    found = versions(document(*OLD), document(*OLD[:2], user("u3", "Second, better"), reply("msg_A3", "Three.")))

    assert [(one.code, one.data) for one in of(Notice, found)] == [("rewound", {"messages": 2})]
    assert len(of(Usage, found)) == 3


def test_message_identifies_its_request_in_the_session_that_copies_it() -> None:
    parent, fork = versions(document(*OLD)), versions(document(*OLD, session="two"))

    assert [one.request for one in of(Usage, parent)] == ["msg_A1/1795486041348", "msg_A2/1795486041348"]
    assert [one.request for one in of(Usage, fork)] == [one.request for one in of(Usage, parent)]
