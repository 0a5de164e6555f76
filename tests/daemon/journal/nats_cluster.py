"""Three servers that store one journal: killed, stopped and cut off from each other, under daemons that use it.

`python -m tests.daemon.journal.nats_cluster --seconds 300` (`make lab-faults-nats`) does so for minutes, by a seed
that it prints: publishers at two daemons, subscribers at both. In the end every stream must have the events that it has
at a daemon to which nothing happened, each once, and every subscriber must have seen the same, in order and without a
gap.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson

from tests.daemon.ingest.test_kill9 import records, told_apart, unbroken
from tests.daemon.lives import Gone, Lives, Publisher, wait_for_ack
from tests.daemon.nats_server import NatsServer, reserved
from tests.daemon.running import Wire
from tooltap.daemon.journal.nats.place import NatsOptions, NatsPlace

__all__ = ["Cluster", "Outcome", "endure"]

LONGEST = 12.0
"""Seconds that a server is paused or cut off, at most."""
SERVERS = 3
KINDS = ("acp", "opencode", "claude")
PUBLISHERS = 4
ERRORS = {"superseded", "journal"}
"""Error codes after which a publisher resumes."""
CONFIG = """
server_name: n{number}
jetstream {{ store_dir: "{store}" }}
cluster {{
  name: c
  listen: "127.0.0.1:{port}"
  cluster_advertise: "127.0.0.1:{advertised}"
  no_advertise: true
  routes: [{routes}]
}}
"""
NAME = re.compile(rb'"(?:server_)?name":"(n\d)"')


class Proxy:
    """Proxy in front of one server's address, which can be silenced or cut off. All proxies run in one thread. `me`:
    name of that server; `cuts`: pairs of servers that cannot reach each other."""

    def __init__(self, me: str, listening: socket.socket, port: int, cuts: set[frozenset[str]]) -> None:
        self._me = me
        self.port = port
        self._cuts = cuts
        self._listening = listening
        self._mute = False
        self._writers: dict[asyncio.StreamWriter, str] = {}
        self._silenced: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, sock=self._listening)

    async def close(self) -> None:
        """Close the listening socket and all connections, and wait until their tasks have ended."""
        self._server.close()
        self.break_off(lambda _: True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def mute(self, *, on: bool) -> None:
        """Drop all responses, so that requests are carried out but nobody learns of it. When switched off, close the
        connections."""
        self._mute = on
        if not on:
            self.break_off(lambda _: True)

    def silence(self) -> None:
        """Drop the responses on the current connections."""
        self._silenced |= self._writers.keys()

    def break_off(self, which: Callable[[str], bool]) -> None:
        for writer, name in list(self._writers.items()):
            if which(name):
                writer.transport.abort()

    def is_cut(self, name: str) -> bool:
        return frozenset((self._me, name)) in self._cuts

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[writer] = ""
        task = asyncio.create_task(self._connected(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._end(task, writer))

    def _end(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self._tasks.remove(task)
        del self._writers[writer]
        writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                await asyncio.gather(
                    self._relay(reader, there_writer, writer, asks=True),
                    self._relay(there_reader, writer, writer, asks=False),
                )
            finally:
                there_writer.transport.abort()

    async def _relay(
        self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, known: asyncio.StreamWriter, *, asks: bool
    ) -> None:
        while data := await reader.read(65_536):
            if asks and not self._writers[known] and (match := NAME.search(data)) is not None:
                self._writers[known] = match[1].decode()
            if self.is_cut(self._writers[known]) or ((self._mute or known in self._silenced) and not asks):
                continue  # a network that is gone takes everything, and brings nothing
            to.write(data)
            await to.drain()
        raise ConnectionResetError


class Cluster:
    """A NATS cluster that is started on enter. Servers reach each other, and clients reach them, through proxies."""

    def __init__(self, directory: Path) -> None:
        self._stack = ExitStack()
        self._cuts: set[frozenset[str]] = set()
        self._loop = asyncio.new_event_loop()
        self.servers: list[NatsServer] = []
        sockets = [self._listening() for _ in range(SERVERS)]
        addresses = [one.getsockname()[1] for one in sockets]
        self._routes = [Proxy(f"n{number}", one, 0, self._cuts) for number, one in enumerate(sockets)]
        for number, proxy in enumerate(self._routes):
            folder = directory / str(number)
            folder.mkdir(parents=True)
            others = ", ".join(f'"nats://127.0.0.1:{one}"' for one in addresses if one != addresses[number])
            proxy.port = self._stack.enter_context(reserved()).getsockname()[1]
            (folder / "nats.conf").write_text(
                CONFIG.format(
                    number=number, store=folder / "js", port=proxy.port, advertised=addresses[number], routes=others
                )
            )
            server = NatsServer(folder, "-c", str(folder / "nats.conf"), jetstream=False)
            self.servers.append(self._stack.enter_context(server))
        fronts = [self._listening() for _ in range(SERVERS)]
        ports = [int(server.url.rpartition(":")[2]) for server in self.servers]
        self.fronts = [Proxy("", one, port, set()) for one, port in zip(fronts, ports, strict=True)]
        self.place = NatsPlace(
            servers=tuple(f"nats://127.0.0.1:{one.getsockname()[1]}" for one in fronts),
            options=NatsOptions(replicas=SERVERS, connect_timeout=60),
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Cluster:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._stack.close()

    def cut(self, *pairs: tuple[int, int], silent: bool) -> None:
        """Cut the connections of pairs of servers. `silent`: they stay open, but nothing passes."""
        self._call(lambda: self._cut({frozenset((f"n{one}", f"n{other}")) for one, other in pairs}, silent))

    def heal(self) -> None:
        self._call(self._heal)

    def mute(self, number: int, *, on: bool) -> None:
        self._call(lambda: self.fronts[number].mute(on=on))

    def _cut(self, pairs: set[frozenset[str]], silent: bool) -> None:
        self._cuts |= pairs
        if not silent:
            self._break_off()

    def _heal(self) -> None:
        self._break_off()
        self._cuts.clear()

    def _break_off(self) -> None:
        for proxy in self._routes:
            proxy.break_off(proxy.is_cut)

    def _call(self, work: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(work)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        for proxy in (*self._routes, *self.fronts):
            self._loop.run_until_complete(proxy.start())
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _close(self) -> None:
        for proxy in (*self._routes, *self.fronts):
            await proxy.close()
        being_accepted = asyncio.all_tasks() - {asyncio.current_task()}
        for task in being_accepted:
            task.cancel()
        await asyncio.gather(*being_accepted, return_exceptions=True)
        await asyncio.sleep(0)  # in the next round of the loop, aborted connections are closed

    def _listening(self) -> socket.socket:
        one = self._stack.enter_context(socket.socket())
        one.bind(("127.0.0.1", 0))
        return one


class Subscriber(threading.Thread):
    """A subscriber that reconnects and resumes by `seq` until it is stopped."""

    def __init__(self, lives: Lives) -> None:
        super().__init__(daemon=True)
        self.lives = lives
        self.seen: list[bytes] = []
        self.gaps: list[dict[str, Any]] = []
        self.connections = 0
        self.over = threading.Event()
        self._wire: Wire | None = None

    def run(self) -> None:
        while not self.over.is_set():
            try:
                with self.lives.connect() as wire:
                    self._wire = wire
                    self.connections += 1
                    wire.send("subscribe", after=orjson.loads(self.seen[-1])["seq"] if self.seen else "start")
                    self._read(wire)
            except (Gone, OSError):
                self.over.wait(0.1)

    def stop(self) -> None:
        self.over.set()
        if self._wire is not None:
            self._wire.socket.shutdown(socket.SHUT_RDWR)
        self.join()

    def _read(self, wire: Wire) -> None:
        while line := wire.line():
            if not line.startswith(b'{"op"'):
                self.seen.append(line)
            elif line.startswith(b'{"op":"gap"'):
                self.gaps.append(orjson.loads(line))


class Crowd:
    """Publishers that publish one stream after the other, each to one of two daemons, until they are stopped."""

    def __init__(self, sides: list[Lives], seed: int) -> None:
        self.done: dict[str, dict[str, Any]] = {}
        self.lines = 0
        self.told: Counter[str] = Counter()
        self.failures: list[BaseException] = []
        self._sides = sides
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._publish, args=(number, random.Random(f"{seed}/{number}")), daemon=True)
            for number in range(PUBLISHERS)
        ]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Stop, and wait until the streams that have begun have ended."""
        self._over.set()
        for thread in self._threads:
            thread.join(180)
            assert not thread.is_alive(), "a publisher is stuck"
        if self.failures:
            raise self.failures[0]

    def _publish(self, number: int, chance: random.Random) -> None:
        try:
            round_ = 0
            while not self._over.is_set():
                stream = f"{chance.choice(KINDS)}-{PUBLISHERS * round_ + number}"
                self._publish_one(stream, chance)
                round_ += 1
        except BaseException as error:
            self.failures.append(error)

    def _publish_one(self, stream: str, chance: random.Random) -> None:
        lines = records(stream)
        publisher = Publisher(chance.choice(self._sides), stream, lines)
        while not publisher.done:
            try:
                publisher.publish(wait_for_ack)
            except Gone:
                self.told["gone"] += 1
            except AssertionError as error:  # an error frame
                if error.args[0]["code"] not in ERRORS:
                    raise
                self.told[error.args[0]["code"]] += 1
            except TimeoutError:
                self.told["no answer"] += 1
            if not publisher.done:
                publisher._lives = chance.choice(self._sides)
                self._over.wait(0.05)
        self.done[stream] = publisher.done
        self.lines += len(lines)


