"""Reads the sessions that an ACP agent has stored: starts it, lists its sessions, and has it load them one by one.

    with AcpStore(command, Limits()) as store:
        for session in store.sessions():
            with store.history(session) as lines:      # of the dialect `acp-stored`
                ...

The agent gets no prompt, is refused whatever it asks for, and ends with the store. It may speak version 1 of ACP, or
the draft of version 2 (November 2026), in which `session/resume` replays the history.
"""

from __future__ import annotations

import hashlib
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import orjson

from tooltap import __version__
from tooltap.daemon.formats import counted
from tooltap.daemon.taps.stream_ids import stream_name
from tooltap.normalizers.wire.framing import MAX_LINE_BYTES, LongLine, Splitter
from tooltap.normalizers.wire.values import milliseconds, record, records, string
from tooltap.traces.recording.secrets import mask_secrets

VERSION = 1
"""Version of ACP that is asked for; an agent that speaks only a newer one answers with that."""
DRAFT = 2
PAGES = 1_000
"""Maximum number of answers that a list of sessions may take."""
LATE = 0.5
"""Seconds to wait for the history of an agent that repeats it after its answer (Hermes 0.19)."""
PATIENCE = 5.0
"""Seconds that the agent has to end by itself, then after SIGTERM."""
TICK = 0.05
"""Seconds between checks whether an agent whose output stays open has ended."""
CHUNK = 65_536
IN_MEMORY = 8 * 1024 * 1024
"""Bytes of a session that are kept in memory; more are kept on disk."""
NOT_HISTORY = frozenset(
    {
        *("available_commands_update", "config_option_update", "current_mode_update", "replay_complete"),
        *("session_info_update", "state_update", "usage_update"),
    }
)
"""Updates that say how a session is now. They may come at any time, and differ each time a session is loaded."""
METHOD_NOT_FOUND = -32601


class AcpStoreError(Exception):
    """The store cannot be read; the message is one sentence about the agent."""


class HistoryError(AcpStoreError):
    """One session cannot be read. `restarts`: the agent has to be started anew for the next one."""

    def __init__(self, sentence: str, *, restarts: bool = False) -> None:
        super().__init__(sentence)
        self.restarts = restarts


class Limits(NamedTuple):
    seconds: float = 120.0
    """How long the agent may take for an answer."""
    sessions: int = 1_000
    """Most sessions that are read: those that the agent lists first."""
    bytes: int = 256 * 1024 * 1024
    """Most bytes of a session, and of a list of sessions."""


class StoredSession(NamedTuple):
    session: str
    cwd: str | None
    title: str | None
    updated: int | None
    """When it was last changed, in ms since the epoch."""


class _TooMuchError(Exception):
    """The agent has said more than it may for an answer."""


