"""`tooltap usage` and its requests, over a socket and over HTTP."""

from __future__ import annotations

import json
import os
import pty
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, DEMO, environment, here, sentence
from tests.daemon.running import Running, running
from tooltap.cli.read.usage import print_usage


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("daemon")) as one:
        for name in ("claude-code", "codex", "gemini", "opencode"):
            assert here("ingest", "--socket", one.path, "--stream", name, DEMO / f"{name}.jsonl").returncode == 0
        yield one


def usage(daemon: Running, *arguments: str) -> dict[str, Any]:
    finished = here("usage", "--socket", daemon.path, "--json", *arguments)
    assert (finished.returncode, finished.stderr) == (0, b"")
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def at(columns: int, daemon: Running, *arguments: str) -> list[str]:
    """The lines on a terminal with so many columns."""
    reader, writer = pty.openpty()
    settings = environment(COLUMNS=str(columns), TERM="xterm", NO_COLOR="1")
    pid = os.posix_spawn(
        COMMAND[0],
        [*map(str, COMMAND), "usage", "--socket", str(daemon.path), *arguments],
        settings,
        file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)],
    )
    os.close(writer)
    shown = b""
    try:
        while chunk := os.read(reader, 65_536):
            shown += chunk
    except OSError:  # the other end was closed
        pass
    os.close(reader)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return shown.decode().replace("\r", "").splitlines()


def test_sums_are_the_same_by_whatever(daemon: Running) -> None:
    found = {by: usage(daemon, "--by", by) for by in ("day", "model", "project", "agent", "session", "subagent")}

    totals = [one["total"] for one in found.values()]
    for total in totals:
        assert total["inputTokens"] == totals[0]["inputTokens"]
        assert total["costUsd"] == pytest.approx(totals[0]["costUsd"])
    for one in found.values():
        for field in ("inputTokens", "outputTokens", "costUsd"):
            assert sum(row.get(field, 0) for row in one["rows"]) == pytest.approx(one["total"][field])
    assert found["agent"]["rows"][0]["key"] == "claude"


def test_sessions_cost_what_their_list_says(daemon: Running) -> None:
    costs = {row["key"]: row.get("costUsd") for row in usage(daemon, "--by", "session")["rows"]}
    sessions = [one for one in daemon.connect().ask("sessions")["sessions"] if "inputTokens" in one]

    assert {one["session"]: pytest.approx(one["costUsd"]) for one in sessions if "costUsd" in one} == {
        session: cost for session, cost in costs.items() if cost is not None
    }


def test_days_and_sessions_are_chosen(daemon: Running) -> None:
    days = [row["key"] for row in usage(daemon)["rows"]]
    first = usage(daemon, "--since", days[-1], "--until", days[-1])["rows"]
    session = usage(daemon, "--by", "session")["rows"][0]["key"]

    assert days == sorted(days, reverse=True)
    assert [row["key"] for row in first] == [days[-1]]
    assert [row["key"] for row in usage(daemon, "--by", "session", "--session", session)["rows"]] == [session]


def test_agents_and_projects_are_chosen(daemon: Running) -> None:
    by_agent = {row["key"]: row["inputTokens"] for row in usage(daemon, "--by", "agent")["rows"]}
    for agent, tokens in by_agent.items():
        assert usage(daemon, "--agent", agent)["total"]["inputTokens"] == tokens
    codex = usage(daemon, "--agent", "codex", "--by", "project")["rows"]
    assert [row["key"] for row in usage(daemon, "--project", codex[0]["key"], "--by", "project")["rows"]] == [
        codex[0]["key"]
    ]


def test_sessions_are_named_as_elsewhere(daemon: Running) -> None:
    row = usage(daemon, "--by", "session", "--agent", "codex")["rows"][0]
    assert usage(daemon, "--session", row["key"][:12])["total"]["inputTokens"] == row["inputTokens"]
    finished = here("usage", "--socket", daemon.path, "--session", "nosuch")
    assert finished.returncode == 1
    assert sentence(finished).startswith("the journal has no session 'nosuch'")


