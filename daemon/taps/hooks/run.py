"""`tooltap hook`, as an agent runs it: asks the daemon what the agent asks the user.

The agent waits for this process, so it imports little, and none of what the rest of tooltap is made of. It prints an
answer, or nothing: without a daemon, after an error, and when the question was answered in the terminal, it ends in
silence with exit code 0, which decides nothing. It never allows anything by itself.

A question is a stream of its own, of the dialect `hooks`. Its name holds checksums of the turn and of the call, by
which a later hook of the session finds it: when the call has run, the user has answered in the terminal, and that later
hook takes the stream over, says so, and ends it. If what it tells of can only come after the question, it ends the
stream without saying how the question was answered. The process that waits for an answer hears that, and ends. When the
daemon goes, that process connects again to the one that comes next, and goes on with the stream: the question stays the
same, and an answer is printed once. What it still has to report when the agent has its answer is reported by a child of
it: agents wait for the end of a hook.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
import zlib

from tooltap.daemon.system.paths import SOCKET_VARIABLE, away_file, daemon_folders

TYPE_CHECKING = False  # `typing` takes as long as all else that this imports
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

STAYS = frozenset({"claude"})
"""Agents whose dialog stays usable while a permission hook runs."""
SILENT = frozenset({"copilot"})
"""Agents that run a permission hook also where they ask nobody: it tells of no question."""
ASKING = frozenset({"permissionrequest"})
TELLING = frozenset({"permission_prompt", "ToolPermission"})
"""Types of the notifications that say that a dialog is open."""
IDLE = frozenset({"idle_prompt"})
"""Types of the notifications that say that the agent waits for a prompt."""
RAN = frozenset({"posttooluse", "posttoolusefailure", "aftertool"})
"""Events that follow a call that was allowed."""
OVER = frozenset(
    {"stop", "agentstop", "afteragent", "userpromptsubmit", "userpromptsubmitted", "beforeagent", "sessionend"}
)
"""Events before which all questions of the session were answered, or withdrawn."""
BY_NAME = frozenset({"AskUserQuestion", "ExitPlanMode"})
"""Tools whose input has changed when they have run."""
NOTHING = "0" * 8
"""In place of a checksum: what the event does not state."""

PATIENCE = 5.0
"""Seconds for each answer of the daemon, except that to the question."""
LONGEST = 43_000.0
"""Seconds for which a question waits at most: less than the timeout in the agent's settings."""
RESTART = 60.0
"""Seconds for which a hook that waits does without a daemon."""
RETRIED = 0.25
"""Seconds between two attempts to connect to a daemon that is being restarted."""
CHECKED = 5.0
"""Seconds between two looks at whether the agent is still there."""
AWAY_WAIT = 60.0
"""Seconds for which a hook hides the agent's dialog while the user is away."""
STDOUT = 1
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
MAX_INPUT = 16 * 1024 * 1024
MAX_FRAME = 1024 * 1024
CLAUDE_ENTRY = "CLAUDE_CODE_ENTRYPOINT"


class GoneError(Exception):
    """The daemon is gone, or refuses."""


class SettledError(Exception):
    """The question has been answered elsewhere, or the stream was ended."""


class StoppedError(Exception):
    """The agent has stopped the hook."""


def run_hook(agent: str = "claude", event: str = "", *_: str) -> int:
    """Serve one event of an agent, read from standard input. Returns the exit code, which is always 0."""
    try:
        _serve(agent, event)
    except Exception:  # nothing is decided
        pass
    return 0


def _serve(agent: str, event: str) -> None:
    given = json.loads(sys.stdin.buffer.read(MAX_INPUT))
    event = given.get("hook_event_name") or given.get("hookName") or event
    kind = event.lower()
    if kind in ASKING:
        wait = _wait(agent)
        if wait or not (agent in SILENT or _is_without_dialog(agent)):
            _ask(agent, event, given, wait)
    elif kind == "notification":
        if (told := given.get("notification_type")) in TELLING:
            _ask(agent, event, given, 0)
        elif told in IDLE:
            _settle(given, is_over=True)
    elif kind in RAN or kind in OVER:
        _settle(given, is_over=kind in OVER)


