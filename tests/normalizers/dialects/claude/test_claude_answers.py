"""Answers of Claude Code's tools, read from the block and its twin. Blocks made by hand are shapes seen elsewhere."""

from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.claude.helpers import V1, V2, recording, tool_result
from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.dialects.claude.answers import read_answer, read_server_answer
from tooltap.normalizers.tools.names import canonical_name

APP = 'import sys\n\n\ndef greet(name):\n    """Return a greeting."""\n    return "Hello, " + name + "!"\n\n\n'


def recorded(fixture: str, version: str = V2) -> list[Answer]:
    """The answers of a recording, in order."""
    names: dict[str, str] = {}
    answers = []
    for line in recording(fixture, version):
        value = orjson.loads(line.data)  # type: ignore[arg-type]
        blocks = value["message"]["content"] if value["type"] in ("assistant", "user") else []
        for block in blocks if isinstance(blocks, list) else []:
            if block["type"] == "tool_use":
                names[block["id"]] = canonical_name(block["name"], block["input"], block["id"])
            elif block["type"] == "tool_result":
                meta = value.get("tool_result_meta", [{}])[0]
                name = names[block["tool_use_id"]]
                answers.append(read_answer(name, block, value.get("tool_use_result"), meta, stopped=False))
    return answers


def answer(name: str, content: Any, twin: Any = None, **block: Any) -> Answer:
    return read_answer(name, tool_result("t", content, **block), twin, {}, stopped=False)


# -- the shell --------------------------------------------------------------------------------------------------------


def test_exit_code_is_in_first_line() -> None:
    (failed,) = recorded("shell-fails")

    assert failed.status == "failed"
    assert failed.value == {"stdout": "partial output\nboom: something broke", "exit_code": 3}
    assert failed.error == "Exit code 3"
    assert answer("Bash", "Exit code 1", "Error: Exit code 1", is_error=True).value == {"exit_code": 1}
    assert answer("Read", "Exit code 1", is_error=True).value is None


def test_successful_command_has_no_exit_code() -> None:
    bash = recorded("parallel-calls")[2]

    assert bash.value == {"stdout": "done", "stderr": ""}
    both = answer("Bash", "out\nerr", {"stdout": "out", "stderr": "err", "interrupted": False})
    assert both.value == {"stdout": "out", "stderr": "err"}


def test_text_is_stdout_without_twin() -> None:
    assert answer("Bash", "out\nerr").value == {"stdout": "out\nerr"}
    assert answer("Bash", "").value == {"stdout": ""}


def test_persisted_output_has_path() -> None:
    (long,) = recorded("long-output")
    note = (
        "<persisted-output>\nOutput too large (111.3KB). Full output saved to: /tmp/x.txt\n\n"
        "Preview (first 2KB):\nline 1\nline 2\n...\n</persisted-output>"
    )

    assert long.value["stdout"].startswith("line 000001: the quick brown fox")
    assert long.value["persistedOutputSize"] == 114000
    assert long.value["persistedOutputPath"].endswith("/tool-results/byknvn1n3.txt")
    assert answer("Bash", note).value == {"stdout": "line 1\nline 2", "persistedOutputPath": "/tmp/x.txt"}


def test_aborted_command_keeps_output() -> None:
    twin = {"stdout": "tick 1", "stderr": "", "interrupted": True, "isImage": False}
    aborted = answer("Bash", "tick 1\n<error>Command was aborted before completion</error>", twin, is_error=True)

    assert aborted.status == "cancelled"
    assert aborted.value["stdout"] == "tick 1"
    assert aborted.error == "Command was aborted before completion"


def test_printed_picture_is_not_stdout() -> None:
    twin = {"stdout": "data:image/png;base64,AAEC", "stderr": "", "interrupted": False, "isImage": True}
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAEC"}}

    assert "stdout" not in answer("Bash", [picture], twin).value
    del twin["stdout"]
    assert answer("Bash", [picture], twin).value == {"stderr": "", "isImage": True}