def test_a_row_of_a_session_says_which_it_is(daemon: Running) -> None:
    row = usage(daemon, "--by", "session", "--agent", "codex")["rows"][0]
    shown = at(80, daemon, "--by", "session", "--agent", "codex")
    assert shown[1].startswith(f"{row['key'][:8]} ")
    assert row["title"][:10] in shown[1]


@pytest.mark.parametrize(
    ("columns", "by"), [(40, "model"), (60, "day"), (60, "session"), (100, "project"), (160, "session")]
)
def test_the_table_fits_the_terminal(daemon: Running, columns: int, by: str) -> None:
    shown = at(columns, daemon, "--by", by)

    head, *rows = shown[: shown.index("")]
    assert max(map(len, shown)) <= columns
    assert head.split()[:4] == [by.upper(), "COST", "INPUT", "OUTPUT"]
    assert ("SESSIONS" in head) == (columns > 60 and by != "session")
    assert rows[-1].startswith("total")
    assert "~$" in rows[-1]
    assert "genai-prices" in " ".join(shown[len(rows) :])


def test_a_pipe_gets_whole_figures(daemon: Running) -> None:
    finished = here("usage", "--socket", daemon.path, "--by", "agent")
    head, *rows = [line.split("\t") for line in finished.stdout.decode().splitlines()]

    assert head[:3] == ["AGENT", "COST", "INPUT"]
    assert sum(int(row[2]) for row in rows) == usage(daemon)["total"]["inputTokens"]
    kinds = {row[0]: row[head.index("COST IS")] for row in rows}
    assert (kinds["claude"], kinds["codex"]) == ("stated", "estimated")
    titles = here("usage", "--socket", daemon.path, "--by", "session").stdout.decode().splitlines()
    assert titles[0].endswith("\tTITLE")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--since", "tomorrow"], "expected a day such as today or 2026-11-24, or an age in days such as 7d"),
        (["--since", "1969-01-01"], "expected a day such as"),
        (["--since", "2026-02-30"], "expected a day such as"),
        (["--since", "2026-02-02", "--until", "2026-02-01"], "--until is before --since"),
        (["--by", "week"], "'week' is not one of"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], complaint: str) -> None:
    finished = here("usage", *arguments)

    assert finished.returncode == 2
    assert complaint in sentence(finished)


def test_an_empty_result_says_why(daemon: Running, tmp_path: Path) -> None:
    def said(one: Running, *arguments: str) -> str:
        finished = here("usage", "--socket", one.path, *arguments)
        assert finished.returncode == 0
        return finished.stdout.decode()

    assert "nothing was used in these days" in said(daemon, "--until", "2001-01-01")
    with running(tmp_path) as empty:
        assert said(empty).startswith("the journal has no events yet")
        kimi = b'{"role":"user","content":"hello"}\n'
        assert here("ingest", "--socket", empty.path, "--dialect", "kimi-json", "-", stdin=kimi).returncode == 0
        assert said(empty) == "no agent of the journal's sessions has stated tokens or a cost\n"


