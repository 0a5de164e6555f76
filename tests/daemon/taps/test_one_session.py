"""A session that `run` taps and that is followed as well is one session, whichever stream comes first."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.journal.test_tap_and_file import SESSION, copilot
from tests.daemon.nats_server import NatsServer
from tests.daemon.taps.agents import RECORDED, Agent, Recorded
from tests.daemon.taps.following import Follower, lines_of
from tooltap.daemon.taps.stream_ids import recording_id
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer

agents = pytest.mark.parametrize("recorded", RECORDED, ids=[one.agent for one in RECORDED])


def told(events: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """What the events say of a session, whichever stream they are from."""
    return Counter(_gist(event) for event in events if event["kind"] in ("message", "tool-call", "tool-result", "turn"))


def _gist(event: dict[str, Any]) -> tuple[Any, ...]:
    keys = {"message": ("role", "text"), "tool-call": ("name",), "tool-result": ("name", "status"), "turn": ("state",)}
    return event["kind"], *(event.get(key) for key in keys[event["kind"]])


def expected(recorded: Recorded) -> Counter[tuple[Any, ...]]:
    """What the agent printed, and the prompt."""
    printed = told(_events(recorded.printed))
    return printed | Counter({gist: 1 for gist in told(_events(recorded.kept)) if gist[:2] == ("message", "user")})


def _events(path: Path, *, at_end: bool = True) -> list[dict[str, Any]]:
    normalizer = StreamNormalizer(Context(stream="s"))
    outputs = [output for line in lines_of(path) for output in normalizer.feed(line.removesuffix(b"\n"))]
    outputs += normalizer.close("end") if at_end else []
    return [json.loads(one.body) for one in outputs if isinstance(one, Produced) and not one.partial]


def settled(follower: Follower, agent: Agent) -> list[dict[str, Any]]:
    """Return all events once the tap's stream has ended and the file has been read."""

    def is_settled(stats: dict[str, Any]) -> bool:
        lines = {one["stream"]: (one["lines"], one["state"]) for one in stats["perStream"]}
        taps = [state for stream, (_, state) in lines.items() if stream.startswith("run-")]
        return taps == ["ended"] and lines.get(recording_id(str(agent.file)), (0,))[0] == agent.kept

    stats = follower.wait_stats(is_settled)
    for one in stats["perStream"]:
        assert one["lines"] == one["withEvents"] + one["unparsed"] + sum(one["skipped"].values())
        assert one["events"] == sum(one["kinds"].values())
        assert one["kinds"].get("tool-call", 0) == sum(one["tools"].values()) == sum(one["rawTools"].values())
    count = sum(one["events"] for one in stats["perStream"])
    events = follower.events_when(lambda events: len(events) == count)
    with follower.connect() as wire:
        sessions = wire.ask("sessions")["sessions"]
    assert len(sessions) == len({event["session"] for event in events}) == 1
    return events


def waits(follower: Follower) -> None:
    """Return when the follower has seen a file and waits with it."""
    follower.wait_stats(lambda stats: stats["following"]["files"] == 1 and stats["following"]["waiting"] == 1)


def has_lines(follower: Follower, count: int) -> None:
    """Return when so many lines of the tap are durable."""

    def has(stats: dict[str, Any]) -> bool:
        return any(one["lines"] >= count for one in stats["perStream"] if one["stream"].startswith("run-"))

    follower.wait_stats(has)


@agents
@pytest.mark.parametrize("is_stamped", [True, False], ids=["now", "earlier"])
def test_file_first(recorded: Recorded, is_stamped: bool, tmp_path: Path) -> None:
    """The file waits, without a clock, until the tap names its session."""
    with Follower(tmp_path) as follower, Agent(tmp_path, follower, recorded, is_stamped=is_stamped) as agent:
        agent.keep(0, 2)
        waits(follower)
        agent.keep(2)
        waits(follower)
        agent.print()
        assert agent.end() == 0
        assert told(settled(follower, agent)) == expected(recorded)


@agents
@pytest.mark.parametrize("is_stamped", [True, False], ids=["now", "earlier"])
def test_stdout_first(recorded: Recorded, is_stamped: bool, tmp_path: Path) -> None:
    with Follower(tmp_path) as follower, Agent(tmp_path, follower, recorded, is_stamped=is_stamped) as agent:
        agent.print()
        has_lines(follower, agent.printed)
        agent.keep()
        assert agent.end() == 0
        assert told(settled(follower, agent)) == expected(recorded)


