"""`tooltap attach codex`: the threads of a scripted app-server, behind a WebSocket on a Unix socket, are joined, and
what they ask can be answered, once."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from queue import Queue
from typing import Any, Self

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.sync.server import ServerConnection, unix_serve

from tests.cli.command import environment, here, sentence, start, tooltap
from tests.cli.tap.spooling import until
from tests.cli.tap.test_attach import events_of, log
from tests.cli.tap.test_attach_answers import give
from tests.cli.tap.test_run import tapped
from tests.daemon.running import Running, Wire
from tests.daemon.taps.following import Follower, append
from tooltap.daemon.taps import app_server
from tooltap.daemon.taps.attach import AttachError, Noted
from tooltap.daemon.taps.delivery.delivery import WriteToAgent
from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions
from tooltap.daemon.taps.delivery.tap import Tap
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.inputs import Direction

THREAD, TITLE, TURN = "the-thread", "the-title", "turn-1"
PROMPT = {"type": "userMessage", "id": "u1", "content": [{"type": "text", "text": "Make a file."}]}
ASKED = {
    "id": 0,
    "method": "item/commandExecution/requestApproval",
    "params": {"threadId": THREAD, "turnId": TURN, "itemId": "call-1", "command": "touch made.txt", "cwd": "/w"},
}
ENDED = {
    "type": "commandExecution",
    "id": "call-1",
    "command": "touch made.txt",
    "cwd": "/w",
    "status": "completed",
    "exitCode": 0,
}
_marks = count(1)


def notify(method: str, thread: str = THREAD, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": {"threadId": thread, "turnId": TURN, **params}}


def turn(status: str = "inProgress", **keys: Any) -> dict[str, Any]:
    return {"id": TURN, "rootTurnId": TURN, "items": [], "status": status, **keys}


def thread_of(thread: str, **keys: Any) -> dict[str, Any]:
    return {"id": thread, "cwd": "/w", "cliVersion": "0.169.0", "ephemeral": thread == TITLE, "turns": [], **keys}


COMPLETED = [
    notify("item/completed", item=ENDED),
    notify("turn/completed", turn=turn("completed", durationMs=5)),
]


class AppServer:
    """An app-server with a thread that works, and one of Codex's own. `requests` are open: each client gets them when
    it joins the thread."""

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        self.got: Queue[dict[str, Any]] = Queue()
        """What a client has sent, but the beginning of its connection."""
        self.connections: Queue[ServerConnection] = Queue()
        """Connections whose client has joined the thread."""
        self.requests = [ASKED]
        self.loaded = [TITLE, THREAD]
        self.joinable = [THREAD]
        self.turns = [turn(items=[PROMPT])]
        self.full: dict[str, Any] = {}
        """An item of the newest turn that is sent if all of them are wanted."""
        self.status: dict[str, Any] = {"type": "active", "activeFlags": ["waitingOnApproval"]}
        path.unlink(missing_ok=True)
        self._server = unix_serve(self._serve, str(path))
        if not is_new:
            os.utime(path, (mark := next(_marks), mark))  # it is old, and differs from every other one
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        while not self.connections.empty():
            self.connections.get().close()
        self._thread.join()

    def say(self, *messages: dict[str, Any]) -> None:
        """Say something to the newest client."""
        connection = self.connections.get(timeout=60)
        for message in messages:
            connection.send(json.dumps(message))
        self.connections.put(connection)

    def _serve(self, connection: ServerConnection) -> None:
        try:
            for data in connection:
                self._take(connection, json.loads(data))
        except ConnectionClosed:
            pass

    def _take(self, connection: ServerConnection, message: dict[str, Any]) -> None:
        def respond(**response: Any) -> None:
            connection.send(json.dumps({"id": message["id"], **response}))

        method, params = message.get("method"), message.get("params", {})
        if method == "initialize":
            respond(result={"userAgent": "codex"})
        elif method == "thread/loaded/list":
            first = "cursor" not in params
            respond(
                result={"data": self.loaded[:1] if first else self.loaded[1:], "nextCursor": "2" if first else None}
            )
        elif method == "thread/resume" and (thread := params["threadId"]) in self.joinable:
            is_full = params["initialTurnsPage"]["itemsView"] == "full"
            page = {"data": self.turns, "nextCursor": None, **({"full": self.full} if is_full else {})}
            respond(result={"thread": thread_of(thread, status=self.status), "cwd": "/w", "initialTurnsPage": page})
            if thread == THREAD:
                for request in self.requests:
                    connection.send(json.dumps(request))
                self.connections.put(connection)
        elif method == "thread/resume":
            respond(error={"code": -32600, "message": "no rollout found"})
        elif method != "initialized":
            self.got.put(message)


@pytest.fixture(autouse=True)
def own_spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLTAP_SPOOL", str(tmp_path / "spool"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "codex.sock"


@contextmanager
def attached(daemon: Running, path: Path) -> Iterator[Wire]:
    with start("attach", "codex", f"unix:{path}", "--socket", daemon.path) as child, daemon.connect() as wire:
        yield wire
        child.kill()


def waiting(wire: Wire) -> list[dict[str, Any]]:
    return [one for one in wire.ask("waiting")["waiting"] if one.get("answerable")]


def question(wire: Wire) -> dict[str, Any]:
    until(lambda: bool(waiting(wire)))
    [one] = waiting(wire)
    return one


def of(daemon: Running, kind: str) -> list[dict[str, Any]]:
    return [event for event in events_of(daemon) if event["kind"] == kind]


def test_question_is_answered_once_and_the_thread_goes_on(daemon: Running, path: Path) -> None:
    with AppServer(path) as server, attached(daemon, path) as wire:
        asked = question(wire)
        receipt = wire.ask("answer", permissionId=asked["permissionId"], outcome="allowed")
        assert server.got.get(timeout=60) == {"id": 0, "result": {"decision": "accept"}}
        late = tooltap("answer", "--socket", daemon.path, asked["permissionId"], "--deny")
        server.say(notify("serverRequest/resolved", requestId=0), *COMPLETED)
        until(lambda: bool(of(daemon, "tool-result")))
        assert server.got.empty()

    assert receipt["delivered"] is True
    assert late.returncode == 3
    assert [(one["outcome"], one.get("synthetic")) for one in of(daemon, "permission-response")] == [("allowed", None)]
    assert [one["status"] for one in of(daemon, "tool-result")] == ["completed"]
    assert {one["session"] for one in events_of(daemon)} == {THREAD}
    assert [one["text"] for one in of(daemon, "message")] == ["Make a file."]
    assert [one["state"] for one in of(daemon, "turn")] == ["started", "completed"]


def test_answer_of_the_terminal_settles_the_question(daemon: Running, path: Path) -> None:
    with AppServer(path) as server, attached(daemon, path) as wire:
        asked = question(wire)
        server.say(notify("serverRequest/resolved", requestId=0))
        until(lambda: not waiting(wire))
        late = tooltap("answer", "--socket", daemon.path, asked["permissionId"], "--allow")
        frame = {"line": '{"id":0,"result":{"decision":"accept"}}', "answers": "rpc:0", "id": "a"}
        refused = give(daemon, **frame)
        assert server.got.empty()

    assert (late.returncode, refused) == (3, "it was answered elsewhere, or Codex does not know it any more")
    [response] = of(daemon, "permission-response")
    assert (response["outcome"], response["by"], response["synthetic"]) == ("answered", "user", True)


def test_prompts_steer_the_running_turn_and_begin_the_next(daemon: Running, path: Path) -> None:
    with AppServer(path) as server, attached(daemon, path) as wire:
        question(wire)
        wire.ask("send", session=THREAD, text="Faster")
        steered = server.got.get(timeout=60)
        wire.ask("interrupt", session=THREAD)
        interrupted = server.got.get(timeout=60)
        server.say({"id": steered["id"], "result": {"turnId": TURN}}, *COMPLETED)
        until(lambda: len(of(daemon, "turn")) == 2)
        wire.ask("send", session=THREAD, text="Go on")
        begun = server.got.get(timeout=60)

    assert (steered["method"], steered["params"]["expectedTurnId"]) == ("turn/steer", TURN)
    assert (interrupted["method"], interrupted["params"]) == ("turn/interrupt", {"threadId": THREAD, "turnId": TURN})
    assert (begun["method"], begun["params"]["input"][0]["text"]) == ("turn/start", "Go on")


def test_nothing_else_is_written(daemon: Running, path: Path) -> None:
    with AppServer(path) as server, attached(daemon, path) as wire:
        question(wire)
        refused = [
            give(daemon, line='{"id":1,"method":"command/exec","params":{}}', id="a"),
            give(daemon, line='{"reply":"once"}', path="/permission/1/reply", id="b"),
            give(daemon, line='{"id":0,\n"result":{}}', answers="rpc:0", id="c"),
            give(daemon, line='{"id":0,"result":{}}', answers="rpc:1", id="d"),
        ]
        assert server.got.empty()

    assert refused[:3] == ["nothing like this is written to Codex"] * 3
    assert refused[3] == "it was answered elsewhere, or Codex does not know it any more"


def test_thread_is_joined_when_it_has_a_turn(daemon: Running, path: Path) -> None:
    """One without a turn cannot be joined; nor can Codex's own, which makes a title. What is about them is left out."""
    with AppServer(path) as server, attached(daemon, path) as wire:
        question(wire)
        late, title = thread_of("late", status={"type": "idle"}), thread_of(TITLE)
        for one in (late, title):
            server.say({"method": "thread/started", "params": {"thread": one}}, notify("turn/diff/updated", one["id"]))
        server.say(*COMPLETED)
        until(lambda: len(of(daemon, "turn")) == 2)
        before = {one["session"] for one in events_of(daemon)}
        server.joinable.append("late")
        server.say(notify("thread/status/changed", "late", status={"type": "active", "activeFlags": []}))
        until(lambda: len(of(daemon, "turn")) == 3)

    assert before == {THREAD}
    assert {one["session"] for one in events_of(daemon)} == {THREAD, "late"}
    assert [one["session"] for one in of(daemon, "session")] == [THREAD, "late"]