def _wait(agent: str) -> float:
    """Return for how many seconds to wait for an answer; 0: not at all."""
    if agent in STAYS and not _is_without_dialog(agent):
        return LONGEST
    try:
        with open(away_file(), encoding="utf-8") as file:
            return float(file.read(100) or AWAY_WAIT)
    except (OSError, ValueError):
        return 0


def _is_without_dialog(agent: str) -> bool:
    """Whether this is Claude Code's `-p`: what no hook decides is denied there, so nobody is asked."""
    return agent == "claude" and os.environ.get(CLAUDE_ENTRY, "").startswith("sdk-cli")


def _session(given: dict[str, Any]) -> str:
    return str(given.get("session_id") or given["sessionId"])


def _mark(given: dict[str, Any]) -> str:
    """Return checksums of the turn and the call that an event is about: `TURN-cCALL`, or `TURN-vVALUE` with a value in
    the input of a call that it does not state. Subagents have turns of their own, beside the agent's."""
    turn = None if given.get("agent_id") else given.get("turn_id") or given.get("prompt_id")
    name, payload = _call(given)
    about = f"v{_digest(_value(given))}" if name is None else f"c{_digest([name, payload])}"
    return f"{_digest(turn)}-{about}"


def _digest(value: Any) -> str:
    return NOTHING if value is None else f"{zlib.crc32(json.dumps(value, sort_keys=True).encode()) or 1:08x}"


def _call(given: dict[str, Any]) -> tuple[Any, Any]:
    """Return the name and the input of the call that an event states."""
    name = given.get("tool_name") or given.get("toolName")
    if name is None or name in BY_NAME:
        return name, None
    payload = next((given[key] for key in ("tool_input", "toolInput", "toolArgs") if key in given), None)
    if isinstance(payload, str):
        payload = json.loads(payload)
    if isinstance(payload, dict):  # the hooks of some agents describe a call at one event, and not at another
        payload = {key: value for key, value in payload.items() if key != "description"}
    return name, payload


def _value(given: dict[str, Any]) -> str | None:
    """Return what a notification says of its call: Gemini CLI has details, and Copilot a sentence."""
    details = given.get("details")
    if isinstance(details, dict):
        return next((details[key] for key in ("command", "filePath", "prompt") if details.get(key)), None)
    return str(given.get("message")).partition(": ")[2] or None


# -- a question -------------------------------------------------------------------------------------------------------


def _ask(agent: str, event: str, given: dict[str, Any], wait: float) -> None:
    if wait:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)  # a signal interrupts the waiting, and nothing else
        for one in STOPPING:
            signal.signal(one, _stopped)
    question = Question(agent, event, given, waits=wait > 0)
    if not wait:
        question.until_stored()
        return
    frame = None
    try:
        frame = _next_for_agent(question, wait)
    except StoppedError:  # the user has interrupted the agent
        question.add({"type": "hook/settled", "id": question.id, "outcome": "cancelled"})
    try:
        if frame is not None:
            question.print_answer(frame)
        question.end()
    except (GoneError, OSError):
        if os.fork() == 0:  # the agent waits for its parent alone
            _end_later(question)


def _stopped(*_: object) -> None:
    raise StoppedError


def _interruptible(wait: Callable[[float], Any], seconds: float) -> Any:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # which handles a signal that has arrived
        return wait(seconds)
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)


def _next_for_agent(question: Question, wait: float) -> dict[str, Any] | None:
    """Return the next frame for the agent; None if none comes in time, or the agent is gone. Raises `SettledError`,
    `StoppedError`, and `GoneError` if no daemon is there for `RESTART`."""
    parent, end, lost = os.getppid(), time.monotonic() + wait, None
    while (now := time.monotonic()) < end and os.getppid() == parent:
        try:
            if lost is not None:
                question.resume()
                lost = None
            frame: dict[str, Any] | None = _interruptible(question.receive, min(end - now, CHECKED))
            if frame is not None and frame["op"] == "to-agent":
                return frame
        except (GoneError, OSError):
            lost = lost or now
            if now - lost >= RESTART:
                raise GoneError from None
            _interruptible(time.sleep, RETRIED)
    return None