@agents
def test_together(recorded: Recorded, tmp_path: Path) -> None:
    with Follower(tmp_path) as follower, Agent(tmp_path, follower, recorded) as agent:
        for number in range(max(agent.printed, agent.kept)):
            agent.keep(number, number + 1)
            agent.print(number, number + 1)
        assert agent.end() == 0
        assert told(settled(follower, agent)) == expected(recorded)


def test_on_a_shared_journal(nats_server: NatsServer, tmp_path: Path) -> None:
    """What is decided about a session is in the journal on NATS as well."""
    recorded = RECORDED[0]
    follower = Follower(tmp_path)
    follower.settings["journal"] = f"{nats_server.url}/one-session"
    with follower, Agent(tmp_path, follower, recorded) as agent:
        agent.keep(0, 2)
        waits(follower)
        agent.print(0, 3)
        agent.keep(2, 10)
        follower.read(agent.file, 10)
        follower.restart(follower.stop)
        agent.print(3)
        agent.keep(10)
        assert agent.end() == 0
        assert told(settled(follower, agent)) == expected(recorded)


@agents
def test_daemon_is_killed_again_and_again(recorded: Recorded, tmp_path: Path) -> None:
    with Follower(tmp_path) as follower, Agent(tmp_path, follower, recorded) as agent:
        agent.keep(0, 3)
        follower.restart(follower.kill)
        agent.print(0, 2)
        has_lines(follower, 2)
        follower.restart(follower.kill)
        agent.keep(3, agent.kept - 2)
        follower.restart(follower.kill)
        agent.print(2)
        has_lines(follower, agent.printed)
        follower.restart(follower.kill)
        agent.keep(agent.kept - 2)
        assert agent.end() == 0
        assert told(settled(follower, agent)) == expected(recorded)


@agents
def test_tap_is_a_guest_where_the_file_was_first(recorded: Recorded, tmp_path: Path) -> None:
    """The agent runs while the daemon is away. Its file is read before the spool is taken in."""
    follower = Follower(tmp_path, backfill="all")
    spool = follower.environment["TOOLTAP_SPOOL"]
    with Agent(tmp_path, follower, recorded) as agent:
        agent.print()
        agent.keep()
        assert agent.end() == 0
    follower.environment["TOOLTAP_SPOOL"] = str(tmp_path / "another")
    with follower:
        follower.read(agent.file, agent.kept)
        follower.environment["TOOLTAP_SPOOL"] = spool
        follower.restart(follower.kill)
        events = settled(follower, agent)

    assert {event["stream"] for event in events} == {recording_id(str(agent.file))}
    assert told(events) == told(_events(recorded.kept, at_end=False))


def test_copilot_whose_file_states_more(tmp_path: Path) -> None:
    """It prints its session's id last, and no tokens: two requests of 1,200 tokens in and 42 out."""
    paths = tmp_path / "printed.jsonl", tmp_path / "kept.jsonl"
    for path in paths:
        lines = copilot(SESSION, printed=path is paths[0])
        path.write_bytes(b"".join(line.data + b"\n" for line in lines if isinstance(line.data, bytes)))
    follower = Follower(tmp_path, agents=["copilot"])
    follower.environment["COPILOT_HOME"] = str(tmp_path / "copilot")
    follower.rollouts = tmp_path / "copilot" / "session-state" / SESSION
    follower.rollouts.mkdir(parents=True)
    recorded = Recorded("copilot", ("-p", "List.", "--output-format", "json"), *paths, "rollouts", "events.jsonl")
    with follower, Agent(tmp_path, follower, recorded) as agent:
        for number in range(max(agent.printed, agent.kept)):
            agent.keep(number, number + 1)
            agent.print(number, number + 1)
        assert agent.end() == 0
        follower.wait_stats(lambda stats: sum(one["lines"] for one in stats["perStream"]) == agent.printed + agent.kept)
        with follower.connect() as wire:
            sessions = wire.ask("sessions")["sessions"]
            (session,) = sessions

    assert (session["session"], session["cwd"], session["branch"]) == (SESSION, "/ws", "main")
    assert (session["inputTokens"], session["outputTokens"], session["cacheReadTokens"]) == (2_400, 84, 1_800)
    assert (session["status"], session["turns"], session["model"]) == ("completed", 1, "gpt-5.1")
