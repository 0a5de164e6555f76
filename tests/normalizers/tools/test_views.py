"""Results with separate views for the model and the user, for each provider that sends both.

Tests for Gemini, Copilot, Pi and Vibe are with their dialects.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.dialects.acp import helpers as acp
from tests.normalizers.dialects.claude import helpers as claude
from tests.normalizers.dialects.codex import helpers as codex
from tests.normalizers.dialects.opencode import helpers as opencode
from tests.normalizers.reading import answer, of, read
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Display, ToolResult
from tooltap.testing import normalize


def block(text: str, *audience: str) -> dict[str, Any]:
    """A content block after the specifications of MCP 2025-06-18 and ACP v1; none was recorded."""
    return {"type": "text", "text": text, **({"annotations": {"audience": list(audience)}} if audience else {})}


def shown(text: str, mime_type: str | None = None) -> Display:
    return Display(origin="provider", text=text, mime_type=mime_type)


FOR_BOTH = block("Found 2 rows.")
FOR_MODEL = block('[{"id":1},{"id":2}]', "assistant")
FOR_USER = block("| id |\n|---|\n| 1 |\n| 2 |", "user")
PARTED = [FOR_BOTH, FOR_MODEL, FOR_USER]
TOLD = 'Found 2 rows.\n[{"id":1},{"id":2}]'
SHOWN = shown("Found 2 rows.\n| id |\n|---|\n| 1 |\n| 2 |")


def codex_mcp(answered: dict[str, Any]) -> ToolResult:
    """The end of an MCP call with the keys of a recording of Codex 0.120."""
    invocation = {"server": "db", "tool": "query", "arguments": {}}
    end = codex.event("mcp_tool_call_end", call_id="c1", invocation=invocation, result={"Ok": answered})
    (result,) = of(ToolResult, codex.read(codex.started(), end))
    return result


def test_codex_model_gets_shortened_output() -> None:
    """Codex 0.120, recorded: `formatted_output` is truncated in the middle, `aggregated_output` is complete."""
    (result,) = codex.results(codex.events("long-output"))

    assert result.output["formatted_output"].startswith("Total output lines: 2000\n\nline 000001")
    assert result.display == shown(result.output["stdout"])


def test_codex_model_gets_only_structured_content() -> None:
    structured = {"rows": [1, 2]}

    parted = codex_mcp({"content": [block("Two rows.")], "structuredContent": structured})
    repeated = codex_mcp({"content": [block('{"rows": [1, 2]}')], "structuredContent": structured})
    plain = codex_mcp({"content": [block("Two rows.")], "structuredContent": None})

    assert parted.output["structuredContent"] == structured
    assert ("text" in parted.output, parted.display) == (False, shown("Two rows."))
    assert (repeated.output["text"], repeated.display) == ('{"rows": [1, 2]}', None)
    assert (plain.output["text"], plain.display) == ("Two rows.", None)


def test_codex_over_acp() -> None:
    """codex-acp 2.6.0 sends an MCP server's result in `rawOutput.result`."""
    update = {"result": {"content": [block("Two rows.")], "structuredContent": {"rows": [1, 2]}}, "error": None}
    found = acp.read(
        *acp.set_up("codex-acp", "db"),
        acp.prompt(),
        acp.tool("c1", title="mcp.db.query", kind="execute", rawInput={"server": "db", "tool": "query"}),
        acp.tool_update("c1", status="completed", rawOutput=update),
    )  # fmt: skip
    result = acp.result_of(found, "c1")

    assert result.output["structuredContent"] == {"rows": [1, 2]}
    assert (result.display, result.assistant_view) == (shown("Two rows."), "unknown")


@pytest.mark.parametrize("dialect", ["claude-stream", "acp"])
def test_claude_user_sees_diff_of_a_change(dialect: str) -> None:
    """Claude Code 2.1.330 and claude-agent-acp 0.100, recorded."""
    found = claude.events("edit") if dialect == "claude-stream" else acp.events("claude-agent-acp-0.100.0", "edit")
    (result,) = (one for one in of(ToolResult, found) if one.name == "Edit")

    assert result.output["message"].startswith("The file /tmp/ws/src/app.py has been updated")
    assert result.display == shown(
        "--- /tmp/ws/src/app.py\n"
        "+++ /tmp/ws/src/app.py\n"
        "@@ -3,7 +3,7 @@\n"
        " \n"
        " def greet(name):\n"
        '     """Return a greeting."""\n'
        '-    return "Hello, " + name + "!"\n'
        '+    return "Howdy, " + name + "!"\n'
        " \n"
        " \n"
        " def main():\n",
        "text/x-diff",
    )


