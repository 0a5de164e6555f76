"""Which command lines make an agent print a stream."""

from __future__ import annotations

import shlex

import pytest

from tooltap.normalizers.catalog.agents import missing_flags
from tooltap.normalizers.catalog.registry import agents


@pytest.mark.parametrize(
    "command",
    [
        "claude -p 'fix it' --output-format stream-json --verbose",
        "/usr/local/bin/claude --output-format=stream-json -p x",
        "claude -p x --output-format json",
        "codex exec --json 'fix it'",
        "codex -m o3 exec --skip-git-repo-check --json x",
        "codex mcp-server",
        "gemini -p x -o stream-json",
        "gemini --acp",
        "opencode run --format json x",
        "opencode acp",
        "npx -y @anthropic-ai/claude-code@latest -p x --output-format stream-json",
        "my-agent --whatever",
        "bash -c claude",
    ],
)
def test_tapped(command: str) -> None:
    assert missing_flags(shlex.split(command)) is None


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("claude", "-p --output-format stream-json --verbose"),
        ("claude -p x", "-p --output-format stream-json --verbose"),
        ("claude --output-format text -p stream-json", "-p --output-format stream-json --verbose"),
        ("codex", "exec --json"),
        ("codex exec x", "exec --json"),
        ("/opt/gemini", "-p … --output-format stream-json"),
        ("opencode run x", "run --format json"),
        ("npx @anthropic-ai/claude-code", "-p --output-format stream-json --verbose"),
        ("npx -y @openai/codex@0.169.0 exec x", "exec --json"),
        ("bunx opencode-ai@latest", "run --format json"),
    ],
)
def test_not_tapped(command: str, advice: str) -> None:
    assert missing_flags(shlex.split(command)) == advice


@pytest.mark.parametrize("name", sorted(agents()))
def test_advised_flags_are_sufficient(name: str) -> None:
    advice = agents()[name].advice.replace("…", "prompt")

    assert missing_flags([name, *advice.split()]) is None
