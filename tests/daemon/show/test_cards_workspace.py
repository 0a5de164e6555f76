"""Cards of commands, files, changes and searches, from recorded streams of several agents."""

from __future__ import annotations

import pytest

from tests.daemon.show.carding import card_of, cards_of, made, recorded, result
from tests.daemon.web.parsed import Element
from tooltap.daemon.show.blocks import Level
from tooltap.daemon.show.tools.registry import TOOL_CARDS
from tooltap.protocol.events import Event, ToolCall, ToolResult, ToolUpdate
from tooltap.protocol.tools import TOOLS


def cards(path: str, name: str, level: Level = "summary") -> list[tuple[Event, Element]]:
    """Return the events of one tool with their cards."""
    return [(event, card) for event, card in cards_of(recorded(path), level) if getattr(event, "name", None) == name]


def asked(path: str, name: str, level: Level = "summary") -> Element:
    """Return the card with the latest input of the first call."""
    found = cards(path, name, level)
    first = next(event.call_id for event, _ in found if isinstance(event, ToolCall))
    return [
        card
        for event, card in found
        if (isinstance(event, ToolCall) or (isinstance(event, ToolUpdate) and event.input is not None))
        and event.call_id == first
    ][-1]


def answered(path: str, name: str, level: Level = "summary") -> Element:
    """Return the card of the first result."""
    return next(card for event, card in cards(path, name, level) if isinstance(event, ToolResult))


def test_every_canonical_tool_has_a_card() -> None:
    assert TOOLS.keys() <= TOOL_CARDS.keys()


# -- shell --------------------------------------------------------------------------------------------------------

FAILED = [
    "acp/codex-acp-2.6.0/shell-fails.jsonl",
    "acp/opencode-1.18.33/shell-fails.jsonl",
    "claude-stream/claude-code-2.1.330/shell-fails.jsonl",
    "codex-app-server/codex-0.169/shell-fails.jsonl",
    "codex-exec/codex-0.169/shell-fails.jsonl",
    "gemini-chat/gemini-0.61.0/shell-fails.jsonl",
]


@pytest.mark.parametrize("path", FAILED)
def test_failed_command_shows_output_and_exit_code(path: str) -> None:
    card = answered(path, "Bash")

    assert card.one("pre.stdout").raw.strip() == "partial output\nboom: something broke"
    assert "exit 3" in card.one("header").text


def test_standard_error_is_separate() -> None:
    card = answered("cline-json/cline-3.0.65/shell-failing.jsonl", "Bash")

    assert card.texts("pre.stdout") == ["partial output"]
    assert card.texts("pre.stderr") == ["boom: something broke"]


def test_command_shows_description_folder_and_options() -> None:
    assert asked("acp/opencode-1.18.33/denied.jsonl", "Bash").one("pre.command").text == "rm README.md"
    assert asked("acp/codex-acp-2.6.0/shell-fails.jsonl", "Bash").one(".facts").text == "in/tmp/ws"
    in_background = asked("claude-stream/claude-code-2.1.330/background-shell.jsonl", "Bash")
    assert in_background.texts(".description") == ["Background loop"]
    assert in_background.one(".facts").text == "backgroundyes"


def test_denied_command_shows_reason() -> None:
    for level in ("summary", "full"):
        card = answered("cursor-stream/cursor-written/session.jsonl", "Bash", level)
        assert card.texts(".error pre") or card.texts("pre")
    denied = answered("claude-stream/claude-code-2.1.330/control-denied.jsonl", "Bash")
    assert denied.text.count("The user said no.") == 1


@pytest.mark.parametrize(
    "path",
    [
        "claude-stream/claude-code-2.1.330/unicode.jsonl",
        "cline-json/cline-3.0.65/unicode.jsonl",
        "codex-exec/codex-0.120/unicode.jsonl",
        "codex-mcp/codex-0.120/unicode.jsonl",
    ],
)
def test_output_has_terminal_colours_and_final_progress(path: str) -> None:
    printed = answered(path, "Bash").one("pre.stdout")

    assert [(one.attributes["class"], one.text) for one in printed.all("span")] == [
        ("ansi31", "red"),
        ("ansi1 ansi32", "bold green"),
        ("ansi38-208", "256"),
    ]
    assert "link café 日本語" in printed.text
    assert "progress 100%" in printed.text
    assert "10% " not in printed.text


def test_summary_shows_twelve_lines() -> None:
    card = card_of(result("Bash", {"stdout": "".join(f"{n}\n" for n in range(30))}))

    assert card.one("pre.stdout").raw.split() == [str(n) for n in range(12)]
    assert card.texts(".more") == ["18 more lines"]


def test_cut_text_links_to_whole() -> None:
    whole = {"/output/stdout": {"outputId": "o1", "bytes": 70_000, "lines": 2, "mimeType": "text/plain"}}
    for level in ("summary", "full"):
        card = card_of(result("Bash", {"stdout": "the beginning"}, outputs=whole), level)
        assert [(link.attributes["href"], link.text) for link in card.one(".more").all("a")] == [
            ("/api/outputs/o1", "the whole: 70,000 bytes")
        ]


