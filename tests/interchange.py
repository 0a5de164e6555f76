"""`make lab-exports CAPTURES='FOLDER …'`: exports all recordings in these folders in the formats of other programs, and
has the formats' own packages check the files.

What AG-UI's client demands of the order of events is checked by its npm package, which is installed in `build/ag-ui`.
Without npm or the registry, a line says that this was not checked.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ag_ui.core import Event
from atif import Trajectory
from pydantic import TypeAdapter

from tests.daemon.export.exporting import exported
from tests.test_layout import ROOT

CLIENT = "@ag-ui/client@1.0.0"
FOLDER = ROOT / "build" / "ag-ui"
VERIFY = """
import {createInterface} from "node:readline";
import {verifyEvents} from "@ag-ui/client";
import {from, lastValueFrom, toArray} from "rxjs";
for await (const line of createInterface({input: process.stdin})) {
  const {path, events} = JSON.parse(line);
  await lastValueFrom(from(events).pipe(verifyEvents(false), toArray())).catch(error => {
    console.log(path + " as ag-ui: " + error.message);
  });
}
"""
_EVENT: TypeAdapter[Any] = TypeAdapter(Event)


def _check_lines(text: str) -> None:
    for line in text.splitlines():
        _EVENT.validate_json(line)


CHECKS: dict[str, Callable[[str], object]] = {"atif": Trajectory.model_validate_json, "ag-ui": _check_lines}
"""Format -> what raises `ValueError` if a file is not valid."""


def main(folders: list[str]) -> int:
    counts: Counter[str] = Counter()
    FOLDER.mkdir(parents=True, exist_ok=True)
    streams = FOLDER / "streams.jsonl"
    with streams.open("w") as file:
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
                if form == "ag-ui":
                    file.write(json.dumps({"path": str(path), "events": list(map(json.loads, text.splitlines()))}))
                    file.write("\n")
    counts["invalid"] += _refused_by_client(streams)
    print(", ".join(f"{number} {what}" for what, number in sorted(counts.items())))
    return 1 if counts["invalid"] or not counts else 0


def _refused_by_client(streams: Path) -> int:
    """Print which files AG-UI's client refuses, and return their number."""
    if not (FOLDER / "node_modules" / "rxjs").exists():
        npm = shutil.which("npm")
        command = [npm or "npm", "install", "--no-fund", "--no-audit", "--prefix", str(FOLDER), CLIENT]
        if npm is None or subprocess.run(command, capture_output=True).returncode:
            print(f"NOT CHECKED: {CLIENT} cannot be installed")
            return 0
    (FOLDER / "verify.mjs").write_text(VERIFY)
    with streams.open() as file:
        done = subprocess.run(["node", FOLDER / "verify.mjs"], stdin=file, capture_output=True, text=True, check=True)
    print(done.stdout, end="")
    return len(done.stdout.splitlines())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
