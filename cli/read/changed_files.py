"""The table of the files that all sessions changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tooltap.cli.common.columns import columns_of, fit_end, terminal_columns
from tooltap.cli.common.printing import at_terminal, joined, say, say_text, short, styled, wants_colour, warn
from tooltap.cli.read.sessions import ago_of, moment_of
from tooltap.daemon.formats import counted
from tooltap.daemon.sessions.listing import folder_name

MAX_PATH = 4_096
LEAST_PATH = 20


class _Column(NamedTuple):
    head: str
    value: Callable[[dict[str, Any]], str]
    style: str = ""
    needs: int = 0
    """Minimum terminal width at which the column is shown."""


def print_changed_files(found: dict[str, Any]) -> None:
    """Print a table of files. `found`: the result of a `changed-files` request; its `files` must not be empty."""
    files = found["files"]
    if not at_terminal():
        say_text("\t".join(["FILE", *(column.head for column in _COLUMNS), "LAST", "HOST"]) + "\n")
        for one in files:
            figures = [short(column.value(one)) for column in _COLUMNS]
            host = short(one.get("host", ""))
            say_text("\t".join([short(one["path"], MAX_PATH), *figures, moment_of(one), host]) + "\n")
        return
    room, now = terminal_columns(), time.time()
    columns = [*(one for one in _COLUMNS if room >= one.needs), _Column("LAST", lambda one: ago_of(one, now))]
    cells = [[column.head, *(short(column.value(one)) for one in files)] for column in columns]
    widths = [max(map(columns_of, column)) for column in cells]
    width = max(LEAST_PATH, room - sum(widths) - 2 * len(widths))
    for number, path in enumerate(["FILE", *map(_path, files)]):
        parts = []
        for column, of_column, wide in zip(columns, cells, widths, strict=True):
            text = f"{of_column[number]:>{wide}}"
            parts.append(styled(text, column.style) if number and column.style and wants_colour() else text)
        say(joined([*parts, fit_end(path, width)], "  "))
    if found["total"] > len(files):
        say()
        say(f"{len(files):,} of {counted(found['total'], 'file')}; `--limit` lists more of them")
    elif not found["complete"] and not found.get("uncounted"):
        say()
        say("some sessions changed more files than are counted")


def warn_of_uncounted(found: dict[str, Any]) -> None:
    """Say so if the reply lacks sessions whose files were not counted."""
    if uncounted := found.get("uncounted"):
        sessions = counted(uncounted, "session")
        warn(f"an older version has ingested {sessions} without counting the files: `tooltap journal repair` does it")


def _path(one: dict[str, Any]) -> str:
    """Return the path, beginning with the name of the project if it is in there; and its worktree and its remote."""
    path, project = str(one["path"]), str(one.get("project") or "").rstrip("/")
    worktree = str(one.get("worktree") or "").rstrip("/")
    inside = path.removeprefix(f"{worktree or project}/")
    shown = f"{folder_name(project)}/{inside}" if project and inside != path else path
    where = [f"worktree {folder_name(worktree)}"] if worktree else []
    where += [f"on {one['host']}"] if "host" in one else []
    return short(f"{shown} ({', '.join(where)})" if where else shown, MAX_PATH)


_COLUMNS = (
    _Column("CHANGES", lambda one: str(one["changes"])),
    _Column("ADDED", lambda one: f"+{one['added']}", "green"),
    _Column("REMOVED", lambda one: f"-{one['removed']}", "red"),
    _Column("SESSIONS", lambda one: str(one["sessions"]), needs=60),
    _Column("AGENTS", lambda one: ", ".join(one["agents"]), needs=70),
)
