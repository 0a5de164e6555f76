"""`tooltap hook`: real processes as an agent starts them, beside a real daemon."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Child, environment, start, tooltap
from tests.daemon.constants import VARIABLE
from tests.daemon.lives import Lives
from tests.daemon.running import Running, Wire, running

CALL: dict[str, Any] = {
    "tool_name": "Bash",
    "tool_input": {"command": "rm -rf build", "description": "Remove the build"},
}
BASE = {"session_id": "s-1", "transcript_path": "/home/me/.claude/projects/w/s-1.jsonl", "cwd": "/w"}
ASK = {**BASE, "permission_mode": "default", "hook_event_name": "PermissionRequest", **CALL}
ALLOW = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}


class Restarts(Lives):
    """A daemon in a process, that can be killed and started again."""

    @property
    def path(self) -> Path:
        return Path(self.settings["socket"])


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as one:
        yield one


@pytest.fixture
def events(daemon: Running) -> Iterator[Wire]:
    with daemon.subscribe(filter={"kind": ["permission-request", "permission-response"]}) as wire:
        wire.until("live")
        yield wire


@contextmanager
def hook(daemon: Running | Restarts, given: dict[str, Any], *arguments: str, **changes: str) -> Iterator[Child]:
    env = environment(TOOLTAP_SOCKET=str(daemon.path), XDG_DATA_HOME=str(daemon.path.parent), **changes)
    with start("hook", *(arguments or ("claude",)), env=env) as child:
        child.write(json.dumps(given).encode())
        assert child.process.stdin is not None
        child.process.stdin.close()
        child.process.stdin = None
        yield child


def run(daemon: Running | Restarts, given: dict[str, Any], *arguments: str, **changes: str) -> tuple[int, bytes, bytes]:
    with hook(daemon, given, *arguments, **changes) as child:
        return child.end()


def asked(events: Wire) -> dict[str, Any]:
    event = events.read()
    assert event["kind"] == "permission-request"
    return event


def waiting(daemon: Running) -> list[Any]:
    with daemon.connect() as wire:
        return list(wire.ask("waiting")["waiting"])


def test_question_reaches_the_daemon_and_its_answer_the_agent(daemon: Running, events: Wire) -> None:
    with hook(daemon, ASK) as child, daemon.connect() as client:
        event = asked(events)
        line = json.dumps(ALLOW)
        client.ask("to-agent", stream=event["stream"], payload={"id": "a", "line": line})
        assert child.end() == (0, f"{line}\n".encode(), b"")

    assert (event["session"], event["provider"], event["name"]) == ("s-1", "claude", "Bash")
    answer = events.read()
    assert (answer["permissionId"], answer["outcome"], answer["by"]) == (event["permissionId"], "allowed", "user")
    assert waiting(daemon) == []


def test_only_a_later_hook_of_the_same_call_says_that_the_terminal_allowed_it(daemon: Running, events: Wire) -> None:
    other = {**CALL, "tool_input": {"command": "make"}}
    with hook(daemon, ASK) as child:
        event = asked(events)
        for stranger in (other, {"session_id": "s-2"}, {"hook_event_name": "PreToolUse"}):
            assert run(daemon, {**ASK, "hook_event_name": "PostToolUse", **stranger}) == (0, b"", b"")
        assert [one["permissionId"] for one in waiting(daemon)] == [event["permissionId"]]

        assert run(daemon, {**ASK, "hook_event_name": "PostToolUse", "tool_response": {}}) == (0, b"", b"")
        assert child.end() == (0, b"", b"")

    assert events.read()["outcome"] == "allowed"
    assert waiting(daemon) == []


@pytest.mark.parametrize("event", ["Stop", "UserPromptSubmit", "SessionEnd"])
def test_end_of_a_turn_ends_its_questions(event: str, daemon: Running, events: Wire) -> None:
    with hook(daemon, ASK) as child:
        asked(events)
        assert run(daemon, {**BASE, "hook_event_name": event}) == (0, b"", b"")
        assert child.end() == (0, b"", b"")

    assert events.read()["outcome"] == "expired"


def test_answered_questions_are_known_by_the_tool(daemon: Running, events: Wire) -> None:
    """The input of AskUserQuestion has the answers when it has run."""
    with hook(daemon, {**ASK, **QUESTION}) as child:
        event = asked(events)
        ran = {**QUESTION, "tool_input": {"questions": QUESTIONS, "answers": {"Which database?": "Postgres"}}}
        run(daemon, {**ASK, **ran, "hook_event_name": "PostToolUse"})
        assert child.end() == (0, b"", b"")

    assert (event["type"], event["questions"][0]["question"]) == ("question", "Which database?")


def test_interrupted_agent_asks_no_more(daemon: Running, events: Wire) -> None:
    with hook(daemon, ASK) as child:
        asked(events)
        child.send_signal(signal.SIGTERM)
        assert child.end() == (0, b"", b"")

    assert events.read()["outcome"] == "cancelled"


def test_answer_that_cannot_be_printed_is_refused(daemon: Running, events: Wire) -> None:
    with hook(daemon, ASK) as child, daemon.connect() as client:
        event = asked(events)
        child.leave()
        client.send("to-agent", id=1, stream=event["stream"], payload={"id": "a", "line": json.dumps(ALLOW)})
        reply = client.read()
        assert child.process.wait() == 0

    assert reply["error"]["code"] == "refused"
    assert "the hook cannot print" in reply["error"]["message"]


def test_question_of_a_killed_hook_is_settled_by_the_next_one(daemon: Running, events: Wire) -> None:
    """The agent's dialog stays, and is answered there."""
    with hook(daemon, ASK) as child:
        event = asked(events)
        assert waiting(daemon)[0]["answerable"] is True
        child.kill()
        while waiting(daemon)[0].get("answerable"):  # until the daemon has noticed
            pass
        assert waiting(daemon)[0]["whyNot"].startswith("its hook waits for no answer")
        with daemon.connect() as client:
            client.send("to-agent", id=1, stream=event["stream"], payload={"id": "a", "line": json.dumps(ALLOW)})
            assert client.read()["error"]["code"] == "no-publisher"
        run(daemon, {**ASK, "hook_event_name": "PostToolUse"})

    assert events.read()["outcome"] == "allowed"


