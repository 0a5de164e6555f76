"""`make dialects`: generates files from the folders in `normalizers/dialects/` and from their recordings.

- the list of agents in README.md, and the tables of docs/reference: dialects.md, providers.md, and the stores in
  settings.md;
- docs/coverage.md, from the recordings in tests/fixtures;
- a curated fixture for each recorded dialect that has none, the events of all curated fixtures, and the snapshots of
  what recordings prove.

Review the changes before you commit them: a snapshot records what a dialect makes of a recording, right or wrong.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import fill

from tests.kit import skips
from tests.kit.coverage import WRITTEN, page
from tooltap.normalizers.catalog.registry import builtin, parser_class, products, stores
from tooltap.traces.fixtures.fixtures import Fixtures
from tooltap.traces.recording.whole_file import write_whole

__all__ = ["PAGES", "recorded"]

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
CURATED = FIXTURES / "curated"
OURS = frozenset({"display-tools", "hooks", "tooltap-trace"})
"""Dialects that tooltap itself writes: no agent has to be recorded."""
TOOLTAP = [sys.executable, "-m", "tooltap.cli"]
WIDTH = 120


PAGES: dict[str, Callable[[Path], str]] = {
    "README.md": lambda path: _between(path, "agents", _agents()),
    "docs/reference/dialects.md": lambda path: _between(
        path, "skipped", skips.table(), _between(path, "dialects", _table_of_dialects())
    ),
    "docs/reference/providers.md": lambda path: _between(path, "providers", _table_of_providers()),
    "docs/reference/settings.md": lambda path: _between(path, "stores", _table_of_stores()),
    "docs/coverage.md": lambda path: page(FIXTURES),
}
"""Path of a page -> function that returns its new text."""


def recorded() -> set[str]:
    """Return the dialects with a real recording, not only a stream written by hand after a source."""
    folders = (folder for name in builtin() for folder in (FIXTURES / name).iterdir() if folder.is_dir())
    return {folder.parent.name for folder in folders if not folder.name.endswith(WRITTEN)} - OURS


def _between(path: Path, mark: str, text: str, page: str | None = None) -> str:
    """Return the page with `text` between its marks. `page`: its text, if other marks were filled before."""
    pattern = rf"(<!-- {mark} -->\n).*?(\n<!-- /{mark} -->)"
    return re.sub(pattern, lambda marks: marks[1] + text + marks[2], page or path.read_text(), count=1, flags=re.DOTALL)


def _agents() -> str:
    *names, last = products()
    return fill(f"{', '.join(names)}, and {last}.", WIDTH, break_on_hyphens=False)


def _table_of_dialects() -> str:
    rows = (
        f"| `{one.name}` | {one.reads} | {'yes' if parser_class(one.name).STATES_END else 'no'} |"
        for one in builtin().values()
    )
    return "\n".join(["| dialect | what it reads | states ends |", "|---|---|---|", *rows])


def _table_of_providers() -> str:
    rows = (f"| `{one.name}` | {one.tapped_with} | {one.arrives} | {one.omits} |" for one in builtin().values())
    return "\n".join(["| dialect | tapped with | arrives | left out |", "|---|---|---|---|", *rows])


def _table_of_stores() -> str:
    """The folder that a variable names holds `below`."""
    rows = []
    for agent, store in ((agent, store) for agent, of_agent in stores().items() for store in of_agent):
        variable = f"`{store.variable}`" if store.variable else "–"
        rows.append(f"| `{agent}` | {variable} | `{Path('~') / store.home}` | `{Path(store.below)}` |")
    return "\n".join(["| agent | variable | folder | sessions in it |", "|---|---|---|---|", *dict.fromkeys(rows)])


MANY_KEYS = 4
"""Number of keys of a new dialect that get examples."""


def _curate() -> None:
    """Extract fixtures of each recorded dialect that has none, and update the events of all."""
    for name in sorted(recorded() - {example.dialect for example in Fixtures.load(CURATED).examples}):
        recordings = sorted((FIXTURES / name).glob("*/*.jsonl"))
        allowlist = CURATED / "allowlist.txt"
        listed = set(allowlist.read_text().splitlines())
        keys = [key for key in _keys(recordings) if re.search(r"/(message|tool-result/.*)$", key)]
        if not listed.isdisjoint(keys):  # those of another dialect of the family will do
            keys = []
        del keys[MANY_KEYS:]
        if keys:
            write_whole(allowlist, f"{allowlist.read_text()}\n# {name}\n" + "".join(f"{key}\n" for key in keys))
        command = [*TOOLTAP, "fixtures", "extract", *map(str, recordings), "--max", "3", "--out", str(CURATED)]
        subprocess.run(command, check=True)
    subprocess.run([*TOOLTAP, "fixtures", "update", str(CURATED)], check=True)


def _keys(recordings: list[Path]) -> Iterator[str]:
    printed = subprocess.run([*TOOLTAP, "fixtures", "keys", *recordings], check=True, capture_output=True, text=True)
    for line in printed.stdout.splitlines():
        yield line.partition("#")[0].strip()


def main() -> None:
    for name, make in PAGES.items():
        write_whole(ROOT / name, make(ROOT / name))
    _curate()
    snapshots = ["pytest", "-q", "--snapshot-update", "tests/normalizers/stream/test_proofs.py"]
    subprocess.run([sys.executable, "-m", *snapshots], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
