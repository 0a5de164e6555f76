"""`make lab-exports CAPTURES='FOLDER …'`: exports all recordings in these folders in the formats of other programs, and
has the formats' own packages check the files.

What AG-UI's client demands of the order of events is checked by its npm package, which is installed in `build/ag-ui`.
Without npm or the registry, a line says that this was not checked. It also checks what subscribers get while a session
is going on, and of one that stops in the middle: from its beginning, and from a cursor and without some of the
partials, all chosen by `SEED`. The tables of `sqlite` are held against the events.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ag_ui.core import Event
from atif import Trajectory
from pydantic import TypeAdapter

from tests.daemon.export.collector import spans_of
from tests.daemon.export.exporting import Tables, events_of, exported, published, tabled
from tests.test_layout import ROOT
from tooltap.daemon.export.ag_ui_live import LiveAgUi
from tooltap.normalizers.core.items import Produced
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
_ABOVE = """
SELECT session FROM sessions JOIN turns USING (session) GROUP BY session
HAVING total(turns.input_tokens) > coalesce(sessions.input_tokens, 0)
    OR total(turns.output_tokens) > coalesce(sessions.output_tokens, 0)
    OR total(turns.cost_usd) > coalesce(sessions.cost_usd, 0) + 0.005
"""
_EVENT: TypeAdapter[Any] = TypeAdapter(Event)


def _check_lines(text: str) -> None:
    for line in text.splitlines():
        _EVENT.validate_json(line)


CHECKS: dict[str, Callable[[str], object]] = {
    "atif": Trajectory.model_validate_json,
    "ag-ui": _check_lines,
    "otlp": spans_of,
}
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
            faults += [f"the turns of {session} used more than it" for (session,) in tables.ask(_ABOVE)]
    return faults


def _live(path: Path, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Yield what subscribers of each session of a recording get: how they subscribed, and the events as JSON."""
    recording = path.read_bytes()
    cut = chance.randint(0, len(recording))
    subscribers = (
        (len(recording), False, 0.0),
        (len(recording), True, chance.choice((0.05, 0.5))),
        (cut, False, 0.0),
        (cut, True, 0.05),
    )
    made = {most: _by_session(published(recording[:most])) for most in (len(recording), cut)}
    for most, has_cursor, lost in subscribers:
        for session, events in made[most].items():
            after = chance.randint(0, sum(not one.partial for one in events)) if has_cursor else 0
            kept = [one for one in events if not (one.partial and chance.random() < lost)]
            lines = [line for line in _lines_of(kept, after, chance).splitlines() if not line.startswith(b'{"op":')]
            about = f"{path}, {most} bytes, {session} live after {after}, {lost:.0%} of the partials lost,"
            yield about, f"[{b','.join(lines).decode()}]"


def _by_session(events: list[Produced]) -> dict[str, list[Produced]]:
    sessions: dict[str, list[Produced]] = {}
    for one in events:
        sessions.setdefault(one.session, []).append(one)
    return sessions


def _lines_of(events: list[Produced], after: int, chance: random.Random) -> bytes:
    """Return what a subscriber gets of events that come in chunks, as those of commits do."""
    subscriber, parts, seq, at = LiveAgUi(after), [], 0, 0
    while at < len(events):
        chunk = events[at : at + chance.choice((1, 1, 2, 20))]
        seqs: list[int | None] = []
        for one in chunk:
            seq += not one.partial
            seqs.append(None if one.partial else seq)
        parts += [subscriber.read(chunk, seqs), subscriber.reach(seq).encode()]
        at += len(chunk)
    return b"".join(parts)


def _is_alone(event: AnyEvent, called: set[tuple[str, str]]) -> bool:
    is_end = isinstance(event, ToolResult) and not event.async_
    return is_end and (event.stream, getattr(event, "call_id", "")) not in called


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interchange")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--seed", type=int, default=1, help="of the cursors and the lost partials")
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    chance = random.Random(given.seed)
    FOLDER.mkdir(parents=True, exist_ok=True)
    streams = FOLDER / "streams.jsonl"
    with streams.open("w") as file:
        for path in sorted(path for folder in given.folders for path in Path(folder).rglob("*.jsonl")):
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
                    file.write(f'{{"path":{json.dumps(str(path))},"events":[{",".join(text.splitlines())}]}}\n')
            for subscriber, got in _live(path, chance):
                counts["live ag-ui"] += 1
                file.write(f'{{"path":{json.dumps(subscriber)},"events":{got}}}\n')
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
    sys.exit(main())
