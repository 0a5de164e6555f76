"""An error at a line costs that line where no daemon reads it: in `tooltap normalize`, and in worker processes."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here
from tests.daemon.containment.sites import Injected, armed, counting, raising_at
from tests.daemon.containment.test_every_call_site import ERRORS, FIXTURES, SAMPLE, SEED
from tests.daemon.publishing import NOW, daemon, publish
from tooltap.daemon.ingest import offload
from tooltap.daemon.ingest.worker import HugeLine, ReadLine, read_line
from tooltap.daemon.system.logs import faults
from tooltap.daemon.taps.follow import backfill_worker as portions
from tooltap.daemon.taps.follow.stores import Position
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.frames import Done
from tooltap.protocol.inputs import write_tapped
from tooltap.traces.recording import reader

AGENT = FIXTURES / "claude-transcript" / "claude-code-2.1.330" / "shell-fails.jsonl"
CLAUDE = FIXTURES / "claude-stream" / "claude-code-1.0.128" / "web.jsonl"
SAY = {"do": "say", "text": "Hi"}


ACCOUNTS = {
    *(
        f"StreamNormalizer.{name}"
        for name in ("feed", "feed_block", "_feed", "_parse", "_release", "_count", "_choose")
    ),
    *("Held.add", "Held.may_grow", "Statistics.count_skip", "Statistics.count_call", "_count"),
}
"""What accounts for all lines. An error in there costs the rest of the file; a daemon would rebuild the stream."""


@pytest.fixture
def only_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors are put in while lines are read, not when the command starts or ends."""
    usual = reader.RecordingFeed.feed

    def reading(self: reader.RecordingFeed, *given: Any) -> Any:
        armed[0] = True
        try:
            return usual(self, *given)
        finally:
            armed[0] = False

    monkeypatch.setattr(reader.RecordingFeed, "feed", reading)


def normalized(*paths: Path) -> tuple[str, dict[str, list[dict[str, Any]]], dict[str, dict[str, Any]]]:
    """What the command has complained of, and the events and the statistics of each stream."""
    finished: subprocess.CompletedProcess[bytes] = here("normalize", "--stats-json", "--jobs", 1, *paths)
    events: dict[str, list[dict[str, Any]]] = {path.stem: [] for path in paths}
    for line in finished.stdout.splitlines():
        events[json.loads(line)["stream"]].append(json.loads(line))
    printed = finished.stderr.decode().splitlines()
    complaint = "".join(line for line in printed if not line.startswith("{"))
    assert finished.returncode == bool(complaint)
    printed = [] if complaint else printed
    statistics = {one["stream"]: one for line in printed if "stream" in (one := json.loads(line))}
    return complaint, events, statistics


def failed(events: list[dict[str, Any]]) -> list[int]:
    return [one["line"] for one in events if one.get("reason", "").startswith("parser-error: ")]


@pytest.mark.usefixtures("only_lines")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_normalize_goes_on_after_an_error_at_any_call_site(tmp_path: Path) -> None:
    tapped, plain = tmp_path / "tapped.jsonl", tmp_path / "plain.jsonl"
    lines = CLAUDE.read_bytes().splitlines()[:12]
    tapped.write_bytes(b"".join(write_tapped(line, NOW, "out") + b"\n" for line in lines))
    plain.write_bytes(b"\n".join(AGENT.read_bytes().splitlines()[:12]) + b"\n")
    _, undisturbed, _ = normalized(tapped, plain)
    with counting() as counts:
        normalized(tapped, plain)
    sites = sorted(counts)
    assert {"Recording.read", "read_tapped"} <= {site.function for site in sites}
    chance = random.Random(SEED)
    problems: list[str] = []
    framing = [site for site in sites if site.function in ("Recording.read", "read_tapped")]
    for site in [*framing, *chance.sample(sites, SAMPLE)] if SAMPLE else sites:
        number, error = chance.choice((1, chance.randint(1, counts[site]))), chance.choice(ERRORS)
        try:
            with raising_at(site, number, error) as raised:
                complaint, events, statistics = normalized(tapped, plain)
            assert raised
            assert not complaint or site.function in ACCOUNTS, complaint
            changed = [name for name in events if events[name] != undisturbed[name]]
            assert len(changed) <= 1, changed
            for name, one in statistics.items():
                classed = one["withEvents"] + one["unparsed"] + sum(one["skipped"].values())
                assert one["lines"] == classed == 12, one
                assert len(failed(events[name])) <= (name in changed)
        except (Exception, AssertionError) as problem:
            problems.append(f"{error.__name__} at pass {number} of {site}: {problem!r:.300}")
    assert not problems, "\n".join(problems)


@contextmanager
def is_armed() -> Iterator[None]:
    armed[0] = True
    try:
        yield
    finally:
        armed[0] = False


def place_of_failure(events: list[dict[str, Any]]) -> str:
    [reason] = [one["reason"] for one in events if one.get("reason", "").startswith("parser-error: ")]
    return str(reason).rpartition(" at ")[2]


def test_worker_goes_on_after_a_line_of_a_portion(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(AGENT.read_bytes())
    context = Context(stream="s")
    state = StreamNormalizer(context, "claude-transcript").dump()
    request = portions.Request(str(path), Position(), 10**6, context, state, None, 0, None, ())
    usual = portions.normalize(request)
    with counting() as counts, is_armed():
        portions.normalize(request)
    for site in (one for one in counts if one.function in ("is_too_old", "ClaudeTranscript._user")):
        with raising_at(site, 1, Injected) as raised, is_armed():
            portion = portions.normalize(request)

        assert raised
        assert usual is not None
        assert portion is not None
        events = [json.loads(one) for one in portion.outputs if isinstance(one, bytes)]
        assert len(failed(events)) == 1
        assert StreamNormalizer.load(portion.state, context).lines == len(path.read_bytes().splitlines())
        assert portion.after == usual.after
        assert [place for place, _ in portion.failures] == [place_of_failure(events)]


@pytest.mark.anyio
@pytest.mark.usefixtures("toy")
async def test_error_in_a_process_beside_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A huge line is read by another process, which says what was raised there."""

    async def in_process(self: offload.Offload, huge: HugeLine) -> ReadLine:
        with monkeypatch.context() as patch:
            patch.setattr(signal, "setitimer", lambda *arguments: None)
            patch.setattr(signal, "signal", lambda *arguments: None)
            patch.setattr(Parser, "take_line", raising)
            return read_line(huge)

    def raising(*arguments: Any, **keys: Any) -> Any:
        raise TypeError("put in by the test")

    monkeypatch.setattr(offload.Offload, "in_process", in_process)
    async with daemon(tmp_path / "journal.db", offload=offload.Offload(long_bytes=100, huge_bytes=200)) as streams:
        publisher = await publish(streams)
        await publisher.lines(SAY, {"do": "say", "text": "x" * 1_000}, SAY)
        await publisher.record(op="end")
        done = publisher.last(Done)
    assert (done.lines, done.with_events, done.unparsed) == (3, 2, 1)
    assert faults.counts.total() == 1
