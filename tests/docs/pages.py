"""The documentation's pages and their code blocks; the word after a block's language is its tag."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from tests.test_layout import FOLDERS, ROOT

README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *ROOT.glob("clients/*/README.md"),
        ROOT / "tests" / "bench" / "README.md",
        *(path for folder in FOLDERS for path in (ROOT / folder).rglob("README.md")),
    }
)

NOT_RUN = {
    "make": "needs a fresh checkout; a test checks that the targets exist",
    "install": "changes the reader's environment",
    "daemon": "stays in the foreground; the tests run the same command beside the other blocks",
}
"""Tags of the shell blocks that no test runs as they stand, with the reason."""

OWN_TEST = {
    "asks": "of a scripted daemon, whose agents have other names",
    "attach": "against a server on another port",
    "dialect": "in a copy of the sources; only .ci/run runs all the tests there that a dialect can change",
    "doctor": "its exit code depends on the machine",
    "follow": "beside a session file",
    "gateway": "in front of a server on another port",
    "http": "beside a daemon with --web",
    "otlp": "to a collector on another port",
    "server": "nats-server, with other paths",
    "socat": "its output is compared with recordings of all agents",
    "stream": "does not end by itself",
    "trace": "waits for the trace",
    "up": "in a home with stored sessions",
    "web": "on another port",
}
"""Tags of the shell blocks that have a test of their own, with what that test does differently."""

OWN_WALK = {
    "docs/contributing/card.md": "test_contributing.py: its card is made; the rest are parts of modules",
    "docs/contributing/column.md": "parts of modules",
    "docs/contributing/dialect.md": "test_contributing.py: in a copy of the sources",
    "docs/contributing/stored-dialect.md": "test_contributing.py: in the same copy",
    "docs/contributing/exporter.md": "test_contributing.py: its module writes a file",
    "docs/contributing/tool.md": "parts of modules",
    "docs/how-to/blame.md": "test_blame_page.py: beside a file that a recorded agent has edited",
    "docs/how-to/drift.md": "test_drift_page.py: in a copy of the sources",
    "docs/how-to/scale.md": "test_scale_page.py: beside a nats-server and two daemons",
    "docs/reference/http.md": "test_http_page.py: beside a daemon with --web",
}
"""Pages whose untagged blocks are run by a module of their own, or show parts of modules."""


class Block(NamedTuple):
    language: str
    tag: str
    text: str


_FENCED = re.compile(r"^( *)```(\w*)(?: ([\w./-]+))?\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page in order, each without its indentation."""
    found = _FENCED.findall(page.read_text())
    return [Block(language, tag, textwrap.dedent(text)) for _, language, tag, text in found]


def prose_of(page: Path) -> str:
    """Return the page without its fenced blocks."""
    return _FENCED.sub("", page.read_text())


def tagged(page: Path, tag: str) -> str:
    """Return the text of the page's only block with this tag."""
    [block] = [block for block in blocks_of(page) if block.tag == tag]
    return block.text


def assert_printed(expected: str, output: str) -> None:
    """Check that an output contains the expected lines. `…` in `expected` matches anything; other lines may surround
    it."""
    pattern = ".*?".join(map(re.escape, expected.split("…")))
    assert re.search(f"^{pattern}", output, re.MULTILINE | re.DOTALL), f"{expected}is not in\n{output}"
