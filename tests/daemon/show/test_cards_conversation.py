"""Cards of messages, dialogs, to-do lists, tasks, web and MCP tools, from recorded streams."""

from __future__ import annotations

import pytest

from tests.daemon.show.carding import card_of, cards_of, made, recorded, result
from tests.daemon.web.parsed import Element, parse
from tooltap.daemon.show.blocks import CallOfResult, Level
from tooltap.daemon.show.markup import markdown
from tooltap.protocol.events import Event, Message, PermissionRequest, PermissionResponse, ToolCall, ToolResult

CLAUDE = "claude-stream/claude-code-2.1.330"
CODEX = "codex-app-server/codex-0.169"


def cards(path: str, level: Level = "summary") -> list[tuple[Event, Element]]:
    return cards_of(recorded(path), level)


def of(kind: type[Event], found: list[tuple[Event, Element]], name: str | None = None) -> list[Element]:
    return [card for event, card in found if isinstance(event, kind) and name in (None, getattr(event, "name", None))]


def rows(card: Element) -> list[list[str]]:
    return [[cell.text for cell in row if cell.tag in ("th", "td")] for row in card.one("table").all("tr")]


def facts(card: Element) -> dict[str, str]:
    return dict(zip(card.texts("dt"), card.texts("dd"), strict=True))


# -- to-do lists --------------------------------------------------------------------------------------------------


def test_todo_list_is_a_check_list() -> None:
    first, second, _ = of(ToolCall, cards(f"{CLAUDE}/todos.jsonl"), "TodoWrite")
    assert first.texts("li") == [
        "◐ Read the code in progress Reading the code",
        "☐ Edit the greeting to do",
        "☐ Run the tests to do",
    ]
    assert [one.attributes["data-status"] for one in second.all("li")] == ["completed", "in_progress", "pending"]
    assert second.one("p.count").text == "1 of 3 done"


def test_todo_result_shows_changes() -> None:
    first, second, third = of(ToolResult, cards(f"{CLAUDE}/todos.jsonl"), "TodoWrite")
    assert first.one("p.note").text == "A new list."
    assert [(one.one(".content").text, one.one(".change").text) for one in second.all("li")] == [
        ("Read the code", "was in progress"),
        ("Edit the greeting", "was to do"),
    ]
    assert third.texts(".change") == ["was in progress", "was to do"]


def test_removed_todos_are_shown() -> None:
    ended = result(
        "TodoWrite",
        {
            "oldTodos": [{"content": "a", "status": "pending"}, {"content": "b", "status": "doing it"}],
            "todos": [{"content": "a", "status": "pending"}, {"content": "c", "status": "pending"}],
        },
    )
    call = CallOfResult(
        "TodoWrite", {"todos": [{"content": "a", "status": "pending"}, {"content": "c", "status": "pending"}]}, ""
    )
    assert card_of(ended, call=call).texts("li") == ["☐ c to do new", "▫ b doing it removed"]


def test_codex_plan_is_a_check_list() -> None:
    call = of(ToolCall, cards("codex-exec/codex-0.169/plan.jsonl"), "TodoWrite")[0]
    assert call.texts("li") == ["☐ Read the code to do", "☐ Edit the greeting to do", "☐ Run the tests to do"]
    assert not call.all("dl.tree")


# -- tasks --------------------------------------------------------------------------------------------------------


def test_subagent_shows_type_prompt_and_answer() -> None:
    found = cards("claude-transcript/claude-code-2.1.330/subagent-waited-for.jsonl")
    call, result = of(ToolCall, found, "Task")[0], of(ToolResult, found, "Task")[0]
    assert facts(call) == {"subagent": "general-purpose"}
    assert call.one(".prose").text == "[[S12sub]] Find where greet is defined"
    assert result.one(".prose").text == "greet is defined at src/app.py line 4."
    assert facts(result) == {"took": "0.3 s", "tokens": "2,442", "calls of tools": "2"}


def test_background_task_has_two_results() -> None:
    acknowledged, ended = of(ToolResult, cards(f"{CLAUDE}/subagent-async.jsonl"), "Task")
    assert acknowledged.texts(".fact") == ["continues in the background"]
    assert "internal metadata" not in acknowledged.text
    assert ended.texts(".fact") == ["from the background", "0.4 s"]
    assert ended.one(".prose").text == "greet is defined at src/app.py line 4."