# -- the daemon is restarted while a hook waits ------------------------------------------------------------------------


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path) as lives:
        yield lives


def events_of(lives: Restarts, *kinds: str) -> Wire:
    wire = lives.connect()
    wire.send("subscribe", after="start", filter={"kind": list(kinds or ("permission-request", "permission-response"))})
    assert wire.read()["op"] == "subscribed"
    return wire


def next_event(wire: Wire) -> dict[str, Any]:
    while "kind" not in (event := wire.read()):
        pass
    return event


KINDS = ["permission-request", "permission-response", "notice"]


def all_events(lives: Restarts) -> list[tuple[str, str | None]]:
    with lives.connect() as wire:
        wire.send("subscribe", after="start", follow=False, filter={"kind": KINDS})
        found = [one for one in wire.rest() if "kind" in one]
    return [(one["kind"], one.get("outcome") or one.get("code")) for one in found]


def answer(lives: Restarts, question: dict[str, Any]) -> dict[str, Any]:
    """Answer a question as soon as its hook is back."""
    with lives.connect() as client:
        while not (found := client.ask("waiting")["waiting"]) or not found[0].get("answerable"):
            pass
        assert [one["permissionId"] for one in found] == [question["permissionId"]]
        return dict(client.ask("answer", permissionId=question["permissionId"], outcome="allowed"))


ANSWERED = [
    ("permission-request", None),
    ("notice", "answer"),
    ("permission-response", "allowed"),
    ("notice", "answer-delivered"),
]


@pytest.mark.parametrize("is_killed", [True, False])
def test_question_outlives_the_daemon(is_killed: bool, lives: Restarts) -> None:
    lives.start()
    with hook(lives, ASK) as child:
        with events_of(lives) as events:
            event = next_event(events)
        for _ in range(2):
            lives.kill() if is_killed else lives.stop()
            lives.wait()
            lives.start()
        assert answer(lives, event)["delivered"]
        assert child.end() == (0, json.dumps(ALLOW, separators=(",", ":")).encode() + b"\n", b"")

    assert sorted(all_events(lives)) == sorted(ANSWERED)