def test_prices_subscription_and_budget_of_the_user(tmp_path: Path) -> None:
    """1,000,000 tokens in at $2 for a million, and 100,000 out at $10: $3, of a budget of $2.50."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    about = {"parentUuid": None, "isSidechain": False, "sessionId": "s", "cwd": "/w", "version": "2", "timestamp": now}
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "house-model",
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1_000_000, "output_tokens": 100_000},
    }
    lines = [
        {"type": "user", "uuid": "u", "message": {"role": "user", "content": "hi"}, **about},
        {"type": "assistant", "uuid": "a", "requestId": "r", "message": message, **about},
    ]
    recording = tmp_path / "s.jsonl"
    recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
    prices: dict[str, dict[str, float]] = {"house-model": {"input": 2, "output": 10}}
    with running(tmp_path, prices=prices, usage={"budget": {"day": 2.5, "month": 100}}) as daemon:
        assert here("ingest", "--socket", daemon.path, recording).returncode == 0
        found = usage(daemon)
        assert found["total"]["costUsd"] == pytest.approx(3.0)
        assert [(one["period"], one["limitUsd"]) for one in found["budgets"]] == [("day", 2.5), ("month", 100.0)]
        assert [one["spentUsd"] for one in found["budgets"]] == pytest.approx([3.0, 3.0])
        assert "over budget today: $3.00 of $2.50" in at(100, daemon)
        assert "budgets" not in usage(daemon, "--session", "s")

    with running(tmp_path, prices=prices, usage={"subscription": ["claude"], "budget": {"day": 2.5}}) as daemon:
        found = usage(daemon)
        assert found["subscriptions"] == ["claude"]
        assert found["budgets"] == [{"period": "day", "limitUsd": 2.5, "spentUsd": 0.0}]
        assert "not a bill: a subscription pays claude" in at(100, daemon)

    prices = {"house-model": {"input": 0.1, "output": 2}}
    with running(tmp_path, prices=prices) as daemon:
        printed = here("usage", "--by", "model", "--socket", daemon.path).stdout.decode()
        assert printed.splitlines()[1].split("\t")[:2] == ["house-model", "0.30"]  # as on a terminal


def test_quota_is_below_the_table_with_the_sessions_that_used_it(tmp_path: Path) -> None:
    """A week may have 10,079 minutes for Codex."""
    ends = int(time.time()) + 5 * 86_400 + 43_200
    tokens = {"input_tokens": 80_000, "output_tokens": 400, "total_tokens": 80_400}
    info = {"total_token_usage": tokens, "last_token_usage": tokens}
    limits = {"primary": {"used_percent": 34.7, "window_minutes": 10_079, "resets_at": ends}}
    payloads = [
        ("session_meta", {"id": "0199aaaa-0000-7000-8000-000000000001", "cwd": "/ws"}),
        ("event_msg", {"type": "user_message", "message": "Fix the parser"}),
        ("event_msg", {"type": "token_count", "rate_limits": limits, "info": info}),
    ]
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    recording = tmp_path / "rollout.jsonl"
    recording.write_text(
        "".join(json.dumps({"timestamp": now, "type": kind, "payload": one}) + "\n" for kind, one in payloads)
    )
    with running(tmp_path) as daemon:
        assert here("ingest", "--socket", daemon.path, "--dialect", "codex-rollout", recording).returncode == 0
        (found,) = usage(daemon)["quotas"]
        printed = at(120, daemon)

    assert (found["usedPercent"], found["resetsAt"], found["minutes"]) == (34.7, ends * 1_000, 10_079)
    assert "codex: 35 % of 7 d used, resets in 5 d, most by Fix the parser (80.4k)" in printed


def test_lower_bounds_are_marked_and_rounded_down(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row: dict[str, float] = {
        "sessions": 1,
        "inputTokens": 1_000,
        "outputTokens": 11_190,
        "estimatedOutputTokens": 90_000,
    }
    row |= {"cacheReadTokens": 0, "cacheWriteTokens": 0, "reasoningTokens": 0, "costUsd": 1.509, "costEstimated": True}
    monkeypatch.setattr("tooltap.cli.read.usage.at_terminal", lambda: True)

    print_usage("model", {"rows": [{**row, "key": "m"}], "total": row, "prices": {"version": "1"}, "complete": True})

    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["m", "≥$1.50", "1.0k", "≥11.1k", "0", "0", "0", "1"][: len(lines[1].split())]
    assert "≥ at least: an agent stores fewer output tokens than its text has, about 90.0k in all" in " ".join(lines)