@pytest.mark.parametrize(("seconds", "states"), [(60, ["started", "completed"]), (-60, [])], ids=["later", "earlier"])
def test_turn_that_is_over_when_its_thread_is_joined_is_there_if_the_tap_knew_the_thread(
    daemon: Running, path: Path, seconds: int, states: list[str]
) -> None:
    with AppServer(path) as server, attached(daemon, path) as wire:
        question(wire)
        at = int(time.time()) + seconds
        short = {"id": "short", "rootTurnId": "short", "startedAt": at, "completedAt": at, "durationMs": 5}
        server.turns = [turn("completed", **{**short, "items": [PROMPT, {**ENDED, "id": "call-2"}]})]
        server.joinable.append("late")
        server.say(notify("thread/status/changed", "late", status={"type": "active", "activeFlags": []}), *COMPLETED)
        until(lambda: {"late"} <= {one["session"] for one in of(daemon, "session")})

    late = [one for one in events_of(daemon) if one["session"] == "late"]
    assert [one["state"] for one in late if one["kind"] == "turn"] == states
    assert [one["text"] for one in late if one["kind"] == "message"] == ["Make a file."][: len(states)]
    assert [one["status"] for one in late if one["kind"] == "tool-result"] == ["completed"][: len(states)]
    assert [one["state"] for one in late if one["kind"] == "session"] == ["started" if states else "resumed"]