class Outcome(NamedTuple):
    faults: Counter[str]
    streams: int
    lines: int
    events: int
    told: Counter[str]
    reconnections: int


def endure(directory: Path, seed: int, seconds: float) -> Outcome:
    """Cause faults for so many seconds, then check."""
    chance = random.Random(seed)
    faults: Counter[str] = Counter()
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(directory / "nats"))
        sides = [stack.enter_context(_daemon(directory / name, cluster.place)) for name in ("a", "b")]
        subscribers = [Subscriber(side) for side in sides for _ in range(2)]
        for one in subscribers:
            one.start()
        crowd = Crowd(sides, seed)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.05, 0.5))
            _harm(cluster, chance, faults)
        cluster.heal()
        crowd.finish()
        found = _replay(sides[0])
        assert _replay(sides[1]) == found
        for one in subscribers:
            deadline = time.monotonic() + 60
            while len(one.seen) < len(found) and time.monotonic() < deadline:
                time.sleep(0.02)
            one.stop()
            assert one.gaps == []
            assert one.seen == found, f"a subscriber has seen {len(one.seen)} events of {len(found)}"
        _check(found, crowd.done)
        return Outcome(
            faults,
            len(crowd.done),
            crowd.lines,
            len(found),
            crowd.told,
            sum(one.connections - 1 for one in subscribers),
        )