class AcpStore:
    """The sessions of one agent, which runs while the store is entered. Its standard error is ours."""

    def __init__(self, command: Sequence[str], limits: Limits) -> None:
        self.name = os.path.basename(command[0])
        """How the agent is called in errors."""
        self.more = False
        """Whether the agent has more sessions than were listed."""
        self._command = command
        self._limits = limits
        self._agent: dict[str, Any] = {}
        self._version = VERSION

    def __enter__(self) -> Self:
        """Raises `AcpStoreError`."""
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def sessions(self) -> list[StoredSession]:
        """List the sessions as the agent orders them. Raises `AcpStoreError`."""
        found: dict[str, StoredSession] = {}
        cursor: str | None = None
        for _ in range(PAGES):
            try:
                answer = self._ask("session/list", {} if cursor is None else {"cursor": cursor})
            except _TooMuchError:
                raise self._too_much("the list of its sessions") from None
            for one in records(answer.get("sessions")):
                if (session := string(one.get("sessionId"))) is None:
                    continue
                if len(found) == self._limits.sessions and session not in found:
                    self.more = True
                    return list(found.values())
                cwd, title = string(one.get("cwd")), string(one.get("title"))
                found[session] = StoredSession(session, cwd, title, milliseconds(one.get("updatedAt")))
            if (cursor := string(answer.get("nextCursor"))) is None:
                return list(found.values())
        raise AcpStoreError(f"{self.name} lists its sessions without an end")

    def stream_of(self, session: StoredSession) -> str:
        """Return the id of the stream that a session becomes; always the same for one agent and session."""
        name = string(self._agent.get("name")) or self.name
        digest = hashlib.sha256(f"{name}\n{session.session}".encode(errors="replace")).hexdigest()
        return f"acp-{stream_name(session.session)[:100]}~{digest[:12]}"

    @contextmanager
    def history(self, session: StoredSession) -> Iterator[IO[bytes]]:
        """Load a session, and yield its lines. Raises `HistoryError`, and `AcpStoreError` if the agent cannot go on."""
        stated = {"sessionId": session.session, "cwd": session.cwd, "title": session.title}
        head = {"acp": "session", "agent": self._agent, "session": {key: one for key, one in stated.items() if one}}
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as lines:
            lines.write(orjson.dumps(head) + b"\n")
            begun = lines.tell()

            def keep(params: dict[str, Any]) -> None:
                kind = record(params.get("update")).get("sessionUpdate")
                if params.get("sessionId") == session.session and kind not in NOT_HISTORY:
                    lines.write(orjson.dumps({"acp": "update", "params": params}) + b"\n")

            wanted = {"sessionId": session.session, "cwd": session.cwd or os.getcwd(), "mcpServers": []}
            try:
                if self._version >= DRAFT:
                    self._ask("session/resume", {**wanted, "replayFrom": {"type": "start"}}, keep)
                else:
                    self._ask("session/load", wanted, keep)
                if lines.tell() == begun:
                    self._read_late(keep)
            except _TooMuchError:
                raise HistoryError(str(self._too_much(f"session {session.session}")), restarts=True) from None
            lines.seek(0)
            yield lines

    def restart(self) -> None:
        """Start the agent anew, as if it had not run. Raises `AcpStoreError`."""
        self._stop()
        self._start()

    # -- the agent ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        except OSError as error:
            raise AcpStoreError(f"{self._command[0]} cannot be started: {error.strerror}") from None
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self._splitter = Splitter(MAX_LINE_BYTES)
        self._lines: list[bytes | LongLine] = []
        self._id = 0
        try:
            self._initialize()
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        process = self._process
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        for stop in (process.terminate, process.kill):
            if self._ends():
                break
            stop()
        process.wait()
        self._output.close()

    def _ends(self) -> bool:
        """Return whether the agent ends within `PATIENCE`. What it still says is read and dropped: an agent that cannot
        write does not end, or fails (Qwen Code 0.24, after 2 s)."""
        deadline = time.monotonic() + PATIENCE
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            while self._process.poll() is None and time.monotonic() < deadline:
                if selector.select(TICK) and not os.read(self._output.fileno(), CHUNK):
                    break
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        return self._process.returncode is not None

    def _initialize(self) -> None:
        us = {"name": "tooltap", "title": "tooltap", "version": __version__}
        versions = {"clientInfo": us, "clientCapabilities": {}, "info": us, "capabilities": {}}  # of 1, then of 2
        try:
            answer = self._ask("initialize", {"protocolVersion": VERSION, **versions})
        except _TooMuchError:
            raise self._too_much("what it can do") from None
        version = answer.get("protocolVersion")
        if version not in (VERSION, DRAFT):
            raise AcpStoreError(f"{self.name} does not speak a version of ACP that is known here")
        self._version = version
        self._agent = record(answer.get("agentInfo") or answer.get("info"))
        can = record(answer.get("agentCapabilities") or answer.get("capabilities"))
        sessions = record(can.get("sessionCapabilities") if version == VERSION else can.get("session"))
        loads = can.get("loadSession") is True if version == VERSION else "resume" in sessions or "load" in sessions
        if "list" not in sessions or not loads:
            missing = "list" if "list" not in sessions else "load"
            raise AcpStoreError(f"{self.name} cannot {missing} its sessions: it does not state that capability of ACP")

    def _ask(
        self, method: str, params: dict[str, Any], take: Callable[[dict[str, Any]], None] = lambda _: None
    ) -> dict[str, Any]:
        """Send a request and return its result. `take`: gets the parameters of each update before the answer."""
        self._id += 1
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        left, deadline = self._limits.bytes, time.monotonic() + self._limits.seconds
        while True:
            message = self._next(deadline)
            if message is None:
                raise AcpStoreError(f"{self.name} did not answer {method} within {self._limits.seconds:g} s")
            value, size = message
            left -= size
            if left < 0:
                raise _TooMuchError
            if "method" in value:
                self._answer(value, take)
            elif value.get("id") == self._id:
                break
        if isinstance(error := value.get("error"), dict):
            reason = mask_secrets((string(error.get("message")) or "no reason is given").encode(errors="replace"))
            said = " ".join(reason.decode().split())
            kind = HistoryError if method in ("session/load", "session/resume") else AcpStoreError
            raise kind(f"{self.name} refuses {method}: {said}")
        return record(value.get("result"))

    def _read_late(self, take: Callable[[dict[str, Any]], None]) -> None:
        """Read what comes after an answer, until nothing comes."""
        left = self._limits.bytes
        while (message := self._next(time.monotonic() + LATE)) is not None:
            value, size = message
            left -= size
            if left < 0:
                raise _TooMuchError
            self._answer(value, take)

    def _answer(self, value: dict[str, Any], take: Callable[[dict[str, Any]], None]) -> None:
        """Take an update, and refuse a request."""
        if "id" in value and "method" in value:
            refusal = {"code": METHOD_NOT_FOUND, "message": "tooltap only reads sessions"}
            self._send({"jsonrpc": "2.0", "id": value["id"], "error": refusal})
        elif value.get("method") == "session/update":
            take(record(value.get("params")))

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(orjson.dumps(message) + b"\n")
        except OSError:
            raise self._ended() from None

    def _next(self, deadline: float) -> tuple[dict[str, Any], int] | None:
        """Return the next message and its bytes; None if there is none until then, by the monotonic clock."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            while True:
                while self._lines:
                    line = self._lines.pop(0)
                    if isinstance(line, LongLine):
                        raise _TooMuchError
                    with suppress(orjson.JSONDecodeError):  # a log
                        if isinstance(value := orjson.loads(line), dict):
                            return value, len(line)
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                if not (data := os.read(self._output.fileno(), CHUNK)):
                    raise self._ended()
                self._lines = self._splitter.feed(data)

    def _ended(self) -> AcpStoreError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        code = self._process.returncode
        how = "closed its output" if code is None else f"ended with exit code {code}"
        return AcpStoreError(f"{self.name} {how} before it had answered")

    def _too_much(self, what: str) -> AcpStoreError:
        return AcpStoreError(f"{what} has more than {counted(self._limits.bytes, 'byte')}: it is left out")