def test_turn_that_is_over_when_the_tap_connects_is_there_if_the_tap_has_waited_for_the_server(
    daemon: Running, path: Path
) -> None:
    with start("attach", "codex", f"unix:{path}", "--socket", daemon.path) as child:
        log(child, "not attached")
        server = AppServer(path, is_new=True)
        server.requests, at = [], int(time.time()) + 60
        server.turns = [turn("completed", startedAt=at, completedAt=at, items=[PROMPT, ENDED])]
        with server:
            until(lambda: len(of(daemon, "turn")) == 2)
        child.kill()

    assert [one["state"] for one in of(daemon, "session")][:1] == ["started"]
    assert [one["state"] for one in of(daemon, "turn")] == ["started", "completed"]
    assert [one["text"] for one in of(daemon, "message")] == ["Make a file."]


def test_subagent_belongs_to_its_thread(daemon: Running, path: Path) -> None:
    with AppServer(path) as server, attached(daemon, path) as wire:
        question(wire)
        server.joinable.append("child")
        child = thread_of("child", parentThreadId=THREAD, status={"type": "active", "activeFlags": []})
        server.say({"method": "thread/started", "params": {"thread": child}})
        until(lambda: bool([one for one in of(daemon, "message") if one.get("agent") == "child"]))

    assert {one["session"] for one in events_of(daemon)} == {THREAD}


