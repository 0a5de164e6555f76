"""Which command lines make an agent print a stream."""

from __future__ import annotations

import shlex

import pytest

from tooltap.normalizers.catalog.registry import agents, missing_flags, prompt_of, works_where_it_is_started


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


ADVICE = {name: agent.advice for name, agent in agents().items() if agent.advice is not None}


@pytest.mark.parametrize("name", sorted(ADVICE))
def test_advised_flags_are_sufficient(name: str) -> None:
    assert missing_flags([name, *ADVICE[name].replace("…", "prompt").split()]) is None


def test_agent_that_never_prints_a_stream_gets_no_advice() -> None:
    assert missing_flags(["cn", "-p", "x"]) == ""
    assert agents()["cn"].store is not None


@pytest.mark.parametrize(
    "command",
    [
        "claude -p 'fix it' --output-format stream-json --verbose",
        "claude --output-format stream-json --verbose --model opus -p 'fix it'",
        "claude -p --output-format=stream-json --allowedTools Bash Read --verbose 'fix it'",
        "claude --verbose --some-new=1 -p 'fix it' --some-newer",
        "claude -p --resume 01234 'fix it' --allowedTools Bash,Read",
        "/usr/bin/claude -p -- 'fix it'",
        "claude -p --permission-prompts none --forward-subagent-text --safe-mode 'fix it'",
        "npx -y @anthropic-ai/claude-code@latest -p 'fix it' --output-format stream-json",
        "codex exec --json 'fix it'",
        "codex -m o3 exec --skip-git-repo-check -s workspace-write --json 'fix it'",
        "codex exec --json resume 01234 'fix it'",
        "codex exec --json resume --last 'fix it'",
        "codex exec --json --strict-config --remote ws://localhost:1 fork 01234 --trust 'fix it'",
        "codex exec -c model_reasoning_effort=high --json --image a.png -- 'fix it'",
        "opencode run --format json fix it",
        "opencode run --format json --pure fix it",
        "opencode run --format json --thinking --title x 'fix it'",
        "opencode run -f a.py --format json 'fix it'",
        "gemini -p 'fix it' -o stream-json",
        "gemini --prompt='fix it' --output-format stream-json",
        "qwen -p 'fix it' --output-format stream-json --approval-mode yolo",
        "qwen --output-format stream-json -y fix it",
        "copilot --output-format json --allow-all-tools -p 'fix it'",
        "vibe -p 'fix it' --output streaming --trust",
        "kimi --print --output-format stream-json -p 'fix it'",
        "kimi --print --output-format stream-json -c 'fix it'",
        "kimi --print --output-format=stream-json --command='fix it'",
        "cursor-agent -p --output-format stream-json 'fix it'",
        "cursor-agent --print --model auto 'fix it' --output-format stream-json",
        "cline --json --auto-approve true 'fix it'",
    ],
)
def test_prompt_is_an_argument(command: str) -> None:
    name_and_rest = shlex.split(command)
    [*before, last] = [word for word in name_and_rest if word in ("fix it", "fix", "it")] or ["fix it"]

    assert prompt_of(name_and_rest, lambda: "of standard input") == " ".join([*before, last])


@pytest.mark.parametrize(
    ("command", "prompt"),
    [
        ("claude -p --output-format stream-json", "of standard input"),
        ("claude -p --model opus --allowedTools Bash 'Read a.py' --verbose", "of standard input"),
        ("codex exec --json -", "of standard input"),
        ("codex exec --json resume --last -", "of standard input"),
        ("codex exec --json -m o3", "of standard input"),
        ("opencode run --format json", "of standard input"),
        ("kimi --print --output-format stream-json", "of standard input"),
        ("claude -p --input-format stream-json --output-format stream-json", None),
        ("claude -p --some-new 'fix it'", None),
        ("codex exec --json --some-new 'fix it'", None),
        ("codex app-server", None),
        ("codex exec review --json", None),
        ("opencode run --format json --command review 'fix it'", None),
        ("opencode run --format json --some-new fix it", None),
        ("opencode acp", None),
        ("gemini --acp", None),
        ("copilot --acp", None),
        ("vibe -p --output streaming", None),
        ("my-agent -p 'fix it'", None),
        ("bash -c 'claude -p x'", None),
    ],
)
def test_prompt_that_is_no_argument(command: str, prompt: str | None) -> None:
    assert prompt_of(shlex.split(command), lambda: "of standard input") == prompt


def test_prompt_that_nobody_sees() -> None:
    assert prompt_of(["claude", "-p", "--output-format", "stream-json"], lambda: None) is None
    assert prompt_of(["claude", "-p", "--output-format", "stream-json"], lambda: " \n") is None


@pytest.mark.parametrize(
    ("command", "is_known"),
    [
        ("gemini -p Hi", True),
        ("codex exec --json Hi", True),
        ("codex exec -C /work Hi", False),
        ("codex --cd=/work exec Hi", False),
        ("opencode run --dir /work Hi", False),
        ("kimi --work-dir /work -p Hi", False),
        ("gemini --worktree fix -p Hi", False),
        ("cat recording.jsonl", False),
    ],
)
def test_agent_works_where_it_is_started_unless_an_option_names_a_folder(command: str, is_known: bool) -> None:
    assert works_where_it_is_started(command.split()) is is_known
