"""The user's rules add a view to results, and change nothing else."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.ingest.test_kill9 import journal, records, told_apart
from tests.daemon.lives import Gone, Lives, Publisher, wait_for_ack
from tests.daemon.running import running
from tests.daemon.views.viewing import call, ended, history, made_view, publish, result, viewing
from tests.test_layout import ROOT
from tooltap.daemon.config import Stream
from tooltap.normalizers.core.items import Limits

pytestmark = pytest.mark.usefixtures("toy")

EXAMPLE = tomllib.loads((ROOT / "docs" / "display.toml").read_text())
FOUND = [{"title": "Climate", "url": "https://example.org/", "snippet": "It changes.", "score": 0.9}]


@pytest.mark.programs("jq")
@pytest.mark.process
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (  # Claude Code 2.1, and Gemini CLI alike: hits without a snippet, a summary that is nothing else
            {"results": [{"title": "Page", "url": "http://a/"}, {"snippet": "It says 42."}], "searchCount": 1},
            "Top results:\n- [Page](http://a/)\n- It says 42.\n",
        ),
        (
            {"results": [{"url": "http://a/", "snippet": "No title."}]},
            "Top results:\n- [http://a/](http://a/) No title.\n",
        ),
        ({"results": []}, ""),
        ({}, ""),  # Codex: it does not say what it found
        ({"message": 'Search results for "page" returned.'}, ""),  # Gemini CLI, in its stream
    ],
)
def test_example_for_searches_shows_what_each_agent_states(output: dict[str, Any], expected: str) -> None:
    command = EXAMPLE["tools"]["WebSearch"]["rewrite"]

    shown = subprocess.run(command, input=json.dumps({"output": output}), capture_output=True, text=True, check=True)

    assert shown.stdout == expected


@pytest.mark.programs("jq")
@pytest.mark.process
def test_example_configuration(tmp_path: Path) -> None:
    """Who sees what of `read_file`, `write_file`, `exec`, `web_search`, `spawn_subagent`, `memory_search`,
    `index_file` and `ask_user`."""
    printed = "0123456789" * 100
    with viewing(tmp_path, EXAMPLE["tools"]) as daemon:
        publish(
            daemon,
            call("read", "read_file", file_path="/a"),
            result("read", "full content"),
            call("write", "write_file", file_path="/a", content="grüße\n"),
            result("write", "The file was written."),
            call("exec", "exec_command", command="make"),
            result("exec", {"stdout": printed, "exit_code": 0}),
            call("search", "web_search", query="climate change"),
            result("search", {"results": FOUND}),
            call("spawn", "spawn_agent", prompt="look"),
            result("spawn", "Subagent started", is_async=True),
            result("spawn", "It is done.", final=True),
            call("memory", "memory_search", query="recent tasks"),
            result("memory", {"results": [{"id": 1, "score": 0.5}]}),
            call("index", "index_file", path="/a"),
            result("index", "indexed"),
            call("ask", "ask_user", question="Sure?"),
            result("ask", "User input: yes"),
        )
        found = made_view(daemon)
        results = {(one["callId"], one.get("final")): one for one in history(daemon, kind=["tool-result"])}

    shown = {key: (one.get("display"), one.get("silent"), one.get("async")) for key, one in results.items()}
    assert shown == {
        ("read", None): (None, True, None),
        ("write", None): ({"origin": "rule", "text": "Written 8 bytes"}, None, None),
        ("exec", None): ({"origin": "rule", "text": printed[:500], "cut": 500}, None, None),
        ("search", None): (None, None, None),
        ("spawn", None): (None, None, True),
        ("spawn", True): (None, None, None),
        ("memory", None): (None, True, None),
        ("index", None): (None, True, None),
        ("ask", None): (None, None, None),
    }
    assert (found["callId"], found["display"]) == (
        "search",
        {
            "origin": "rewriter",
            "text": "Top results:\n- [Climate](https://example.org/) It changes.\n",
            "mimeType": "text/markdown",
        },
    )
    assert results["read", None]["output"]["file"]["content"] == "full content"
    assert results["exec", None]["output"]["stdout"] == printed
    assert results["exec", None]["output"]["exit_code"] == 0
    assert results["search", None]["output"]["results"][0]["title"] == "Climate"
    assert results["memory", None]["output"]["results"] == [{"id": 1, "score": 0.5}]


WRITE = call("c", "Write", file_path="/notes.txt", content="one\ntwo\n")
BASH = call("c", "Bash", command="make")


@pytest.mark.parametrize(
    ("rules", "asked", "answer", "shown"),
    [
        ({"*": {"max_chars": 3}}, BASH, {"output": "abcdef"}, {"text": "abc", "cut": 3}),
        ({"*": {"max_chars": 3}}, BASH, {"output": "äöüß"}, {"text": "äöü", "cut": 2}),
        ({"*": {"max_chars": 6}}, BASH, {"output": "abcdef"}, None),
        ({"*": {"max_chars": 3}, "Bash": {"max_chars": 0}}, BASH, {"output": "abcdef"}, None),
        ({"*": {"max_chars": 3}, "Bash": {"ask": False}}, BASH, {"output": "abcdef"}, {"text": "abc", "cut": 3}),
        ({"Read": {"max_chars": 3}}, BASH, {"output": "abcdef"}, None),
        ({"Bash": {"max_chars": 4}}, BASH, {"output": {"stdout": "a\n", "stderr": "bcd"}}, {"text": "a\nbc", "cut": 1}),
        ({"Bash": {"max_chars": 3}}, BASH, {"output": "abcdef", "status": "failed"}, {"text": "abc", "cut": 3}),
        ({"Bash": {"max_chars": 3}}, BASH, {"output": "x" * 70_000}, {"text": "xxx", "cut": 69_997}),
        ({"Write": {"template": "{tool} {preview}: {bytes} bytes"}}, WRITE, {}, {"text": "Write /notes.txt: 8 bytes"}),
        ({"Write": {"template": "{input.file_path}, {lines} lines"}}, WRITE, {}, {"text": "/notes.txt, 2 lines"}),
        ({"Bash": {"template": "{{{output.exit_code}}}"}}, BASH, {"output": {"exit_code": 0}}, {"text": "{0}"}),
        ({"Bash": {"template": "{output.exit_code}"}}, BASH, {"output": "ok"}, None),
        ({"Bash": {"template": "ok"}}, BASH, {"output": "ok"}, None),
        ({"Bash": {"template": "ok"}}, BASH, {"output": "no", "status": "failed", "error": "no"}, None),
        ({"Bash": {"template": "", "max_chars": 1}, "*": {"template": "x"}}, BASH, {"output": "ok"},
         {"text": "o", "cut": 1}),
        ({"Bash": {"template": "x", "mime_type": "a/b"}}, BASH, {"output": "ok"}, {"text": "x", "mimeType": "a/b"}),
    ],
)  # fmt: skip
def test_rule_makes_a_view(
    tmp_path: Path, rules: dict[str, Any], asked: dict[str, Any], answer: dict[str, Any], shown: dict[str, Any] | None
) -> None:
    with viewing(tmp_path, rules) as daemon:
        [one] = ended(daemon, asked, result("c", **{"output": None, **answer}))

    assert one.get("display") == (None if shown is None else {"origin": "rule", **shown})


def test_failed_result_of_a_silent_tool_is_shown(tmp_path: Path) -> None:
    with viewing(tmp_path, {"*": {"silent": True}, "Read": {"silent": False}}) as daemon:
        results = ended(
            daemon,
            *(call(one, "Bash") for one in "abc"),
            call("d", "Read"),
            result("a", "fine"),
            result("b", None, status="failed", error="no such file"),
            result("d", "text"),
        )

    assert {one["callId"]: one.get("silent") for one in results} == {"a": True, "b": None, "c": None, "d": None}


def test_unchanged_result_stores_no_view(tmp_path: Path) -> None:
    lines = [BASH, result("c", "short"), call("d", "Read"), result("d", "text")]
    events = []
    for name, rules in {"with": {"*": {"max_chars": 100}, "Grep": {"silent": True}}, "without": {}}.items():
        with viewing(tmp_path / name, rules) as daemon:
            publish(daemon, *lines)
            events.append([{**one, "ts": 0} for one in history(daemon)])

    assert events[0] == events[1]


def test_replay_equals_live(tmp_path: Path) -> None:
    with viewing(tmp_path, {"*": {"max_chars": 2, "ask": True}}) as daemon:
        live = daemon.subscribe(after="start")
        live.until("live")
        publish(daemon, BASH, result("c", "abcdef"))
        seen = [live.read(), live.read()]

        assert history(daemon) == seen
    assert seen[1]["display"] == {"origin": "rule", "text": "ab", "cut": 4}
    assert seen[1]["ask"] is True
    with running(tmp_path) as daemon:  # without rules, journaled views are unchanged
        assert history(daemon) == seen


def test_views_over_the_socket(tmp_path: Path) -> None:
    with viewing(tmp_path, {"Bash": {"max_chars": 2, "ask": True}, "Read": {"silent": True}}) as daemon:
        long, silent = ended(
            daemon,
            BASH,
            result("c", "abcdef", model="abcdef"),
            call("d", "Read"),
            result("d", "text", model="text"),
        )
        wire = daemon.connect()
        views = {
            (one["callId"], view): wire.ask("event", seq=one["seq"], view=view)["event"]
            for one in (long, silent)
            for view in ("assistant", "display")
        }

    assert views["c", "assistant"]["modelView"]["blocks"] == [{"type": "text", "text": "abcdef"}]
    assert "display" not in views["c", "assistant"]
    assert views["c", "display"]["display"]["text"] == "ab"
    assert "output" not in views["c", "display"]
    assert views["d", "assistant"]["modelView"]["blocks"] == [{"type": "text", "text": "text"}]
    assert views["d", "display"]["silent"] is True
    assert "output" not in views["d", "display"]


def test_template_sizes_are_of_the_whole_text(tmp_path: Path) -> None:
    limits = {"string_bytes": 1_000}
    asked = call("c", "Write", file_path="/a", content="0123456789\n" * 1_000)
    rules = {"Write": {"template": "{bytes} bytes, {lines} lines"}, "Bash": {"template": "{lines} lines"}}
    with viewing(tmp_path, rules, stream=limits) as daemon:
        written, printed = ended(daemon, asked, result("c", "ok"), call("d", "Bash"), result("d", "x\n" * 2_000))

    assert written["display"]["text"] == "11000 bytes, 1000 lines"
    assert printed["display"]["text"] == "2000 lines"
    assert len(printed["output"]["stdout"]) == 1_000


def test_call_is_remembered_across_restarts(tmp_path: Path) -> None:
    rules = {"Write": {"template": "{input.file_path}: {bytes} bytes"}}
    with viewing(tmp_path, rules) as daemon:
        publish(daemon, call("c", "Write"), call("old", "Write", file_path="/old", content="1"), end=False)
        publish(daemon, result("old", "ok"), end=False)
    with viewing(tmp_path, rules) as daemon:
        changed = {"do": "change", "id": "c", "input": {"file_path": "/new", "content": "12345"}}
        publish(daemon, changed, end=False)
    with viewing(tmp_path, rules) as daemon:
        publish(daemon, result("c", "ok"))
        shown = [one["display"]["text"] for one in history(daemon, kind=["tool-result"])]

    assert shown == ["/old: 1 bytes", "/new: 5 bytes"]


def test_remembered_calls_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest call is forgotten, and its result is shown unchanged."""
    monkeypatch.setattr(Stream, "limits", Limits(call_bytes=1_500))
    asked = [call(one, "Write", file_path=f"/{one}", content="x" * 600) for one in "abc"]
    with viewing(tmp_path, {"Write": {"template": "{input.file_path}"}}) as daemon:
        results = ended(daemon, *asked, *(result(one, "ok") for one in "abc"))

    assert [one.get("display", {}).get("text") for one in results] == [None, "/b", "/c"]


def test_views_are_the_same_after_kills(tmp_path: Path) -> None:
    rules = {"*": {"max_chars": 3, "ask": True}, "Bash": {"template": "{preview}: {bytes}"}}
    found = []
    for name, kills in {"unbroken": 0, "killed": 6}.items():
        (tmp_path / name).mkdir()
        with Lives(tmp_path / name, tools=rules) as lives:
            publisher = Publisher(lives, "opencode-0", records("opencode-0"))
            while not publisher.done:
                lives.start("before-commit:4" if len(lives.died) < kills else "")
                try:
                    publisher.publish(wait_for_ack)
                    lives.stop()
                except Gone:
                    pass
                lives.wait()
            assert len(lives.died) == kills + 1
            found.append(told_apart(journal(lives)))

    assert found[0] == found[1]
    assert [one["display"]["text"] for one in found[0] if "display" in one]
