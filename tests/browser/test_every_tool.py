"""Every canonical tool has a card that shows what its calls are about. The calls are recorded, or else written in the
form of Claude Code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import prefer
from tests.browser.recordings import answered, called, recording
from tests.browser.serving import Site
from tooltap.normalizers.tools.registry import CANONICAL_TOOLS

RECORDED = (
    "claude-stream/claude-code-2.1.330/control-plan-mode",
    "claude-stream/claude-code-2.1.330/control-question",
    "claude-stream/claude-code-2.1.330/subagents-parallel",
    "codex-exec/codex-0.169/mcp",
    "codex-rollout/codex-0.169/patch",
    "gemini-chat/gemini-0.61.0/glob-and-list",
    "gemini-stream/gemini-0.61.0/write",
    "happier-trace/happier-1-written/codex",
    "kimi-json/kimi-1.40.0/glob",
    "kimi-json/kimi-1.40.0/mcp-tools",
    "kimi-json/kimi-1.40.0/read",
    "kimi-json/kimi-1.40.0/todo-list",
    "kimi-json/kimi-1.40.0/unicode",
    "openai-responses/responses-written/hosted-tools",
    "pi-json/pi-0.73.1/edit",
    "kimi-json/kimi-1.40.0/thinking",
    "vibe-json/vibe-3.0.2/search",
    "gemini-stream/gemini-0.61.0/web",
)
WRITTEN: dict[str, tuple[dict[str, Any], str, Any]] = {
    "Delete": ({"file_path": "src/old.py"}, "Removed src/old.py", {}),
    "TodoRead": ({}, "1 left", {"todos": [{"content": "Tidy up", "status": "in_progress"}]}),
    "EnterPlanMode": ({}, "Now plan.", {}),
    "AcpHistoryImport": ({"provider": "codex", "remoteSessionId": "r-1", "localCount": 1, "remoteCount": 41}, "ok", {}),
    "WorkspaceIndexingPermission": ({"title": "Index this folder?", "options": [{"name": "Never"}]}, "Never", {}),
}
"""Tool -> its input, and its answer as text and as value."""
SHOWN = {
    "Bash": (".terminal .ansi1.ansi32", "bold green"),
    "Read": ("pre.code:has(.linenos) .nf", "greet"),
    "Write": ("pre.code .gh", "# Notes"),
    "Edit": ("pre.diff ins", "Good day"),
    "MultiEdit": ("pre.diff del mark", "Hello"),
    "Delete": (".file:has(.kind) .path", "src/old.py"),
    "Patch": (".file .path.moved", "src/maths.py"),
    "Diff": ("pre.diff ins", "b"),
    "Glob": (".paths .path", "src/util.py"),
    "Grep": (".hits mark", "def greet"),
    "LS": (".paths .path", "util.py"),
    "CodeSearch": (".hits .line", "Links are short."),
    "WebFetch": (".error", "Blocked Host"),
    "WebSearch": ('a[href="https://example.org/blog"]', "example.org"),
    "TodoWrite": ('.todos [data-status="in_progress"]', "Read the code"),
    "TodoRead": ('.todos [data-status="in_progress"]', "Tidy up"),
    "Task": ('[data-slot="children"] > article.tool-call .preview', "src/app.py"),
    "Reasoning": (".prose", "I will edit the greeting."),
    "EnterPlanMode": (".text", "Now plan."),
    "ExitPlanMode": (".prose ol li", "Edit"),
    "AskUserQuestion": (".options .chosen", "SQLite"),
    "AcpHistoryImport": (".facts dd", "41"),
    "WorkspaceIndexingPermission": (".options li", "Never"),
    "change_title": (".body", "Demo title"),
    "fixture · echo": (".body", "echo: hi there"),
}
"""Title of the card -> an element of the card, and its text."""


def test_all_canonical_tools_are_covered() -> None:
    assert {tool for tool in SHOWN if " · " not in tool} == set(CANONICAL_TOOLS)


@pytest.fixture
def cards(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path, "[web]", "cards = 1000") as site:
        site.ingest(*(recording(name) for name in RECORDED))
        agent = site.publish("written", "claude-stream")
        for tool, (asked, words, value) in WRITTEN.items():
            agent.write(called(tool, asked, tool), answered(tool, words, tool_use_result=value or words))
        agent.finish()
        yield site


def test_every_tool_has_a_card(cards: Site, page: Page) -> None:
    cards.enter(page, "/events")
    prefer(page, level="full", transcripts="full")
    page.locator("details.children").evaluate_all("all => all.forEach((one) => (one.open = true))")
    titles = page.locator("article.tool-call > header .title")
    found = titles.evaluate_all("titles => titles.map(one => [one.textContent, one.closest('article').id])")

    for tool, (element, text) in SHOWN.items():
        of_tool = ", ".join(f"#{name} {element}" for title, name in found if title == tool)
        assert of_tool, tool
        shown = page.locator(of_tool).filter(has_text=text).first
        expect(shown, tool).to_be_visible()