def _end_later(question: Question) -> None:
    """End a question, in a process that the agent knows nothing of, once the daemon is back."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    end = time.monotonic() + RESTART
    while time.monotonic() < end:
        try:
            question.resume()
            question.end()
            return
        except (GoneError, OSError):
            time.sleep(RETRIED)


class Question:
    """A question, and its stream, which goes on when the daemon was restarted. Methods raise `GoneError` and `OSError`
    if the connection is lost, and `SettledError`."""

    def __init__(self, agent: str, event: str, given: dict[str, Any], *, waits: bool) -> None:
        self.id = f"hook-{os.urandom(8).hex()}"
        self._declared = {"stream": f"{self.id}-{_mark(given)}", "provider": agent, "session": _session(given)}
        self._waits = waits
        self._lines: list[dict[str, Any]] = []
        """The stream's lines, as frames."""
        self._stored = 0
        """Number of those that the daemon has stored."""
        self._written: str | None = None
        """Id of the answer that was printed."""
        self.add({"type": "hook/asked", "id": self.id, "agent": agent, "event": event, "waits": waits, "input": given})
        self._daemon = Daemon()
        self._begin()

    def add(self, line: dict[str, Any], direction: str = "out") -> None:
        """Add a line; `end` and `resume` send it."""
        self._lines.append(_tapped(line, direction))

    def resume(self) -> None:
        """Go on with the stream on a new connection to the same daemon."""
        self._daemon = Daemon(self._daemon.place)
        self._begin()

    def until_stored(self) -> None:
        """Send what is not sent, and wait until all is stored."""
        self._send_from(self._sent)
        while self._stored < len(self._lines):
            self._next()

    def end(self) -> None:
        """Send what is not sent, and end the stream."""
        try:
            self.until_stored()
            self._daemon.send({"op": "end"})
            while True:
                self._next()
        except SettledError:
            pass

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """Return the next frame; None if none comes in time."""
        if (frame := self._daemon.receive(seconds)) is None:
            return None
        if frame["op"] == "done" or frame.get("code") == "superseded":
            raise SettledError
        if frame["op"] in ("error", "suspended"):
            raise GoneError
        if frame["op"] == "ack":
            self._stored = frame["lines"]
        if frame["op"] == "to-agent" and self._written is not None and self._written == frame["payload"].get("id"):
            self._daemon.send({"op": "to-agent", "id": frame["id"]})
        return frame

    def print_answer(self, frame: dict[str, Any]) -> None:
        """Print the answer for the agent, and acknowledge it; refuse it if that is not possible."""
        answered = {"op": "to-agent", "id": frame["id"]}
        try:
            line = frame["payload"]["line"]
            output = json.loads(line)
            left = f"{line}\n".encode()
            while left:
                left = left[os.write(STDOUT, left) :]
        except (OSError, ValueError, KeyError, TypeError) as error:
            answered["refused"] = f"the hook cannot print this: {error}"
        else:
            self._written = frame["payload"].get("id")
            self.add({"type": "hook/answered", "id": self.id, "output": output}, "in")
        self._daemon.send(answered)

    def _begin(self) -> None:
        begun = self._daemon.ingest(**self._declared, **({"toAgent": True} if self._waits else {}))
        self._stored = begun["lines"]
        if begun["state"] == "ended" or self._stored > len(self._lines):
            self._daemon.send({"op": "end"})
            raise SettledError
        self._send_from(self._stored)

    def _send_from(self, first: int) -> None:
        for line in self._lines[first:]:
            self._daemon.send(line)
        self._sent = len(self._lines)

    def _next(self) -> None:
        if self.receive(PATIENCE) is None:
            raise GoneError


