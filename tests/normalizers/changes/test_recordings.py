"""What recorded agents changed, held against the contents of their workspace, which are written here by hand."""

from __future__ import annotations

import subprocess
from pathlib import Path

import orjson
import pytest

from tests.normalizers.reading import recording
from tests.programs import require
from tooltap.normalizers.changes.session_files import KINDS, SessionFiles
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import encode
from tooltap.protocol.replies import FileDiff
from tooltap.testing import normalize

CWD = "/tmp/ws"
APP = """\
import sys


def greet(name):
    \"\"\"Return a greeting.\"\"\"
    return "Hello, " + name + "!"


def main():
    who = sys.argv[1] if len(sys.argv) > 1 else "world"
    print(greet(who))


if __name__ == "__main__":
    main()
"""
UTIL = "def add(a, b):\n    return a + b\n"
PACKAGE = '{\n  "name": "demo",\n  "version": "1.0.0",\n  "scripts": { "test": "echo ok" }\n}\n'

Files = dict[str, str]
HOWDY: tuple[Files, Files] = ({"src/app.py": APP}, {"src/app.py": APP.replace('"Hello, "', '"Howdy, "')})
GOOD_DAY: tuple[Files, Files] = ({"src/app.py": APP}, {"src/app.py": APP.replace('"Hello, "', '"Good day, "')})
NOTES: tuple[Files, Files] = ({}, {"docs/notes.md": "# Notes\n\n- first\n- second\n"})
UNICODE: tuple[Files, Files] = ({}, {"docs/ünïcöde 😀.txt": "café 日本語 😀\ttab\n\x1b[31mred\x1b[0m\n"})
SEVERAL: tuple[Files, Files] = (
    {"src/util.py": UTIL, "package.json": PACKAGE},
    {"src/maths.py": UTIL.replace("a + b", "b + a"), "docs/new.md": "new\n"},
)

WHOLE = (
    ("acp", "claude-agent-acp-0.100.0", "edit", HOWDY),
    ("acp", "droid-0.215.0", "edit", HOWDY),
    ("acp", "kimi-code-2.1.0", "edit", HOWDY),
    ("acp", "opencode-1.18.33", "edit", HOWDY),
    ("claude-stream", "claude-code-2.1.330", "edit", HOWDY),
    ("claude-stream", "claude-code-2.1.330", "unicode", UNICODE),
    ("claude-stream", "claude-code-2.1.330", "write", NOTES),
    ("cline-json", "cline-3.0.65", "thinking", GOOD_DAY),
    ("cline-json", "cline-3.0.65", "unicode", UNICODE),
    ("cline-json", "cline-3.0.65", "write", NOTES),
    ("codex-mcp", "codex-0.120", "patch-approved", NOTES),
    ("codex-mcp", "codex-0.120", "unicode", UNICODE),
    ("kimi-json", "kimi-1.40.0", "thinking", GOOD_DAY),
    ("kimi-json", "kimi-code-2.1.0", "edit", HOWDY),
    ("pi-json", "pi-0.73.1", "edit", HOWDY),
    ("qwen-stream", "qwen-0.24.4", "write", NOTES),
    ("vibe-json", "vibe-3.0.2", "edit", HOWDY),
    ("vibe-json", "vibe-3.0.2", "unicode", UNICODE),
    ("vibe-json", "vibe-3.0.2", "write", NOTES),
)
"""Recordings that state enough for the whole diff: dialect, version, name, files before and after."""

PARTIAL = (
    ("acp", "codex-acp-2.6.0", "edit", HOWDY),
    ("acp", "gemini-0.61.0", "edit", HOWDY),
    ("codex-app-server", "codex-0.169", "patch-approved", SEVERAL),
    ("codex-mcp", "codex-0.120", "reasoning-edit", GOOD_DAY),
    ("codex-rollout", "codex-0.169", "patch", SEVERAL),
    ("gemini-stream", "gemini-0.61.0", "edit", HOWDY),
    ("gemini-stream", "gemini-0.61.0", "unicode", UNICODE),
    ("gemini-stream", "gemini-0.61.0", "write", NOTES),
    ("opencode-bus", "opencode-1.18.33", "write", NOTES),
    ("opencode-run", "opencode-1.18.33", "write", NOTES),
)
"""Recordings that leave out where a text was replaced, what is around it, or whether the file was new."""

UNTOLD = (
    ("codex-exec", "codex-0.169", "patch", {"src/util.py", "package.json", "docs/new.md"}),
    ("codex-exec", "codex-0.120", "reasoning-edit", {"src/app.py"}),
)
"""Recordings that name the files alone."""


def changed(dialect: str, version: str, name: str) -> list[FileDiff]:
    files = SessionFiles(CWD)
    events = normalize(dialect, recording(dialect, name, version), Context(stream="s"))
    for seq, event in enumerate(map(orjson.loads, map(encode, events)), 1):
        if event["kind"] in KINDS:
            files.note(seq, event)
    diffs = [files.diff(one.path) for one in files.changes()]
    return [one for one in diffs if one is not None]


@pytest.mark.parametrize(("dialect", "version", "name", "contents"), WHOLE)
def test_the_diff_is_that_of_git(
    dialect: str, version: str, name: str, contents: tuple[Files, Files], tmp_path: Path
) -> None:
    found = changed(dialect, version, name)

    assert all(one.complete for one in found)
    assert {one.path: _hunks(one.diff) for one in found} == _git(tmp_path, *contents)


@pytest.mark.parametrize(("dialect", "version", "name", "contents"), PARTIAL)
def test_what_is_stated_is_what_git_says(
    dialect: str, version: str, name: str, contents: tuple[Files, Files], tmp_path: Path
) -> None:
    found = changed(dialect, version, name)
    lines = {one.old_path or one.path: _changes(_hunks(one.diff)) for one in found}

    assert not all(one.complete for one in found)
    before, after = contents
    if "src/maths.py" in after:
        after = {"src/util.py": after["src/maths.py"], "docs/new.md": after["docs/new.md"]}
        assert [(one.old_path, one.path) for one in found if one.kind == "renamed"] == [("src/util.py", "src/maths.py")]
    assert lines == {path: _changes(diff) for path, diff in _git(tmp_path, before, after).items()}


@pytest.mark.parametrize(("dialect", "version", "name", "paths"), UNTOLD)
def test_files_without_contents_are_named(dialect: str, version: str, name: str, paths: set[str]) -> None:
    found = changed(dialect, version, name)

    assert {one.path for one in found} == paths
    assert not any(one.complete or one.diff or one.added for one in found)


def _git(folder: Path, before: Files, after: Files) -> dict[str, list[str]]:
    """Path -> the hunks of `git diff`."""
    for name, files in (("a", before), ("b", after)):
        (folder / name).mkdir()
        for path, text in files.items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_text(text)
    found: dict[str, list[str]] = {}
    for path in before.keys() | after.keys():
        old = f"a/{path}" if path in before else "/dev/null"
        new = f"b/{path}" if path in after else "/dev/null"
        require("git")
        command = ["git", "diff", "--no-index", "--", old, new]
        found[path] = _hunks(subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True).stdout)
    return found


def _hunks(diff: str) -> list[str]:
    """Its lines from the first hunk on, without what git says of the function around a hunk."""
    lines = diff.removesuffix("\n").split("\n")
    first = next((number for number, line in enumerate(lines) if line.startswith("@@")), len(lines))
    return [f"{line.rpartition(' @@')[0]} @@" if line.startswith("@@ ") else line for line in lines[first:]]


def _changes(hunks: list[str]) -> list[str]:
    return [line for line in hunks if line[:1] in ("-", "+")]
