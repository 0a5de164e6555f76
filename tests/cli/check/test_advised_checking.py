"""The advice of the commands that work on recorded lines is followed: `tests/cli/test_advised.py` has the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.command import CLAUDE, here
from tests.cli.manage.test_advice import commands
from tests.cli.manage.test_doctor import write


@pytest.mark.parametrize("content", [None, "# nothing\n"])
def test_keys_are_listed_for_the_allowlist(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        write(tmp_path / "allowlist.txt", content)
    refused = here("fixtures", "extract", CLAUDE, "--out", tmp_path)
    assert refused.returncode == 2
    [[*command, given]] = commands(refused.stderr.decode())
    assert given == "TRACE"
    write(tmp_path / "allowlist.txt", here(*command, CLAUDE).stdout.decode())

    assert here("fixtures", "extract", CLAUDE, "--out", tmp_path).returncode == 0


def test_fixture_that_was_formatted_by_hand_is_updated(tmp_path: Path) -> None:
    write(tmp_path / "allowlist.txt", here("fixtures", "keys", CLAUDE).stdout.decode())
    assert here("fixtures", "extract", CLAUDE, "--out", tmp_path).returncode == 0
    [path] = tmp_path.rglob("*.json")
    path.write_text(path.read_text().replace('"key":', '"key": '))
    failed = here("fixtures", "check", tmp_path)
    assert failed.returncode == 1
    [command] = commands(failed.stdout.decode())

    assert here(*command, tmp_path).returncode == 0
    assert here("fixtures", "check", tmp_path).returncode == 0


UNKNOWN = '{"type":"thread.unheard-of","thread_id":"t"}\n'


@pytest.mark.process
@pytest.mark.parametrize("words", [("normalize",), ("baseline", "check")])
def test_dialect_is_named_where_none_is_recognised(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The first lines of a recording that begins in its middle do not say what it is."""
    lines = write(tmp_path / "lines.jsonl", UNKNOWN)
    said = here(*words, lines).stderr.decode()
    [option] = re.findall(r"name it with (--\w+)", said)

    assert "name it with" not in here(*words, option, "codex-exec", lines).stderr.decode()