def test_question_that_is_sent_again_is_one_question(daemon: Running, path: Path) -> None:
    with AppServer(path) as server, attached(daemon, path) as wire:
        question(wire)
        server.connections.get(timeout=60).close()
        server.connections.put(server.connections.get(timeout=60))  # joined again
        wire.ask("answer", permissionId=question(wire)["permissionId"], outcome="denied")
        assert server.got.get(timeout=60) == {"id": 0, "result": {"decision": "decline"}}

    assert len(of(daemon, "permission-request")) == 1
    [lost] = [one for one in of(daemon, "notice") if one["code"] == "lost"]
    assert lost["data"]["reason"].startswith("not connected to Codex for ")
    assert [one["state"] for one in of(daemon, "turn")] == ["started"]


def test_answer_waits_until_its_question_is_sent_again(daemon: Running, path: Path) -> None:
    with AppServer(path) as server, attached(daemon, path) as wire:
        asked = question(wire)
        server.requests = []
        server.connections.get(timeout=60).close()
        server.connections.put(server.connections.get(timeout=60))
        with daemon.connect() as other:
            other.send("answer", id="early", permissionId=asked["permissionId"], outcome="denied")
            until(lambda: not waiting(wire))  # the answer is on its way
            server.say(ASKED)
            assert other.until("reply")[-1]["ok"]
        assert server.got.get(timeout=60) == {"id": 0, "result": {"decision": "decline"}}


def test_what_ended_meanwhile_is_over(daemon: Running, path: Path) -> None:
    with AppServer(path) as server, attached(daemon, path) as wire:
        question(wire)
        server.requests, server.turns = [], [turn("completed")]
        server.status = {"type": "idle"}
        server.connections.get(timeout=60).close()
        until(lambda: len(of(daemon, "turn")) == 2)

    assert [one["outcome"] for one in of(daemon, "permission-response")] == ["expired"]
    assert [one["state"] for one in of(daemon, "turn")] == ["started", "completed"]


def test_next_server_is_a_stream_of_its_own(daemon: Running, path: Path) -> None:
    """It counts its requests from 0 again. What the first has asked, nobody can answer any more."""
    with attached(daemon, path) as wire:
        with AppServer(path):
            question(wire)
        until(lambda: bool(of(daemon, "permission-response")))
        with AppServer(path) as server:
            asked = question(wire)
            wire.ask("answer", permissionId=asked["permissionId"], outcome="allowed")
            assert server.got.get(timeout=60) == {"id": 0, "result": {"decision": "accept"}}

    assert [one["outcome"] for one in of(daemon, "permission-response")] == ["expired", "allowed"]
    assert len({one["stream"] for one in of(daemon, "permission-request")}) == 2