def test_background_shell_tools() -> None:
    path = "claude-stream/claude-code-1.0.128/background-shell.jsonl"

    assert asked(path, "BashOutput").one(".facts").text == "shellbdfb53"
    assert answered(path, "BashOutput").texts("pre.stdout") == ["bg 1"]
    assert answered(path, "BashOutput").one(".facts").text == "statusrunning"
    assert "Successfully killed shell: bdfb53" in answered(path, "KillShell").one("pre.message").text
    codex = "codex-rollout/codex-0.169/background-shell.jsonl"
    assert answered(codex, "write_stdin").texts("pre.stdout") == ["bg 3 bg 4"]


# -- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "claude-stream/claude-code-2.1.330/edit.jsonl",
        "acp/opencode-1.18.33/edit.jsonl",
        "vibe-json/vibe-3.0.2/read.jsonl",
        "qwen-stream/qwen-0.24.4/parallel-calls.jsonl",
    ],
)
def test_file_has_line_numbers_and_colours(path: str) -> None:
    card = answered(path, "Read")
    code = card.one("pre.code")

    assert [number.text for number in code.all("span.linenos")][:4] == ["1", "2", "3", "4"]
    assert "def" in [one.text for one in code.all("span.k")]
    assert "greet" in [one.text for one in code.all("span.nf")]


def test_part_of_file_has_its_line_numbers() -> None:
    file = {"content": "one\ntwo\n", "startLine": 41, "numLines": 2, "totalLines": 90, "filePath": "a.txt"}
    card = card_of(result("Read", {"file": file}))

    assert card.texts(".linenos") == ["41", "42"]
    assert card.texts(".extent") == ["lines 41 to 42 of 90"]


def test_image_read_is_an_attachment() -> None:
    card = answered("acp/claude-agent-acp-0.100.0/picture.jsonl", "Read")

    assert not card.all("pre.code")


def test_new_file_is_source_code() -> None:
    for path in ("claude-stream/claude-code-2.1.330/write.jsonl", "vibe-json/vibe-3.0.2/write.jsonl"):
        card = asked(path, "Write")
        assert card.texts(".path")[0].endswith("docs/notes.md")
        assert card.one("pre.code").raw.strip().startswith("1# Notes")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("claude-stream/claude-code-2.1.330/edit.jsonl", "Edit"),
        ("acp/claude-agent-acp-0.100.0/edit.jsonl", "Edit"),
        ("gemini-stream/gemini-0.61.0/edit.jsonl", "Edit"),
        ("pi-json/pi-0.73.1/edit.jsonl", "MultiEdit"),
        ("vibe-json/vibe-3.0.2/edit.jsonl", "MultiEdit"),
        ("codex-mcp/codex-0.120/reasoning-edit.jsonl", "Patch"),
    ],
)
def test_edit_is_a_diff_with_marked_words(path: str, name: str) -> None:
    diff = asked(path, name).one("pre.diff")

    (gone,), (new,) = diff.all("del.line"), diff.all("ins.line")
    assert 'return "Hello, " + name + "!"' in gone.text
    assert gone.texts("mark") == ["Hello"]
    assert new.texts("mark") in (["Howdy"], ["Good day"])


def test_level_full_shows_place_in_file() -> None:
    path = "claude-stream/claude-code-2.1.330/edit.jsonl"
    card = answered(path, "Edit", "full")

    assert not answered(path, "Edit").all("pre.diff")
    assert {line.one(".linenos").text for line in card.all("del.line")} == {"6"}
    assert set(card.texts(".counts")) == {"+1 −1"}


@pytest.mark.parametrize(
    "path", ["codex-app-server/codex-0.169/patch-approved.jsonl", "codex-rollout/codex-0.169/patch.jsonl"]
)
def test_patch_shows_each_file(path: str) -> None:
    changes = asked(path, "Patch").all("section.change")

    kinds = {change.texts(".path")[0].split("/")[-1]: change for change in changes}
    assert {name: change.attributes["data-kind"] for name, change in kinds.items()} == {
        "new.md": "add",
        "package.json": "delete",
        "util.py": "rename",
    }
    assert kinds["util.py"].texts(".moved")[0].endswith("src/maths.py")
    assert kinds["util.py"].one(".counts").text == "+1 −1"


def test_diff_of_turn_is_shown_by_file() -> None:
    card = asked("codex-app-server/codex-0.169/patch-approved.jsonl", "Diff")

    assert [change.one(".file").text for change in card.all("section.change")] == [
        "add docs/new.md +1 −0",
        "delete package.json +0 −5",
        "rename src/util.py → src/maths.py +1 −1",
    ]


def test_failed_patch_shows_reason() -> None:
    card = answered("legacy/happy-written/codex.jsonl", "Patch")

    assert card.text.count("patch does not apply") >= 1
    assert "Not applied." in card.texts(".note")