def test_claude_transcript_has_the_same_views() -> None:
    """`toolUseResult` next to the block, as in the curated lines of Claude Code 2.1.330."""
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 2, "lines": ["-a", "+b", "+c"]}
    envelope = {"sessionId": "s", "version": "2.1.330", "isSidechain": False}
    use = {"role": "assistant", "id": "m", "content": [claude.use("c1", "Edit", file_path="/a")]}
    for_model = {"role": "user", "content": [claude.tool_result("c1", "The file /a has been updated.")]}
    twin = {"filePath": "/a", "oldString": "a", "newString": "b\nc", "structuredPatch": [hunk]}
    (result,) = of(
        ToolResult,
        read(
            "claude-transcript",
            {**envelope, "uuid": "u1", "type": "assistant", "message": use},
            {**envelope, "uuid": "u2", "type": "user", "message": for_model, "toolUseResult": twin},
        ),
    )

    assert result.output["message"] == "The file /a has been updated."
    assert result.display == shown("--- /a\n+++ /a\n@@ -1,1 +1,2 @@\n-a\n+b\n+c\n", "text/x-diff")


def test_claude_model_gets_beginning_of_large_output() -> None:
    """Claude Code 2.1.330, recorded."""
    (result,) = of(ToolResult, claude.events("long-output"))

    assert result.output["message"].startswith("<persisted-output>\nOutput too large (111.3KB).")
    assert result.display == shown(result.output["stdout"])


def test_claude_has_no_display_if_views_are_equal() -> None:
    for name in ("shell-fails", "glob", "grep", "write", "mcp"):
        assert {one.display for one in of(ToolResult, claude.events(name))} == {None}


def test_mcp_blocks_are_split_by_audience() -> None:
    """For every agent that forwards them."""
    of_codex = codex_mcp({"content": PARTED})
    (of_claude,) = claude.results(
        claude.read(
            claude.init(mcp_servers=[{"name": "db", "status": "connected"}]),
            claude.assistant(claude.use("c1", "mcp__db__query")),
            claude.user(claude.tool_result("c1", PARTED)),
        )
    )

    for result in (of_codex, of_claude):
        assert (result.output["text"], result.display) == (TOLD, SHOWN)
        assert "annotations" in str(result.output["_raw"])


@pytest.mark.parametrize(
    ("blocks", "for_model", "display"),
    [
        ([block("a"), block("b", "user", "assistant")], "a\nb", None),
        ([block("a"), block("b", "assistant")], "a\nb", shown("a")),
        ([block("a", "assistant")], "a", shown("")),
        ([block("a", "user")], None, shown("a")),
        ([{**block("a"), "annotations": {"audience": None, "priority": 1}}, block("b")], "a\nb", None),
        ([7, "b", block("a")], "a", None),
        ([7, "b", block("a"), block("c", "assistant")], "a\nc", shown("a")),
    ],
)
def test_block_without_audience_is_for_both(blocks: list[Any], for_model: str | None, display: Display | None) -> None:
    result = codex_mcp({"content": blocks})

    assert (result.output.get("text"), result.display) == (for_model, display)


def test_acp_blocks_are_split_by_audience() -> None:
    """The wire then states what the model saw."""
    items = [{"type": "content", "content": one} for one in PARTED]
    lines = [
        *acp.set_up(),
        acp.prompt(),
        acp.tool("c1", title="query", kind="other", status="in_progress", rawInput={}),
        acp.tool_update("c1", status="completed", content=items),
    ]
    result = acp.result_of(acp.read(*lines), "c1")

    assert answer(result.output) == {"value": TOLD}
    assert (result.display, result.assistant_view) == (SHOWN, "unknown")


def test_opencode_user_sees_diff_of_a_change() -> None:
    """`metadata.diff`, as on the bus of OpenCode 1.18.33."""
    diff = "Index: /a\n--- /a\n+++ /a\n@@ -1,1 +1,1 @@\n-a\n+b\n"
    state: dict[str, Any] = {
        "status": "completed",
        "input": {"filePath": "/a"},
        "output": "Edit applied.",
        "metadata": {"diff": diff},
    }
    (result,) = of(ToolResult, read("opencode-bus", opencode.tool("edit", "c1", **state)))

    assert result.display == shown(diff, "text/x-diff")
    assert "Edit applied." in str(result.output)


def test_text_for_both_views_is_stored_once() -> None:
    """For a text too long for the event, the display refers to the output body."""
    printed = "line\n" * 20_000
    end = codex.end("c1", stdout=printed, aggregated_output=printed, formatted_output="Total output lines: 20000\n…")
    lines = codex.lines(codex.started(), codex.begin("c1", "seq"), end)
    (result,) = of(ToolResult, normalize("codex-mcp", lines, Context(stream="s")))

    assert result.outputs is not None
    body = result.outputs["/output/stdout"].output_id
    assert result.display == Display(origin="provider", output_id=body, mime_type="text/plain")