def _tapped(line: dict[str, Any], direction: str) -> dict[str, Any]:
    return {"t": time.time_ns() // 1_000_000, "dir": direction, "line": json.dumps(line)}


def _settle(given: dict[str, Any], *, is_over: bool) -> None:
    """End the questions of the session that were answered in the terminal: that of the call that has run, and those
    that must be over by now; all, if the turn is over."""
    session = _session(given)
    daemon = Daemon()
    for one in daemon.ask({"op": "calls", "session": session})["permissions"]:
        if not one.get("fromHook"):
            continue
        has_run, is_past = (False, True) if is_over else _compared(one["stream"], given)
        if has_run or is_past:
            settled = {"type": "hook/settled", "id": one["permissionId"], "outcome": "allowed"}
            Daemon().end(one["stream"], settled if has_run else None)


def _compared(stream: str, ran: dict[str, Any]) -> tuple[bool, bool]:
    """Compare a question with a call that has run. Return whether it is about this call, and whether it is over in any
    case: it is of another turn, or states no call, so that its agent asks for one call after the other."""
    _, turn, about = stream.rsplit("-", 2)
    this_turn, this_call = _mark(ran).split("-")
    if NOTHING not in (turn, this_turn) and turn != this_turn:
        return False, True
    if about[0] == "c":
        return about == this_call, False
    _, payload = _call(ran)
    values = payload.values() if isinstance(payload, dict) else ()
    return about in {f"v{_digest(value)}" for value in values if isinstance(value, str)}, True


# -- the daemon -------------------------------------------------------------------------------------------------------


class Daemon:
    """A connection to the user's daemon. Raises `GoneError`, and `OSError`."""

    def __init__(self, place: str | None = None) -> None:
        """`place`: where it listens; None: where it can be found."""
        for self.place in _places() if place is None else (place,):
            if (connection := _connected(self.place)) is not None:
                self._socket = connection
                break
        else:
            raise GoneError
        self._received = b""
        self.expect("welcome")

    def send(self, frame: dict[str, Any]) -> None:
        self._socket.settimeout(PATIENCE)
        self._socket.sendall(json.dumps(frame).encode() + b"\n")

    def ingest(self, **declared: Any) -> dict[str, Any]:
        """Begin a stream, go on with it, or take it over. Returns the daemon's frame about it."""
        self.send({"op": "ingest", "framing": "tapped", "dialect": "hooks", **declared})
        return self.expect("ingesting")

    def end(self, stream: str, last: dict[str, Any] | None) -> None:
        """Take a stream over, and end it, after a last line if there is one."""
        self.ingest(stream=stream)
        if last is not None:
            self.send(_tapped(last, "out"))
        self.send({"op": "end"})
        self.expect("done")

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request."""
        self.send({**request, "id": 1})
        result: dict[str, Any] = self.expect("reply")["result"]
        return result

    def expect(self, op: str) -> dict[str, Any]:
        """Return the next frame of this kind."""
        end = time.monotonic() + PATIENCE
        while (left := end - time.monotonic()) > 0:
            frame = self.receive(left)
            if frame is not None and frame["op"] == op:
                return frame
            if frame is not None and frame["op"] == "error":
                break
        raise GoneError

    def receive(self, timeout: float) -> dict[str, Any] | None:
        """Return the next frame; None if none arrives in time."""
        end = time.monotonic() + timeout
        while b"\n" not in self._received:
            if not select.select([self._socket], [], [], max(end - time.monotonic(), 0))[0]:
                return None
            received = self._socket.recv(65_536)
            if not received or len(self._received) > MAX_FRAME:
                raise GoneError
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        frame: dict[str, Any] = json.loads(line)
        return frame


def _places() -> Iterator[str]:
    """Yield where the daemon may listen: as `find_socket` of the client does, without what that imports."""
    if named := os.environ.get(SOCKET_VARIABLE):
        yield named
        return
    if sys.platform == "linux":
        runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
        yield os.path.join(runtime, "tooltap.sock")
    else:
        from tooltap.daemon.system.paths import socket_path

        yield str(socket_path())
    records = [one for folder in daemon_folders() for path in _files(folder) if (one := _record(path)) is not None]
    for _, place in sorted(records, reverse=True):
        yield place


def _files(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".json")]
    except OSError:
        return []


def _record(path: str) -> tuple[int, str] | None:
    """Return (start, socket) of a daemon that has recorded itself."""
    try:
        with open(path, encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            record = json.load(file)
        return int(record["started"]), str(record["socket"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _connected(place: str) -> socket.socket | None:
    """Return a connection to a daemon of this user."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    try:
        connection.connect(place)
        if sys.platform == "linux":
            who = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            is_own = int.from_bytes(who[4:8], sys.byteorder) == os.getuid()
        else:
            from tooltap.daemon.system.listener import peer_uid

            is_own = peer_uid(connection) == os.getuid()
    except (OSError, ValueError):
        is_own = False
    if is_own:
        return connection
    connection.close()
    return None
