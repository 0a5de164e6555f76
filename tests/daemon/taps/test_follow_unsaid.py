"""Calls that a tapped agent has not printed, and that its session file has: they are there, once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.lives import Gone
from tests.daemon.taps.following import (
    CLAUDE,
    FIXTURES,
    PRINTED,
    Follower,
    append,
    lines_of,
    moved_to_now,
    publish,
    publish_more,
)

FILE = lines_of(CLAUDE)
CALL, RESULT = 19, 20
"""Lines of the file with its call and the result."""
PRINT = lines_of(PRINTED)
UNTIL_CALL = PRINT[:2]
"""What is printed before the call."""
CODEX_FILE = lines_of(FIXTURES / "codex-rollout" / "codex-0.169" / "interrupted.jsonl")
CODEX_PRINT = lines_of(FIXTURES / "codex-exec" / "codex-0.169" / "interrupted.jsonl")
"""The output of the same run; its last line is the call, which was stopped."""
_DONE = {"status": "completed", "exit_code": 0, "aggregated_output": "tick"}
_CALLED = json.loads(CODEX_PRINT[-1])
COMPLETED = json.dumps({"type": "item.completed", "item": {**_CALLED["item"], **_DONE}}).encode() + b"\n"
"""What it would have printed, had the call not been stopped."""
ROLLOUT = "rollout-2026-11-21T20-43-30-01a1ffd9-8f39-7e73-b1ef-ce9c115a6155.jsonl"


def test_call_that_was_not_printed_is_there(tmp_path: Path) -> None:
    with Follower(tmp_path, grace=0.5, tolerance=0.5) as follower:
        with follower.connect() as wire:
            publish(wire, "run-1", UNTIL_CALL)
            append(follower.session, moved_to_now(FILE[: CALL + 1]))
            follower.read(follower.session, CALL + 1)
            end(wire)
        events = settled(follower, 2)

    assert about_calls(events) == [("tool-call", "running"), ("tool-result", "interrupted")]
    call, result = (event for event in events if event.get("callId"))
    assert (call["session"], call.get("turn")) == (result["session"], None)
    assert result["synthetic"]


def test_call_is_not_reported_while_its_tap_runs(tmp_path: Path) -> None:
    with Follower(tmp_path, grace=0.5, tolerance=0.5) as follower, follower.connect() as wire:
        publish(wire, "run-1", UNTIL_CALL)
        append(follower.session, moved_to_now(FILE[: CALL + 1]))
        follower.read(follower.session, CALL + 1)
        assert about_calls(settled(follower, 0)) == []


def test_call_that_was_printed_is_there_once(tmp_path: Path) -> None:
    with Follower(tmp_path, grace=0.5, tolerance=0.5) as follower:
        with follower.connect() as wire:
            publish(wire, "run-1", PRINT[:1])
            append(follower.session, moved_to_now(FILE))
            follower.read(follower.session, len(FILE))
            publish_more(wire, PRINT[1:], len(PRINT))
            end(wire)
        events = settled(follower, 2)

    assert about_calls(events) == [("tool-call", "running"), ("tool-result", "failed")]


def test_call_is_there_when_the_file_is_read_after_the_tap_has_ended(tmp_path: Path) -> None:
    lines = moved_to_now(FILE)
    with Follower(tmp_path, grace=5.0, tolerance=5.0) as follower:
        with follower.connect() as wire:
            publish(wire, "run-1", UNTIL_CALL)
            end(wire)
        append(follower.session, lines)
        events = settled(follower, 2)

    assert about_calls(events) == [("tool-call", "running"), ("tool-result", "failed")]


def test_result_that_the_file_states_later_replaces_the_inferred_one(tmp_path: Path) -> None:
    lines = moved_to_now(FILE)
    with Follower(tmp_path, grace=0.5, tolerance=0.5) as follower:
        with follower.connect() as wire:
            publish(wire, "run-1", UNTIL_CALL)
            append(follower.session, lines[: CALL + 1])
            follower.read(follower.session, CALL + 1)
            end(wire)
        follower.events_when(lambda events: len(about_calls(events)) == 2)
        append(follower.session, lines[RESULT : RESULT + 1])
        events = settled(follower, 3)

    assert about_calls(events) == [("tool-call", "running"), ("tool-result", "interrupted"), ("tool-result", "failed")]
    inferred, stated = (event for event in events if event["kind"] == "tool-result")
    assert stated["replaces"] == inferred["id"]


def test_message_that_was_not_printed_is_left_out(tmp_path: Path) -> None:
    """Unlike its call, and the prompt."""
    with Follower(tmp_path, grace=0.5, tolerance=0.5) as follower:
        with follower.connect() as wire:
            publish(wire, "run-1", UNTIL_CALL)
            append(follower.session, moved_to_now(FILE))
            follower.read(follower.session, len(FILE))
            end(wire)
        events = settled(follower, 2)

    assert any(b"The command failed with exit code 3." in line for line in FILE)
    assert [(one["role"], one["text"]) for one in events if one["kind"] == "message"] == [
        ("user", "[[S5]] Run the failing command.")
    ]


def test_stopped_call_of_an_agent_that_numbers_its_calls_is_there_once(tmp_path: Path) -> None:
    """Codex `exec` calls `item_1` what its session file calls `call_637…`."""
    assert about_calls(codex(tmp_path, CODEX_PRINT, 2)) == [("tool-call", "running"), ("tool-result", "interrupted")]


def test_stopped_call_that_codex_has_not_printed_is_there(tmp_path: Path) -> None:
    """The second of two: the first was printed as completed."""
    events = codex(tmp_path, [*CODEX_PRINT, COMPLETED], 4)

    of_run = [("tool-call", "running"), ("tool-result", "completed")]
    assert about_calls(events) == [*of_run, ("tool-call", "running"), ("tool-result", "cancelled")]


def test_call_whose_result_is_read_after_the_tap_has_ended_is_there_once(tmp_path: Path) -> None:
    """Where nothing reports changes of the file, the end of the tap comes first."""
    call, result = 11, 13
    lines = moved_to_now(CODEX_FILE)
    stated = json.loads(lines[result])
    stated["timestamp"] = json.loads(lines[call])["timestamp"]  # before the tap ends
    stated["payload"]["output"] = "Wall time: 3.6 seconds\nProcess exited with code 0\nOutput:\ntick\n"
    with Follower(tmp_path, grace=0.5, tolerance=0.5, polling=True) as follower:
        path = follower.rollouts / ROLLOUT
        with follower.connect() as wire:
            publish(wire, "run-1", [*CODEX_PRINT, COMPLETED])
            append(path, lines[: call + 1])
            follower.read(path, call + 1)
            append(path, [json.dumps(stated).encode() + b"\n"])
            end(wire)
        events = settled(follower, 2)

    assert about_calls(events) == [("tool-call", "running"), ("tool-result", "completed")]


@pytest.mark.parametrize("failpoint", ["after-commit:1", "before-commit:2", "after-commit:2"])
def test_daemon_that_is_killed_reports_the_call_once(tmp_path: Path, failpoint: str) -> None:
    """The first commit is that of the tap's end, the second that of the call."""
    with Follower(tmp_path, grace=0.5, tolerance=0.5) as follower:
        with follower.connect() as wire:
            publish(wire, "run-1", UNTIL_CALL)
            append(follower.session, moved_to_now(FILE[: RESULT + 1]))
            follower.read(follower.session, RESULT + 1)
            follower.kill()
            follower.wait()
        follower.start(failpoint)
        end_again(follower)
        while follower.hits() != [failpoint.partition(":")[0]]:
            pass
        follower.wait()
        follower.start()
        end_again(follower)
        events = settled(follower, 2)

    assert about_calls(events) == [("tool-call", "running"), ("tool-result", "failed")]


