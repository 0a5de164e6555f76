"""Random edits of a workspace, told as canonical events, give the diff that git makes of the workspace."""

from __future__ import annotations

import difflib
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.normalizers.changes.telling import CWD, Telling
from tests.programs import require
from tooltap.protocol.replies import FileDiff

LINES = ("pass\n", "\n", "    return 1\n", "def f(x):\n", "x = 1\n", "日本語 é\n")


class Workspace:
    """Files before and after, and the events that tell how they changed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._count = 0
        self.before = {f"src/{name}.py": self.text() for name in "abcd"}
        self.after = dict(self.before)
        self.telling = Telling()

    def line(self) -> str:
        self._count += 1
        return self.random.choice(LINES) if self.random.random() < 0.4 else f"line {self._count}\n"

    def text(self) -> str:
        text = "".join(self.line() for _ in range(self.random.randrange(1, 40)))
        return text if self.random.random() < 0.8 else text + "no newline"

    def changed(self, text: str) -> str:
        lines = text.splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        for _ in range(self.random.randrange(1, 4)):
            at = self.random.randrange(len(lines) + 1)
            lines[at : at + self.random.randrange(4)] = [self.line() for _ in range(self.random.randrange(4))]
        return "".join(lines)

    # -- what an agent does -------------------------------------------------------------------------------------

    def read(self, path: str) -> None:
        self.telling.read(f"{CWD}/{path}", self.after[path])

    def edit(self, path: str) -> None:
        text = self.after[path]
        start = self.random.randrange(len(text) + 1)
        old = text[start : start + self.random.randrange(1, 60)]
        if old and text.count(old) == 1:
            new = self.random.choice(("", "new", "two\nlines\n", old.upper()))
            self.after[path] = text.replace(old, new)
            self.telling.edit(path, old, new)

    def replace_all(self, path: str) -> None:
        text = self.after[path]
        old = self.random.choice(("pass", "x", "\n\n"))
        if old in text:
            self.after[path] = text.replace(old, "other")
            self.telling.edit(path, old, "other", replace_all=True)

    def overwrite(self, path: str) -> None:
        self.after[path] = self.changed(self.after[path])
        self.telling.write(f"{CWD}/{path}", self.after[path], type="update")

    def create(self, path: str) -> None:
        new = f"docs/new {self.random.randrange(4)}.md"
        if new not in self.after and new not in self.before:
            self.after[new] = self.text()
            self.telling.write(f"./{new}", self.after[new], type="create")

    def delete(self, path: str) -> None:
        del self.after[path]
        self.telling.call("Delete", {"file_path": path, "file_paths": [path]}, {"deleted": True})

    def create_again(self, path: str) -> None:
        if gone := sorted(self.before.keys() - self.after.keys()):
            self.after[gone[0]] = self.text()
            self.telling.write(gone[0], self.after[gone[0]])

    def patch(self, path: str) -> None:
        old = self.after[path]
        self.after[path] = self.changed(old)
        change = {"type": "modify", "unified_diff": _unified(old, self.after[path])}
        if self.after[path] != old:
            self.telling.call("Patch", {"changes": {path: change}}, {"applied": True})

    def structured(self, path: str) -> None:
        """As Claude Code has it: hunks in the result, and whole new texts in the call."""
        old = self.after[path]
        self.after[path] = self.changed(old)
        if self.after[path] != old:
            answer = {"structuredPatch": _structured(old, self.after[path])}
            self.telling.edit(path, old, self.after[path], answer)

    def fail(self, path: str) -> None:
        self.telling.call("Write", {"file_path": path, "content": "never"}, {"errorMessage": "no"}, "failed")


ACTIONS: tuple[Callable[[Workspace, str], None], ...] = (
    Workspace.read,
    Workspace.edit,
    Workspace.edit,
    Workspace.replace_all,
    Workspace.overwrite,
    Workspace.create,
    Workspace.delete,
    Workspace.create_again,
    Workspace.patch,
    Workspace.structured,
    Workspace.fail,
)


@pytest.mark.parametrize("seed", range(40))
def test_a_random_session_is_the_diff_of_its_workspace(seed: int, tmp_path: Path) -> None:
    workspace = Workspace(seed)
    for name in sorted(workspace.before):
        workspace.read(name)
    for _ in range(workspace.random.randrange(1, 25)):
        if workspace.after:
            path = workspace.random.choice(sorted(workspace.after))
            workspace.random.choice(ACTIONS)(workspace, path)
    _write(tmp_path / "a", workspace.before)
    _write(tmp_path / "b", workspace.after)
    changes = workspace.telling.files.changes()
    assert all(one.complete for one in changes)
    assert {one.path: (one.added, one.removed) for one in changes} == _numstat(tmp_path)
    _apply(tmp_path, [workspace.telling.files.diff(one.path) for one in changes])


@pytest.mark.parametrize("seed", range(20))
def test_positioned_hunks_alone_give_the_same_lines(seed: int, tmp_path: Path) -> None:
    """Nothing was read: only the places of hunks are known, and what they state."""
    workspace = Workspace(seed)
    for _ in range(workspace.random.randrange(1, 10)):
        path = workspace.random.choice(sorted(workspace.after))
        workspace.random.choice((Workspace.patch, Workspace.structured))(workspace, path)
    _write(tmp_path / "a", workspace.before)
    _write(tmp_path / "b", workspace.after)
    changes = workspace.telling.files.changes()
    assert {one.path for one in changes} == _numstat(tmp_path).keys()
    _apply(tmp_path, [workspace.telling.files.diff(one.path) for one in changes], "--unidiff-zero")


def _write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, newline="")


def _numstat(folder: Path) -> dict[str, tuple[int, int]]:
    require("git")
    command = ["git", "diff", "--no-index", "--minimal", "--no-renames", "--numstat", "-z", "a", "b"]
    found = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True).stdout
    fields = found.split("\0")
    stats: dict[str, tuple[int, int]] = {}
    for counts, old, new in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        added, removed, _ = counts.split("\t")
        stats[(new if new.startswith("b/") else old)[2:]] = (int(added), int(removed))
    return stats


def _apply(folder: Path, diffs: list[FileDiff | None], *options: str) -> None:
    """Git accepts the diffs, and they make of what was before what is now."""
    text = "".join(one.diff for one in diffs if one is not None)
    if text:
        require("git")
        subprocess.run(["git", "apply", *options, "-"], cwd=folder / "a", input=text.encode(), check=True)
    assert _read(folder / "a") == _read(folder / "b")


def _read(folder: Path) -> dict[str, bytes]:
    found = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return {path: data for path, data in found.items() if data}  # a file that became empty is one in a diff


def _unified(old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), "a", "b")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in list(lines)[2:]
    )


def _structured(old: str, new: str) -> list[dict[str, object]]:
    hunks: list[dict[str, object]] = []
    for line in _unified(old, new).removesuffix("\n").split("\n"):
        if head := re.match(r"@@ -(\d+)(?:,(\d+))? \+(\d+)", line):
            lines: list[str] = []
            # jsdiff numbers the line after an insertion, as does the agent
            start = int(head[1]) + (head[2] == "0")
            hunks.append({"oldStart": start, "newStart": int(head[3]), "lines": lines})
        else:
            lines.append(line)
    return hunks
