"""The prompt that `run` knows from the arguments, and that the session file has as well, is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.taps.agents import RECORDED, Agent, Recorded
from tests.daemon.taps.following import Follower
from tests.daemon.taps.test_one_session import _events, expected, has_lines, settled, told, waits


def prompt_of(recorded: Recorded) -> str:
    return str(next(one["text"] for one in _events(recorded.kept) if one.get("role") == "user"))


def prompted(recorded: Recorded) -> Recorded:
    """The same session, as its user has started it."""
    prompt = prompt_of(recorded)
    given = [prompt if word == "hello" else word for word in recorded.arguments]
    return recorded._replace(arguments=tuple(given if prompt in given else [*given, prompt]))


@pytest.mark.parametrize("order", ["file first", "stdout first", "stdout alone", "together", "daemon away"])
@pytest.mark.parametrize("recorded", RECORDED, ids=[one.agent for one in RECORDED])
def test_prompt_is_there_once(recorded: Recorded, order: str, tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    with Agent(tmp_path, follower, prompted(recorded)) as agent:
        if order == "daemon away":
            agent.print()
            agent.keep()
            assert agent.end() == 0
        with follower:
            if order == "file first":
                agent.keep()
                waits(follower)
                agent.print()
            elif order in ("stdout first", "stdout alone"):
                agent.print()
                has_lines(follower, agent.printed)
                if order == "stdout alone":
                    agent.kept = 0
                else:
                    agent.keep()
            elif order == "together":
                for number in range(max(agent.printed, agent.kept)):
                    agent.print(number, number + 1)
                    agent.keep(number, number + 1)
            if order != "daemon away":
                assert agent.end() == 0
            events = settled(follower, agent)

    assert [one["text"] for one in events if one.get("role") == "user"] == [prompt_of(recorded)]
    if order != "daemon away":
        assert told(events) == expected(recorded)