@pytest.mark.parametrize(
    ("made", "characters", "kept"),
    [pytest.param(66, 10, 64, id="64 calls"), pytest.param(7, 60_000, 3, id="256 KiB of calls")],
)
def test_latest_calls_wait_for_the_end_of_the_tap(tmp_path: Path, made: int, characters: int, kept: int) -> None:
    """The events of a call have 5 kB besides its text, so that four of the long ones are too large."""
    with Follower(tmp_path, grace=0.5, tolerance=0.5) as follower:
        with follower.connect() as wire:
            publish(wire, "run-1", UNTIL_CALL)
            append(follower.session, moved_to_now([*FILE[:CALL], *calls(made, "x" * characters)]))
            follower.read(follower.session, CALL + 2 * made)
            end(wire)
        events = settled(follower, 2 * kept)

    results = {event["callId"]: event for event in events if event["kind"] == "tool-result"}
    assert list(results) == [f"call-{number}" for number in range(made - kept, made)]
    assert [event["callId"] for event in events if event["kind"] == "tool-call"] == list(results)
    assert all("x" * characters in event["output"]["stdout"] for event in results.values())


def calls(count: int, printed: str) -> list[bytes]:
    """Return lines of the file for this many calls, each followed by its result, which has this text."""
    call, result = json.loads(FILE[CALL]), json.loads(FILE[RESULT])
    own = {
        "call": call["message"]["content"][0]["id"],
        "message": call["message"]["id"],
        "request": call["requestId"],
        "line": call["uuid"],
        "answer": result["uuid"],
    }
    lines = []
    for number in range(count):
        for line in (FILE[CALL], FILE[RESULT].replace(b"boom", printed.encode())):
            for name, one in own.items():
                line = line.replace(one.encode(), f"{name}-{number}".encode())
            lines.append(line)
    return lines


def end(wire: Any) -> None:
    wire.send("end")
    wire.until("done")


def end_again(follower: Follower) -> None:
    """End the tap's stream, if the daemon lives that long."""
    try:
        with follower.connect() as wire:
            publish(wire, "run-1", [])
            end(wire)
    except (Gone, OSError, AssertionError):
        pass


def settled(follower: Follower, expected: int) -> list[dict[str, Any]]:
    """Return all events, once there are as many about calls as expected, and two more lines were read after them."""
    follower.events_when(lambda events: len(about_calls(events)) >= expected)
    follower.events_after_title(follower.session, "Nearly")
    return follower.events_after_title(follower.session, "The end")


def about_calls(events: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["kind"], event["status"]) for event in events if event["kind"] in ("tool-call", "tool-result")]


def codex(directory: Path, printed: list[bytes], expected: int) -> list[dict[str, Any]]:
    """Return the events of a run of Codex that was stopped, of which this was printed."""
    with Follower(directory, grace=0.5, tolerance=0.5) as follower:
        path = follower.rollouts / ROLLOUT
        with follower.connect() as wire:
            publish(wire, "run-1", printed)
            append(path, moved_to_now(CODEX_FILE))
            follower.read(path, len(CODEX_FILE))
            end(wire)
        return settled(follower, expected)
