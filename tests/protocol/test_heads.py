"""The head of an event says what the event does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tooltap.protocol.events import KINDS, Event, EventHead, encode, head_of, with_seq
from tooltap.protocol.filters import meta_of

ENVELOPE: dict[str, Any] = {
    "v": 2,
    "id": "s:1:0",
    "stream": "s",
    "line": 1,
    "session": "x",
    "protocol": "acp",
    "provider": "a",
    "dialect": "d",
    "ts": 7,
    "agent": "sub",
    "parent": "c",
    "replay": True,
    "synthetic": True,
}
PAYLOAD = {"command": "ls", "_happy": {"rawToolName": "shell"}}
VALUES: dict[str, Any] = {
    "state": "started",
    "call_id": "c1",
    "permission_id": "p1",
    "name": "Bash",
    "title": "T",
    "preview": "ls",
    "input": PAYLOAD,
    "output": PAYLOAD,
    "is_error": True,
    "duration_ms": 3,
    "async_": True,
    "replaces": "s:1:1",
    "role": "user",
    "text": 'say "ä"',
    "message_id": "m",
    "block": 2,
    "offset": 4,
    "model": "o",
    "cwd": "/w",
    "alias": "y",
    "scope": "turn",
    "outcome": "allowed",
    "message": "no",
    "type": "permission",
    "level": "info",
    "code": "retry",
    "reason": "torn",
    "bytes": 5,
}


def event(kind: type[Event]) -> Event:
    """An event of this kind with all values that it can have."""
    own = {name: value for name, value in VALUES.items() if name in kind.__struct_fields__}
    if "status" in kind.__struct_fields__:
        own["status"] = "completed" if "output" in own else "running"
    return kind(**ENVELOPE, **own)


@pytest.mark.parametrize("kind", KINDS, ids=KINDS.values())
def test_the_head_has_the_values_of_the_event(kind: type[Event]) -> None:
    whole = event(kind)
    head = head_of(encode(whole))
    for field in msgspec.structs.fields(EventHead):
        if field.name.endswith("_json") or field.name == "kind":
            continue
        assert getattr(head, field.name) == getattr(whole, field.name, field.default), field.name
    assert head.kind == KINDS[kind]
    assert head.text == getattr(whole, "text", "")
    assert [*head.payload] == [*(getattr(whole, "input", None) or getattr(whole, "output", None) or ())]


@pytest.mark.parametrize("kind", KINDS, ids=KINDS.values())
def test_filters_see_in_the_head_what_they_see_in_the_event(kind: type[Event]) -> None:
    whole = event(kind)
    head = head_of(with_seq(5, encode(whole)))
    meta = meta_of(whole)
    assert {name: getattr(head, name) for name in meta._fields} == meta._asdict()


def test_what_is_not_an_event_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        head_of(b'{"id": "s:1:0"}')