@pytest.mark.parametrize("point", ["claimed", "sent-to-agent", "written-for-agent"])
def test_answer_arrives_once_if_the_daemon_is_killed_on_its_way(point: str, lives: Restarts) -> None:
    lives.start(point)
    with hook(lives, ASK) as child:
        with events_of(lives) as events:
            event = next_event(events)
        with lives.connect() as client:
            client.send("answer", id=1, permissionId=event["permissionId"], outcome="allowed")
            lives.wait()
        assert lives.hits() == [point]
        lives.start()
        assert child.end() == (0, json.dumps(ALLOW, separators=(",", ":")).encode() + b"\n", b"")
        with events_of(lives, "notice") as notices:
            assert [next_event(notices)["code"] for _ in range(2)] == ["answer", "answer-delivered"]
        with events_of(lives, "permission-response") as events:
            assert next_event(events)["outcome"] == "allowed"

    assert sorted(all_events(lives)) == sorted(ANSWERED)


def test_question_that_was_settled_meanwhile_is_over(lives: Restarts) -> None:
    lives.start()
    with hook(lives, ASK) as child:
        with events_of(lives) as events:
            next_event(events)
        child.send_signal(signal.SIGSTOP)
        lives.kill()
        lives.wait()
        lives.start()
        assert run(lives, {**ASK, "hook_event_name": "PostToolUse"}) == (0, b"", b"")
        child.send_signal(signal.SIGCONT)
        assert child.end() == (0, b"", b"")

    assert all_events(lives) == [("permission-request", None), ("permission-response", "allowed")]


def test_interruption_is_reported_to_the_daemon_that_comes_next(lives: Restarts) -> None:
    """The agent does not wait for that."""
    lives.start()
    with hook(lives, ASK) as child:
        with events_of(lives) as events:
            next_event(events)
        lives.kill()
        lives.wait()
        child.send_signal(signal.SIGTERM)
        assert child.end() == (0, b"", b"")
    lives.start()
    with events_of(lives, "permission-response") as events:
        assert next_event(events)["outcome"] == "cancelled"


def test_daemon_that_does_not_come_back_ends_the_hook_in_silence(lives: Restarts) -> None:
    lives.start()
    with hook(lives, ASK, **{VARIABLE: json.dumps({"hook.restart": 0.5})}) as child:
        with events_of(lives) as events:
            next_event(events)
        lives.kill()
        lives.wait()
        assert child.end() == (0, b"", b"")


def test_without_a_daemon_nothing_is_decided(tmp_path: Path) -> None:
    finished = tooltap("hook", "claude", stdin=json.dumps(ASK).encode(), TOOLTAP_SOCKET=str(tmp_path / "none"))

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"", b"")


@pytest.mark.parametrize("given", [b"", b"{", b"[]", b"7", b"{}", b"\xff", b'{"hook_event_name": 7}'])
@pytest.mark.parametrize("arguments", [(), ("claude",), ("no-agent",), ("claude", "Stop", "more")])
def test_input_that_makes_no_sense_decides_nothing(given: bytes, arguments: tuple[str, ...], daemon: Running) -> None:
    finished = tooltap("hook", *arguments, stdin=given, TOOLTAP_SOCKET=str(daemon.path))

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"", b"")


