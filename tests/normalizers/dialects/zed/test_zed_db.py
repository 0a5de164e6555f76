"""The `zed-db` dialect, and following the database, which holds each thread as a compressed document."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.daemon.taps.following import Follower
from tests.normalizers.reading import FIXTURES, answer, of, read, recording, said
from tooltap.normalizers.dialects.zed import store
from tooltap.protocol.events import Notice, Reasoning, SessionEvent, ToolCall, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import normalize

VERSION = "zed-written"
LINES = (FIXTURES / "zed-db" / VERSION / "edit.jsonl").read_text().splitlines()
TABLE = "CREATE TABLE threads (id TEXT PRIMARY KEY, summary TEXT, updated_at TEXT, data_type TEXT, data BLOB{})"


def prompt(text: str, prompt_id: str = "u") -> dict[str, Any]:
    return {"User": {"id": prompt_id, "content": [{"Text": text}]}}


def agent(*content: Any, **results: Any) -> dict[str, Any]:
    return {"Agent": {"content": [*content], "tool_results": results}}


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"ToolUse": {"id": "c", "name": name, "raw_input": "", "input": given, "is_input_complete": True}}


def called(name: str, *content: Any, is_error: bool = False, output: Any = None) -> list[Any]:
    """A prompt, and a message that calls a tool."""
    result = {"tool_use_id": "c", "tool_name": name, "is_error": is_error, "content": [*content], "output": output}
    return [prompt("Go"), agent(call(name, path="ws/a.py"), c=result)]


def thread(*messages: Any, folders: str = "/ws", order: str = "0", **more: Any) -> dict[str, Any]:
    row = {"id": "z", "summary": "", "updated_at": "2026-11-26T11:20:00+00:00"}
    return {**row, "folder_paths": folders, "folder_paths_order": order, "thread": {"messages": [*messages], **more}}


def result_of(name: str, text: str, **more: Any) -> ToolResult:
    [found] = of(ToolResult, read("zed-db", thread(*called(name, {"Text": text}, **more))))
    return found


def test_recording_is_a_session_with_one_turn() -> None:
    found = normalize("auto", recording("zed-db", "edit", VERSION))

    assert {(one.dialect, one.provider) for one in found} == {("zed-db", "zed")}
    assert said(found) == [("user", "Greet in @/ws/hi.py and run it."), ("assistant", "It greets.")]
    assert [one.text for one in of(Reasoning, found)] == ["Replace the line."]
    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("completed", "answer")]
    assert [one.title for one in of(SessionEvent, found) if one.title] == ["New Thread", "Greet and run"]
    [used] = of(Usage, found)
    assert (used.input_tokens, used.output_tokens, used.counter) == (1200, 60, "session")


def test_paths_begin_with_the_name_of_a_folder_of_the_thread() -> None:
    messages = prompt("Go"), agent(call("copy_path", source_path="b/x", destination_path="elsewhere/x"))
    found = read("zed-db", thread(*messages, folders="/r/a\n/r/b", order="1,0"))

    [copy] = of(ToolCall, found)
    assert (copy.input["source_path"], copy.input["destination_path"]) == ("/r/b/x", "elsewhere/x")
    assert next(iter(of(SessionEvent, found))).cwd == "/r/b"


@pytest.mark.parametrize(
    ("name", "given", "canonical", "shown"),
    [
        ("grep", {"regex": "a", "include_pattern": "*.py"}, "Grep", {"pattern": "a", "glob": "*.py"}),
        ("find_path", {"glob": "*.md"}, "Glob", {"pattern": "*.md"}),
        ("delete_path", {"path": "ws/a"}, "Delete", {"file_path": "/ws/a"}),
        ("move_path", {"source_path": "ws/a", "destination_path": "ws/b"}, "move", {"destination": "/ws/b"}),
        ("spawn_agent", {"label": "Look", "message": "Look there"}, "Task", {"prompt": "Look there"}),
        ("edit_file", {"path": "ws/a", "mode": "create", "content": "x"}, "Write", {"file_path": "/ws/a"}),
    ],
)
def test_tools_have_canonical_names_and_keys(
    name: str, given: dict[str, Any], canonical: str, shown: dict[str, Any]
) -> None:
    [found] = of(ToolCall, read("zed-db", thread(prompt("Go"), agent(call(name, **given)))))

    assert found.name == canonical
    assert found.input.items() >= shown.items()


@pytest.mark.parametrize(
    ("text", "status", "output"),
    [
        ("```\nhi\n```", "completed", {"stdout": "hi", "exit_code": 0}),
        ("Command executed successfully.", "completed", {"stdout": "", "exit_code": 0}),
        ('Command "make" failed with exit code 2.\n\n```\na\n```', "failed", {"stdout": "a", "exit_code": 2}),
        ('Command "x" timed out. Output captured before timeout:\n\n```\na\n```', "failed", {"stdout": "a"}),
        ("The user stopped this command. Output captured:\n\n```\na\n```\n\nSince", "cancelled", {"stdout": "a"}),
        ("Command cancelled: user denied permission to run outside the sandbox (no).", "denied", {}),
        ("Something else", "completed", {"stdout": "Something else"}),
    ],
)
def test_sentence_of_a_command_states_how_it_ended(text: str, status: str, output: dict[str, Any]) -> None:
    found = result_of("terminal", text)

    assert found.status == status
    assert {key: value for key, value in answer(found.output).items() if key != "errorMessage"} == output


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Permission to run tool denied by user", "denied"),
        ("Tool canceled by user", "cancelled"),
        ("a.py not found", "failed"),
    ],
)
def test_error_states_how_a_call_ended(text: str, status: str) -> None:
    found = result_of("read_file", text, is_error=True)

    assert (found.status, found.output.get("errorMessage")) == (status, text)


def test_turn_whose_call_was_cancelled_is_over() -> None:
    found = read("zed-db", thread(*called("read_file", {"Text": "Tool canceled by user"}, is_error=True)))

    assert [one.state for one in of(Turn, found)] == ["started", "cancelled"]


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("     9\ta\n    10\tb\n", {"file": {"content": "a\nb\n", "startLine": 9, "numLines": 2}}),
        ("     1\ta\n     3\tb\n", {"file": {"content": "     1\ta\n     3\tb\n"}}),
        ("def a(): ...\n", {"file": {"content": "def a(): ...\n"}}),
        ("# File outline for a.py\n\nfn a", {"outline": "# File outline for a.py\n\nfn a"}),
    ],
)
def test_file_is_read_without_the_numbers_of_its_lines(text: str, output: dict[str, Any]) -> None:
    found = answer(result_of("read_file", text).output)

    assert {key: found.get(key) for key in output} == output


def test_picture_of_a_result_is_an_attachment() -> None:
    [found] = of(ToolResult, read("zed-db", thread(*called("read_file", {"Image": {"source": "aGk=", "size": None}}))))

    assert found.attachments is not None
    assert [(one.mime_type, one.bytes) for one in found.attachments] == [("image/png", 2)]


def test_message_is_read_once() -> None:
    first, second = prompt("Go"), agent({"Text": "Done"})

    assert said(read("zed-db", thread(first), thread(first, second), thread(first, second))) == [
        ("user", "Go"),
        ("assistant", "Done"),
    ]


def test_compaction_repeats_nothing() -> None:
    """It is put before the newest prompt."""
    old, new = [prompt("Go"), agent({"Text": "Done"})], prompt("More", "v")
    found = read("zed-db", thread(*old, new), thread(*old, {"Compaction": {"Summary": "So far"}}, new))

    assert said(found) == [("user", "Go"), ("assistant", "Done"), ("user", "More")]
    assert [(one.code, one.text) for one in of(Notice, found)] == [("compaction", "So far")]


def test_prompt_that_is_edited_rewinds_the_thread() -> None:
    found = read("zed-db", thread(prompt("Go"), agent({"Text": "Done"})), thread(prompt("Stop", "v")))

    assert [one.code for one in of(Notice, found)] == ["rewound"]
    assert said(found)[-1] == ("user", "Stop")


def test_resumed_agent_has_another_turn() -> None:
    found = read("zed-db", thread(*called("diagnostics", {"Text": "none"}), "Resume", agent({"Text": "Done"})))

    assert [one.state for one in of(Turn, found)][-2:] == ["started", "completed"]


@pytest.mark.parametrize("apart", [False, True])
def test_older_thread_has_messages_with_roles(apart: bool) -> None:
    """Version 0.1.0 has the results in a message of the user, 0.2.0 in that with the calls."""
    results = {"tool_results": [{"tool_use_id": "c", "is_error": False, "content": "```\nhi\n```", "output": None}]}
    uses = {"tool_uses": [{"id": "c", "name": "terminal", "input": {"command": "make"}}]}
    thought, text = {"type": "thinking", "text": "Hm"}, {"type": "text", "text": "Making it."}
    found = read(
        "zed-db",
        thread(
            {"role": "system", "segments": [text]},
            {"role": "user", "segments": [{"type": "text", "text": "Go"}]},
            {"role": "assistant", "segments": [thought, text], **uses, **({} if apart else results)},
            *([{"role": "user", "segments": [], **results}] if apart else []),
            {"role": "assistant", "text": "Done"},
        ),
    )

    assert said(found) == [("user", "Go"), ("assistant", "Making it."), ("assistant", "Done")]
    assert [one.text for one in of(Reasoning, found)] == ["Hm"]
    assert [(one.name, answer(one.output)["stdout"]) for one in of(ToolResult, found)] == [("Bash", "hi")]


@pytest.mark.parametrize(
    "message",
    [
        {"Hologram": {}},
        7,
        {"User": {"content": [{"Hologram": {}}]}},
        {"User": {"content": ["Hologram"]}},
        agent({"ToolUse": {"name": "terminal"}}),
        agent(c="Hologram"),
        {"Agent": {}},
    ],
)
def test_what_has_no_known_shape_is_kept(message: Any) -> None:
    assert [one.reason for one in of(Unparsed, read("zed-db", thread(message)))] == ["unknown-type"]


# -- the database -------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_database_is_followed(tmp_path: Path) -> None:
    """Each state replaces the one before it. The daemon is killed between them. A subagent's thread is not read."""
    folder = tmp_path / "zed" / "threads"
    folder.mkdir(parents=True)
    follower = Follower(tmp_path, agents=["zed"], backfill="all")
    follower.environment["XDG_DATA_HOME"] = str(tmp_path)
    columns = ("parent_id", "folder_paths", "folder_paths_order", "created_at")

    def save(line: str, session: str, parent: str | None) -> None:
        row = json.loads(line)
        data = zstandard.ZstdCompressor().compress(json.dumps(row["thread"]).encode())
        values = session, row["summary"], row["updated_at"], "zstd", data, parent, *(row[key] for key in columns[1:])
        database.execute(f"INSERT OR REPLACE INTO threads VALUES ({', '.join('?' * len(values))})", values)

    with closing(sqlite3.connect(folder / "threads.db", isolation_level=None)) as database, follower:
        database.execute(TABLE.format("".join(f", {name} TEXT" for name in columns)))
        save(LINES[0], "child", "4f0c")
        save(LINES[0], "4f0c", None)
        follower.wait_stats(lambda stats: [one["lines"] for one in stats["perStream"]] == [1])
        follower.restart(follower.kill)
        save(LINES[1], "4f0c", None)
        events = follower.events_when(lambda events: any(event.get("state") == "completed" for event in events))

    texts = [event["text"] for event in events if event["kind"] == "message"]
    assert texts == ["Greet in @/ws/hi.py and run it.", "It greets."]
    assert {(event["session"], event["provider"]) for event in events} == {("4f0c", "zed")}


def rows(data_type: str, data: bytes | str) -> list[bytes]:
    """The lines of a table of the first versions, which has one thread."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.execute(TABLE.format(""))
        time = "2026-11-26T11:20:00+00:00"
        database.execute("INSERT INTO threads VALUES ('z', '', ?, ?, ?)", (time, data_type, data))
        [found] = store.ZedStore().sessions(database.execute, 0)
        return [row.line for row in store.ZedStore().rows(database.execute, found.session, {}, 0)]


def test_document_of_a_first_version_is_not_compressed() -> None:
    [line] = rows("json", '{"messages":\n[]}')

    assert json.loads(line)["thread"] == {"messages": []}


def test_data_that_cannot_be_decompressed_are_unparsed() -> None:
    [line] = rows("zstd", b"noise")

    assert [one.reason for one in of(Unparsed, read("zed-db", json.loads(line)))] == ["unknown-type"]


def test_only_the_beginning_of_a_thread_that_is_too_long_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_BYTES", 1_000)
    [line] = rows("zstd", zstandard.ZstdCompressor().compress(bytes(1_000_000)))

    assert line.count(0) == 1_000