def _harm(cluster: Cluster, chance: random.Random, faults: Counter[str]) -> None:
    number = chance.randrange(SERVERS)
    server = cluster.servers[number]
    others = [other for other in range(SERVERS) if other != number]
    match chance.choice(("kill", "pause", "cut off", "one link", "lost answers", "kill two")):
        case "kill":
            faults["kills"] += 1
            server.kill()
            time.sleep(chance.uniform(0, LONGEST / 4))
            server.start()
        case "kill two":
            faults["kills"] += 2
            pair = [cluster.servers[other] for other in others]
            for one in pair:
                one.kill()
            for one in pair:
                one.start()
        case "pause":
            faults["pauses"] += 1
            server.pause()
            time.sleep(chance.uniform(0.1, LONGEST))
            server.resume()
        case "cut off":
            faults["partitions"] += 1
            cluster.cut(*((number, other) for other in others), silent=chance.random() < 0.5)
            time.sleep(chance.uniform(0.1, LONGEST))
            cluster.heal()
        case "one link":
            faults["partitions"] += 1
            cluster.cut((number, others[0]), silent=chance.random() < 0.5)
            time.sleep(chance.uniform(0.1, LONGEST))
            cluster.heal()
        case "lost answers":
            faults["lost answers"] += 1
            cluster.mute(number, on=True)
            time.sleep(chance.uniform(0.05, 0.5))
            cluster.mute(number, on=False)


@contextmanager
def _daemon(directory: Path, place: NatsPlace) -> Iterator[Lives]:
    directory.mkdir(parents=True)
    options = f"?replicas={place.options.replicas}&connect_timeout=60"
    hosts = ",".join(server.removeprefix("nats://") for server in place.servers)
    with Lives(directory, journal=f"nats://{hosts}/{place.name}{options}") as lives:
        lives.seen = []  # it has subscribers that resume
        lives.start()
        yield lives


def _replay(lives: Lives) -> list[bytes]:
    """Return the events of the whole journal. A cluster that has just healed may need a while."""
    deadline = time.monotonic() + 120
    while True:
        with lives.connect() as wire:
            wire.send("subscribe", after="start", follow=False)
            lines = list(wire.lines())
        if lines and lines[-1].startswith(b'{"op":"live"'):
            return [line for line in lines if not line.startswith(b'{"op"')]
        assert time.monotonic() < deadline, lines[-1:]


def _check(found: list[bytes], done: dict[str, dict[str, Any]]) -> None:
    numbers = [orjson.loads(line)["seq"] for line in found]
    assert numbers == sorted(set(numbers))
    events, ends = unbroken()
    by_stream: dict[str, list[dict[str, Any]]] = {}
    for event in told_apart(found):
        by_stream.setdefault(event["stream"], []).append(event)
    assert by_stream.keys() == done.keys()
    for stream, end in done.items():
        like = f"{stream.partition('-')[0]}-0"
        assert by_stream[stream] == _renamed([one for one in events if one["stream"] == like], like, stream), stream
        assert end == _renamed(ends[like], like, stream)


def _renamed(value: Any, like: str, stream: str) -> Any:
    return orjson.loads(re.sub(rb'"%b(?=[":])' % like.encode(), b'"' + stream.encode(), orjson.dumps(value)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with TemporaryDirectory(prefix="tooltap-cluster-") as directory:
        outcome = endure(Path(directory), arguments.seed, arguments.seconds)
    print(outcome)


if __name__ == "__main__":
    main()