def test_subagent_event_names_its_call() -> None:
    events = recorded(f"{CLAUDE}/subagent-async.jsonl")
    task = next(event for event in events if isinstance(event, ToolCall) and event.name == "Task")
    inside = [card for event, card in cards_of(events) if event.parent == task.call_id]
    assert [card.one(".title").text for card in inside if card.attributes["data-for"] == "children"] == [
        "Grep",
        "Read",
        "Assistant",
    ]
    assert {card.attributes["data-into"] for card in inside if card.attributes["data-for"] == "children"} == {
        f"s {task.call_id}"
    }


def test_subagent_prompt_is_not_the_users() -> None:
    prompts = [
        card.one(".title").text
        for event, card in cards(f"{CODEX}/subagent.jsonl")
        if isinstance(event, Message) and event.role == "user"
    ]
    assert prompts == ["You", "Prompt"]


def test_task_list_is_a_table() -> None:
    found = of(ToolResult, cards(f"{CLAUDE}/task-list.jsonl"), "Task")
    assert facts(found[0]) == {"task": "1"}
    assert facts(found[3]) == {"state": "pending → in_progress"}
    assert rows(found[-1])[1:] == [
        ["1", "Read the code", "completed"],
        ["2", "Edit the greeting", "in_progress"],
        ["3", "Run the tests", "pending"],
    ]


def test_codex_agents_are_a_table() -> None:
    waited = of(ToolResult, cards(f"{CODEX}/subagent.jsonl"), "TaskOutput")[0]
    assert rows(waited) == [
        ["agent", "state", "last message"],
        ["01a1ffda-4c82-70e3-8ffc-18dbd22797c4", "completed", "greet is defined at src/app.py line 4."],
    ]


# -- dialogs ------------------------------------------------------------------------------------------------------


def test_question_shows_options_and_choice() -> None:
    found = cards(f"{CLAUDE}/control-question.jsonl")
    call, result = of(ToolCall, found)[0], of(ToolResult, found)[0]
    assert call.one(".chip").text == "Database"
    assert call.one("p.asked").text == "Which database?"
    assert call.texts("li") == ["SQLite Simple file", "Postgres Server"]
    assert result.texts("li") == ["✓ chosen: SQLite Simple file", "Postgres Server"]
    assert result.texts("li.chosen") == ["✓ chosen: SQLite Simple file"]


def test_question_of_call_is_not_repeated() -> None:
    found = cards(f"{CLAUDE}/control-question.jsonl")
    request, response = of(PermissionRequest, found)[0], of(PermissionResponse, found)[0]
    assert (request.one(".preview").text, request.all(".body")) == ("Which database?", [])
    assert facts(response) == {"Which database?": "SQLite"}
    alone = card_of(next(event for event, _ in found if isinstance(event, PermissionRequest)))
    assert alone.texts("li") == ["SQLite Simple file", "Postgres Server"]


def test_several_choices_and_own_words() -> None:
    answered = result(
        "AskUserQuestion",
        {
            "questions": [
                {"question": "Which?", "multiSelect": True, "options": [{"label": "A, or B"}, {"label": "C"}, "D"]}
            ],
            "answers": {"Which?": "A, or B, C, none of these", "Else?": ["x", "y"]},
        },
    )
    card = card_of(answered)
    assert card.texts("li.chosen") == ["✓ chosen: A, or B", "✓ chosen: C"]
    assert card.texts(".answer") == ["answered: none of these", "answered: x, y"]
    assert card.texts("p.asked") == ["Which? (several may be chosen)", "Else?"]


def test_permission_request_shows_input_and_options() -> None:
    found = cards("acp/opencode-1.18.33/denied.jsonl")
    request, response = of(PermissionRequest, found)[0], of(PermissionResponse, found)[0]
    assert (request.one(".title").text, request.one(".preview").text) == ("Permission", "rm README.md")
    assert request.one(".status").text == "asked"
    assert request.texts("li") == ["Allow once", "Always allow", "Reject"]
    assert (response.one(".title").text, response.one(".preview").text) == ("Denied", "by the user")
    assert request.attributes["data-for"] == response.attributes["data-for"] == "live"