def test_next_attach_goes_on_and_does_not_write_again(daemon: Running, path: Path) -> None:
    """The first was killed after it had written, and before it could say so."""
    answer = {"line": '{"id":0,"result":{"decision":"accept"}}', "answers": "rpc:0", "id": "a"}
    command = ("attach", "codex", f"unix:{path}", "--socket", daemon.path)
    with AppServer(path) as server:
        with start(*command) as first, daemon.connect() as wire:
            question(wire)
            assert give(daemon, **answer) is None
            server.got.get(timeout=60)
            first.kill()
        until(lambda: tapped(daemon)[0]["state"] == "suspended")
        with start(*command) as second:
            until(lambda: bool([one for one in of(daemon, "notice") if one["code"] == "lost"]))
            server.say()
            until(lambda: len(of(daemon, "permission-request")) == 2)  # Codex has not taken the answer
            reason = give(daemon, **answer)
            second.kill()
        assert server.got.empty()

    assert reason == "it is unknown whether Codex has got it: the command was ended meanwhile"
    assert len(tapped(daemon)) == 1


def stored(at: float, kind: str, **payload: Any) -> bytes:
    """A line of a session's file. `at`: seconds since the epoch."""
    stamp = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({"timestamp": stamp, "type": kind, "payload": payload}).encode() + b"\n"


@pytest.mark.parametrize("first", ["file", "attach"])
def test_running_turn_of_a_followed_session_is_there_once(first: str, path: Path, tmp_path: Path) -> None:
    """`attach` reads it from its start, which is in the file as well, and which the daemon may have read before."""
    began = time.time() - 60
    times = {"startedAtMs": int(began * 1000)}
    running = {**ENDED, **times, "status": "inProgress", "exitCode": None}
    command = '{"cmd":"touch made.txt"}'
    meta = stored(began - 10, "session_meta", id=THREAD, cwd="/w", cli_version="0.169.0", source="cli")
    beginning = [
        stored(began, "event_msg", type="task_started", turn_id=TURN),
        stored(began, "event_msg", type="user_message", message="Make a file."),
        stored(began, "response_item", type="function_call", name="exec_command", arguments=command, call_id="call-1"),
    ]
    follower = Follower(tmp_path, agents=["codex"])
    file = follower.rollouts / f"rollout-2026-11-21T20-43-41-{THREAD}.jsonl"
    append(file, [meta, *beginning] if first == "file" else [meta])
    with AppServer(path) as server, follower:
        server.turns = [turn(items=[{**PROMPT, **times}, running], startedAt=int(began))]
        follower.read(file, 4 if first == "file" else 1)
        with (
            start("attach", "codex", f"unix:{path}", "--socket", str(follower.settings["socket"])) as child,
            follower.connect() as wire,
        ):
            asked = question(wire)
            if first == "attach":
                append(file, beginning)
                follower.read(file, 4)
            wire.ask("answer", permissionId=asked["permissionId"], outcome="allowed")
            server.say(notify("serverRequest/resolved", requestId=0), *COMPLETED)
            output = "Process exited with code 0\nOutput:\n"
            result = stored(time.time(), "response_item", type="function_call_output", call_id="call-1", output=output)
            append(file, [result, stored(time.time(), "event_msg", type="task_complete", turn_id=TURN)])
            follower.read(file, 6)
            events = follower.events_when(lambda events: any(one.get("state") == "completed" for one in events))
            child.kill()

    told = {kind: [one for one in events if one["kind"] == kind] for kind in ("message", "tool-call", "tool-result")}
    assert [(one["text"], one["session"]) for one in told["message"]] == [("Make a file.", THREAD)]
    assert [one["state"] for one in events if one["kind"] == "turn"] == ["started", "completed"]
    assert len(told["tool-call"]) == len(told["tool-result"]) == 1
    [response] = [one for one in events if one["kind"] == "permission-response"]
    assert (response["callId"], response["outcome"]) == (told["tool-call"][0]["callId"], "allowed")


def test_socket_that_does_not_exist_is_waited_for(daemon: Running, tmp_path: Path) -> None:
    path = tmp_path / "app-server-control" / "app-server-control.sock"
    elsewhere = tmp_path / "c.sock"
    variables = environment(CODEX_HOME=str(tmp_path))
    with start("attach", "codex", "--socket", daemon.path, env=variables) as child, daemon.connect() as wire:
        reason = log(child, "not attached")["reason"]
        path.parent.mkdir()
        path.symlink_to(elsewhere)  # as Codex does
        with AppServer(elsewhere):
            question(wire)
            child.kill()

    assert reason == f"there is no socket {path}: no Codex runs that others can join"


