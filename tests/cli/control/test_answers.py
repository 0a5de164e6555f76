"""`answers test`: what rules would have answered, beside what was said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here, sentence
from tests.daemon.events import call, commit, event
from tests.daemon.running import Running, running
from tooltap.protocol.events import PermissionRequest, PermissionResponse, SessionEvent

RULES = """
[[answers]]
name = "tests"
answer = "allow"
tools = ["Bash"]
commands = ["npm test"]
projects = ["shop"]

[[answers]]
name = "no rm"
answer = "deny"
commands = ["rm"]
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A request that was allowed, one whose id is used again and that was denied, a question, and one without a
    response and with the input in its call."""
    with running(tmp_path_factory.mktemp("daemon")) as one:
        asks: dict[str, Any] = {"type": "permission", "name": "Bash"}
        one.commit(
            commit(
                event(SessionEvent, state="started", cwd="/src/shop"),
                event(PermissionRequest, permission_id="p", input={"command": "npm test"}, ts=1_000, **asks),
                event(PermissionResponse, permission_id="p", outcome="allowed", by="user"),
                event(PermissionRequest, permission_id="p", input={"command": "sudo rm x"}, ts=2_000, **asks),
                event(PermissionResponse, permission_id="p", outcome="denied"),
                event(PermissionRequest, permission_id="q", type="question", questions=[{"question": "Which?"}]),
                call("c", input={"command": "npm test", "_raw": {}}),
                event(PermissionRequest, permission_id="r", call_id="c", ts=3_000, **asks),
            )
        )
        yield one


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "tooltap.toml"
    file.write_text(RULES)
    return file


def test_history(daemon: Running, rules: Path) -> None:
    finished = here("answers", "test", rules, "--socket", daemon.path)
    assert finished.returncode == 0
    assert [line.split("\t") for line in finished.stdout.decode().splitlines()] == [
        ["SEQ", "AGENT", "SESSION", "TOOL", "ASKED", "RULES", "BY", "SAID"],
        ["2", "gemini", "session-1", "Bash", "npm test", "allow", "tests", "allowed by user"],
        ["4", "gemini", "session-1", "Bash", "sudo rm x", "deny", "no rm", "denied"],
        ["8", "gemini", "session-1", "Bash", "npm test", "allow", "tests", ""],
    ]
    assert finished.stderr.decode().splitlines() == [
        "tests: allow 2 (then: allowed 1, nothing 1)",
        "no rm: deny 1 (then: denied 1)",
    ]


def test_json_of_a_time(daemon: Running, rules: Path) -> None:
    words = ("--json", "--since", "1970-01-01", "--until", "1970-01-01")
    finished = here("answers", "test", rules, "--socket", daemon.path, *words)
    assert [json.loads(line)["seq"] for line in finished.stdout.splitlines()] == [2, 4, 8]
    assert here("answers", "test", rules, "--socket", daemon.path, "--json", "--since", "7d").stdout == b""


def test_without_rules(daemon: Running, tmp_path: Path) -> None:
    (tmp_path / "empty.toml").touch()
    finished = here("answers", "test", tmp_path / "empty.toml", "--socket", daemon.path)
    assert sentence(finished) == "there are no rules: the configuration has no `[[answers]]`"
    assert [line.split(b"\t")[5] for line in finished.stdout.splitlines()[1:]] == [b"ask"] * 3


def test_wrong_file(daemon: Running, tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text('[[answers]]\nname = "a"\nanswer = "allow"\n')
    finished = here("answers", "test", tmp_path / "wrong.toml", "--socket", daemon.path)
    assert (finished.returncode, finished.stdout) == (2, b"")
    assert sentence(finished).endswith("a rule that allows names `tools` or `commands`")
