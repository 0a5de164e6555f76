"""`make lab-exports CAPTURES='FOLDER …'`: exports all recordings in these folders in the formats of other programs, and
has the formats' own packages check the files."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from atif import Trajectory

from tests.daemon.export.exporting import exported

CHECKS: dict[str, Callable[[str], object]] = {"atif": Trajectory.model_validate_json}
"""Format -> what raises if a file is not valid."""


def main(folders: list[str]) -> int:
    counts: Counter[str] = Counter()
    for path in sorted(path for folder in folders for path in Path(folder).rglob("*.jsonl")):
        for form, check in CHECKS.items():
            events, text = exported(form, path)
            if not events:
                counts["without events"] += 1
                continue
            try:
                check(text)
            except ValueError as error:
                counts["invalid"] += 1
                print(f"{path} as {form}: {error}")
            else:
                counts[f"valid {form}"] += 1
    print(", ".join(f"{number} {what}" for what, number in sorted(counts.items())))
    return 1 if counts["invalid"] or not counts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