def test_daemon_is_found_by_its_record(daemon: Running, events: Wire, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "tooltap" / "daemons"
    folder.mkdir(parents=True)
    (folder / "1.json").write_text(json.dumps({"started": 1, "socket": str(daemon.path)}))
    (folder / "2.json").write_text(json.dumps({"started": 2, "socket": str(tmp_path / "gone")}))
    (folder / "3.json").write_text("{")
    env = environment(XDG_DATA_HOME=str(tmp_path / "data"), XDG_RUNTIME_DIR=str(tmp_path / "none"))
    finished = tooltap("hook", "codex", stdin=json.dumps(ASK).encode(), **env)

    assert (finished.returncode, finished.stdout) == (0, b"")
    assert asked(events)["provider"] == "codex"


# -- the session's own stream shows that the question was answered ----------------------------------------------------


class Transcript:
    """The session's file, which is published as it grows."""

    def __init__(self, wire: Wire, lines: int = 0) -> None:
        self._wire = wire
        self._lines = lines
        wire.send("ingest", stream="own", framing="tapped", dialect="claude-transcript", provider="claude")

    def write(self, kind: str, *content: dict[str, Any] | str, **more: Any) -> None:
        """Add a line, and wait until it is durable."""
        self._lines += 1
        message = {"role": kind, "content": list(content) if isinstance(content[0], dict) else content[0], **more}
        line = {"type": kind, "uuid": f"u{self._lines}", "sessionId": "s-1", "cwd": "/w", "isSidechain": False}
        line |= {"version": "2.1.330", "timestamp": f"2099-01-01T00:00:{self._lines:02}.000Z", "message": message}
        self._wire.write(json.dumps({"line": line}).encode() + b"\n")
        while self._wire.until("ack")[-1]["lines"] < self._lines:
            pass

    def call(self, call_id: str, call: dict[str, Any]) -> None:
        use = {"type": "tool_use", "id": call_id, "name": call["tool_name"], "input": call["tool_input"]}
        self.write("assistant", use, id=f"m{call_id}", model="claude")

    def result(self, call_id: str, **more: Any) -> None:
        self.write("user", {"type": "tool_result", "tool_use_id": call_id, "content": "done", **more})


@pytest.fixture
def transcript(daemon: Running) -> Iterator[Transcript]:
    with daemon.connect() as wire:
        yield Transcript(wire)


OTHER = {**CALL, "tool_input": {"command": "make"}}
REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected"


@pytest.mark.parametrize(("result", "outcome"), [({}, "allowed"), ({"is_error": True, "content": REFUSED}, "denied")])
def test_result_of_the_call_settles_the_question(
    result: dict[str, Any], outcome: str, daemon: Running, events: Wire, transcript: Transcript
) -> None:
    transcript.write("user", "Do it")
    transcript.call("c1", OTHER)
    with hook(daemon, ASK) as child:
        event = asked(events)
        transcript.call("c2", CALL)
        transcript.result("c1")
        assert [one["permissionId"] for one in waiting(daemon)] == [event["permissionId"]]
        transcript.result("c2", **result)
        assert child.end() == (0, b"", b"")

    assert events.read()["outcome"] == outcome


def test_call_may_be_described_in_other_words(daemon: Running, events: Wire, transcript: Transcript) -> None:
    """As in Codex, whose hooks have the reason in place of a description, and other agents have less than the call."""
    transcript.write("user", "Do it")
    with hook(daemon, {**ASK, "tool_input": {"command": "make", "description": "For the user"}}) as child:
        event = asked(events)
        transcript.call("c1", {**CALL, "tool_input": {"command": "ls", "timeout": 9}})
        transcript.result("c1")
        assert [one["permissionId"] for one in waiting(daemon)] == [event["permissionId"]]
        transcript.call("c2", {**CALL, "tool_input": {"command": "make", "timeout": 9}})
        transcript.result("c2")
        assert child.end() == (0, b"", b"")

    assert events.read()["outcome"] == "allowed"


def test_next_prompt_ends_the_question(daemon: Running, events: Wire, transcript: Transcript) -> None:
    transcript.write("user", "Do it")
    with hook(daemon, ASK) as child:
        asked(events)
        transcript.write("user", "Do something else")
        assert child.end() == (0, b"", b"")

    assert events.read()["outcome"] == "expired"


QUESTIONS = [{"question": "Which database?", "options": [{"label": "SQLite"}, {"label": "Postgres"}]}]
QUESTION: dict[str, Any] = {"tool_name": "AskUserQuestion", "tool_input": {"questions": QUESTIONS}}


def test_question_that_the_file_shows_too_is_one(daemon: Running, events: Wire, transcript: Transcript) -> None:
    transcript.write("user", "Do it")
    transcript.call("c", QUESTION)
    assert [one["permissionId"] for one in waiting(daemon)] == ["c"]
    with hook(daemon, {**ASK, **QUESTION}):
        event = asked(events)
        assert [one["permissionId"] for one in waiting(daemon)] == [event["permissionId"]]


@pytest.mark.parametrize("answers", [True, False])
def test_question_that_a_tap_has_too_is_one(answers: bool, daemon: Running, events: Wire) -> None:
    """The one of the hook, if the tap writes nothing to its agent."""
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": "c", "input": CALL["tool_input"]}
    line = {"type": "control_request", "request_id": "r", "request": request, "session_id": "s-1"}
    with hook(daemon, ASK), daemon.connect() as tap:
        question = asked(events)
        options = {"dialect": "claude-stream", "session": "s-1", "provider": "claude", "toAgent": answers}
        tap.send("ingest", stream="tap", framing="tapped", **options)
        tap.write(json.dumps({"dir": "out", "line": line}).encode() + b"\n")
        tap.until("ack")
        expected = "r" if answers else question["permissionId"]
        assert [one["permissionId"] for one in waiting(daemon)] == [expected]


def test_restarted_daemon_knows_the_questions_of_killed_hooks(tmp_path: Path) -> None:
    """The agent's dialog is still there."""
    with running(tmp_path) as daemon, daemon.subscribe(filter={"kind": ["permission-request"]}) as events:
        events.until("live")
        with daemon.connect() as wire:
            transcript = Transcript(wire)
            transcript.write("user", "Do it")
            transcript.call("c", CALL)
            with hook(daemon, ASK):
                asked(events)
    with running(tmp_path) as daemon, daemon.subscribe(filter={"kind": ["permission-response"]}) as events:
        events.until("live")
        with daemon.connect() as wire:
            transcript = Transcript(wire, 2)
            transcript.result("c")
            assert events.read()["outcome"] == "allowed"


# -- agents whose dialog is hidden while a hook runs ------------------------------------------------------------------


COPILOT: dict[str, Any] = {
    "hookName": "permissionRequest",
    "sessionId": "s-1",
    "cwd": "/w",
    "toolName": "bash",
    "timestamp": 1,
}
COPILOT |= {"toolInput": {"command": "touch one.txt"}, "permissionSuggestions": []}
SHELL = {"command": "touch one.txt", "description": "Run a command", "is_background": False}
RESULT = {"llmContent": "Command: touch one.txt\nDirectory: (root)\nOutput: (empty)", "returnDisplay": ""}
REAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "codex": (
        {
            "session_id": "s-1",
            "turn_id": "t-1",
            "transcript_path": "/r.jsonl",
            "cwd": "/w",
            "model": "gpt-5.5",
            "hook_event_name": "PermissionRequest",
            "permission_mode": "default",
            "tool_name": "Bash",
            "tool_input": {"command": "touch one.txt", "description": "test"},
        },
        {
            "session_id": "s-1",
            "turn_id": "t-1",
            "transcript_path": "/r.jsonl",
            "cwd": "/w",
            "model": "gpt-5.5",
            "hook_event_name": "PostToolUse",
            "permission_mode": "default",
            "tool_name": "Bash",
            "tool_input": {"command": "touch one.txt"},
            "tool_response": "",
            "tool_use_id": "call_1",
        },
    ),
    "qwen": (
        {
            **BASE,
            "hook_event_name": "PermissionRequest",
            "timestamp": "2026-11-28T14:51:45.072Z",
            "prompt_id": "s-1#1",
            "permission_mode": "default",
            "tool_name": "run_shell_command",
            "tool_input": SHELL,
        },
        {
            **BASE,
            "hook_event_name": "PostToolUse",
            "timestamp": "2026-11-28T14:52:00.474Z",
            "prompt_id": "s-1#1",
            "permission_mode": "default",
            "tool_name": "run_shell_command",
            "tool_input": SHELL,
            "tool_response": RESULT,
            "tool_use_id": "u_1",
            "tool_call_id": "call_1",
            "duration_ms": 484,
        },
    ),
    "gemini": (
        {
            **BASE,
            "hook_event_name": "Notification",
            "timestamp": "2026-11-28T14:49:44.776Z",
            "notification_type": "ToolPermission",
            "message": "Tool Confirm Shell Command requires execution",
            "details": {
                "type": "exec",
                "title": "Confirm Shell Command",
                "command": "touch one.txt",
                "rootCommand": "touch",
            },
        },
        {
            **BASE,
            "hook_event_name": "AfterTool",
            "timestamp": "2026-11-28T14:50:03.411Z",
            "tool_name": "run_shell_command",
            "tool_input": SHELL,
            "tool_response": RESULT,
        },
    ),
    "copilot": (
        {
            "sessionId": "s-1",
            "timestamp": 1795877444860,
            "cwd": "/w",
            "message": "Run command: touch one.txt",
            "title": "Permission needed",
            "hook_event_name": "Notification",
            "notification_type": "permission_prompt",
        },
        {
            "sessionId": "s-1",
            "timestamp": 1795877471624,
            "cwd": "/w",
            "toolName": "bash",
            "toolArgs": {"command": "touch one.txt", "description": "Run a command"},
            "toolResult": {"resultType": "success", "textResultForLlm": "\n<shellId: 0 completed with exit code 0>"},
        },
    ),
}
"""What the hooks of Codex 0.169.0, Qwen Code 0.24.4, Gemini CLI 0.61.0 and Copilot 1.0.102 get when a dialog opens, and
when its call has run."""


