"""docs/how-to/drift.md is true: its example runs in a copy of the sources as they were before the change."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import environment
from tests.docs.pages import DOCS, Block, assert_printed, blocks_of
from tests.docs.shell import is_traced
from tests.test_layout import FOLDERS, ROOT

TIMEOUT = 60
BLOCKS = blocks_of(DOCS / "how-to" / "drift.md")
STREAMS = "tests/fixtures/codex-rollout"


class Copy:
    """The sources in a folder of their own, and a `tooltap` that runs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in (*FOLDERS, "src"):
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / STREAMS, folder / STREAMS)
        program = folder / "bin" / "tooltap"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tooltap.cli "$@"\n')
        program.chmod(0o755)
        self.environment = environment(
            PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            PYTHONPATH=str(folder / "src"),
            HOME=str(folder),
            XDG_DATA_HOME=str(folder / "data"),
            TOOLTAP_SOCKET=str(folder / "t.sock"),
        )

    def forget_view_image(self) -> None:
        """As the table of names was before Codex 0.169."""
        table = self.folder / "normalizers" / "tools" / "registry.py"
        text = table.read_text()
        assert text.count(" view_image ") == 1
        table.write_text(text.replace(" view_image ", " "))

    def run(self, commands: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )

    @contextmanager
    def serving(self, command: str) -> Iterator[None]:
        shell = ["bash", "-c", command.replace(" tooltap", " exec tooltap", 1)]
        with subprocess.Popen(shell, cwd=self.folder, env=self.environment, stderr=subprocess.PIPE) as daemon:
            assert daemon.stderr is not None
            try:
                while b"listening" not in (line := daemon.stderr.readline()):
                    assert line, "the daemon has ended"
                yield
            finally:
                daemon.kill()

    def wait_for_the_trace(self) -> None:
        """A trace is written a moment after the events; a person is slower than that."""
        while not is_traced(self.run("tooltap stats --json").stdout):
            pass


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    copy = Copy(tmp_path)
    copy.forget_view_image()
    return copy


def test_example_ends_green(copy: Copy) -> None:
    before, daemon, after = split_at_daemon()
    output = walk(copy, before)
    with copy.serving(daemon.text):
        output = walk(copy, after[:1])
        copy.wait_for_the_trace()
        output = walk(copy, after[1:])

    assert "as recorded" in output
    assert "view_image" in (copy.folder / "normalizers" / "tools" / "registry.py").read_text()


def walk(copy: Copy, blocks: list[Block]) -> str:
    """Run the commands and compare what they print; return the output of the last block."""
    output = ""
    for block in blocks:
        if block.tag == "output":
            assert_printed(block.text, output)
            continue
        finished = copy.run(block.text)
        assert finished.returncode == int(block.tag or 0), block.text + finished.stdout + finished.stderr
        assert "Traceback" not in finished.stderr
        output = finished.stdout
    return output


def split_at_daemon() -> tuple[list[Block], Block, list[Block]]:
    [place] = [number for number, block in enumerate(BLOCKS) if block.tag == "daemon"]
    return BLOCKS[:place], BLOCKS[place], BLOCKS[place + 1 :]
