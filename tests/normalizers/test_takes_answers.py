"""Which agents take answers from standard input."""

from __future__ import annotations

import pytest

from tooltap.normalizers.catalog.registry import agents, takes_answers


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("claude -p --input-format stream-json --output-format stream-json --verbose", True),
        ("claude -p --input-format=stream-json --output-format=stream-json", True),
        ("claude -p Hello --output-format stream-json", False),
        ("npx -y @openai/codex@0.169.0 app-server", True),
        ("codex exec --json Hello", False),
        ("codex mcp-server", False),
        ("gemini --acp", True),
        ("cn --acp", False),
        ("my-agent", True),
    ],
)
def test_agent_takes_answers_with_some_arguments(command: str, wanted: bool) -> None:
    assert takes_answers(command.split()) is wanted


def test_agents_that_take_answers_print_a_stream() -> None:
    """Claude Code needs more options, and Qwen one of several."""
    elsewhere = {"claude": ["--input-format stream-json"], "qwen": ["--input-format stream-json"]}
    for agent in agents().values():
        only_here = [options for options in agent.answerable if options not in agent.machine_readable]
        assert only_here == elsewhere.get(agent.command, []), agent.command