def test_notebook_cell_is_code() -> None:
    path = "claude-stream/claude-code-2.1.330/tool-errors.jsonl"

    assert asked(path, "NotebookEdit").one("pre.code").one("span.nb").text == "print"
    assert asked(path, "NotebookEdit").texts(".path") == ["/tmp/ws/nb.ipynb"]
    assert "has not been read yet" in answered(path, "NotebookEdit").text


@pytest.mark.parametrize(
    ("name", "payload", "pointer"),
    [
        ("Edit", {"old_string": "a", "new_string": "b"}, "/input/new_string"),
        ("MultiEdit", {"edits": [{"old_string": "a", "new_string": "b"}]}, "/input/edits/0/old_string"),
        ("Write", {"content": "a"}, "/input/content"),
        ("Diff", {"unified_diff": "@@ -1 +1 @@\n-a\n+b\n"}, "/input/unified_diff"),
        (
            "Patch",
            {"changes": {"/w/~.py": {"type": "modify", "unified_diff": "@@ -1 +1 @@\n-a\n+b\n"}}},
            "/input/changes/~1w~1~0.py/unified_diff",
        ),
    ],
)
def test_cut_change_links_to_whole(name: str, payload: dict[str, object], pointer: str) -> None:
    whole = {pointer: {"outputId": "o1", "bytes": 70_000, "lines": 2, "mimeType": "text/plain"}}
    card = card_of(made("tool-call", callId="c", name=name, status="running", input=payload, outputs=whole))

    assert card.one(".more").text == "the whole: 70,000 bytes"


# -- search -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "readme"),
    [
        ("claude-stream/claude-code-2.1.330/grep.jsonl", "README.md"),
        ("copilot-json/copilot-1.0.102/search.jsonl", "./README.md"),
        ("pi-json/pi-0.73.1/search.jsonl", "README.md"),
    ],
)
def test_hits_are_grouped_by_file(path: str, readme: str) -> None:
    card = answered(path, "Grep")
    first = card.all("section.hits")[0]

    assert first.texts(".path") == [readme]
    assert first.texts(".linenos") == ["5"]
    assert first.one("pre").raw.strip() == "5- greet people"
    assert {mark.text for mark in card.all("mark")} == {"greet"}
    assert card.one(".count").text == "4 hits in 2 files"


def test_matching_files_are_counted() -> None:
    path = "claude-transcript/claude-code-1.0.51-written/sidechains-and-torn-line.jsonl"

    assert answered(path, "Grep").one(".count").text == "1 file"


@pytest.mark.parametrize(
    ("path", "name", "count", "shown"),
    [
        ("claude-stream/claude-code-2.1.330/glob.jsonl", "Glob", "2 paths", ["src/app.py", "src/util.py"]),
        ("kimi-json/kimi-1.40.0/glob.jsonl", "Glob", "2 paths", ["src/app.py", "src/util.py"]),
        ("pi-json/pi-0.73.1/listing.jsonl", "LS", "2 entries", ["app.py", "util.py"]),
        ("gemini-chat/gemini-0.61.0/glob-and-list.jsonl", "LS", "2 entries", ["app.py", "util.py"]),
    ],
)
def test_paths_are_a_list(path: str, name: str, count: str, shown: list[str]) -> None:
    card = answered(path, name)

    assert card.texts(".count") == [count]
    assert card.texts("li.path") == shown


def test_folder_tree_is_kept() -> None:
    card = answered("cursor-stream/cursor-written/session.jsonl", "LS")

    assert "hello.txt" in card.all("dl.tree")[0].text


def test_code_search_shows_hits() -> None:
    path = "openai-responses/responses-written/hosted-tools.jsonl"

    assert asked(path, "CodeSearch").texts("pre.pattern") == ["link policy"]
    assert "Links are short." in answered(path, "CodeSearch").text
    assert "policy.md" in answered(path, "CodeSearch", "full").text


# -- display tools ------------------------------------------------------------------------------------------------


def test_display_tools_show_input_and_line_for_model() -> None:
    path = "display-tools/tooltap-0.1/three-tools.jsonl"

    assert asked(path, "mcp__tooltap__run_and_display").one("pre.command").text.startswith("echo partial output;")
    assert asked(path, "mcp__tooltap__render_file_contents").texts(".path") == ["app.py"]
    assert asked(path, "mcp__tooltap__display_image").texts(".path") == ["logo.png"]


def test_row_shows_more_of_an_argument_than_the_event_previews() -> None:
    command = "psql -f migrations/0042_uuid_backfill.sql --set=verbose"
    call = made(
        "tool-call", callId="c", name="Bash", status="running", input={"command": command}, preview=command[:40]
    )
    read = made("tool-call", callId="c", name="Read", status="running", input={"path": "/src/a.py"}, preview="a.py")

    assert card_of(call).one(".preview").text == command
    assert card_of(read).one(".preview").text == "a.py"