def test_unknown_permission_input_is_a_tree() -> None:
    request = of(PermissionRequest, cards("opencode-bus/opencode-1.18.33/denied.jsonl"))[0]
    assert request.one(".preview").text == "Bash"
    assert facts(request)["patterns"] == "rm README.md"


def test_refusal_message_is_shown() -> None:
    refused = made("permission-response", permissionId="p", outcome="denied", by="user", message="keep *it*")
    assert card_of(refused).one(".typed").text == "keep *it*"


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[app.ts](src/app.ts)", '<code class="file">src/app.ts</code>'),
        ("[app.ts:42](src/app.ts#L42)", '<code class="file">src/app.ts:42</code>'),
        ("[here](src/app.ts#L4-L9)", 'here <code class="file">src/app.ts:4-9</code>'),
        ("[x](/home/dev/a%20b.py:12)", 'x <code class="file">/home/dev/a b.py:12</code>'),
        ("[x.md](file:///home/dev/x.md)", '<code class="file">/home/dev/x.md</code>'),
        ("[v](vscode://file/home/dev/y.md:3)", 'v <code class="file">/home/dev/y.md:3</code>'),
        ("[w](C:\\Users\\dev\\z.ts)", 'w <code class="file">C:\\Users\\dev\\z.ts</code>'),
        ("[doc][1]\n\n[1]: docs/guide.md", 'doc <code class="file">docs/guide.md</code>'),
        ("[part](#intro) [q](?a=1) [j](javascript:alert(1))", "part q [j](javascript:alert(1))"),
    ],
)
def test_a_link_to_a_file_is_code(link: str, shown: str) -> None:
    """It would lead into our own pages, or into the reader's disk."""
    assert str(markdown(link)).strip() == f"<p>{shown}</p>"


def test_a_link_elsewhere_opens_in_a_tab_of_its_own() -> None:
    link = card_of(made("message", role="assistant", text="[a](https://example.org/x)")).one(".prose").one("a")
    assert link.attributes == {
        "href": "https://example.org/x",
        "rel": "noopener noreferrer nofollow",
        "target": "_blank",
    }


@pytest.mark.parametrize(
    "formula",
    [r"\(a_b\)", r"\[c_d\]", r"$$\int_0^1 x\,dx$$", "$$\nx_1\n+ y_2\n$$", "\\[\na *b*\n- c_*d*\n\\]"],
)
def test_a_formula_keeps_its_characters(formula: str) -> None:
    shown = parse(str(markdown(f"It is\n{formula}\n")))
    assert [one.raw.strip() for one in shown.all("code")] == [formula]


def test_only_the_prose_of_a_model_is_markdown() -> None:
    text = "# a\n  *b*\nc"
    asked, said = made("message", role="user", text=text), made("message", role="assistant", text=text)
    assert card_of(asked).one(".typed").text == "# a *b* c"
    assert card_of(said).one("h1").text == "a"
    assert card_of(said).all("br")


def test_plan_is_prose() -> None:
    found = cards(f"{CLAUDE}/control-plan-mode.jsonl")
    assert of(ToolCall, found, "ExitPlanMode")[0].texts("li") == ["Read", "Edit", "Test"]
    approved = of(ToolResult, found, "ExitPlanMode")[0]
    assert approved.one("pre.text").text == "User has approved exiting plan mode. You can now proceed."


def test_title_is_not_repeated() -> None:
    ended = result("change_title", {"title": "T"})
    assert card_of(ended, call=CallOfResult("change_title", {"title": "T"}, "T")).all("dd") == []
    assert facts(card_of(ended)) == {"title": "T"}


# -- the web ------------------------------------------------------------------------------------------------------


def test_web_search_hits_are_links() -> None:
    result = of(ToolResult, cards(f"{CLAUDE}/web.jsonl"), "WebSearch")[0]
    hit, answer = result.all("li")
    assert (hit.one("a").text, hit.one("a").attributes["href"]) == ("Fixture page", "http://127.0.0.1:18080/page")
    assert hit.one(".host").text == "127.0.0.1"
    assert answer.text == "Search summary: the fixture page says 42."


