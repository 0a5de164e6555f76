"""The short facts at the end of a row: lines changed or read, matches found, tests passed, how a command ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from tooltap.daemon.formats import counted
from tooltap.daemon.show.diff import between
from tooltap.daemon.show.render_options import Look
from tooltap.daemon.show.runners import summary_of
from tooltap.normalizers.changes.steps import Step, steps
from tooltap.normalizers.tools.registry import family_of
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.events import ToolResult


class Fact(NamedTuple):
    text: str
    name: str = ""
    """Of what is drawn in its own way, or replaced by a later fact: `exit`, `added`, `removed`, `took`, `cost`,
    `context`."""


def said(*texts: str | None) -> tuple[Fact, ...]:
    """Return plain facts, without those that are None."""
    return tuple(Fact(text) for text in texts if text is not None)


COMPARED = 100_000
"""Most characters of texts that are compared to count changed lines."""
Payload: TypeAlias = dict[str, Any]


def outcome_facts(event: ToolResult, look: Look) -> tuple[Fact, ...]:
    """Return the facts of the tool's own kind."""
    family = family_of(event.name)
    if family == "shell":
        return tuple(_shell(event.output))
    if event.status != "completed":
        return ()
    if family == "edit":
        return tuple(_changed(event, look))
    if family == "plan":
        return said(_plan(look))
    found = {"read": _read, "search": _search}.get(family, lambda _: None)(event.output)
    return said(found)


def _shell(output: Payload) -> Iterator[Fact]:
    code = whole(output.get("exit_code"))
    if code:
        yield Fact(f"exit {code}", "exit")
    summary = summary_of(string(output.get("stdout")) or "") or summary_of(string(output.get("stderr")) or "")
    if summary:
        yield Fact(summary)


def _read(output: Payload) -> str | None:
    file = record(output.get("file"))
    lines, text = whole(file.get("numLines")), string(file.get("content"))
    if lines is None and text is not None:
        lines = text.count("\n") + (text[-1:] not in ("\n", ""))
    if lines is not None:
        return counted(lines, "line")
    entries = output.get("entries")
    return counted(len(entries), "entry", "entries") if isinstance(entries, list) else None


def _search(output: Payload) -> str | None:
    matches = output.get("matches")
    if not isinstance(matches, list):
        return None
    if all(isinstance(one, str) for one in matches) and matches:
        return counted(len(matches), "file")
    return counted(len(matches), "match", "matches")


def _plan(look: Look) -> str | None:
    """Say how far a list of steps is, which the call states."""
    steps = records(look.call.input.get("todos")) if look.call else []
    done = sum(step.get("status") == "completed" for step in steps)
    return f"{done} of {len(steps)} done" if steps else None


def _changed(event: ToolResult, look: Look) -> Iterator[Fact]:
    """Count lines as the diff in the call's card does."""
    if look.call is None:
        return
    counts = [_lines(step) for step in steps(event.name, look.call.input, event.output)]
    added, removed = (sum(one) for one in zip(*counts, strict=True)) if counts else (0, 0)
    if added:
        yield Fact(f"+{added:,}", "added")
    if removed:
        yield Fact(f"−{removed:,}", "removed")


def _lines(step: Step) -> tuple[int, int]:
    """Return how many lines a step adds and removes, as far as that is stated."""
    if step.parts:
        lines = [line for part in step.parts for line in part.lines]
        return sum(line[0] == "+" for line in lines), sum(line[0] == "-" for line in lines)
    before, after = {
        "write": (step.before, step.text),
        "delete": (step.before, ""),
        "replace": (step.old, step.new),
    }.get(step.kind, (None, None))
    if before is None or after is None or len(before) + len(after) > COMPARED:
        return 0, 0
    signs = [line.sign for hunk in between(before, after)[0] for line in hunk.lines]
    return signs.count("+"), signs.count("-")
