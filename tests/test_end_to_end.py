"""The whole way: separate processes publish recorded streams of every dialect, and one normalized stream comes out.

The events are read with plain `socket` code and compared with what the normalizers make of the same lines.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.daemon.processes import DaemonProcess
from tests.daemon.running import TIMEOUT, Wire
from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.inputs import Line, looks_tapped, read_tapped

FIXTURES = Path(__file__).parent / "fixtures"
PUBLISH = Path(__file__).parent / "publish.py"
PATIENCE = 4 * TIMEOUT
"""Seconds for all publishers: there are some dozens of them."""
BY_RECEIPT = ("seq", "ts", "durationMs")
"""Fields that differ between runs if a recording has no times."""


class Recording(NamedTuple):
    path: Path

    @property
    def dialect(self) -> str:
        return self.path.parts[-3]

    @property
    def stream(self) -> str:
        return "/".join(self.path.with_suffix("").parts[-3:])

    @property
    def framing(self) -> str:
        return "tapped" if looks_tapped(self.path.read_bytes().split(b"\n", 1)[0]) else "raw"

    def expected(self) -> list[dict[str, Any]]:
        """The events of the stream, without fields that depend on the time."""
        normalizer = StreamNormalizer(Context(stream=self.stream))
        outputs = []
        for line in self.path.read_bytes().removesuffix(b"\n").split(b"\n"):
            if self.framing == "raw":
                outputs += normalizer.feed(line)
            elif line:
                record = read_tapped(line)
                assert isinstance(record, Line)
                outputs += normalizer.feed(record.line, record.t, record.direction)
        outputs += normalizer.close("end")
        return [timeless(json.loads(one.body)) for one in outputs if isinstance(one, Produced)]


class Served(NamedTuple):
    daemon: DaemonProcess
    recordings: list[Recording]
    live: list[bytes]
    """Every line received by a subscriber that was connected from the start."""


def timeless(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in BY_RECEIPT}


def apart(recordings: list[Recording]) -> Iterator[Recording]:
    """Recordings of which no two have a session or a request in common: the daemon has each event of a session once,
    and counts each request once."""
    known: set[tuple[str, str]] = set()
    for one in recordings:
        stated = {(key, event[key]) for event in one.expected() for key in ("session", "request") if key in event}
        if known.isdisjoint(stated):
            known |= stated
            yield one


@cache
def recordings() -> list[Recording]:
    """Traces first, which repeat other recordings."""
    paths = sorted(FIXTURES.glob("*/*/*.jsonl"), key=lambda path: (path.parts[-3] != "tooltap-trace", path))
    return list(apart([Recording(path) for path in paths]))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A daemon to which all recordings have been published concurrently, by one process per agent."""
    agents: dict[Path, list[str]] = {}
    for recording in recordings():
        arguments = f"{recording.stream}={recording.framing}={recording.path}"
        agents.setdefault(recording.path.parent, []).append(arguments)
    directory = tmp_path_factory.mktemp("daemon")
    config = directory / "tooltap.toml"
    config.write_text("settle_timeout = 1e9\n")
    with DaemonProcess(directory, "--config", config).wait_ready() as daemon, daemon.connect() as subscriber:
        subscriber.send("subscribe", after="start")
        subscriber.until("live")
        publishers = [
            subprocess.Popen(
                [sys.executable, "-I", PUBLISH, daemon.path, *files],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for files in agents.values()
        ]
        for one in publishers:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        with daemon.connect() as wire:
            assert wire.ask("stats")["connections"]["publishing"] == len(recordings())
        for one in publishers:
            assert one.stdin is not None
            one.stdin.write("begin\n")
            one.stdin.flush()
        done = [json.loads(line) for one in publishers for line in one.communicate(timeout=PATIENCE)[0].splitlines()]
        assert [one["op"] for one in done] == ["done"] * len(recordings())
        live = [subscriber.line() for _ in range(sum(one["events"] for one in done))]
        yield Served(daemon, recordings(), live)


def replay(served: Served, **arguments: Any) -> list[bytes]:
    """The event lines of a subscription that ends after the replay."""
    with served.daemon.connect() as wire:
        wire.send("subscribe", follow=False, **arguments)
        wire.until("subscribed")
        lines: list[bytes] = []
        while b'"op":"live"' not in (line := wire.line()):
            assert line
            lines.append(line)
        return lines


def seq(line: bytes) -> int:
    return int(json.loads(line)["seq"])


def test_every_dialect_has_recordings() -> None:
    assert {one.dialect for one in recordings()} == set(builtin())


@pytest.mark.parametrize("dialect", sorted(builtin()))
def test_events_match_the_normalizers(served: Served, dialect: str, subtests: pytest.Subtests) -> None:
    for recording in served.recordings:
        if recording.dialect == dialect:
            with subtests.test(recording.stream):
                lines = replay(served, after="start", filter={"stream": [recording.stream]})

                assert [timeless(json.loads(line)) for line in lines] == recording.expected()


def test_dialect_of_every_stream_is_recognised(served: Served) -> None:
    with served.daemon.connect() as wire:
        found = {one["stream"]: one["dialect"] for one in wire.ask("stats")["perStream"]}

    assert found == {one.stream: one.dialect for one in served.recordings}


def test_replay_equals_live_events(served: Served) -> None:
    assert replay(served, after="start") == served.live
    seqs = [seq(line) for line in served.live]
    assert seqs == sorted(set(seqs))


def test_subscription_resumes_after_cursor(served: Served) -> None:
    middle = len(served.live) // 2
    cursor = seq(served.live[middle - 1])
    with served.daemon.connect() as wire:
        journal = wire.ask("stats")["journal"]["id"]

    assert replay(served, after=cursor) == served.live[middle:]
    assert replay(served, after=f"{journal}:{cursor}") == served.live[middle:]


@pytest.mark.parametrize(
    ("key", "wanted"), [("kind", ["tool-call", "tool-result"]), ("provider", ["claude"]), ("kind", ["message"])]
)
def test_filtered_subscription(served: Served, key: str, wanted: list[str]) -> None:
    lines = replay(served, after="start", filter={key: wanted})

    assert lines == [line for line in served.live if json.loads(line)[key] in wanted]
    assert lines


def test_tool_filter_matches_canonical_and_raw_name(served: Served) -> None:
    bash = replay(served, after="start", filter={"tool": ["Bash"], "kind": ["tool-call"]})
    raw_names = {json.loads(line)["input"]["_happy"]["rawToolName"] for line in bash}

    assert bash == [
        line for line in served.live if (one := json.loads(line))["kind"] == "tool-call" and one["name"] == "Bash"
    ]
    for name in raw_names:
        assert replay(served, after="start", filter={"tool": [name], "kind": ["tool-call"]})


def test_every_call_and_result_has_happy_and_raw(served: Served) -> None:
    payloads = {"tool-call": "input", "tool-result": "output"}
    events = [json.loads(line) for line in served.live]
    found = [one[payloads[one["kind"]]] for one in events if one["kind"] in payloads]

    assert found
    for payload in found:
        assert payload["_happy"]["canonicalToolName"]
        assert "_raw" in payload


def test_daemon_exits_cleanly(served: Served) -> None:
    with Wire(served.daemon.path) as wire:
        assert wire.read()["latest"] == seq(served.live[-1])
    served.daemon.process.terminate()

    assert served.daemon.wait() == 0
