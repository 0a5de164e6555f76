"""Starts and taps an agent for `run` and `proxy`.

The agent comes first: what its start does not need is imported while it starts, or not at all. So a plain command line
is read here, without click. `run.py` has the options in full; it reads every other command line, and explains the wrong
ones.
"""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tooltap.daemon.system.paths import spool_folder
from tooltap.daemon.taps.child import Ended, run_child
from tooltap.daemon.taps.delivery.announcement import Announced, announce, withdraw
from tooltap.daemon.taps.pipes import STDIN
from tooltap.normalizers.catalog.registry import (
    agent_of,
    missing_flags,
    prompt_of,
    provider_of_fork,
    stores,
    takes_answers,
    works_where_it_is_started,
)

if TYPE_CHECKING:
    from tooltap.daemon.taps.answering import Answering
    from tooltap.daemon.taps.delivery.tap import Tap
    from tooltap.protocol.inputs import Direction, ProcessEnd


CANNOT_START = 127
PLAIN = {"--dialect": "dialect", "--provider": "provider", "--session": "session", "--socket": "socket"}
"""Option with a value -> field of `AgentStart`."""
ANSWERS = "--answers"
NOT_PLAIN = ("TOOLTAP_SPOOL_BYTES", "TOOLTAP_SPOOL_TOTAL_BYTES")
"""Environment variables for options that click must validate."""


class AgentStart(NamedTuple):
    """The command line of `run` or `proxy`."""

    name: str
    """`run`, or `proxy`, which taps the agent's standard input as well."""
    command: tuple[str, ...]
    dialect: str = "auto"
    provider: str | None = None
    session: str | None = None
    mcp_servers: tuple[str, ...] = ()
    socket: str | os.PathLike[str] | None = None
    spool_limits: tuple[int, ...] = ()
    """`spool_bytes` and `spool_total_bytes`; empty: the defaults."""
    answers: bool = False
    """Whether the daemon may write to the agent, to answer it."""


def plain_start(name: str, *arguments: str) -> AgentStart | None:
    """Parse a command line that needs no click: only options of `PLAIN`, each with a value, and `--answers`. None for
    any other, including invalid ones."""
    if any(os.environ.get(variable) for variable in NOT_PLAIN):
        return None
    fields: dict[str, Any] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and (option := rest.pop(0)) != "--":
        if option == ANSWERS:
            fields["answers"] = True
            continue
        option, given, value = option.partition("=")
        if not given:
            value = rest.pop(0) if rest else ""
        if option not in PLAIN or not value or value.startswith("-"):
            return None
        fields[PLAIN[option]] = value
    if not rest or ("socket" in fields and not os.access(fields["socket"], os.R_OK)):
        return None
    return AgentStart(name, tuple(rest), **fields)


def run_agent(start: AgentStart) -> int:
    """Run the agent, tap it, and return its exit code, or minus the number of the signal that ended it."""
    command = start.command
    if (flags := missing_flags(command)) is not None:
        _print(f"not tapped: {command[0]} prints no event stream{_how_to_read(agent_of(command), flags)}")
        return _exec(command)
    stream, started = f"{start.name}-{os.urandom(8).hex()}", time.time_ns() // 1_000_000
    note = announce(spool_folder(), Announced(stream, agent_of(command), started, _socket(start)))
    try:
        return _run_tapped(start, stream, started)
    finally:
        if note is not None:
            withdraw(note)


def _how_to_read(agent: str, flags: str) -> str:
    """Return what to do instead of tapping an agent. `flags`: those with which it prints a stream, if there are any."""
    if flags:
        return f" with these arguments; add {flags}"
    if agent in stores():
        return "; `tooltap up` follows the sessions that it stores"
    return "; `tooltap ingest FILE` reads the file that it writes"


def _socket(start: AgentStart) -> str:
    """The socket of the daemon, without symbolic links; empty if none is named."""
    named = os.environ.get("TOOLTAP_SOCKET") if start.socket is None else start.socket
    return os.path.realpath(named) if named else ""


def _run_tapped(start: AgentStart, stream: str, started: int) -> int:
    answering = _answering(start) if start.answers else None
    tap = _LateTap(start, stream, started, answering)
    tap_input = partial(tap.take, direction="in") if start.name == "proxy" or answering else None
    tap_output = partial(tap.take, direction="out")
    try:
        ended = run_child(start.command, tap_output, tap_input, answering=answering, while_starting=tap.load)
    except OSError as error:
        _print(f"cannot start {start.command[0]}: {error.strerror}")
        return CANNOT_START
    if (problem := tap.finish(ended)) is not None:
        _print(problem)
    return ended.status


def _answering(start: AgentStart) -> Answering | None:
    """Return what writes to the agent beside its client; None if the agent takes no answers from standard input."""
    if start.name == "run":
        mode = os.fstat(STDIN).st_mode
        if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
            _print("runs without --answers: standard input is no pipe")
            return None
        if not takes_answers(start.command):
            _print(f"runs without --answers: {start.command[0]} takes no answers with these arguments")
            return None
    from tooltap.daemon.taps.answering import Answering

    return Answering()


