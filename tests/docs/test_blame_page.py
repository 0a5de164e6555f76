"""docs/how-to/blame.md is true: its commands run on a file that a recorded agent has edited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, Block, assert_printed, blocks_of
from tests.docs.shell import Shell, shell
from tests.normalizers.changes.test_recordings import HOWDY
from tests.normalizers.reading import FIXTURES

EDIT = FIXTURES / "claude-stream/claude-code-2.1.330/edit.jsonl"
BLOCKS = [block for block in blocks_of(DOCS / "how-to" / "blame.md") if block.language in ("sh", "text")]


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Shell]:
    with shell(tmp_path, is_empty=True) as beside:
        (tmp_path / "src").mkdir()
        (tmp_path / "src" / "app.py").write_text(HOWDY[1]["src/app.py"])
        recording = tmp_path / "edit.jsonl"
        recording.write_bytes(EDIT.read_bytes().replace(b"/tmp/ws", str(tmp_path).encode()))
        beside.execute("tooltap", "ingest", str(recording))
        yield beside


def test_blocks_run_in_order(beside: Shell) -> None:
    first, output, last = BLOCKS
    assert (output.tag, last) == ("output", Block("sh", "", last.text))

    assert_printed(output.text, beside.run(first.text))
    beside.run(last.text)
    assert json.loads((beside.folder / "trace.json").read_text())["files"][0]["path"].endswith("app.py")
