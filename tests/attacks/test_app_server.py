"""Attacks on `tooltap attach codex`: by another user at the place of the app-server's socket, and by a server that
sends what it likes. Nothing is written to a stranger, nothing runs, and what is kept has a bound."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.sync.server import ServerConnection, unix_serve

from tests.attacks.stranger import Stranger
from tests.cli.command import here, sentence, tooltap
from tests.cli.tap.spooling import until
from tests.cli.tap.test_attach_codex import THREAD, AppServer, attached, of, question
from tests.daemon.running import Running, running
from tooltap.daemon.taps import app_server
from tooltap.daemon.taps.app_server import Instance, follow_app_server
from tooltap.daemon.taps.attach import AttachError
from tooltap.daemon.taps.delivery.delivery import WriteToAgent
from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions
from tooltap.daemon.taps.delivery.tap import Tap
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.inputs import Direction

OVER = '{"method":"over"}'
"""A message after which a test ends."""
SAID = "\x1b]0;root\x07\x9b2J\u202e"
ACTING = ("\x1b", "\x07", "\x9b", "\u202e")


def listen(place: str) -> None:
    import os
    import socket
    import sys

    listening = sys.__dict__["held"] = socket.socket(socket.AF_UNIX)
    listening.bind(place)
    os.chmod(place, 0o666)
    os.utime(place, (1, 1))
    listening.listen()
    listening.setblocking(False)


def link(place: str, target: str) -> None:
    import os

    os.symlink(target, place)


def take_the_place(of: str, place: str) -> None:
    import os

    os.rename(place, of)


def received() -> str | None:
    """Return what the one client has sent; None if none came."""
    import sys

    try:
        connection, _ = sys.__dict__["held"].accept()
    except BlockingIOError:
        return None
    connection.settimeout(30)
    return str(connection.recv(1000).decode())


@pytest.fixture(autouse=True)
def own_spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLTAP_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setattr(app_server, "configure", lambda: None)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "daemon") as daemon:
        yield daemon


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "codex.sock"


def follow(path: Path) -> list[bytes]:
    """Follow a server in this process until it says `OVER`, and return the lines that were tapped before that. Raises
    `AttachError`."""
    put: list[bytes] = []
    stop: list[Callable[[], object]] = []

    class Kept(Tap):
        def put(self, lines: Iterable[bytes | LongLine], direction: Direction, t: int | None = None) -> None:
            for line in lines:
                assert isinstance(line, bytes)
                if line == OVER.encode():
                    stop[0]()
                    return
                put.append(line)

    async def open_tap(instance: Instance, write: WriteToAgent) -> tuple[Tap, bool]:
        return Kept(StreamOptions(instance.stream), path.parent / "none.sock", SpoolLimits(path.parent)), False

    # In a thread of its own: the browser of other tests keeps an event loop running in this one.
    with ThreadPoolExecutor(1) as thread:
        following = follow_app_server("Codex", path, path.parent / "noted", open_tap, stop.append)
        thread.submit(asyncio.run, following).result()
    return put


@contextmanager
def served(path: Path, serve: Callable[[ServerConnection], None]) -> Iterator[None]:
    """A server that does what it likes with each client."""

    def handle(connection: ServerConnection) -> None:
        try:
            serve(connection)
            for _ in connection:
                pass
        except ConnectionClosed:
            pass

    with unix_serve(handle, str(path), compression=None, max_size=None) as server:
        os.utime(path, (1, 1))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def welcomed(listening: socket.socket) -> socket.socket:
    """Return the next connection after its handshake, of which nothing else is read."""
    connection, _ = listening.accept()
    server = ServerProtocol()
    while not (requests := server.events_received()):
        server.receive_data(connection.recv(65_536))
    [request] = requests
    assert isinstance(request, Request)
    server.send_response(server.accept(request))
    for data in server.data_to_send():
        connection.sendall(data)
    return connection


# -- another user -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["socket", "link", "our link", "replaced"])
def test_nothing_is_written_to_the_socket_of_another_user(
    way: str, shared: Path, lasting_stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`replaced`: it was ours when it was looked at, and is another by the time of the connection."""
    place, theirs = shared / "codex.sock", shared / "theirs.sock"
    look = app_server._instance

    def look_too_early(path: Path) -> Instance:
        found = look(path)
        lasting_stranger.run(take_the_place, place, theirs)
        return found

    lasting_stranger.run(listen, place if way == "socket" else theirs)
    with socket.socket(socket.AF_UNIX) as ours:
        if way == "link":
            lasting_stranger.run(link, place, theirs)
        elif way == "our link":
            place.symlink_to(theirs)
        elif way == "replaced":
            ours.bind(str(place))
            os.utime(place, (1, 1))
            monkeypatch.setattr(app_server, "_instance", look_too_early)
        with pytest.raises(AttachError) as raised:
            follow(place)

    what = f"what is listening at {place}" if way == "replaced" else str(place)
    assert str(raised.value) == f"{what} belongs to another user"
    assert lasting_stranger.run(received) == ("" if way == "replaced" else None)