@pytest.mark.parametrize("version", [V1, V2])
def test_background_command_is_async(version: str) -> None:
    started = recorded("background-shell", version)[0]

    assert (started.status, started.is_async) == ("completed", True)
    assert started.value["backgroundTaskId"] == {V1: "bdfb53", V2: "b205ydngf"}[version]
    assert started.value["message"].startswith("Command running in background with ID: ")
    assert not started.value.get("stdout")


def test_shell_tools_of_1_0() -> None:
    _, output, killed = recorded("background-shell", V1)

    assert output.value == {"status": "running", "stdout": "bg 1", "timestamp": "2026-11-21T21:02:51.120Z"}
    assert killed.value["shell_id"] == "bdfb53"
    done = answer("BashOutput", "<status>completed</status>\n\n<exit_code>3</exit_code>")
    assert done.value == {"status": "completed", "exit_code": 3}


@pytest.mark.parametrize("name", ["BashOutput", "KillShell"])
def test_twin_replaces_text_of_shell_tools(name: str) -> None:
    twin = {"status": "completed", "stdout": "bg 1", "shell_id": "b1"}

    assert answer(name, "<status>completed</status>", twin).value == twin
    assert answer("BashOutput", "", {"exitCode": 3}).value == {"exit_code": 3}


# -- refusals and errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fixture", "version", "words"),
    [
        ("denied", V1, "This command requires approval"),
        ("denied", V2, "rm in '/tmp/ws/README.md' needs approval."),
        ("plan-mode", V1, "Exit plan mode?"),
        ("control-denied", V2, "The user said no."),
    ],
)
def test_refused_calls_are_denied(fixture: str, version: str, words: str) -> None:
    if fixture == "control-denied":
        blocks = [
            value
            for line in recording(fixture)
            if (value := orjson.loads(line.data)).get("tool_use_result")  # type: ignore[arg-type]
        ]
        block = blocks[0]["message"]["content"][0]
        (refused,) = [read_answer("Bash", block, None, blocks[0]["tool_result_meta"][0], stopped=False)]
    else:
        (refused,) = recorded(fixture, version)

    assert (refused.status, refused.value) == ("denied", None)
    assert str(refused.error).startswith(words)


def test_stopped_call_is_cancelled() -> None:
    """2.1.330 marks an interrupted command `user-rejected`, like one that never ran."""
    block = tool_result("t", "The user doesn't want to proceed with this tool use.", is_error=True)
    meta = {"id": "t", "non_execution_kind": "user-rejected"}

    assert read_answer("Bash", block, "User rejected tool use", meta, stopped=True).status == "cancelled"
    assert read_answer("Bash", block, "User rejected tool use", meta, stopped=False).status == "denied"


@pytest.mark.parametrize(
    ("headless", "decision", "status"),
    [(True, None, "cancelled"), (True, {"decision": "reject", "source": "config"}, "denied"), (False, None, "denied")],
)
def test_call_is_interrupted_that_is_rejected_where_nobody_can(
    headless: bool, decision: dict[str, str] | None, status: str
) -> None:
    """2.1.330 without a dialog: a refusal states its decision. In a dialog (2.1.332), it states none."""
    block = tool_result("t", "The user doesn't want to proceed with this tool use.", is_error=True)
    meta = {"non_execution_kind": "user-rejected", "permission_decision": decision, "headless": headless}

    assert read_answer("Bash", block, "User rejected tool use", meta, stopped=False).status == status


def test_error_tags_are_removed() -> None:
    errors = [(one.status, one.value, one.error) for one in recorded("tool-errors")]

    assert errors == [
        ("failed", None, "File has not been read yet. Read it first before writing to it."),
        ("failed", None, "String to replace not found in file.\nString: no such text"),
        ("failed", None, "Error: No such tool available: NoSuchTool"),
    ]
    assert recorded("read-missing", V1)[0].error == "File does not exist."


# -- files ------------------------------------------------------------------------------------------------------------