def test_fetched_page_has_status_size_and_prose() -> None:
    output = {"code": 200, "codeText": "OK", "bytes": 5120, "url": "https://example.org/b", "text": "# Title\n\nwords"}
    ended = result("WebFetch", output)
    card = card_of(ended, call=CallOfResult("WebFetch", {"url": "https://example.org/a"}, ""))
    assert facts(card) == {"address": "https://example.org/b", "status": "200 OK", "size": "5,120 bytes"}
    assert card.one("h1").text == "Title"


# -- MCP ----------------------------------------------------------------------------------------------------------


def test_mcp_card_names_server_and_tool() -> None:
    found = cards("acp/codex-acp-2.6.0/mcp.jsonl")
    call, result = of(ToolCall, found, "mcp__fixture__echo")[0], of(ToolResult, found, "mcp__fixture__echo")[0]
    assert call.one(".title").text == "fixture · echo"
    assert facts(call) == {"text": "hi there"}
    assert result.one("pre.text").text == "echo: hi there"


def test_mcp_image_is_shown_once() -> None:
    result = of(ToolResult, cards("acp/codex-acp-2.6.0/mcp.jsonl", "full"), "mcp__fixture__picture")[0]
    image = result.one("img")
    assert image.attributes["src"].startswith("/api/outputs/s:")
    assert result.one("figcaption").text == "image/png, 70 bytes"
    assert not result.all("dl.tree")


def test_json_answer_is_a_tree() -> None:
    answer = {
        "text": '{"issues": [{"id": 7, "url": "https://example.org/7"}]}',
        "_mcp": {"serverId": "a", "toolId": "b"},
    }
    ended = result("mcp__a__b", answer)
    card = card_of(ended)
    assert card.texts("dt") == ["issues", "id", "url"]
    assert card.one("a.head").attributes["href"] == "/events/7"
    assert [one.attributes["href"] for one in card.all("a")][1:] == ["https://example.org/7"]


def test_mcp_resources_are_a_table() -> None:
    output = {"value": [{"uri": "note://1", "name": "one", "mimeType": "text/plain", "server": "notes"}]}
    ended = result("ListMcpResources", output)
    assert rows(card_of(ended)) == [["name", "address", "type", "server"], ["one", "note://1", "text/plain", "notes"]]


def test_tool_search_lists_hits() -> None:
    output = {"matches": ["TaskCreate", "TaskList"], "total_deferred_tools": 40}
    ended = result("ToolSearch", output)
    assert facts(card_of(ended)) == {"found": "TaskCreate, TaskList", "of": "40"}


# -- messages, sessions, figures ----------------------------------------------------------------------------------


def test_message_is_markdown_without_remote_images() -> None:
    card = card_of(made("message", role="assistant", text="**Done**, see ![chart](https://example.org/a.png)"))
    assert card.one("strong").text == "Done"
    assert not card.all("img")
    assert card.one(".body").one("a").attributes["href"] == "https://example.org/a.png"


def test_other_attachments_are_links() -> None:
    attached = [
        {"mimeType": "application/pdf", "outputId": "o1", "bytes": 12345, "name": "a.pdf"},
        {"mimeType": "image/svg+xml", "outputId": "o2", "bytes": 10},
        {"mimeType": "text/plain", "uri": "https://example.org/x", "name": "x"},
        {"mimeType": "text/plain", "uri": "file:///etc/passwd"},
    ]
    card = card_of(made("message", role="user", text="look", attachments=attached))
    assert card.texts("li") == [
        "a.pdf application/pdf, 12,345 bytes",
        "attachment image/svg+xml, 10 bytes",
        "x https://example.org/x text/plain",
        "file:///etc/passwd text/plain",
    ]
    assert [one.attributes["href"] for one in card.one(".body").all("a")] == [
        "/api/outputs/o1",
        "/api/outputs/o2",
        "https://example.org/x",
    ]
    assert card.texts(".fact")[0] == "4 attachments"


