"""Only what the agent offers can be chosen (`normalizers/core/answers.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tooltap.normalizers.core.answers import CannotWriteError, Chosen, NotOfferedError, choose
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer, can_answer
from tooltap.protocol.answers import ForAgent

ONCE = {"id": "yes", "name": "Allow", "kind": "allow_once"}
PREFIX = {"id": "p", "name": "Allow `git`", "kind": "allow_always", "remembers": "commands that begin with `git`"}
EDITS = {"id": "e", "name": "Accept edits", "kind": "allow_always", "remembers": "all edits"}
NO = {"id": "no", "name": "Deny", "kind": "reject_once"}
PERMISSION = {"type": "permission", "options": [PREFIX, ONCE, EDITS, NO]}
BARE = {"type": "permission"}
DATABASE = {"id": "db", "question": "Which database?", "options": [{"label": "Postgres"}, {"label": "SQLite"}]}
NAME = {"question": "Which name?"}
FEATURES = {"question": "Which features?", "options": [{"label": "A"}, {"label": "B"}], "multiSelect": True}
OTHER = {"question": "Why?", "options": [{"label": "A"}], "freeText": True}
QUESTION = {"type": "question", "questions": [DATABASE, NAME, FEATURES, OTHER]}


def chosen(outcome: Any, **more: Any) -> Chosen:
    return Chosen(id="1", outcome=outcome, **more)


@pytest.mark.parametrize(
    ("request_", "given", "option"),
    [
        (PERMISSION, chosen("allowed"), ONCE),
        (PERMISSION, chosen("denied", message="not now"), NO),
        (PERMISSION, chosen("allowed", option_id="p"), PREFIX),
        (PERMISSION, chosen("allowed", option_id="e", remember=True), EDITS),
        ({**PERMISSION, "options": [PREFIX, ONCE]}, chosen("allowed", remember=True), PREFIX),
        (PERMISSION, chosen("cancelled"), None),
        (BARE, chosen("allowed"), None),
        (BARE, chosen("denied"), None),
        (QUESTION, chosen("denied"), None),
        (QUESTION, chosen("cancelled"), None),
        (QUESTION, chosen("answered", answers={"db": "Postgres"}), None),
        (QUESTION, chosen("answered", answers={"db": ["SQLite"], "Which name?": "x", "Why?": "because"}), None),
        (QUESTION, chosen("answered", answers={"Which features?": ["A", "B"]}), None),
        (
            {"type": "elicitation", "questions": [{"id": "n", "question": "?"}]},
            chosen("answered", answers={"n": 3}),
            None,
        ),
        ({"type": "elicitation"}, chosen("answered"), None),
    ],
)
def test_what_is_offered_can_be_chosen(request_: Any, given: Chosen, option: Any) -> None:
    assert choose(request_, given) == option


@pytest.mark.parametrize(
    ("request_", "given", "says"),
    [
        (PERMISSION, chosen("allowed", option_id="maybe"), "no option 'maybe': the agent offers 'p', 'yes', 'e', 'no'"),
        (PERMISSION, chosen("denied", option_id="yes"), "'yes' does not mean denied"),
        (PERMISSION, chosen("allowed", option_id="no"), "'no' does not mean allowed"),
        (PERMISSION, chosen("allowed", option_id="yes", remember=True), "'yes' holds for this request alone"),
        (PERMISSION, chosen("allowed", remember=True), "name one of 'p', 'e'"),
        (PERMISSION, chosen("denied", remember=True), "no option does so"),
        ({**PERMISSION, "options": [ONCE]}, chosen("denied"), "no option does so"),
        ({**PERMISSION, "options": [PREFIX, NO]}, chosen("allowed"), "no option does so"),
        (PERMISSION, chosen("answered", answers={"a": "b"}), "this is no question"),
        (PERMISSION, chosen("allowed", answers={"a": "b"}), "`answers` go with the outcome answered"),
        (PERMISSION, chosen("cancelled", option_id="yes"), "options go with the outcomes allowed and denied"),
        (BARE, chosen("allowed", option_id="yes"), "offers no options"),
        (BARE, chosen("allowed", remember=True), "offers no options"),
        (QUESTION, chosen("allowed"), "this is a question"),
        (QUESTION, chosen("answered"), "`answers` has the answer to each question"),
        (QUESTION, chosen("answered", answers={"Which database?": "Postgres"}), "the agent asks 'db', 'Which name?'"),
        (QUESTION, chosen("answered", answers={"db": "Oracle"}), "'Oracle' is no answer to 'db'"),
        (QUESTION, chosen("answered", answers={"db": ["Postgres", "SQLite"]}), "has one answer, not 2"),
        (QUESTION, chosen("answered", answers={"Which name?": {"a": 1}}), "is a string, or a list of strings"),
        (QUESTION, chosen("answered", answers={"Which name?": None}), "is a string, or a list of strings"),
    ],
)
def test_what_is_not_offered_is_refused_with_a_sentence_that_helps(request_: Any, given: Chosen, says: str) -> None:
    with pytest.raises(NotOfferedError) as error:
        choose(request_, given)
    assert says in str(error.value)


def test_a_dialect_that_writes_nothing_says_so() -> None:
    normalizer = StreamNormalizer(Context(stream="s"), "claude-transcript")
    assert not can_answer("claude-transcript")
    writes: list[Callable[[], ForAgent]] = [
        lambda: normalizer.answer(BARE, chosen("allowed")),
        lambda: normalizer.prompt("s", "Go on", "1"),
        lambda: normalizer.interrupt("s", "1"),
    ]
    for write in writes:
        with pytest.raises(CannotWriteError, match="an agent in the dialect claude-transcript"):
            write()