def test_other_server_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "other.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        os.utime(path, (1, 1))

        def refuse() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        finished = tooltap("attach", "codex", f"unix:{path}", "--socket", tmp_path / "none.sock")
        thread.join()

    assert finished.returncode == 1
    assert sentence(finished) == f"{path} is no socket of Codex: server rejected WebSocket connection: HTTP 404"


def test_socket_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with AppServer(path):
        somebody = path.stat().st_uid + 1
        monkeypatch.setattr(os, "geteuid", lambda: somebody)
        monkeypatch.setattr(app_server, "ROOT", -1)
        with pytest.raises(AttachError, match="belongs to another user"):
            app_server._instance(path)


def follow_to_first_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Follow a server in this process. Stop at its first line, and return it."""
    monkeypatch.setattr(app_server, "configure", lambda: None)
    put: list[bytes] = []
    stop: list[Callable[[], object]] = []

    class Kept(Tap):
        def put(self, lines: Iterable[bytes | LongLine], direction: Direction, t: int | None = None) -> None:
            put.extend(line for line in lines if isinstance(line, bytes))
            stop[0]()

    async def open_tap(instance: app_server.Instance, write: WriteToAgent) -> tuple[Tap, bool]:
        options, limits = StreamOptions(instance.stream), SpoolLimits(path.parent)
        return Kept(options, path.parent / "none.sock", limits, to_agent=write), False

    asyncio.run(app_server.follow_app_server("Codex", path, path.parent / "noted", open_tap, stop.append))
    return put[0]


def test_longer_message_than_allowed_is_not_asked_for_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The running turn may be too long to be sent. Then the thread is joined without it."""
    monkeypatch.setattr(app_server, "MAX_LINE_BYTES", 10_000)
    with AppServer(path) as server:
        server.full = {**PROMPT, "content": [{"type": "text", "text": "x" * 20_000}]}
        line = follow_to_first_line(path, monkeypatch)

    assert b"initialTurnsPage" in line


def test_connection_is_closed_by_a_stop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the server does not take part in closing it."""
    monkeypatch.setattr(app_server, "CLOSING", 0.01)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        os.utime(path, (1, 1))
        stopped = threading.Event()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                server = ServerProtocol()
                while not (requests := server.events_received()):
                    server.receive_data(connection.recv(65_536))
                assert isinstance(requests[0], Request)
                server.send_response(server.accept(requests[0]))
                server.send_text(b'{"method":"hello"}')
                connection.sendall(b"".join(server.data_to_send()))
                stopped.wait(timeout=60)

        thread = threading.Thread(target=serve)
        thread.start()
        with warnings.catch_warnings(record=True) as leaks:
            warnings.simplefilter("always", ResourceWarning)
            line = follow_to_first_line(path, monkeypatch)
            gc.collect()
        stopped.set()
        thread.join()

    assert line == b'{"method":"hello"}'
    assert not [str(one.message) for one in leaks]


@pytest.mark.parametrize("before", [None, "another one"])
def test_new_socket_ends_the_wait_for_the_next_attempt(
    path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """Codex may begin a turn as soon as its server is there. `before`: what was there at the last attempt."""
    monkeypatch.setattr(app_server, "RETRY_FIRST", 0.01)

    async def open_tap(instance: app_server.Instance, write: WriteToAgent) -> tuple[Tap, bool]:
        raise NotImplementedError

    async def wait() -> float:
        attachment = app_server._Attachment("Codex", path, Noted(path.parent / "noted"), open_tap)
        attachment._wait = 3_600.0
        path.touch()
        await attachment._pause(before)
        return attachment._wait

    assert asyncio.run(wait()) == 0.01


@pytest.mark.parametrize("server", ["unix:", "ws://127.0.0.1:1", "/tmp/codex.sock"])
def test_address_of_another_kind_is_one_sentence(server: str) -> None:
    finished = here("attach", "codex", server)

    assert finished.returncode == 2
    assert repr(server) in sentence(finished)