@pytest.mark.parametrize(
    ("agent", "name"), [("codex", "Bash"), ("qwen", "Bash"), ("gemini", "Bash"), ("copilot", None)]
)
def test_question_is_only_told_where_the_dialog_would_be_hidden(
    agent: str, name: str | None, daemon: Running, events: Wire
) -> None:
    """Nothing else shows the session."""
    given, ran = REAL[agent]
    assert run(daemon, given, agent) == (0, b"", b"")
    event = asked(events)

    assert (event["session"], event.get("name"), "options" in event) == ("s-1", name, False)
    [one] = waiting(daemon)
    assert (one["permissionId"], "answerable" in one) == (event["permissionId"], False)
    while "`tooltap away`" not in waiting(daemon)[0]["whyNot"]:  # until the daemon has noticed that the hook has left
        pass
    assert run(daemon, ran, agent, *(["postToolUse"] if agent == "copilot" else [])) == (0, b"", b"")
    assert events.read()["outcome"] == "allowed"
    assert waiting(daemon) == []


ANOTHER = {"tool_input": {"command": "make"}, "toolArgs": {"command": "make"}}
TURN = {"turn_id": "t-2", "prompt_id": "s-1#2"}
ENDS: dict[str, dict[str, dict[str, Any]]] = {
    "claude": {
        "UserPromptSubmit": {"prompt": "Go on"},
        "Stop": {},
        "SessionEnd": {"reason": "prompt_input_exit"},
        "PostToolUse": {**CALL, **ANOTHER, **TURN},
        "PostToolUseFailure": {**CALL, **ANOTHER, **TURN},
    },
    "codex": {
        "UserPromptSubmit": {**TURN, "prompt": "Go on"},
        "Stop": TURN,
        "SessionEnd": {},
        "PostToolUse": {**REAL["codex"][1], **TURN, **ANOTHER},
    },
    "qwen": {
        "UserPromptSubmit": {"prompt": "Go on"},
        "Stop": {},
        "SessionEnd": {"reason": "prompt_input_exit"},
        "Notification": {"notification_type": "idle_prompt"},
        "PostToolUse": {**REAL["qwen"][1], **TURN, **ANOTHER},
    },
    "gemini": {
        "BeforeAgent": {"prompt": "Go on"},
        "AfterAgent": {},
        "SessionEnd": {"reason": "exit"},
        "AfterTool": {**REAL["gemini"][1], **ANOTHER},
    },
    "copilot": {
        "userPromptSubmitted": {"prompt": "Go on"},
        "agentStop": {},
        "sessionEnd": {"reason": "user_exit"},
        "postToolUse": {**REAL["copilot"][1], **ANOTHER},
    },
}
"""What the agents' hooks may say next, when a dialog was left with Esc: event -> what it states. A call is another one,
of the next turn."""