def test_header_repeats_text_only_without_body() -> None:
    message = made("message", role="assistant", text="Hello there")
    assert card_of(message, "title").one(".preview").text == "Hello there"
    assert card_of(message, "summary").all(".preview") == []


def test_session_cards() -> None:
    found = cards(f"{CLAUDE}/todos.jsonl")
    started = found[0][1]
    assert started.texts(".fact") == ["claude-opus-5-5", "acceptEdits", "17 tools", "4 commands", "1 MCP server"]
    assert facts(started) == {
        "model": "claude-opus-5-5",
        "mode": "acceptEdits",
        "folder": "/tmp/ws",
        "version of the agent": "2.1.330",
    }
    assert rows(started) == [["MCP server", "status"], ["fixture", "connected"]]
    assert "minor" not in started.classes
    changed = card_of(made("session", state="updated", mode="plan"))
    assert "minor" in changed.classes
    assert changed.texts(".fact") == ["plan"]
    assert not changed.all(".body")


def test_usage_card() -> None:
    usage = made(
        "usage",
        scope="turn",
        inputTokens=9600,
        outputTokens=168,
        cacheReadTokens=9000,
        costUsd=0.02931,
        costScope="session",
        contextUsed=1242,
        contextSize=258400,
    )
    card = card_of(usage)
    assert card.one(".preview").text == "9,600 in, 168 out"
    assert card.texts(".fact") == ["$0.0293 for the session", "context under 1 %"]
    assert "minor" in card.classes
    assert not card.all(".body")
    assert facts(card_of(usage, "full"))["of these read from the cache"] == "9,000"


def test_quota_is_on_the_card_of_the_usage_that_states_it() -> None:
    quota = [{"name": "primary", "minutes": 299, "usedPercent": 34.7}, {"name": "secondary", "minutes": 10_079}]
    card = card_of(made("usage", scope="step", quota=quota))

    assert (card.one(".title").text, card.texts(".fact")) == ("Quota", ["35 % of 5 h used", "7 d window"])
    assert card_of(made("usage", scope="step", inputTokens=1, quota=quota)).one(".title").text == "Usage of the step"


def test_notice_card() -> None:
    notice = made("notice", level="warning", code="retry", text="overloaded", data={"attempt": 1})
    card = card_of(notice)
    assert (card.one(".title").text, card.one(".preview").text, card.one(".status").text) == (
        "retry",
        "overloaded",
        "warning",
    )
    assert not card.all(".body")
    assert facts(card_of(notice, "full")) == {"attempt": "1"}


def test_turn_cards() -> None:
    failed = card_of(made("turn", state="failed", reason="error_max_turns", durationMs=1234))
    assert failed.attributes["data-status"] == "failed"
    assert "minor" not in failed.classes
    assert failed.one(".preview").text == "error_max_turns"
    assert failed.texts(".fact") == ["1.2 s"]
    assert "minor" in card_of(made("turn", state="started")).classes


def test_unparsed_card() -> None:
    card = card_of(made("unparsed", reason="not-json", text="<html>", bytes=1200))
    assert card.one("p.note").text == "A line of 1,200 bytes that could not be read (not-json). It begins:"
    assert card.one("pre.text").text == "<html>"


def test_option_without_name_is_explained() -> None:
    request = of(PermissionRequest, cards("codex-mcp/codex-0.120/command-denied.jsonl"))[0]
    assert request.texts("li") == [
        "approved allows it this once",
        "approved_execpolicy_amendment allows it from now on",
        "abort refuses it this once",
    ]


def test_turn_says_how_its_end_is_known() -> None:
    answered = card_of(made("turn", state="completed", endedBy="answer"))
    assert (answered.one(".title").text, answered.texts(".fact")) == ("Turn completed", ["by its answer"])
    cut = card_of(made("turn", state="cancelled", endedBy="eof", reason="interrupted", synthetic=True))
    assert (cut.one(".title").text, cut.texts(".fact")) == ("Turn interrupted", ["by the end of the stream"])
    stated = card_of(made("turn", state="cancelled", endedBy="provider", reason="interrupted"))
    assert (stated.one(".title").text, stated.texts(".fact")) == ("Turn cancelled", [])
