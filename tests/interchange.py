"""`make lab-exports CAPTURES='FOLDER …'`: exports all recordings in these folders in the formats of other programs, and
has the formats' own packages check the files.

What AG-UI's client demands of the order of events is checked by its npm package, which is installed in `build/ag-ui`.
Without npm or the registry, a line says that this was not checked. The tables of `sqlite` are held against the events.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ag_ui.core import Event
from atif import Trajectory
from pydantic import TypeAdapter

from tests.daemon.export.exporting import Tables, events_of, exported, tabled
from tests.test_layout import ROOT
from tooltap.protocol.events import (
    AnyEvent,
    Message,
    PermissionRequest,
    Reasoning,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

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


def _faults_of_tables(path: Path) -> list[str]:
    """Return what is wrong with the tables of a recording: what SQLite finds, rows without events, events without rows,
    and sums that are not those of the events."""
    events = events_of(path)
    with tempfile.TemporaryDirectory() as folder:
        said = tabled(Path(folder) / "tables.sqlite", events)
        with Tables(Path(folder) / "tables.sqlite") as tables:
            faults = [*said, *map(str, tables.faults)]
            own = [one for one in events if not one.replay]
            called = {(one.stream, one.call_id) for one in own if isinstance(one, ToolCall)}
            wanted = {
                "calls": [one.id for one in own if isinstance(one, ToolCall) or _is_alone(one, called)],
                "messages": [one.id for one in own if isinstance(one, Message | Reasoning)],
                "permissions": [one.id for one in own if isinstance(one, PermissionRequest)],
            }
            for table, ids in wanted.items():
                if sorted(ids) != sorted(row["id"] for row in tables.rows(table)):
                    faults.append(f"{table} differ from the events")
            used = [one for one in own if isinstance(one, Usage)]
            if all(one.scope == "step" and one.replaces is None and one.beside is None for one in used):
                sums = sum(one.input_tokens or 0 for one in used), sum(one.output_tokens or 0 for one in used)
                found = tables.ask("SELECT total(input_tokens), total(output_tokens) FROM usage")
                if found != [sums]:
                    faults.append(f"usage is {found[0]}, but the events have {sums}")
            turns = sum(isinstance(one, Turn) and one.starts for one in own)
            if tables.ask("SELECT count(*) FROM turns") != [(turns,)]:
                faults.append("turns differ from the events")
    return faults


def _is_alone(event: AnyEvent, called: set[tuple[str, str]]) -> bool:
    is_end = isinstance(event, ToolResult) and not event.async_
    return is_end and (event.stream, getattr(event, "call_id", "")) not in called


def main(folders: list[str]) -> int:
    counts: Counter[str] = Counter()
    FOLDER.mkdir(parents=True, exist_ok=True)
    streams = FOLDER / "streams.jsonl"
    with streams.open("w") as file:
        for path in sorted(path for folder in folders for path in Path(folder).rglob("*.jsonl")):
            faults = _faults_of_tables(path)
            counts["invalid" if faults else "valid sqlite"] += 1
            for fault in faults:
                print(f"{path} as sqlite: {fault}")
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