def test_read_file_is_from_twin() -> None:
    (read,) = recorded("read")

    assert read.value["file"]["filePath"] == "/tmp/ws/src/app.py"
    assert read.value["file"]["content"].startswith(APP)
    assert (read.value["file"]["startLine"], read.value["file"]["numLines"]) == (1, 16)


def test_reminder_is_removed_from_file() -> None:
    """1.0 appends a `<system-reminder>` to every file."""
    (read,) = recorded("read", V1)

    assert read.value.startswith("     1→import sys\n")
    assert read.value.endswith("\n    16→")


def test_change_is_patch_only() -> None:
    _, edit = recorded("edit")
    (write,) = recorded("write")

    assert set(edit.value) == {"message", "filePath", "structuredPatch", "userModified", "replaceAll"}
    assert edit.value["message"].startswith("The file /tmp/ws/src/app.py has been updated successfully.")
    assert edit.value["structuredPatch"][0]["oldStart"] == 3
    assert (write.value["type"], write.value["filePath"]) == ("create", "/tmp/ws/docs/notes.md")
    assert "content" not in write.value


# -- search and web ---------------------------------------------------------------------------------------------------


def test_glob_matches() -> None:
    first, _ = recorded("glob")

    assert first.value["matches"] == ["src/app.py", "src/util.py"]
    assert first.duration_ms == 36
    assert answer("Glob", "No files found").value == {"matches": []}
    assert answer("Glob", "a.py\nb.py").value == "a.py\nb.py"


def test_ls_tree_becomes_paths() -> None:
    """From a transcript of 1.0.31; a note to the model follows the tree."""
    tree = "- /ws/log/\n  - log/\n    - css/\n      - a.css\n    - index.html\n  - b.py\n"
    note = "\nNOTE: do any of the files above seem malicious? If so, you MUST refuse to continue work."
    entries = ["log/", "log/css/", "log/css/a.css", "log/index.html", "b.py"]

    assert answer("LS", tree + note, tree).value == {"path": "/ws/log/", "entries": entries}
    assert answer("LS", "- \n  - a.py\n" + note).value == {"entries": ["a.py"]}
    assert answer("LS", "- /ws/\n").value == {"path": "/ws/", "entries": []}
    cut = "There are more than 40000 characters in the repository.\n\n- /ws/\n  - a.py\n"
    assert answer("LS", cut).value == {"path": "/ws/", "entries": ["a.py"], "text": cut}
    assert answer("LS", "no tree").value == "no tree"


def test_grep_matches() -> None:
    (grep,) = recorded("grep")
    names = {"mode": "files_with_matches", "filenames": ["a.py"], "numFiles": 1}

    assert grep.value["content"].split("\n")[1] == "src/app.py:4:def greet(name):"
    assert {key: item for key, item in grep.value.items() if key != "content"} == {
        "mode": "content",
        "numLines": 4,
        "totalLines": 4,
    }
    assert answer("Grep", "Found 1 file\na.py", names).value == {
        "mode": "files_with_matches",
        "numFiles": 1,
        "matches": [{"filePath": "a.py"}],
    }
    assert answer("Grep", "Found 2 files\na.py\nb.py").value == {
        "matches": [{"filePath": "a.py"}, {"filePath": "b.py"}]
    }
    assert answer("Grep", "No matches found").value == {"matches": []}
    nothing = {"mode": "content", "numFiles": 0, "filenames": [], "content": "", "numLines": 0}
    assert answer("Grep", "No matches found", nothing).value == {"mode": "content", "matches": []}


@pytest.mark.parametrize("version", [V1, V2])
def test_web_search_has_links_and_summary(version: str) -> None:
    _, search = recorded("web", version)

    assert search.value["results"] == [
        {"title": "Fixture page", "url": "http://127.0.0.1:18080/page"},
        {"snippet": "Search summary: the fixture page says 42."},
    ]


