"""The commands that continue a session: each agent's own, and none for ids that an agent did not state or made up."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from tooltap.daemon.sessions.resuming import fork_of, in_shell, resume_of
from tooltap.normalizers.catalog.dialect import SESSION
from tooltap.normalizers.catalog.registry import agents


def row(provider: str, session: str = "0d3f-1", stream: str = "0d3f-1~ab") -> dict[str, Any]:
    return {"provider": provider, "session": session, "streams": [stream]}


@pytest.mark.parametrize(
    ("provider", "resume", "fork"),
    [
        ("claude", "claude --resume 0d3f-1", "claude --resume 0d3f-1 --fork-session"),
        ("codex", "codex resume 0d3f-1", "codex fork 0d3f-1"),
        ("copilot", "copilot --resume=0d3f-1", None),
        ("cursor", "cursor-agent --resume 0d3f-1", None),
        ("gemini", "gemini --resume 0d3f-1", None),
        ("kimi", "kimi -r 0d3f-1", None),
        ("opencode", "opencode --session 0d3f-1", "opencode --session 0d3f-1 --fork"),
        ("pi", "pi --session 0d3f-1", "pi --fork 0d3f-1"),
        ("qwen", "qwen --resume 0d3f-1", None),
        ("vibe", None, None),
        ("someone", None, None),
    ],
)
def test_commands(provider: str, resume: str | None, fork: str | None) -> None:
    assert resume_of(row(provider)) == (None if resume is None else resume.split())
    assert fork_of(row(provider)) == (None if fork is None else fork.split())


@pytest.mark.parametrize("session", ["--yolo", "-c", "a b", "a;rm", "a\n", "", "x" * 201, "ä"])
def test_no_command_has_an_id_that_might_be_something_else(session: str) -> None:
    assert resume_of(row("claude", session)) is None


def test_an_id_that_the_agent_did_not_state() -> None:
    assert resume_of(row("claude", "run-1", "run-1")) is None


def test_every_fork_belongs_to_a_resume() -> None:
    assert all(agent.resume for agent in agents().values() if agent.fork)


NOT_PRINTED = ("/src\x1b[201~\rtouch /tmp/x\r", "/src\ntouch /tmp/x\n", "/src/\x03", "/src/\x9b201~", "/src/\u202egpj")
"""Folders that a hostile agent states: they end a paste, press Enter or Ctrl-C, or show something else."""


@pytest.mark.parametrize("folder", ["/src/shop", "/home/ann/it's; rm -rf $HOME/`x`"])
def test_a_line_for_a_shell(folder: str) -> None:
    line = in_shell(["claude", "--resume", "a b"], folder)
    assert shlex.split(line) == ["cd", folder, "&&", "claude", "--resume", "a b"]


@pytest.mark.parametrize("folder", [None, "", "C:\\src", "-P", *NOT_PRINTED])
def test_a_line_without_a_folder(folder: str | None) -> None:
    assert in_shell(["codex", "resume", "a"], folder) == "codex resume a"


def test_the_table_of_the_documentation() -> None:
    page = Path(__file__).parents[3] / "docs/how-to/watch.md"
    lines = page.read_text().partition("## Continue a session")[2].partition("\n## ")[0].splitlines()
    table = {
        one[1].strip("` "): (one[2].strip("` "), one[3].strip("` "))
        for line in lines
        if len(one := line.split("|")) == 5 and "`" in one[1]
    }
    assert table == {
        agent.provider or agent.command: tuple(
            " ".join([agent.command, *arguments]).replace(SESSION, "ID") if arguments else ""
            for arguments in (agent.resume, agent.fork)
        )
        for agent in agents().values()
        if agent.resume
    }
