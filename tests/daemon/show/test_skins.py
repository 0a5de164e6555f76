"""One event says the same in every skin: HTML, Markdown, and the terminal of `tooltap show`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.show.carding import card_of, made, result
from tooltap.cli.read.transcript import Transcript
from tooltap.daemon.export.markdown import MarkdownPage
from tooltap.daemon.export.source import Bodies
from tooltap.daemon.show.blocks import CallOfResult
from tooltap.protocol.events import AnyEvent, ToolCall


def called(name: str, given: dict[str, Any], **fields: Any) -> AnyEvent:
    return made("tool-call", callId="c", name=name, status="running", input=given, **fields)


def markdown(*events: AnyEvent) -> list[str]:
    page = MarkdownPage("title", bodies=Bodies(0, 0))
    text = "".join([*(page.add(event, {}) for event in events), *page.end()])
    return [line for line in text.split("---\n")[0].splitlines()[5:] if line]


def terminal(*events: AnyEvent) -> list[str]:
    transcript = Transcript(columns=120, colour=False, full=False, cwd=None)
    lines = [*(line for event in events for line in transcript.add(event)), *transcript.end()]
    return [str(line) for line in lines if line]


def head_of(event: AnyEvent, call: AnyEvent | None = None) -> list[str]:
    """Return the texts of the header of the event's card: title, preview, status and facts."""
    known = CallOfResult(call.name, call.input, call.preview or "", call.ts) if isinstance(call, ToolCall) else None
    card = card_of(event, "title", known)
    return [text for name in ("title", "preview", "status", "fact") for text in card.texts(f".{name}") if text]


def test_mcp_tool_is_named_by_its_server() -> None:
    call, end = called("mcp__notes__find", {"query": "x"}), result("mcp__notes__find", {"text": "found"})

    assert head_of(call)[:2] == ["notes · find", "x"]
    assert markdown(call, end)[0] == "**notes · find** `x` — completed"
    assert terminal(call, end) == ["✓ notes · find x"]


def test_title_that_repeats_the_name_of_the_tool_is_left_out() -> None:
    call, end = called("Read", {}, title="read"), result("Read", {}, status="failed", isError=True)

    assert head_of(call) == ["Read", "running"]
    assert markdown(call, end)[0] == "**Read** — failed"
    assert terminal(call, end) == ["✗ Read  failed"]


def test_preview_is_longer_than_in_the_event() -> None:
    command = "grep --recursive --line-number greet src tests docs"
    call, end = called("Bash", {"command": command}, preview=command[:40]), result("Bash", {"stdout": ""})

    assert head_of(call)[1] == command
    assert markdown(call, end)[0] == f"**Bash** `{command}` — completed"
    assert terminal(call, end) == [f"✓ Bash {command}"]


@pytest.mark.parametrize(("status", "counts"), [("completed", ["+2", "−1"]), ("failed", [])])
def test_only_an_edit_that_completed_has_changed_lines(status: str, counts: list[str]) -> None:
    call = called("Edit", {"file_path": "a.py", "old_string": "a", "new_string": "b\nc"})
    end = result("Edit", {}, status=status, isError=status == "failed")

    assert [text for text in head_of(end, call) if text[0] in "+−"] == counts
    assert terminal(call, end) == ["✓ Edit a.py  +2 −1" if counts else "✗ Edit a.py  failed"]


def test_call_takes_the_time_to_its_result() -> None:
    call = called("Bash", {"command": "make"}, ts=10_000)
    end = result("Bash", {"exit_code": 2}, ts=12_500, status="failed", isError=True)

    assert head_of(end, call)[-2:] == ["exit 2", "2.5 s"]
    assert markdown(call, end)[0] == "**Bash** `make` — failed, exit 2, 2.5 s"
    assert terminal(call, end) == ["✗ Bash make  failed · exit 2 · 2.5 s"]


def test_turn_whose_stream_ended_is_interrupted() -> None:
    begun = made("turn", state="started", turn="t")
    ended = made("turn", state="cancelled", turn="t", endedBy="eof", reason="interrupted")

    assert head_of(ended)[0] == "Turn interrupted"
    assert markdown(begun, ended)[-1] == "*Turn interrupted*"
    assert terminal(begun, ended)[0].startswith("── turn 1 · interrupted ─")


def test_permissions_are_asked_and_answered_in_the_same_words() -> None:
    questions = [{"question": "Which database?", "options": []}]
    asked = made("permission-request", permissionId="p", type="question", name="AskUserQuestion", questions=questions)
    answer = made("permission-response", permissionId="p", outcome="answered", by="user")

    assert head_of(asked)[:3] == ["Question", "Which database?", "asked"]
    assert head_of(answer)[:2] == ["Answered", "by the user"]
    assert markdown(asked, answer) == ["*Asked: Which database?*", "*Answered*"]
    assert terminal(asked, answer) == ["? asks: AskUserQuestion Which database?", "? Answered by the user"]


def test_message_of_a_subagent_says_whose_it_is() -> None:
    prompt = made("message", role="user", text="Look around", agent="a")

    assert head_of(prompt)[0] == "Prompt"
    assert markdown(prompt) == ["> **Subagent: Prompt**", ">", "> Look around"]


def test_line_that_could_not_be_read() -> None:
    event = made("unparsed", reason="not-json", text="oops", bytes=4)

    assert head_of(event)[:2] == ["Unparsed line", "not-json"]
    assert markdown(event) == ["*Unparsed line: not-json*"]
    assert terminal(event) == ["! Unparsed line: not-json: oops"]