@pytest.mark.parametrize(("agent", "event"), [(agent, event) for agent, ends in ENDS.items() for event in ends])
def test_next_word_of_the_hooks_settles_a_dialog_that_was_left(
    agent: str, event: str, daemon: Running, events: Wire
) -> None:
    """No hook runs at Esc; that of Claude Code is stopped, and here it is killed. Nothing says how it was answered."""
    given = {**ASK, "prompt_id": "s-1#1"} if agent == "claude" else REAL[agent][0]
    with hook(daemon, given, agent) as child:
        asked(events)
        if agent == "claude":
            child.kill()
        else:
            assert child.end() == (0, b"", b"")
    where = {"sessionId": "s-1", "cwd": "/w"} if agent == "copilot" else {**BASE, "hook_event_name": event}
    assert run(daemon, {**ENDS[agent][event], **where}, agent, event) == (0, b"", b"")

    assert events.read()["outcome"] == "expired"
    assert waiting(daemon) == []


def test_same_command_in_the_next_turn_allows_nothing(daemon: Running, events: Wire) -> None:
    given, ran = REAL["codex"]
    run(daemon, given, "codex")
    asked(events)
    run(daemon, {**ran, **TURN}, "codex")

    assert events.read()["outcome"] == "expired"


@pytest.mark.parametrize("change", [{"agent_id": "a-1"}, {"turn_id": "t-1"}])
def test_another_call_of_the_same_time_settles_nothing(change: dict[str, Any], daemon: Running, events: Wire) -> None:
    """Subagents have turns of their own, and agents run calls side by side."""
    given, ran = REAL["codex"]
    run(daemon, given, "codex")
    event = asked(events)
    run(daemon, {**ran, **TURN, **ANOTHER, **change}, "codex")

    assert [one["permissionId"] for one in waiting(daemon)] == [event["permissionId"]]