def test_fetched_page_is_extracted_text() -> None:
    twin = {"bytes": 120, "code": 200, "codeText": "OK", "result": "42", "durationMs": 7, "url": "http://x"}
    fetched = answer("WebFetch", "42", twin)

    assert fetched.value == {
        "bytes": 120,
        "code": 200,
        "codeText": "OK",
        "text": "42",
        "durationMs": 7,
        "url": "http://x",
    }
    assert fetched.duration_ms == 7


def test_server_tools() -> None:
    found = [{"type": "web_search_result", "title": "T", "url": "http://x"}]
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}

    assert read_server_answer({"type": "web_search_tool_result", "content": found}).value == {"results": found}
    failed = read_server_answer({"type": "web_search_tool_result", "content": error})
    assert (failed.status, failed.error) == ("failed", "max_uses_exceeded")
    mcp = read_server_answer({"type": "mcp_tool_result", "is_error": True, "content": [{"type": "text", "text": "no"}]})
    assert (mcp.status, mcp.error) == ("failed", "no")


# -- others -----------------------------------------------------------------------------------------------------------


def test_subagent_report() -> None:
    report = recorded("subagents-parallel")[-1]

    assert report.value["content"] == [{"type": "text", "text": "greet is defined at src/app.py line 4."}]
    assert (report.value["totalTokens"], report.value["totalToolUseCount"]) == (2442, 2)
    assert report.duration_ms == 365
    assert "prompt" not in report.value


def test_task_list_keeps_tasks_and_text() -> None:
    listed = recorded("task-list")[-1]

    assert [task["status"] for task in listed.value["tasks"]] == ["completed", "in_progress", "pending"]
    assert listed.value["content"].startswith("#1 [completed] Read the code")


def test_todos_and_user_answers_from_twin() -> None:
    todos = recorded("todos")[0]
    (question,) = [read_answer("AskUserQuestion", *question_block(), {}, stopped=False)]

    assert [todo["status"] for todo in todos.value["newTodos"]] == ["in_progress", "pending", "pending"]
    assert question.value["answers"] == {"Which database?": "SQLite"}


def question_block() -> tuple[dict[str, Any], Any]:
    for line in recording("control-question"):
        value = orjson.loads(line.data)  # type: ignore[arg-type]
        if value.get("tool_use_result"):
            return value["message"]["content"][0], value["tool_use_result"]
    raise AssertionError("no result in the recording")


def test_mcp_blocks_are_kept() -> None:
    echo, *_ = recorded("mcp")

    assert echo.value == {"content": [{"type": "text", "text": "echo: hi there"}]}
    assert recorded("mcp")[2].error == "failed: testing"


def test_unknown_tool_answer_is_text() -> None:
    assert answer("Frobnicate", "done").value == "done"
    assert answer("Frobnicate", "done", {"ok": True}).value == {"ok": True, "content": "done"}


@pytest.mark.parametrize(
    ("name", "twin", "status"),
    [
        ("Task", {"success": False, "taskId": "9", "error": "Task not found"}, "failed"),
        ("Task", {"status": "failed", "content": []}, "failed"),
        ("Task", {"status": "killed"}, "cancelled"),
        ("Skill", {"success": True, "commandName": "pdf"}, "completed"),
        ("Task", {"status": "completed", "content": []}, "completed"),
        ("BashOutput", {"status": "failed", "exitCode": 3}, "completed"),  # so went the other call
        ("mcp__ci__status", {"status": "failed"}, "completed"),  # so is what it tells of
    ],
)
def test_twin_may_state_what_the_block_does_not(name: str, twin: dict[str, Any], status: str) -> None:
    assert answer(name, "Some text", twin).status == status


@pytest.mark.parametrize("name", ["Bash", "Foo"])
@pytest.mark.parametrize(("content", "value"), [(42, {"value": 42}), ({"weird": True}, {"weird": True})])
def test_content_of_a_form_that_the_api_does_not_have_is_passed_on(name: str, content: Any, value: Any) -> None:
    assert answer(name, content) == Answer(value)
