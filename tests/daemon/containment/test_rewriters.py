"""What goes wrong with the views of one stream keeps no other stream from its views, and is stated."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.running import TIMEOUT, Running
from tests.daemon.views.viewing import call, history, publish, result, shell, viewing
from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.system.commands import UserCommands
from tooltap.daemon.system.logs import faults
from tooltap.daemon.views import rewriter
from tooltap.daemon.views import rewriter as pending

pytestmark = [pytest.mark.usefixtures("toy"), pytest.mark.process]

STREAMS = ("b", "c", "a")
"""Missing views are looked for in the reverse order: first where it fails."""
SHOW = {"Bash": {"rewrite": shell("echo shown")}}


def publish_all(daemon: Running) -> None:
    for stream in STREAMS:
        publish(daemon, call("c", "Bash"), result("c", f"of {stream}"), stream=stream)


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def viewed(daemon: Running) -> list[str]:
    """The streams whose results have a view."""
    return sorted(one["stream"] for one in history(daemon, kind=["tool-update"]))


def failed(daemon: Running) -> dict[str, str]:
    """The streams that say why a result has none."""
    return {one["stream"]: one["data"]["reason"] for one in history(daemon, kind=["notice"])}


def raise_for(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, concerns: Callable[..., bool], times: int
) -> None:
    """Raise in calls that concern stream `a`, this many times."""
    usual = getattr(owner, name)
    left = times

    def raising(*arguments: Any, **keys: Any) -> Any:
        nonlocal left
        if left and concerns(*arguments, **keys):
            left -= 1
            raise TypeError("put in by the test")
        return usual(*arguments, **keys)

    monkeypatch.setattr(owner, name, raising)


def test_command_that_raises_costs_its_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_for(monkeypatch, UserCommands, "run", lambda _, command, stdin, **bounds: b"of a" in stdin, 1)
    with viewing(tmp_path, SHOW) as daemon:
        publish_all(daemon)
        until(lambda: viewed(daemon) == ["b", "c"] and failed(daemon) == {"a": "it cannot be used"})
        assert sum(daemon.stats()["errors"].values()) == 1


def test_view_that_cannot_be_committed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_for(monkeypatch, Streams, "settle_views", lambda _, stream, outcomes: stream == "a", 1)
    with viewing(tmp_path, SHOW) as daemon:
        publish_all(daemon)
        until(lambda: viewed(daemon) == ["b", "c"] and not daemon.stats()["rewriting"]["running"])
        daemon.call(daemon.daemon._make_missing_views)
        until(lambda: viewed(daemon) == ["a", "b", "c"])


def test_failure_that_cannot_be_stated_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_for(monkeypatch, rewriter, "_envelope", lambda result: result.stream == "a", 2)
    with viewing(tmp_path, SHOW) as daemon:
        publish_all(daemon)
        until(lambda: viewed(daemon) == ["b", "c"] and not daemon.stats()["rewriting"]["running"])
        daemon.call(daemon.daemon._make_missing_views)
        until(lambda: viewed(daemon) == ["a", "b", "c"])


@pytest.mark.parametrize(
    ("owner", "name", "concerns"),
    [
        (rewriter, "find_pending", lambda journal, stream, ids, rules: stream == "a"),
        (pending, "rewrite_of", lambda rule, result, asked: result.stream == "a"),
    ],
    ids=["stream", "result"],
)
def test_missing_views_of_others_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, concerns: Callable[..., bool]
) -> None:
    with viewing(tmp_path, {"Bash": {"rewrite": shell("sleep 1000")}}, shutdown_timeout=0.2) as daemon:
        publish_all(daemon)
    raise_for(monkeypatch, owner, name, concerns, 1)
    with viewing(tmp_path, SHOW) as daemon:
        until(lambda: viewed(daemon) == ["b", "c"])
        if name == "find_pending":  # nothing is known of the results: they are looked for again
            daemon.call(daemon.daemon._make_missing_views)
            until(lambda: viewed(daemon) == ["a", "b", "c"])
        else:
            until(lambda: failed(daemon) == {"a": "it cannot be used"})


def test_resumed_stream_whose_views_are_missing_harms_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with viewing(tmp_path, {"Bash": {"rewrite": shell("sleep 1000")}}, shutdown_timeout=0.2) as daemon:
        publish(daemon, call("c", "Bash"), result("c", "of a"), stream="a", end=False)
    faults.counts.clear()
    raise_for(monkeypatch, rewriter.Rewriter, "make_missing", lambda *arguments: True, 2)
    with viewing(tmp_path, SHOW) as daemon:
        until(lambda: faults.counts.total() == 1)
        publish(daemon, {"do": "say", "text": "again"}, stream="a")
        until(lambda: faults.counts.total() == 2)
        publish(daemon, {"do": "say", "text": "Hi"}, stream="b")
        assert {one["stream"] for one in history(daemon, kind=["message"])} == {"a", "b"}
