"""`tooltap demo` shows four agents in one stream, and relies only on what arrives over the socket."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import tooltap
from tooltap.cli.manage.demo import AGENTS, is_complete

ROOT = Path(__file__).parents[3]


def test_demo_shows_call_and_result_of_every_agent() -> None:
    finished = tooltap("demo")
    shown, _, payloads = finished.stdout.decode().partition("\nA tool call of each agent with its result")

    assert (finished.returncode, finished.stderr) == (0, b"")
    for protocol, provider, line in (
        ("claude", "claude", "▸ Bash echo partial output; echo 'boom: somethi"),
        ("codex", "codex", "✓ Patch src/app.py"),
        ("acp", "gemini", "✓ Edit src/app.py"),
        ("acp", "opencode", "✓ Glob **/*.py"),
    ):
        assert f"  {protocol:<8}{provider:<10}{line}" in shown
    for name in AGENTS.values():
        assert f"\n{name}: " in payloads
    assert payloads.count("\n  _happy  {") == payloads.count("\n  _raw    {") == 2 * len(AGENTS)


@pytest.mark.parametrize(
    "payload",
    [
        {"_raw": {"id": 1}},
        {"_happy": {"v": 2, "canonicalToolName": "Bash", "rawToolName": "sh"}},
        {"_happy": {"v": 2, "canonicalToolName": "Read", "rawToolName": "sh"}, "_raw": {"id": 1}},
    ],
)
def test_incomplete_payload_is_rejected(payload: dict[str, object]) -> None:
    assert not is_complete({"name": "Bash"}, payload)


def test_synthetic_call_is_rejected() -> None:
    whole = {"_happy": {"v": 2, "canonicalToolName": "Bash", "rawToolName": "sh"}, "_raw": {"id": 1}}

    assert is_complete({"name": "Bash"}, whole)
    assert not is_complete({"name": "Bash", "synthetic": True}, whole)
