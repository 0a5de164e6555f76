"""Scripted clients of agents, as an editor, a wrapper or a person at a terminal is one: they open a session, send
prompts, and leave every request of the agent open, as a person does who is away."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from queue import Empty, Queue
from typing import Any, ClassVar, Literal, Self, TypeAlias

from tests.programs import require

PATIENCE = 300.0
"""Seconds that an agent or a program may take for what it does next, on a machine that is busy with other things."""
_NOT_TEXT = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;:?<>=]*[ -/]*[@-~]|\x1b.|\s")
"""Blanks, and what moves the cursor, colours or sets a terminal."""


ESCAPE = "\x1b"


def until(holds: Callable[[], object], what: str) -> None:
    """Wait until this holds. `what`: it, for the message of a failure."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


def end_processes(home: Path) -> None:
    """Kill all processes whose home folder is this, which is what an agent has started, in whatever session."""
    variable = f"HOME={home}".encode()

    def kill() -> bool:
        found = False
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if variable in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
                    found = True
            except OSError:  # it has ended, or is another user's
                pass
        return not found

    until(kill, "the end of the agent's processes")


class LineClient:
    """A client of an agent that speaks lines of JSON over its standard input and output."""

    def __init__(self, command: Sequence[str], workspace: Path, environment: dict[str, str]) -> None:
        self.seen: list[dict[str, Any]] = []
        """All that the agent has said."""
        self.sent: list[dict[str, Any]] = []
        """All that it was sent."""
        self.outcome: Literal["allowed", "denied"] | None = None
        """What the client answers to each question; None leaves it open."""
        self.errors = ""
        self._home = environment["HOME"]
        self._lines: Queue[dict[str, Any] | None] = Queue()
        self._process = subprocess.Popen(
            list(command),
            cwd=workspace,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._readers = [threading.Thread(target=read) for read in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end_processes(Path(self._home))
        assert self._process.stdin is not None
        self._process.wait()
        for reader in self._readers:
            reader.join()
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass

    def leave(self) -> None:
        """Close the agent's input, and wait until it has ended: it may store the turn after it has said the end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        until(lambda: self._process.poll() is not None, "the end of the agent")

    def is_end(self, message: dict[str, Any]) -> bool:
        """Say whether the turn ends with a message of the agent."""
        raise NotImplementedError

    def answer(self, message: dict[str, Any], *, allows: bool) -> dict[str, Any] | None:
        """Return the answer to a message of the agent, if it is a question."""
        raise NotImplementedError

    def wait(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the next message of the agent that is wanted."""
        while True:
            try:
                message = self._lines.get(timeout=PATIENCE)
            except Empty:
                raise AssertionError(f"the agent has been silent; it said last: {self.seen[-3:]}") from None
            assert message is not None, f"the agent has ended: {self.errors[-2_000:]}"
            if wanted(message):
                return message

    def wait_for_end(self) -> dict[str, Any]:
        return self.wait(self.is_end)

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if isinstance(message, dict):
                    self.seen.append(message)
                    if self.outcome and (answer := self.answer(message, allows=self.outcome == "allowed")):
                        self.send(answer)
                    self._lines.put(message)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as errors:
            for line in errors:
                self.errors += line.decode(errors="replace")


class RpcClient(LineClient):
    """A client that speaks JSON-RPC."""

    version: ClassVar[dict[str, str]] = {"jsonrpc": "2.0"}

    def __init__(self, command: Sequence[str], workspace: Path, environment: dict[str, str]) -> None:
        super().__init__(command, workspace, environment)
        self._last = 0

    def request(self, method: str, parameters: dict[str, Any]) -> int:
        self._last += 1
        self.send({**self.version, "id": self._last, "method": method, "params": parameters})
        return self._last

    def call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request."""
        number = self.request(method, parameters)
        answer = self.wait(lambda one: one.get("id") == number and "method" not in one)
        assert "result" in answer, answer
        return dict(answer["result"] or {})


class AcpClient(RpcClient):
    def __init__(
        self,
        command: Sequence[str],
        workspace: Path,
        environment: dict[str, str],
        authentication: str | None = None,
    ) -> None:
        super().__init__(command, workspace, environment)
        self._authentication = authentication
        self._session = ""
        self._prompt = 0

    def open(self, workspace: Path, session: str | None = None, *, fork: bool = False) -> None:
        """Begin a session, or go on with one, or with a copy of it."""
        self.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        if self._authentication is not None:
            self.call("authenticate", {"methodId": self._authentication})
        place = {"cwd": str(workspace), "mcpServers": []}
        if session is None:
            self._session = self.call("session/new", place)["sessionId"]
        elif fork:
            self._session = self.call("session/fork", {"sessionId": session, **place})["sessionId"]
        else:
            self._session = session
            self.call("session/load", {"sessionId": session, **place})

    def choose_mode(self, mode: str) -> None:
        self.call("session/set_mode", {"sessionId": self._session, "modeId": mode})

    def prompt(self, text: str) -> None:
        prompt = [{"type": "text", "text": text}]
        self._prompt = self.request("session/prompt", {"sessionId": self._session, "prompt": prompt})

    def interrupt(self) -> None:
        self.send({**self.version, "method": "session/cancel", "params": {"sessionId": self._session}})

    def answer(self, message: dict[str, Any], *, allows: bool) -> dict[str, Any] | None:
        if message.get("method") != "session/request_permission":
            return None
        kind = "allow_once" if allows else "reject_once"
        [option] = [one["optionId"] for one in message["params"]["options"] if one["kind"] == kind][:1]
        result = {"outcome": {"outcome": "selected", "optionId": option}}
        return {**self.version, "id": message["id"], "result": result}

    def is_end(self, message: dict[str, Any]) -> bool:
        return message.get("id") == self._prompt and "method" not in message


class CodexClient(RpcClient):
    version: ClassVar[dict[str, str]] = {}

    def __init__(self, command: Sequence[str], workspace: Path, environment: dict[str, str]) -> None:
        super().__init__(command, workspace, environment)
        self.model: str | None = None
        """The model that it chooses; None leaves that to the agent's configuration."""
        self._thread = ""

    def open(self, workspace: Path, session: str | None = None, *, fork: bool = False) -> None:
        """Begin a session, or go on with one, or with a copy of it."""
        information = {"name": "test", "title": "Test", "version": "1"}
        self.call("initialize", {"clientInfo": information, "capabilities": {"experimentalApi": True}})
        self.send({"method": "initialized"})
        asks = {"cwd": str(workspace), "approvalPolicy": "untrusted", "sandbox": "danger-full-access"}
        if self.model is not None:
            asks["model"] = self.model
        if session is None:
            self._thread = self.call("thread/start", asks)["thread"]["id"]
        else:
            method = "thread/fork" if fork else "thread/resume"
            self._thread = self.call(method, {"threadId": session, **asks})["thread"]["id"]

    def prompt(self, text: str) -> None:
        given = [{"type": "text", "text": text, "text_elements": []}]
        self.request("turn/start", {"threadId": self._thread, "input": given})

    def interrupt(self) -> None:
        self.request("turn/interrupt", {"threadId": self._thread, "turnId": self._turn()})

    def rewind(self) -> None:
        """Take the last turn back."""
        self.call("thread/revert", {"threadId": self._thread, "beforeTurnId": self._turn()})

    def _turn(self) -> str:
        """The id of the last turn."""
        started = next(one for one in self.seen[::-1] if one.get("method") == "turn/started")
        return str(started["params"]["turn"]["id"])

    def answer(self, message: dict[str, Any], *, allows: bool) -> dict[str, Any] | None:
        if message.get("method") != "item/commandExecution/requestApproval":
            return None
        return {"id": message["id"], "result": {"decision": "accept" if allows else "decline"}}

    def is_end(self, message: dict[str, Any]) -> bool:
        return message.get("method") == "turn/completed"


class ClaudeClient(LineClient):
    def open(self, workspace: Path) -> None:
        self.send({"type": "control_request", "request_id": "start", "request": {"subtype": "initialize"}})
        self.wait(lambda one: one.get("type") == "control_response")

    def prompt(self, text: str) -> None:
        content = [{"type": "text", "text": text}]
        message = {"role": "user", "content": content}
        self.send({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "default"})

    def is_end(self, message: dict[str, Any]) -> bool:
        return message.get("type") == "result"


class OpenCodeClient:
    """A client of OpenCode's server, which it starts, with the tap that is attached to it. `attach`: the command of the
    tap, without the address."""

    def __init__(
        self, command: Sequence[str], attach: Sequence[str], workspace: Path, environment: dict[str, str]
    ) -> None:
        self._home = environment["HOME"]
        self._server = subprocess.Popen(
            [*command, "0"], cwd=workspace, env=environment, stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        assert self._server.stdout is not None
        said = next((line for line in self._server.stdout if "http://" in line), "")
        found = re.search(r"http://[0-9.:]+", said)
        assert found is not None, "the server has not said where it listens"
        self._url = found[0]
        self._tap = subprocess.Popen(
            [*attach, self._url], cwd=workspace, env=environment, stderr=subprocess.PIPE, text=True
        )
        assert self._tap.stderr is not None
        assert any("attached" in line for line in self._tap.stderr), "the tap has ended"
        self._session = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end_processes(Path(self._home))
        for process in (self._tap, self._server):
            process.communicate()

    def open(self, workspace: Path, session: str | None = None, *, fork: bool = False) -> None:
        """Begin a session, or go on with one, or with a copy of it."""
        if session is None:
            self._session = self._request("/session", {})["id"]
        else:
            self._session = self._request(f"/session/{session}/fork", {})["id"] if fork else session

    def prompt(self, text: str) -> None:
        self._request(f"/session/{self._session}/prompt_async", {"parts": [{"type": "text", "text": text}]})

    def interrupt(self) -> None:
        self._request(f"/session/{self._session}/abort", {})

    def rewind(self) -> None:
        """Take the last turn back."""
        messages = [one["info"] for one in self._request(f"/session/{self._session}/message")]
        prompt = next(one["id"] for one in messages[::-1] if one["role"] == "user")
        self._request(f"/session/{self._session}/revert", {"messageID": prompt})

    def wait_for_end(self) -> object:
        until(lambda: self._session not in self._request("/session/status"), "the end of the turn")
        return None

    def _request(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return json.loads(response.read() or b"null")


class Terminal:
    """An agent in a terminal of its own, of 50 lines, and a person who types."""

    replies: ClassVar[dict[bytes, bytes]] = {}
    """What the agent asks the terminal -> what a terminal says."""

    def __init__(self, command: Sequence[str], workspace: Path, environment: dict[str, str]) -> None:
        require("setsid")
        self.shown = b""
        """All that the agent has written to the terminal."""
        self._home = Path(environment["HOME"])
        self._found = 0
        """Bytes of `shown` up to what `until` has found."""
        self._master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 50, 160, 0, 0))
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *command],
            cwd=workspace,
            env={**environment, "TERM": "xterm-256color"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        os.close(terminal)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end_processes(self._home)
        self._process.wait()
        self._reader.join()
        os.close(self._master)

    def type(self, text: str) -> None:
        """Type a text, or keys."""
        os.write(self._master, text.encode())

    def until(self, text: str) -> None:
        """Wait until the agent writes a text, whatever blanks are in it, after what `until` has found before."""
        wanted, end = text.replace(" ", ""), 0

        def is_there() -> bool:
            nonlocal end
            end = len(self.shown)
            return wanted in _NOT_TEXT.sub("", self.shown[self._found : end].decode(errors="replace"))

        self.wait(is_there, repr(text))
        self._found = end

    def wait(self, holds: Callable[[], object], what: str) -> None:
        """Wait until this holds, while the agent runs. `what`: it, for the message of a failure."""

        def holds_or_ended() -> object:
            assert self._process.poll() is None, "the agent has ended"
            return holds()

        try:
            until(holds_or_ended, what)
        except AssertionError as error:
            error.add_note(f"The terminal showed last: {self.shown[-3_000:].decode(errors='replace')!r}")
            raise

    def _read(self) -> None:
        replied = dict.fromkeys(self.replies, 0)
        try:
            while data := os.read(self._master, 65_536):
                self.shown += data
                for asked, said in self.replies.items():
                    while replied[asked] < self.shown.count(asked):
                        os.write(self._master, said)
                        replied[asked] += 1
        except OSError:  # the other side is closed
            pass


class TerminalClient(Terminal, ABC):
    """An agent in a terminal, as a client."""

    sign: ClassVar[str]
    """What the agent shows where it takes a prompt."""
    _prompts = 0
    _marks: ClassVar[Iterator[str]] = cycle(map(chr, range(ord("①"), ord("⑳") + 1)))

    def open(self, workspace: Path) -> None:
        self.until(self.sign)
        self.wait(lambda: not termios.tcgetattr(self._master)[3] & termios.ECHO, "an agent that reads each key")

    def prompt(self, text: str) -> None:
        """Type a prompt. Its last character is nowhere else, not even in a session that goes on: once it is shown, the
        agent has read it, so Enter is a key of its own, and no part of a text that is pasted."""
        self._prompts += 1
        last = next(self._marks)
        self.type(f"{text} {last}")
        self.until(last)
        self.type("\r")

    def wait_for_end(self) -> object:
        self.wait(lambda: self.ended_turns() == self._prompts, "the end of the turn")
        return None

    @abstractmethod
    def ended_turns(self) -> int:
        """Number of turns that have ended."""


class ClaudeTerminal(TerminalClient):
    """Claude Code in a terminal."""

    sign = "❯"

    def ended_turns(self) -> int:
        transcripts = (self._home / ".claude/projects").rglob("*.jsonl")
        return sum(one.read_bytes().count(b'"stop_reason":"end_turn"') for one in transcripts)


class CodexTerminal(TerminalClient):
    """Codex in a terminal, with the tap that is attached to its server. `attach`: the command of the tap."""

    sign = "›"
    replies: ClassVar = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;c"}

    def __init__(
        self, command: Sequence[str], attach: Sequence[str], workspace: Path, environment: dict[str, str]
    ) -> None:
        self._tap = subprocess.Popen(list(attach), cwd=workspace, env=environment)
        super().__init__(command, workspace, environment)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._tap.wait()

    def interrupt(self) -> None:
        self.type(ESCAPE)

    def rewind(self) -> None:
        """Take the last turn back. Its prompt is there to be changed."""
        self.wait_for_end()
        self.type(ESCAPE)
        self.until("edit")  # of a line, only what differs from the one before is written
        self.type(ESCAPE)
        self.until("rewind")
        self.type("\r")

    def ended_turns(self) -> int:
        """The terminal itself says it, after which Enter begins another turn."""
        return self.shown.count(b"\x1b]9;")


Client: TypeAlias = AcpClient | CodexClient | ClaudeClient | OpenCodeClient | ClaudeTerminal | CodexTerminal
