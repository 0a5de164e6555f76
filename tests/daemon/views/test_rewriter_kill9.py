"""Each result gets one view or one notice that there is none, although the daemon is killed with `kill -9`: before a
command starts, while it runs, when it has ended, and around the commit of what became of it."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.ingest.test_kill9 import KILLED, STOPPED, records
from tests.daemon.lives import SUBSCRIBERS, Gone, Lives, Publisher, wait_for_ack
from tests.daemon.running import TIMEOUT
from tests.daemon.views.test_rewriter import pending
from tests.daemon.views.viewing import shell

STREAM = "opencode-0"
TOOLS = {
    "Read": {"rewrite": shell("cat >/dev/null; echo shown")},
    "Bash": {"rewrite": shell("cat >/dev/null; echo oh no >&2; exit 3")},
}
RESULTS = {"Read": 2, "Bash": 1}
SEEDS = int(os.environ.get("TOOLTAP_KILLS", "2"))
"""Kills at random moments; more, and at more hits of each failpoint, with `TOOLTAP_KILLS`."""


def events(lives: Lives) -> list[dict[str, Any]]:
    with lives.connect() as wire:
        wire.send("subscribe", after="start", follow=False)
        return [event for event in wire.rest() if "kind" in event]


def outcomes(lives: Lives) -> list[dict[str, Any]]:
    """The views and notices."""
    return [one for one in events(lives) if "display" in one or one.get("code") == "view-failed"]


def check(lives: Lives) -> None:
    """Wait until what is missing is there, and check that nothing is there twice."""
    deadline = time.monotonic() + TIMEOUT
    while len(outcomes(lives)) < sum(RESULTS.values()):
        assert time.monotonic() < deadline, "a view is missing"
        time.sleep(0.02)
    lives.until_seen(len(events(lives)))
    lives.stop()
    lives.wait()
    seen = [json.loads(line) for line in lives.seen[0]]
    results = [one for one in seen if one["kind"] == "tool-result"]
    found = [one for one in seen if "display" in one or one.get("code") == "view-failed"]
    shown = {one["name"] for one in found if "display" in one}

    assert len({one["id"] for one in seen}) == len(seen)
    assert sorted(one["callId"] for one in found) == sorted(one["callId"] for one in results)
    assert shown == {"Read"}
    assert {one["data"]["detail"] for one in found if "data" in one} == {"exit code 3: oh no"}
    assert lives.seen == [lives.seen[0]] * SUBSCRIBERS
    if isinstance(lives.settings["journal"], str) and "://" not in lives.settings["journal"]:
        assert pending(Path(lives.settings["journal"]).parent) == {}


@pytest.mark.parametrize("nth", [2] if SEEDS <= 2 else [1, 2, 3])
@pytest.mark.parametrize("failpoint", ["view-start", "view-end", "view-commit", "view-committed"])
def test_killed_while_views_are_made(tmp_path: Path, failpoint: str, nth: int) -> None:
    """Three times: the last life begins with what two killed ones have left."""
    kills = 1 if failpoint == "view-committed" and nth == 3 else 2
    with Lives(tmp_path, tools=TOOLS, rewriting={"concurrency": 1}) as lives:
        publisher = Publisher(lives, STREAM, records(STREAM))
        lives.start(f"{failpoint}:{nth}")
        try:
            publisher.publish(wait_for_ack)
        except Gone:
            pass
        lives.wait()
        if kills == 2:
            lives.start(f"{failpoint}:1")
            try:
                publisher.publish(wait_for_ack)
            except Gone:
                pass
            lives.wait()
        lives.start()
        publisher.publish(wait_for_ack)
        check(lives)

        assert lives.died == [KILLED] * kills + [STOPPED]
        assert lives.hits() == [failpoint] * kills


@pytest.mark.parametrize("failpoint", ["before-ack", "before-commit", "after-commit"])
def test_killed_around_the_commits(tmp_path: Path, failpoint: str) -> None:
    """One kill at each commit, be it of lines or of a view."""
    with Lives(tmp_path, tools=TOOLS) as lives:
        publisher = Publisher(lives, STREAM, records(STREAM))
        kills = 0
        while not publisher.done:
            lives.start(f"{failpoint}:{2 + kills % 5}" if kills < 8 else "")
            try:
                publisher.publish(wait_for_ack)
                break
            except Gone:
                kills += 1
            lives.wait()
        check(lives)

        assert lives.died == [KILLED] * kills + [STOPPED]
        assert kills > 2


@pytest.mark.parametrize("seed", range(SEEDS))
def test_killed_at_any_moment_after_the_results(tmp_path: Path, seed: int) -> None:
    """The stream has ended, so that no publisher comes back."""
    chance = random.Random(seed)
    with Lives(tmp_path, tools=TOOLS, rewriting={"concurrency": 2}) as lives:
        publisher = Publisher(lives, STREAM, records(STREAM))
        lives.start()
        publisher.publish(lambda number, wire: None)
        for _ in range(2):
            time.sleep(chance.random() / 50)  # lets the daemon reach any point of its work
            lives.kill()
            lives.wait()
            lives.start()
        check(lives)


def test_killed_daemons_commands_are_run_again(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    hangs = {"*": {"rewrite": shell(f"echo $$ >> {pids}; exec sleep 1000")}}
    with Lives(tmp_path, tools=hangs, rewriting={"concurrency": 1}) as lives:
        lives.start()
        publisher = Publisher(lives, STREAM, records(STREAM))
        publisher.publish(wait_for_ack)
        deadline = time.monotonic() + TIMEOUT
        while not (pids.exists() and pids.read_text().endswith("\n")):
            assert time.monotonic() < deadline, "one runs"
            time.sleep(0.01)
        lives.kill()
        lives.wait()
        os.kill(int(pids.read_text()), 9)  # no daemon is left to kill it
        lives.settings["tools"] = TOOLS
        lives.start()
        check(lives)
