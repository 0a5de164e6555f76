"""`tooltap demo`: plays recordings of several agents through a daemon, and prints the resulting event stream.

The recordings were printed by Claude Code 2.1.330, Codex 0.120 (`codex mcp-server`), Gemini CLI 0.61 and OpenCode
1.18.33 (both over ACP). The demo relies only on what arrives over the socket, and fails if a call or a result of any
agent is missing there.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import click
import orjson

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import run_client
from tooltap.cli.common.printing import at_terminal, joined, say, short, wants_colour
from tooltap.cli.common.render import Renderer
from tooltap.daemon.client.asynchronous import Subscription, connect, ingest, subscribe
from tooltap.daemon.client.discovery import ConnectError
from tooltap.daemon.show.skins.display import display_of
from tooltap.normalizers.wire.recording import Line, Recording
from tooltap.protocol.events import decode

AGENTS = {"claude-code": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI", "opencode": "OpenCode"}
"""Recording and stream of the same name -> the agent's display name."""
TIMEOUT = 30.0
"""Seconds for the daemon to start, and for the last event to arrive."""
PAUSE = 0.03
"""Seconds between two lines of an agent, so that a user can watch."""
SHOWN = 140
"""Code points printed of a payload."""


class Pair(NamedTuple):
    """A tool call as received from the socket, with its updates merged, and its result."""

    call: dict[str, Any]
    result: dict[str, Any]

    @property
    def has_payloads(self) -> bool:
        return bool(_without_metadata(self.call["input"]) and _without_metadata(self.result["output"]))


def _without_metadata(payload: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name not in ("_happy", "_raw")}


@click.command("demo", cls=Command, examples=("tooltap demo",))
def command() -> None:
    """Play recorded streams of several agents through a daemon and show the resulting event stream.

    Daemon, socket and journal are temporary. The exit code is 0 only if a tool call and its result arrived from every
    agent.
    """
    with tempfile.TemporaryDirectory(prefix="tooltap-") as folder, _daemon(Path(folder)) as socket:
        try:
            pairs = run_client(lambda: _play(socket))
        except TimeoutError:
            raise click.ClickException(f"the events have not arrived within {TIMEOUT:.0f} s") from None
    _show_payloads(pairs)
    if missing := [name for stream, name in AGENTS.items() if stream not in pairs]:
        raise click.ClickException(f"no tool call with a result has arrived from {', '.join(missing)}")


@contextmanager
def _daemon(folder: Path) -> Iterator[Path]:
    """Run a daemon in its own process, and return its socket."""
    socket = folder / "tooltap.sock"
    arguments = ["serve", "--socket", str(socket), "--journal", f"sqlite:{folder / 'journal.db'}"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "tooltap.cli", *arguments], stderr=log)
    try:
        yield socket
    finally:
        process.terminate()
        process.wait()


async def _play(socket: Path) -> dict[str, Pair]:
    """Publish all recordings concurrently, print the events, and return a complete call of each stream."""
    with anyio.fail_after(TIMEOUT):
        await _until_listening(socket)
    async with subscribe(after="start", path=socket) as subscription:
        screen = _Screen()
        watching = asyncio.create_task(screen.watch(subscription))
        try:
            events = await asyncio.gather(*(_publish(stream, socket) for stream in AGENTS))
            with anyio.fail_after(TIMEOUT):
                await screen.until(sum(events))
        finally:
            watching.cancel()
    return screen.pairs


async def _until_listening(socket: Path) -> None:
    while True:
        try:
            async with connect(socket):
                return
        except ConnectError:
            await anyio.sleep(PAUSE)


async def _publish(stream: str, socket: Path) -> int:
    """Play one recording, and return how many events the daemon made of it."""
    recording = Recording()
    lines = files("tooltap.cli").joinpath(f"static/demo/{stream}.jsonl").read_bytes().splitlines()
    async with ingest(stream=stream, path=socket) as publisher:
        for line in lines:
            read = recording.read(line)
            if isinstance(read, Line) and isinstance(read.data, bytes):
                await publisher.send(read.data, t=read.t, direction=read.direction)
                if at_terminal():
                    await anyio.sleep(PAUSE)
        return (await publisher.end()).events


class _Screen:
    """Prints events as they arrive. Remembers a complete call of each stream, preferably one with payloads."""

    def __init__(self) -> None:
        self.pairs: dict[str, Pair] = {}
        self._calls: dict[tuple[str, str], dict[str, Any]] = {}
        self._renderer = Renderer(verbose=True, colour=wants_colour())
        self._count = 0
        self._arrived = asyncio.Event()

    async def watch(self, subscription: Subscription) -> None:
        async for item in subscription:
            if isinstance(item, bytes):
                self._take(item)
                self._count += 1
                self._arrived.set()

    async def until(self, count: int) -> None:
        """Wait until that many events have arrived."""
        while self._count < count:
            self._arrived.clear()
            await self._arrived.wait()

    def _take(self, received: bytes) -> None:
        event = orjson.loads(received)
        if (shown := display_of(decode(received))) is not None:
            for line in self._renderer.lines(shown):
                say(joined([f"{event['seq']:>5}  {event['protocol']:<8}{event['provider']:<10}", line]))
        key = event["stream"], event.get("callId", "")
        if event["kind"] == "tool-call" and is_complete(event, event["input"]):
            self._calls[key] = event
        elif event["kind"] == "tool-update" and key in self._calls and "input" in event:
            self._calls[key] = {**self._calls[key], "name": event["name"], "input": event["input"]}
        elif event["kind"] == "tool-result" and key in self._calls and is_complete(event, event["output"]):
            known = self.pairs.get(event["stream"])
            if known is None or not known.has_payloads:
                self.pairs[event["stream"]] = Pair(self._calls[key], event)


def is_complete(event: dict[str, Any], payload: dict[str, Any]) -> bool:
    happy = payload.get("_happy", {})
    named = happy.get("v") == 2 and happy.get("canonicalToolName") == event["name"] and happy.get("rawToolName")
    return bool(named and payload.get("_raw") and not event.get("synthetic"))


def _show_payloads(pairs: dict[str, Pair]) -> None:
    say()
    say("A tool call of each agent with its result, as every subscriber receives them:")
    for stream, pair in pairs.items():
        say()
        say(f"{AGENTS[stream]}: {pair.call['name']}, {pair.result['status']}")
        for key, payload in (("input", pair.call["input"]), ("output", pair.result["output"])):
            for title, value in (
                (key, _without_metadata(payload)),
                ("_happy", payload["_happy"]),
                ("_raw", payload["_raw"]),
            ):
                say(f"  {title:<7} {short(orjson.dumps(value).decode(), SHOWN)}")
