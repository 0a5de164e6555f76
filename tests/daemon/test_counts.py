"""Each request counts once and each total adds up, over forks, resumed sessions and second files, in a whole daemon.

The recordings in `counts` are of Claude Code 2.1.330 against a model that answers from a script: a run of two requests,
a second run that resumes it (one request), and a third that forks it (one request). Each request has 2,400 tokens in
and 42 out, and costs $0.00732. `codex-resumed.jsonl` has the totals of a Codex of 2025, which began at 0 again when the
session was resumed: 3,000,000 in and 40,000 out, then 500,000 and 5,000, of which 1,100,000 were cached.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here
from tests.daemon.running import Running, running
from tests.test_layout import ROOT

COUNTS = Path(__file__).parent / "counts"
PARENT, FORK = "d2c84c88-0d63-4fc7-b163-95d74e09070b", "6a314015-25e9-4fe6-92ce-16a2c0911bcc"
IN_PROGRESS = ROOT / "tests/fixtures/claude-transcript/claude-code-2.1.39-written/subagent-in-progress.jsonl"


def ingest(daemon: Running, *files: Path) -> None:
    for file in files:
        assert here("ingest", "--socket", daemon.path, file).returncode == 0


def listed(daemon: Running) -> dict[str, dict[str, Any]]:
    return {one["session"]: one for one in daemon.connect().ask("sessions")["sessions"]}


def total(daemon: Running) -> tuple[int, int, float]:
    """Return what `usage` has by each property, which is one figure: input, output and dollars."""
    found = []
    for by in ("day", "model", "project", "agent", "session", "subagent"):
        result = daemon.connect().ask("usage", by=by)
        sums = result["total"]
        assert sum(row["inputTokens"] for row in result["rows"]) == sums["inputTokens"]
        found.append((sums["inputTokens"], sums["outputTokens"], round(sums["costUsd"], 6)))
    sessions = listed(daemon).values()
    found.append(
        (
            sum(one.get("inputTokens", 0) for one in sessions),
            sum(one.get("outputTokens", 0) for one in sessions),
            round(sum(one.get("costUsd", 0.0) for one in sessions), 6),
        )
    )
    assert len(set(found)) == 1, found
    return found[0]


@pytest.mark.parametrize("order", [("claude-parent", "claude-fork"), ("claude-fork", "claude-parent")])
def test_fork_adds_its_own_request(tmp_path: Path, order: tuple[str, ...]) -> None:
    with running(tmp_path) as daemon:
        ingest(daemon, *(COUNTS / f"{name}.jsonl" for name in order))
        assert total(daemon) == (4 * 2_400, 4 * 42, 0.02928)
        sessions = listed(daemon)
        assert {name: one["inputTokens"] for name, one in sessions.items()} == {PARENT: 7_200, FORK: 2_400}
        assert sessions[FORK]["forkedFrom"] == PARENT
        assert "forkedFrom" not in sessions[PARENT]


def test_copy_of_a_file_adds_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes((COUNTS / "claude-parent.jsonl").read_bytes())
    with running(tmp_path) as daemon:
        ingest(daemon, COUNTS / "claude-parent.jsonl", copy)
        assert total(daemon) == (7_200, 126, 0.02196)


def test_requests_of_a_deleted_session_count_where_they_are_read_again(tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes((COUNTS / "claude-parent.jsonl").read_bytes())
    with running(tmp_path) as daemon:
        ingest(daemon, COUNTS / "claude-parent.jsonl", COUNTS / "codex-resumed.jsonl")
        before = listed(daemon)[PARENT]
        assert here("sessions", "rm", PARENT, "--socket", daemon.path).returncode == 0
        assert PARENT not in listed(daemon)
        ingest(daemon, copy)
        figures = ("events", "turns", "calls", "inputTokens", "outputTokens", "costUsd")
        assert [listed(daemon)[PARENT][one] for one in figures] == [before[one] for one in figures]


def test_runs_of_a_resumed_and_a_forked_session(tmp_path: Path) -> None:
    runs = ("claude-run1", "claude-run2-resumed", "claude-run3-forked")
    with running(tmp_path) as daemon:
        ingest(daemon, *(COUNTS / f"{name}.jsonl" for name in runs))
        assert total(daemon) == (4 * 2_400, 4 * 42, 0.02928)


def test_total_that_began_at_zero_again(tmp_path: Path) -> None:
    """2.4 M at $1.25 and 1.1 M cached at $0.125 for a million, and 45 k out at $10."""
    with running(tmp_path) as daemon:
        ingest(daemon, COUNTS / "codex-resumed.jsonl")
        assert total(daemon) == (3_500_000, 45_000, 3.5875)


def test_subagent_in_progress_lines_and_in_its_own_file(tmp_path: Path) -> None:
    """As Claude Code 2.1.29 writes it in a terminal: the same messages, with the same ids."""
    lines = [json.loads(line) for line in IN_PROGRESS.read_bytes().splitlines()]
    nested = []
    for line in lines:
        if line.get("data", {}).get("type") == "agent_progress":
            told = line["data"]["message"]
            if told["type"] == "assistant":
                told["requestId"] = f"req_{told['message']['id']}"
            about = {"parentUuid": None, "isSidechain": True, "agentId": line["data"]["agentId"], "version": "2.1.39"}
            nested.append({**about, "sessionId": line["sessionId"], "cwd": line["cwd"], **told})
    assert len(nested) > 4
    session_id = nested[0]["sessionId"]
    main, own = tmp_path / f"{session_id}.jsonl", tmp_path / session_id / "subagents" / "agent-a2898e3.jsonl"
    own.parent.mkdir(parents=True)
    main.write_text("".join(json.dumps(line) + "\n" for line in lines))
    own.write_text("".join(json.dumps(line) + "\n" for line in nested))
    with running(tmp_path / "one") as daemon:
        ingest(daemon, main)
        sums, (session,) = total(daemon), listed(daemon).values()
        said = words(daemon)
    # By hand: two requests of the session, and two of the subagent; each has 1,107 tokens in.
    assert sums[0] == 4 * 1_107
    for number, files in enumerate(itertools.permutations((main, own))):
        with running(tmp_path / f"both-{number}") as daemon:
            ingest(daemon, *files)
            assert total(daemon) == sums
            (both,) = listed(daemon).values()
            for key in ("calls", "errors", "turns"):
                assert both.get(key) == session.get(key)
            assert sorted(words(daemon)) == sorted(said)


def words(daemon: Running) -> list[str]:
    """Return what was said, without history."""
    wire = daemon.connect()
    wire.send("subscribe", after="start", follow=False)
    events = [json.loads(line) for line in wire.lines() if not line.startswith(b'{"op"')]
    return [one["text"] for one in events if one.get("kind") == "message" and not one.get("replay")]