class _LateTap:
    """Tap that is imported and created lazily: while the agent starts, or when it first prints something."""

    def __init__(self, start: AgentStart, stream: str, started: int, answering: Answering | None) -> None:
        self._start = start
        self._answering = answering
        self._stream = stream
        self._started = started
        self._stdin_at = file_position(STDIN)  # before the agent reads
        self._lock = threading.Lock()
        self._tap: Tap | None = None
        self._failure: Exception | None = None

    def load(self) -> None:
        self._made()

    def take(self, data: bytes, direction: Direction) -> None:
        if (tap := self._made()) is not None:
            tap.take(data, direction)

    def finish(self, ended: Ended) -> str | None:
        """End the stream. Return what to tell the user if not all lines were delivered, or none was read."""
        if self._failure is not None:
            return f"tapping failed: {self._failure!r}"
        if self._tap is None:
            return None
        problem, statistics = self._tap.finish(process=_process_end(ended)), self._tap.statistics
        if problem is not None or statistics is None or statistics.with_events or not statistics.unparsed:
            return problem
        from tooltap.cli.common.recordings import not_understood

        return not_understood(self._start.command[0], self._start.dialect, statistics)

    def _made(self) -> Tap | None:
        with self._lock:
            if self._tap is None and self._failure is None:
                try:
                    self._tap = _tap(self._start, self._stream, self._started, self._stdin_at, self._answering)
                except Exception as error:  # the agent comes first
                    self._failure = error
            return self._tap


def _process_end(ended: Ended) -> ProcessEnd:
    from tooltap.protocol.inputs import ProcessEnd

    stopped_by: Literal["client"] | None = "client" if ended.stopped else None
    if ended.status >= 0:
        return ProcessEnd(ended.status, stopped_by=stopped_by)
    try:
        name = signal.Signals(-ended.status).name
    except ValueError:  # a real-time signal
        name = f"signal {-ended.status}"
    return ProcessEnd(signal=name, stopped_by=stopped_by)


def _tap(start: AgentStart, stream: str, started: int, stdin_at: int | None, answering: Answering | None) -> Tap:
    from pathlib import Path

    from tooltap.daemon.client.discovery import find_socket
    from tooltap.daemon.system.paths import spool_path
    from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions
    from tooltap.daemon.taps.delivery.tap import Tap

    prompt = given_prompt(start.command, stdin_at) if start.name == "run" else None
    provider = start.provider or provider_of_fork(agent_of(start.command))
    options = StreamOptions(
        stream,
        start.dialect,
        provider,
        start.session,
        start.mcp_servers,
        started=started,
        cwd=_folder(start.command),
        prompt=prompt,
    )
    socket = find_socket() if start.socket is None else Path(start.socket)
    to_agent = None if answering is None else answering.write
    return Tap(options, socket, SpoolLimits(spool_path(), *start.spool_limits), to_agent=to_agent)


def _folder(command: Sequence[str]) -> str | None:
    """Return the working folder; None if the agent may work in another one, or it cannot be written in a frame."""
    from tooltap.protocol.frames import FOLDER_LENGTH

    if not works_where_it_is_started(command):
        return None
    try:
        folder = os.getcwd()
        folder.encode()
    except (OSError, UnicodeEncodeError):
        return None
    return folder if len(folder) <= FOLDER_LENGTH else None


def file_position(descriptor: int) -> int | None:
    """Return the current offset of a file descriptor; None if it is not a regular file."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_CUR) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError:
        return None


def _exec(command: tuple[str, ...]) -> int:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        _print(f"cannot start {command[0]}: {error.strerror}")
        return CANNOT_START


def _print(text: str) -> None:
    from tooltap.cli.common.printing import warn

    warn(text)


PROMPT_BYTES = 192 * 1024
"""Maximum size of a prompt in JSON bytes, so that it fits into a frame; a longer one is left out."""


def given_prompt(command: Sequence[str], stdin_at: int | None) -> str | None:
    """Return the prompt with which `run` starts the agent: from the arguments, or from the file that is standard input,
    read from `stdin_at` on. None if there is none, it is too long, or it is typed or piped, which only the agent
    reads."""
    import orjson

    from tooltap.protocol.frames import PROMPT_LENGTH

    prompt = prompt_of(command, partial(_file_text, stdin_at))
    if prompt is None or len(prompt) > PROMPT_LENGTH:
        return None
    try:
        return prompt if len(orjson.dumps(prompt)) <= PROMPT_BYTES else None
    except orjson.JSONEncodeError:  # arguments need not be UTF-8
        return None


def _file_text(position: int | None) -> str | None:
    if position is None:
        return None
    try:
        data = os.pread(STDIN, PROMPT_BYTES + 1, position)
        return None if len(data) > PROMPT_BYTES else data.decode()
    except (OSError, UnicodeDecodeError):
        return None