def test_command_says_so_in_one_sentence(shared: Path, lasting_stranger: Stranger) -> None:
    place = shared / "codex.sock"
    lasting_stranger.run(listen, place)
    finished = tooltap("attach", "codex", f"unix:{place}", "--socket", shared / "none.sock")

    assert (finished.returncode, sentence(finished)) == (1, f"{place} belongs to another user")


# -- what is no app-server --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 302 Found\r\nLocation: ws://evil.example/\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: ws://localhost/again\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: wss://localhost/\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: ws://[/\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n",
    b"HTTP/1.1 101 \x9b2J\r\nUpgrade: \x9b2J\r\n\r\n",
    b"HTTP/1.1 101 x\r\nUpgrade: " + b"x" * 8_000 + b"\r\nConnection: Upgrade\r\n\r\n",
    b"HTTP/1.1 101 x\r\n" + b"x: y\r\n" * 1_000,
    b"x" * 1_000_000,
    SAID.encode(),
    b"",
])  # fmt: skip
def test_other_server_is_one_sentence_and_leads_nowhere(answer: bytes, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        os.utime(path, (1, 1))

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                try:
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65_536):
                        pass
                except OSError:  # it has heard enough
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(AttachError) as raised:
            follow(path)
        thread.join()
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):  # it does not try again
            listening.accept()

    said = str(raised.value)
    assert said.startswith(f"{path} is no socket of Codex: ")
    assert len(said) < len(str(path)) + 400
    assert not [one for one in (*ACTING, "\n", "Traceback") if one in said]


# -- what a server sends ----------------------------------------------------------------------------------------------


