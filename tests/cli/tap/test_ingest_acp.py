"""`tooltap ingest --acp`: the stored sessions of an ACP agent, each once, from an agent that is scripted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here, sentence
from tests.daemon.running import Running
from tests.normalizers.reading import FIXTURES

pytestmark = pytest.mark.process

AGENT = """
import json, os, sys, time

script = json.load(open(sys.argv[1]))

def say(value):
    print(json.dumps({"jsonrpc": "2.0", **value}), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    with open(sys.argv[1] + ".asked", "a") as log:
        log.write(line)
    if "method" not in asked:
        continue
    id, method, params = asked["id"], asked["method"], asked["params"]
    print("a line of a log", flush=True)
    if method == "initialize":
        say({"id": id, "result": script["initialize"]})
    elif method == "session/list":
        page = int(params.get("cursor", 0))
        say({"id": id, "result": script["pages"][page]})
    elif params["sessionId"] in script.get("refused", []):
        say({"id": id, "error": {"code": -32000, "message": script["message"]}})
    elif params["sessionId"] in script.get("ends", []):
        sys.exit(3)
    elif params["sessionId"] in script.get("silent", []):
        pass
    else:
        session = params["sessionId"]
        say({"id": 7, "method": "fs/read_text_file", "params": {"sessionId": session, "path": "/etc/hosts"}})
        if session in script.get("late", []):
            say({"id": id, "result": {}})
        for update in script["histories"][session]:
            say({"method": "session/update", "params": {"sessionId": script.get("says_of", session), "update": update}})
        say({"method": "session/update", "params": {"sessionId": session, "update": script["now"]}})
        if session not in script.get("late", []):
            say({"id": id, "result": {}})
with open(sys.argv[1] + ".ended", "a") as log:
    log.write("by itself\\n")
"""
"""An agent that answers as the script says. What it was sent is in the file `.asked`, and how often it has ended by
itself in `.ended`."""

CAPABLE = {
    "protocolVersion": 1,
    "agentInfo": {"name": "Atelier", "version": "0.3"},
    "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"list": {}}},
}
DRAFT = {
    "protocolVersion": 2,
    "info": {"name": "Atelier", "version": "0.4"},
    "capabilities": {"session": {"list": {}, "resume": {}}},
}


def text(kind: str, words: str, message: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "messageId": message, "content": {"type": "text", "text": words}}


QUESTION = [text("user_message_chunk", "How many?", "m1"), text("agent_message_chunk", "Twelve.", "m2")]
CALL = {
    "sessionUpdate": "tool_call",
    "toolCallId": "c1",
    "title": "ls",
    "kind": "execute",
    "status": "completed",
    "rawInput": {"command": "ls"},
    "rawOutput": {"output": "a"},
}
MORE = [text("user_message_chunk", "List them.", "m3"), CALL, text("agent_message_chunk", "One.", "m4")]


class Agent:
    def __init__(self, folder: Path, **script: Any) -> None:
        self.path = folder / "script.json"
        self.script = {
            "initialize": CAPABLE,
            "pages": [{"sessions": [{"sessionId": "s-1", "cwd": "/ws", "title": "Counting"}]}],
            "histories": {"s-1": QUESTION},
            "message": "the folder is gone",
            "now": {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
            **script,
        }

    def ingest(self, daemon: Running, *options: object) -> Any:
        self.path.write_text(json.dumps(self.script))
        command = (sys.executable, "-c", AGENT, self.path)
        return here("ingest", "--acp", "--socket", daemon.path, *options, "--", *command)

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in Path(f"{self.path}.asked").read_text().splitlines()]

    @property
    def ends(self) -> list[str]:
        return Path(f"{self.path}.ended").read_text().splitlines()


def events_of(daemon: Running) -> list[dict[str, Any]]:
    with daemon.subscribe(after="start", follow=False) as wire:
        return [event for event in wire.rest() if "kind" in event]


def texts_of(daemon: Running) -> list[str]:
    return [event["text"] for event in events_of(daemon) if event["kind"] == "message"]


def test_stored_sessions_are_read_from_all_pages(daemon: Running, tmp_path: Path) -> None:
    pages = [
        {"sessions": [{"sessionId": "s-1", "cwd": "/ws", "title": "Counting"}], "nextCursor": "1"},
        {"sessions": [{"sessionId": "s-2", "cwd": "/ws", "updatedAt": "2026-11-21T21:10:19Z"}]},
    ]
    agent = Agent(tmp_path, pages=pages, histories={"s-1": QUESTION, "s-2": MORE})
    finished = agent.ingest(daemon)

    assert (finished.returncode, sentence(finished)) == (0, "2 sessions read")
    assert texts_of(daemon) == ["How many?", "Twelve.", "List them.", "One."]
    with daemon.connect() as wire:
        rows = {row["session"]: row for row in wire.ask("sessions", limit=10)["sessions"]}
    assert (rows["s-1"]["title"], rows["s-1"]["cwd"], rows["s-1"]["provider"]) == ("Counting", "/ws", "atelier")
    assert (rows["s-2"]["calls"], rows["s-2"]["lastTs"]) == (1, 1_795_295_419_000)


def test_each_prompt_is_a_turn_and_nothing_is_a_repetition(daemon: Running, tmp_path: Path) -> None:
    Agent(tmp_path, histories={"s-1": QUESTION + MORE}).ingest(daemon)
    events = events_of(daemon)

    assert [event["state"] for event in events if event["kind"] == "turn"] == ["started", "completed"] * 2
    assert not [event for event in events if event.get("replay")]


def test_turn_that_ends_without_an_answer_is_interrupted(daemon: Running, tmp_path: Path) -> None:
    Agent(tmp_path, histories={"s-1": MORE[:2]}).ingest(daemon)

    assert [event["state"] for event in events_of(daemon) if event["kind"] == "turn"] == ["started", "cancelled"]


def test_reading_again_adds_only_what_is_new(daemon: Running, tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    agent.ingest(daemon)
    before = events_of(daemon)
    assert agent.ingest(daemon).returncode == 0
    assert events_of(daemon) == before
    agent.script["histories"]["s-1"] = QUESTION + MORE
    assert agent.ingest(daemon).returncode == 0
    assert texts_of(daemon) == ["How many?", "Twelve.", "List them.", "One."]


def test_nothing_is_asked_that_changes_a_session(daemon: Running, tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    agent.ingest(daemon)
    refusal = [one for one in agent.asked if "method" not in one]

    assert [one["method"] for one in agent.asked if "method" in one] == ["initialize", "session/list", "session/load"]
    assert [(one["id"], one["error"]["code"]) for one in refusal] == [(7, -32601)]


def test_agent_of_the_draft_of_version_2_resumes_with_its_history(daemon: Running, tmp_path: Path) -> None:
    whole = {"sessionUpdate": "user_message", "messageId": "m1", "content": [{"type": "text", "text": "How many?"}]}
    agent = Agent(tmp_path, initialize=DRAFT, histories={"s-1": [whole, QUESTION[1]]})
    finished = agent.ingest(daemon)

    assert finished.returncode == 0, finished
    assert texts_of(daemon) == ["How many?", "Twelve."]
    [asked] = [one for one in agent.asked if one.get("method") == "session/resume"]
    assert asked["params"]["replayFrom"] == {"type": "start"}


def test_history_after_the_answer_is_read(daemon: Running, tmp_path: Path) -> None:
    Agent(tmp_path, late=["s-1"]).ingest(daemon)

    assert texts_of(daemon) == ["How many?", "Twelve."]


def test_session_that_the_journal_has_from_elsewhere_is_left_out(daemon: Running, tmp_path: Path) -> None:
    recording = FIXTURES / "acp" / "opencode-1.18.33" / "session-load.jsonl"
    here("ingest", "--socket", daemon.path, recording)
    before = events_of(daemon)
    known = before[0]["session"]
    finished = Agent(tmp_path, pages=[{"sessions": [{"sessionId": known}]}], histories={known: QUESTION}).ingest(daemon)

    assert sentence(finished) == "0 sessions read; 1 left out that the journal has from elsewhere"
    assert events_of(daemon) == before


def test_refused_session_costs_only_itself(daemon: Running, tmp_path: Path) -> None:
    pages = [{"sessions": [{"sessionId": "s-0"}, {"sessionId": "s-1"}]}]
    finished = Agent(tmp_path, pages=pages, refused=["s-0"]).ingest(daemon)

    assert finished.returncode == 1
    assert b"refuses session/load: the folder is gone" in finished.stderr
    assert texts_of(daemon) == ["How many?", "Twelve."]


def test_session_that_is_too_large_costs_only_itself(daemon: Running, tmp_path: Path) -> None:
    pages = [{"sessions": [{"sessionId": "s-0"}, {"sessionId": "s-1"}]}]
    large = [text("user_message_chunk", "x" * 2_000, "m0")]
    agent = Agent(tmp_path, pages=pages, histories={"s-0": large, "s-1": QUESTION})
    finished = agent.ingest(daemon, "--acp-bytes", 1_500)

    assert finished.returncode == 1
    assert b"session s-0 has more than 1,500 bytes: it is left out" in finished.stderr
    assert texts_of(daemon) == ["How many?", "Twelve."]


def test_agent_that_has_said_too_much_can_say_the_rest_and_end_by_itself(daemon: Running, tmp_path: Path) -> None:
    more_than_a_pipe_holds = [text("user_message_chunk", "x" * 2_000, f"m{number}") for number in range(200)]
    agent = Agent(tmp_path, histories={"s-1": more_than_a_pipe_holds})
    agent.ingest(daemon, "--acp-bytes", 1_500)

    assert agent.ends == ["by itself"] * 2


def test_number_of_sessions_is_bounded(daemon: Running, tmp_path: Path) -> None:
    pages = [{"sessions": [{"sessionId": "s-1"}, {"sessionId": "s-2"}]}]
    finished = Agent(tmp_path, pages=pages).ingest(daemon, "--acp-sessions", 1)

    assert finished.returncode == 1
    assert b"has more sessions: --acp-sessions says how many are read" in finished.stderr
    assert texts_of(daemon) == ["How many?", "Twelve."]


def test_session_that_was_rewritten_is_not_read_twice(daemon: Running, tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    agent.ingest(daemon)
    agent.script["histories"]["s-1"] = [QUESTION[0], text("agent_message_chunk", "Thirteen.", "m2"), *MORE]
    finished = agent.ingest(daemon)

    assert finished.returncode == 1
    assert b"session s-1 is not what it was when it was read before: what is new of it is left out" in finished.stderr
    assert texts_of(daemon) == ["How many?", "Twelve."]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"initialize": {**CAPABLE, "agentCapabilities": {}}}, "cannot list its sessions: it does not state that"),
        ({"initialize": {"protocolVersion": 9}}, "does not speak a version of ACP that is known here"),
        ({"ends": ["s-1"]}, "ended with exit code 3 before it had answered"),
        ({"silent": ["s-1"]}, "did not answer session/load within 2 s"),
        ({"pages": [{"sessions": [], "nextCursor": "0"}]}, "lists its sessions without an end"),
    ],
)
def test_broken_agent_is_one_sentence(daemon: Running, tmp_path: Path, script: dict[str, Any], said: str) -> None:
    finished = Agent(tmp_path, **script).ingest(daemon, "--acp-seconds", 2)

    assert finished.returncode == 1
    assert said in sentence(finished)
    assert texts_of(daemon) == []


def test_agent_that_cannot_be_started_is_one_sentence(daemon: Running, tmp_path: Path) -> None:
    finished = here("ingest", "--acp", "--socket", daemon.path, "--", tmp_path / "agent")

    assert sentence(finished) == f"{tmp_path}/agent cannot be started: No such file or directory"


@pytest.mark.parametrize("options", [("--dialect", "acp"), ("--stream", "s"), ("--session", "s")])
def test_options_of_one_stream_do_not_fit(options: tuple[str, str]) -> None:
    finished = here("ingest", "--acp", *options, "--", "true")

    assert sentence(finished).startswith("--acp reads several sessions")


def test_command_is_needed() -> None:
    assert sentence(here("ingest", "--acp")).startswith("--acp needs the command of an agent")