def test_agent_that_waits_for_a_prompt_asks_nothing(daemon: Running, events: Wire) -> None:
    """Qwen Code runs no other hook when a dialog is left with Esc."""
    run(daemon, REAL["qwen"][0], "qwen")
    asked(events)
    idle = {"notification_type": "idle_prompt", "message": "Qwen Code is waiting for your input"}
    assert run(daemon, {**BASE, "hook_event_name": "Notification", **idle}, "qwen") == (0, b"", b"")
    assert events.read()["outcome"] == "expired"
    assert waiting(daemon) == []


def test_copilot_asks_its_hook_also_for_what_is_allowed(daemon: Running) -> None:
    """It is the notification that tells of a dialog."""
    assert run(daemon, COPILOT, "copilot") == (0, b"", b"")
    assert waiting(daemon) == []


@pytest.mark.parametrize(
    ("agent", "given", "changes"),
    [
        ("codex", REAL["codex"][0], {}),
        ("qwen", REAL["qwen"][0], {}),
        ("copilot", COPILOT, {}),
        ("claude", ASK, {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}),
    ],
)
def test_hook_waits_while_the_user_is_away(
    agent: str, given: dict[str, Any], changes: dict[str, str], daemon: Running, events: Wire
) -> None:
    folder = daemon.path.parent / "tooltap"
    folder.mkdir(exist_ok=True)
    (folder / "away").write_text("60")
    with hook(daemon, given, agent, **changes) as child, daemon.connect() as client:
        event = asked(events)
        client.ask("to-agent", stream=event["stream"], payload={"id": "a", "line": '{"behavior":"deny"}'})
        assert child.end() == (0, b'{"behavior":"deny"}\n', b"")

    assert [one["kind"] for one in event["options"]] == ["allow_once", "reject_once"]
    assert events.read()["outcome"] == "denied"


def test_hook_of_a_user_who_is_away_gives_up_in_time(daemon: Running, events: Wire) -> None:
    folder = daemon.path.parent / "tooltap"
    folder.mkdir(exist_ok=True)
    (folder / "away").write_text("0.05")
    assert run(daemon, ASK, "codex") == (0, b"", b"")

    assert asked(events)["options"]
    assert events.read()["outcome"] == "expired"


def test_claude_without_a_dialog_calls_nobody(daemon: Running) -> None:
    """What no hook decides is denied in `claude -p`, as without a hook, so the hook reports no question."""
    assert run(daemon, ASK, CLAUDE_CODE_ENTRYPOINT="sdk-cli") == (0, b"", b"")
    assert daemon.stats()["perStream"] == []


def test_options_are_explained() -> None:
    finished = tooltap("hook", "--help")

    assert finished.returncode == 0
    assert os.linesep.encode() + b"  Ask you what an agent asks" in finished.stdout