def test_endless_fragments_are_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no bytes that count towards the length of a message."""
    number, most = 50_000, 5_000_000
    monkeypatch.setattr("asyncio.selector_events._SelectorSocketTransport.max_size", 1_000)
    nothing = Frame(Opcode.CONT, b"", fin=False).serialize(mask=False)
    begin = Frame(Opcode.TEXT, OVER.encode(), fin=False).serialize(mask=False)
    message = begin + nothing * number + Frame(Opcode.CONT, b"").serialize(mask=False)
    with served(path, lambda connection: connection.socket.sendall(message)):
        tracemalloc.start()
        try:
            follow(path)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak < most


def test_messages_that_are_no_json_rpc_are_only_lines(path: Path) -> None:
    said = [
        (b'{"method":"\xff\xfe"}', '{"method":"\ufffd\ufffd"}'.encode()),
        (b"[" * 100_000, b"[" * 100_000),
        (b'{"a":' * 100_000, b'{"a":' * 100_000),
        (b'{"method":\n7,"params":[]}', b'{"method": 7,"params":[]}'),
        (b'{"id":{"a":1},"method":{},"params":{"thread":[],"status":7}}', None),
        (b'{"id":"attach-initialize-2","result":7,"error":[]}', None),
        (b'{"id":1e999,"method":"x"}', None),
        (b"", b""),
    ]

    def serve(connection: ServerConnection) -> None:
        for message, _ in said:
            connection.send(message, text=True)
        connection.send(OVER)

    with served(path, serve):
        assert follow(path) == [message if line is None else line for message, line in said]


@pytest.mark.parametrize("said", [
    {"id": "attach-thread/resume-9", "result": {"data": [THREAD]}},
    {"id": "attach-initialize-9", "result": {}},
    {"id": "tooltap-0123456789abcdef", "result": {}},
    {"id": "attach-initialize-1", "method": "x", "params": {"threadId": "other"}},
    {"id": "tooltap-0123456789abcdef", "method": "item/commandExecution/requestApproval", "params": {}},
    {"method": "serverRequest/resolved", "params": {"requestId": {"attach-": []}}},
])  # fmt: skip
def test_nothing_is_written_for_ids_that_look_like_ours(said: dict[str, Any], path: Path) -> None:
    got: list[dict[str, Any]] = []

    def serve(connection: ServerConnection) -> None:
        got.append(orjson.loads(connection.recv()))
        connection.send(orjson.dumps(said), text=True)
        connection.send(OVER)
        got.extend(map(orjson.loads, connection))

    with served(path, serve):
        follow(path)
    assert [one["method"] for one in got] == ["initialize"]


def test_threads_and_requests_without_end_are_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_server, "MOST_KNOWN", 20)
    connections: list[Any] = []
    begin = app_server._Connection.__init__

    def kept(self: Any, *arguments: Any) -> None:
        connections.append(self)
        begin(self, *arguments)

    monkeypatch.setattr(app_server._Connection, "__init__", kept)

    def serve(connection: ServerConnection) -> None:
        for n in range(100):
            long = "x" * 2_000 * (n % 2)
            for keys in ({}, {"ephemeral": True}):
                thread = {"id": f"{keys and 'own'}{n}{long}", **keys}
                connection.send(orjson.dumps({"method": "thread/started", "params": {"thread": thread}}), text=True)
            connection.send(orjson.dumps({"id": f"{n}{long}", "method": "ask"}), text=True)
            closed = {"method": "thread/closed", "params": {"threadId": f"{n}"}}
            connection.send(orjson.dumps(closed), text=True)
        connection.send(OVER)

    with served(path, serve):
        follow(path)
    [one] = connections
    for known in (one._threads, one._own, one._open):
        assert len(known) <= 20
        assert not [name for name in known if len(name) > app_server.LONGEST_ID]
    assert len(one._own) == len(one._open) == len(one._asked) == 20


def test_pings_whose_answers_nobody_reads_end_the_connection(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_server, "UNREAD", 1_000_000)
    pings = Frame(Opcode.PING, b"x" * 125).serialize(mask=False) * 100
    sent = 0
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        os.utime(path, (1, 1))

        def serve() -> None:
            nonlocal sent
            with welcomed(listening) as first, contextlib.suppress(OSError):
                while True:
                    first.sendall(pings)
                    sent += len(pings)
            with welcomed(listening) as second:
                second.sendall(Frame(Opcode.TEXT, OVER.encode()).serialize(mask=False))
                while second.recv(65_536):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setattr(app_server, "CLOSING", 0.01)
        follow(path)
        thread.join()
    assert sent < 8 * app_server.UNREAD


# -- names ------------------------------------------------------------------------------------------------------------

HOSTILE = ["--help", "-c model=evil", "$(touch made)", "a; touch made", "../../made", f"a{SAID}", "\x00", "a\nb"]


@pytest.mark.process
def test_hostile_ids_and_titles_reach_no_command_line_and_no_terminal(
    daemon: Running, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with AppServer(path) as server:
        server.loaded = [*HOSTILE, THREAD]
        server.joinable = [*HOSTILE, THREAD]
        with attached(daemon, path) as wire:
            question(wire)
            server.say({"method": "thread/name/updated", "params": {"threadId": THREAD, "threadName": SAID}})
            until(lambda: {THREAD, *HOSTILE[:2]} <= {one["session"] for one in of(daemon, "session")})
            rows = wire.ask("sessions")["sessions"]
    names = [one["session"] for one in rows]
    assert len(names) > 2
    printed = [here("sessions", "--socket", daemon.path)]
    for name in names:
        finished = here("resume", "--print", "--socket", daemon.path, "--", name)
        printed.append(finished)
        assert finished.returncode == (0 if name == THREAD else 1), name
        if name != THREAD:
            assert finished.stdout == b""
            assert sentence(finished)

    told = "".join((one.stdout + one.stderr).decode() for one in printed)
    assert not [one for one in ACTING if one in told]
    assert not (tmp_path / "made").exists()
