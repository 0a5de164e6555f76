"""The `aider-history` dialect: whose words a line of Aider's history is, which edits were applied, and the sessions of
a file."""

from __future__ import annotations

import pytest

from tests.normalizers.reading import of, recording, said
from tooltap.normalizers.core.items import Context, Limits
from tooltap.protocol.events import Event, Notice, SessionEvent, ToolCall, ToolResult, Turn, Unparsed
from tooltap.testing import Line, check_survives, normalize

RECORDED = recording("aider-history", "sessions", "aider-0.86.2")
HEAD = "\n# aider chat started at 2026-11-30 10:00:00\n\n> Aider v0.86.2  \n> Main model: a/b with diff edit format  \n"
BLOCK = "a.py\n```python\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n"


def read(text: str, limits: Limits | None = None) -> list[Event]:
    context = Context(stream="s") if limits is None else Context(stream="s", limits=limits)
    return normalize("auto", [Line(line.encode()) for line in text.split("\n")[:-1]], context)


def asked(answer: str, after: str = "") -> str:
    return f"{HEAD}\n#### Do it  \n\n{answer}\n\n> Tokens: 1.2k sent, 5 received.  \n{after}"


def test_each_start_begins_a_session_of_its_own() -> None:
    found = normalize("auto", RECORDED)
    [first, second] = dict.fromkeys(one.session for one in found)

    assert [one.session for one in of(SessionEvent, found) if one.state == "started"] == [first, second]
    assert (first, second) == ("20261130021731-20261130021731", "20261130021731-20261130022101")
    assert [one.model for one in of(SessionEvent, found) if one.model] == ["openai/fake-model"] * 2
    assert [one.agent_version for one in of(SessionEvent, found) if one.agent_version] == ["0.86.2"] * 2


def test_session_keeps_its_id_when_the_file_grows() -> None:
    ids = {one.session for one in normalize("auto", RECORDED)}

    for lines in (5, 60, 100):
        assert {one.session for one in normalize("auto", RECORDED[:lines])} <= ids


def test_sessions_that_begin_in_one_second_are_two() -> None:
    found = read(HEAD + HEAD + HEAD)

    ids = [one.session for one in of(SessionEvent, found) if one.state == "started"]
    assert ids == ["20261130100000-20261130100000" + more for more in ("", "-1", "-2")]


def test_words_of_the_user_are_shown_to_the_character() -> None:
    """The blanks at the end of the last line are lost in the file."""
    found = read(f"{HEAD}\n#### one    \n####   two  \n####   \n#### # {{three}}  \n\nYes.\n")

    assert said(found) == [("user", "one  \n  two\n\n# {three}"), ("assistant", "Yes.")]


@pytest.mark.parametrize(
    "answer",
    [
        "#### A heading\n\nand a text",
        "A quote:\n\n> It said\n> this\n\n# A title",
        '{\n  "a": [1,\n\n2]\n}\n[\n{"type": "user"}\n12\n"text"\nnull\ndata: {"a": 1}\nevent: x',
        "a\n\n\n  \n\nb\n    indented\t",
    ],
)
def test_all_else_is_the_models(answer: str) -> None:
    found = read(asked(answer))

    assert said(found) == [("user", "Do it"), ("assistant", answer)]
    assert of(Unparsed, found) == []


def test_output_of_several_lines_is_one_notice() -> None:
    error = "# 1 block failed to match!\n\n## Of a.py\n<<<<<<< SEARCH\n#### x\n=======\n\nIt must match"
    found = read(asked("No.", f"> The LLM did not conform to the edit format.  \n> {error}  \n\nI see.\n"))

    assert [one.text for one in of(Notice, found)][-2:] == ["The LLM did not conform to the edit format.", error]
    assert [text for _, text in said(found)] == ["Do it", "No.", "I see."]


def test_edit_is_a_call_only_where_it_was_applied() -> None:
    answer = BLOCK.format(old="x\n\ny\n", new="z\n    \n")
    applied = read(asked(answer, "> Applied edit to a.py  \n"))

    assert of(ToolCall, read(asked(answer))) == []
    assert of(ToolCall, read(asked(answer, "> Did not apply edit to a.py (--dry-run)  \n"))) == []
    [call] = of(ToolCall, applied)
    given = {key: value for key, value in (call.input or {}).items() if not key.startswith("_")}
    assert (call.name, given) == ("Edit", {"file_path": "a.py", "old_string": "x\n\ny\n", "new_string": "z\n    \n"})
    assert [(one.call_id, one.status) for one in of(ToolResult, applied)] == [(call.call_id, "completed")]


def test_edits_of_a_file_are_one_call() -> None:
    answer = BLOCK.format(old="x\n", new="y\n") + "\n" + BLOCK.format(old="", new="z\n")
    [call] = of(ToolCall, read(asked(answer, "> Applied edit to a.py  \n")))

    edits = [{"old_string": "x\n", "new_string": "y\n"}, {"old_string": "", "new_string": "z\n"}]
    assert (call.name, (call.input or {})["edits"]) == ("MultiEdit", edits)


@pytest.mark.parametrize("after", ["> Applied edit to b.py  \n", "\nOnce more.\n\n> Applied edit to a.py  \n"])
def test_edit_whose_text_is_not_known_has_the_file_only(after: str) -> None:
    [call] = of(ToolCall, read(asked(BLOCK.format(old="x\n", new="y\n"), after)))

    assert {key for key in call.input or {} if not key.startswith("_")} == {"file_path"}


def test_blocks_are_kept_up_to_the_limit_of_a_text() -> None:
    answer = BLOCK.format(old="x" * 3_000 + "\n", new="y\n")
    limits = Limits(string_bytes=2_000)
    [call] = of(ToolCall, read(asked(answer, "> Applied edit to a.py  \n"), limits))

    assert "old_string" not in (call.input or {})


@pytest.mark.parametrize(("answer", "state"), [("\nDone.\n", "completed"), ("> APIConnectionError  \n", "cancelled")])
def test_turn_without_an_answer_is_not_completed(answer: str, state: str) -> None:
    found = read(f"{HEAD}\n#### Do it  \n{answer}\n#### And now?  \n")

    assert [one.state for one in of(Turn, found)][:2] == ["started", state]


def test_command_is_no_turn_of_the_models() -> None:
    found = read(f"{HEAD}\n#### /add a.py  \n> Added a.py  \n\n#### !ls  \n\n#### /ask Why?  \n\nBecause.\n")

    assert [(one.state, one.synthetic) for one in of(Turn, found)] == [("started", True), ("completed", True)]
    assert [text for _, text in said(found)] == ["/add a.py", "!ls", "/ask Why?", "Because."]


def test_history_written_on_windows_is_the_same() -> None:
    text = asked(BLOCK.format(old="x\n", new="y\n"), "> Applied edit to a.py  \n")

    assert read(text.replace("\n", "\r\n")) == read(text)


def test_damaged_history_is_survived() -> None:
    lines = (b"\xff", b"# aider chat started at 2026-99-99 10:00:00", b"> \xff  ", b"####   ", b"> x")

    check_survives("aider-history", [Line(line) for line in lines * 3])
