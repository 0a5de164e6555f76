"""Markdown exports: what the file says, and that no text of an agent gets out of its place."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.browser.test_hostile import HOSTILE
from tests.daemon.show.carding import made, recorded, result
from tooltap.daemon.export import markdown as markdown_page
from tooltap.daemon.export.markdown import MarkdownPage
from tooltap.daemon.export.source import Bodies
from tooltap.daemon.sessions.row import first_line_of
from tooltap.daemon.show.skins.markdown import as_typed, call_blocks, code_span, fenced, inert, line, quoted
from tooltap.protocol.events import AnyEvent, Event, ToolCall, ToolResult

ATTACKS = [
    "# Heading\n## Turn 9",
    "Title\n=====\nOther\n---",
    "<script>alert(1)</script>\n<img src=x onerror=alert(1)>",
    "<!-- a comment that never ends\n\nmore",
    "<details>\n\n# hidden\n\n</details>",
    "```\na fence that never ends",
    "~~~~python\nso is this\n```\n~~~",
    "- a list\n  ```\n  open in the list",
    "> a quote\n> ```\n> open in the quote",
    "![pixel](https://evil.test/x.png)\n\n![by name][x]\n\n[x]: https://evil.test/y.png",
    "[Turn 1]: https://evil.test 'all\nlines'",
    "\\\\<b>bold</b> `<b>` <i\nx>",
    "text with `` `ticks ` `` and ``````` many",
    "| a | <b> |\n|---|---|\n| # | ![x](y) |",
    "a <http://ok.test> & &lt;b&gt; \u202e\x1b[31m",
    "1. # deep\n   - > ## deeper\n     > <div>",
    HOSTILE,
]
ACTIVE = {"html_block", "html_inline", "image"}
nasty = st.text(st.sampled_from("#<>`~!-=[]()*_|\\: \n\ta1/'\"&;."), max_size=60)


def parsed(markdown: str) -> list[Token]:
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(markdown)
    return [*tokens, *(child for token in tokens for child in token.children or ())]


def headings(markdown: str) -> list[str]:
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(markdown)
    return [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]


def written(*events: Event, title: str = "A session") -> str:
    page = MarkdownPage(title, bodies=Bodies(0, 0))
    for seq, event in enumerate(events, 1):
        event.seq = seq
    return "".join(page.add(event, {}) for event in events) + "".join(page.end())  # type: ignore[arg-type]


def session(text: str) -> list[AnyEvent]:
    """Everything in it says the same."""
    call = {"callId": "c", "name": text or "Bash", "status": "running", "preview": text}
    return [
        made("turn", state="started"),
        made("message", role="user", text=text),
        made("reasoning", text=text),
        made("message", role="assistant", text=text, attachments=[{"mimeType": text, "name": text}]),
        made("tool-call", input={"command": text, text: [text]}, **call),
        result(text, {"stdout": text, "errorMessage": text}, status="failed", isError=True),
        made(
            "tool-call", input={"file_path": text, "old_string": text, "new_string": "new"}, **{**call, "name": "Edit"}
        ),
        result("Edit", {"message": text}),
        made("notice", level="info", code=text, text=text),
        made("permission-request", permissionId="p", type="permission", title=text),
        made("message", role="user", text=text, agent="a"),
        made("turn", state="failed", reason=text),
        made("message", role="assistant", text="The end."),
    ]


@pytest.mark.parametrize("text", ATTACKS)
def test_hostile_text_stays_in_its_place(text: str) -> None:
    markdown = written(*session(text), title=text)

    tokens = parsed(markdown)
    assert not ACTIVE & {token.type for token in tokens}
    assert headings(markdown)[1:] == [line(first_line_of(text) or "Turn 1")]
    ends = [token for token in tokens if token.type == "inline" and token.content == "The end."]
    assert [token.level for token in ends] == [1]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", markdown)


@given(nasty, nasty)
def test_any_text_is_contained(one: str, other: str) -> None:
    markdown = f"{inert(one)}\n\n{inert(other)}\n\n{fenced(one)}\n\nx {code_span(other)} y {line(one)}\n\nThe end.\n"

    tokens = parsed(markdown)

    assert not (ACTIVE | {"heading_open"}) & {token.type for token in tokens}
    last = [token for token in tokens if token.type == "inline"][-1]
    assert (last.content, last.level) == ("The end.", 1)


def test_harmless_markdown_stays_as_it_is() -> None:
    text = "It is **done**:\n\n1. `a`\n2. [b](https://example.org)\n\n```py\nx < 1  # no heading\n```"
    text += "\n\n| a | b |\n|---|---|\n| 1 | 2 |"

    assert inert(text) == text


@given(nasty)
def test_fence_is_longer_than_any_in_it(text: str) -> None:
    [token] = parsed(fenced(text, "diff"))

    assert (token.type, token.info) == ("fence", "diff")


@given(nasty.filter(str.strip))
def test_what_was_typed_is_shown_to_the_character(text: str) -> None:
    tokens = parsed(quoted(as_typed(text)))

    [shown] = [token for token in tokens if token.type in ("fence", "inline")]
    assert shown.content == (f"{text}\n" if shown.type == "fence" else text)
    assert {token.type for token in shown.children or ()} <= {"text"}


def test_what_is_cut_has_a_mark_and_a_diff_is_there_once() -> None:
    command = "git mv old.txt new.txt && " * 6
    assert blocks("Bash", {"command": command})[0] == f"**Bash** `{command[:99]}…`"
    diff = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-a\n+b"
    for output in ({"diff": diff}, {"text": diff}):
        stated = blocks("Edit", {"file_path": "a.py", "old_string": "a", "new_string": "b"}, output)
        unstated = blocks("Edit", {"file_path": "a.py"}, output)
        assert stated[1:] == ["```diff\n--- a.py\n+++ a.py\n-a\n+b\n```"]
        assert unstated[1:] == [f"```diff\n{diff}\n```"]


def blocks(name: str, arguments: dict[str, str], output: dict[str, str] | None = None) -> list[str]:
    call = made("tool-call", callId="c", name=name, status="running", preview="", input=arguments)
    ended = None if output is None else result(name, output)
    assert isinstance(call, ToolCall)
    assert ended is None or isinstance(ended, ToolResult)
    return [*call_blocks(call, ended)]


def test_a_line_without_markup_is_no_fence() -> None:
    assert as_typed("Please fix it.") == "Please fix it."
    assert as_typed("fix __init__") == "```\nfix __init__\n```"
    assert as_typed("1. fix it") == "```\n1. fix it\n```"


def test_session_reads_as_turns_quotes_answers_and_calls() -> None:
    events = [
        made("turn", state="started", ts=0),
        made("message", role="user", text="Please\nfix it"),
        made("tool-call", callId="c", name="Bash", status="running", preview="pytest", input={"command": "pytest"}),
        made(
            "tool-call",
            callId="d",
            name="Edit",
            status="running",
            preview="a.py",
            input={"file_path": "a.py", "old_string": "a\nb", "new_string": "a\nc"},
        ),
        result(
            "Bash",
            {"stdout": "\x1b[31m1 failed\x1b[0m\n", "exit_code": 1},
            status="failed",
            isError=True,
            durationMs=14_000,
        ),
        result("Edit", {}, callId="d"),
        made("message", role="assistant", text="## Done\n\nIt *works*."),
    ]

    assert written(*events).split("\n\n", 2)[2] == (
        "## Please, 1970-01-01 00:00:00 UTC\n\n"
        "> **You**\n>\n> ```\n> Please\n> fix it\n> ```\n\n"
        "**Bash** `pytest` — failed, exit 1, 14 s\n\n"
        "```\n1 failed\n```\n\n"
        "**Edit** `a.py` — completed\n\n"
        "```diff\n--- a.py\n+++ a.py\n a\n-b\n+c\n```\n\n"
        "**Done**\n\nIt *works*.\n\n"
        "---\n\n7 events, exported by tooltap. Times are UTC.\n"
    )


def test_what_hooks_report_is_one_line() -> None:
    fine = made("notice", level="info", code="hook", text="PostToolUse:Write")
    blocked = made("notice", level="warning", code="hook", text="Stop")
    said = made("message", role="assistant", text="Done.")

    body = written(fine, fine, said, fine, blocked, fine).split("\n\n", 2)[2].split("\n\n---")[0]

    assert body.split("\n\n") == ["*2 hook messages*", "Done.", "*1 hook message*", "*hook: Stop*", "*1 hook message*"]


def test_long_output_is_shortened() -> None:
    markdown = written(result("Bash", {"stdout": "line\n" * 100}))

    assert markdown.count("line\n") == 20
    assert "*… 80 more lines*" in markdown


def test_call_without_a_result_is_written_at_the_end_or_when_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    call = made("tool-call", callId="c", name="Bash", status="running", preview="sleep 9", input={"command": "sleep 9"})
    assert "**Bash** `sleep 9` — running" in written(call, made("message", role="assistant", text="x"))

    monkeypatch.setattr(markdown_page, "HELD", 1)
    late = written(call, made("message", role="assistant", text="x"), result("Bash", {"stdout": "late"}))
    assert late.index("— no result") < late.index("x") < late.index("**Bash** — result, completed")


def test_recordings_have_no_headings_but_their_turns() -> None:
    for file in (
        "claude-transcript/claude-code-2.1.330/subagent-async.jsonl",
        "openai-chat/openai-written/whole.jsonl",
    ):
        markdown = written(*recorded(file))
        assert len(headings(markdown)) == 3
        assert not ACTIVE & {token.type for token in parsed(markdown)}
