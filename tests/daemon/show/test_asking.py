"""What a person is asked, and which replies there are."""

from __future__ import annotations

from typing import Any

import pytest

from tooltap.daemon.show.asking import Choice, choices_of, fields_of, what_it_wants
from tooltap.protocol.replies import Waiting


def waiting(**fields: Any) -> Waiting:
    return Waiting(**{"session": "s", "provider": "claude", "stream": "s", "seq": 1, "type": "permission", **fields})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "Bash"}, "wants to run a command"),
        ({"name": "Edit"}, "wants to change a file"),
        ({"name": "mcp__db__drop"}, "wants to use mcp__db__drop"),
        ({}, "asks for a permission"),
        ({"name": "ExitPlanMode"}, "asks you to approve its plan"),
        ({"name": "AskUserQuestion", "type": "question"}, "asks you"),
        ({"type": "elicitation"}, "asks you to fill in a form"),
        ({"name": "Bash", "certain": False}, "may be waiting for you"),
    ],
)
def test_what_an_agent_wants(fields: dict[str, Any], words: str) -> None:
    assert what_it_wants(waiting(**fields)) == words


def test_replies_are_those_that_the_agent_offers_by_their_kinds() -> None:
    """What an option is called changes nothing. One without an id, or of an unknown kind, cannot be chosen."""
    offered = [
        {"id": "3", "name": "Allow", "kind": "reject_always"},
        {"id": "1", "name": "Deny", "kind": "allow_once"},
        {"id": "2", "name": "For git", "kind": "allow_always", "remembers": "commands that begin with git"},
        {"name": "Yes", "kind": "allow_once"},
        {"id": "4", "name": "Allow", "kind": "allow_all"},
        {"id": "5", "name": "Allow"},
    ]

    assert choices_of(offered) == [
        Choice("allowed", "1", "Allow", ""),
        Choice("allowed", "2", "Always", "", is_lasting=True, remembers="commands that begin with git"),
        Choice("denied", "3", "Never", "", is_lasting=True, remembers="Allow"),
    ]


def test_several_options_of_a_kind_have_their_names() -> None:
    offered = [{"id": name, "name": name, "kind": "allow_once"} for name in ("fast", "slow")]

    assert [(one.option, one.words, one.name) for one in choices_of(offered)] == [
        ("fast", "Allow", "fast"),
        ("slow", "Allow", "slow"),
    ]


def test_without_options_a_request_is_allowed_or_denied() -> None:
    replies = [Choice("allowed", None, "Allow", ""), Choice("denied", None, "Deny", "")]

    assert choices_of(None) == replies
    assert choices_of([]) == replies


def test_other_words_are_taken_where_the_agent_takes_them() -> None:
    questions = [
        {"question": "Which?", "options": [{"label": "a", "description": "b"}, "c", {"no": "label"}]},
        {"question": "Which?", "id": "2", "options": [{"label": "a"}], "freeText": True, "multiSelect": True},
        {"question": "Why?"},
    ]
    first, second, third = fields_of(waiting(type="question", questions=questions), {})

    assert (first.key, first.kind, first.takes_own_words) == ("Which?", "one", False)
    assert [(one.value, one.label, one.description) for one in first.options] == [("a", "a", "b"), ("c", "c", "")]
    assert (second.key, second.kind, second.takes_own_words) == ("2", "several", True)
    assert (third.key, third.kind, third.takes_own_words) == ("Why?", "text", True)


def test_form_has_the_fields_of_its_schema() -> None:
    properties: dict[str, Any] = {
        "name": {"type": "string", "title": "Name", "description": "Of the branch", "default": "main"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "force": {"type": "boolean", "default": True},
        "level": {"type": "string", "enum": ["low", "high"], "enumNames": ["Low"]},
        "where": {"type": "array", "items": {"anyOf": [{"const": "eu", "title": "Europe"}, {"title": "nothing"}]}},
        "odd": "no schema",
    }
    asked = waiting(type="elicitation")
    fields = fields_of(asked, {"requestedSchema": {"properties": properties, "required": ["name", "force"]}})

    assert [(one.key, one.kind, one.is_required) for one in fields] == [
        ("name", "text", True),
        ("count", "integer", False),
        ("ratio", "number", False),
        ("force", "boolean", True),
        ("level", "one", False),
        ("where", "several", False),
        ("odd", "text", False),
    ]
    assert (fields[0].header, fields[0].words, fields[0].value) == ("Name", "Of the branch", "main")
    assert [(one.value, one.label) for one in fields[4].options] == [("low", "Low"), ("high", "high")]
    assert [(one.value, one.label) for one in fields[5].options] == [("eu", "Europe")]
