"""The short facts at the end of a row: lines changed or read, matches found, tests passed, how a command ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from tooltap.daemon.formats import counted
from tooltap.daemon.show.blocks import RenderContext
from tooltap.daemon.show.diff import between
from tooltap.normalizers.changes.steps import Step, steps
from tooltap.normalizers.tools.registry import family_of
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.events import ToolResult


class Fact(NamedTuple):
    text: str
    name: str = ""
    """Set for facts that are drawn in their own way, or replaced by a later fact of that name: `exit`, `added`,
    `removed`, `waited`, `took`, `cost`, `context`."""


NOTICED = 3_000
"""Minimum milliseconds of a wait for the user that is shown: a request that was answered sooner was answered by a
rule."""


def said(*texts: str | None) -> tuple[Fact, ...]:
    """Return facts without a name, for each text that is not None."""
    return tuple(Fact(text) for text in texts if text is not None)


COMPARED = 100_000
"""Maximum characters of texts that are compared to count changed lines."""
Payload: TypeAlias = dict[str, Any]


def outcome_facts(event: ToolResult, context: RenderContext) -> tuple[Fact, ...]:
    """Return the facts that are specific to the tool."""
    family = family_of(event.name)
    if family == "shell":
        return tuple(_shell(event.output))
    if event.status != "completed":
        return ()
    if family == "edit":
        return tuple(_changed(event, context))
    if family == "plan":
        return said(_plan(context))
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


def _plan(context: RenderContext) -> str | None:
    """Return the progress of the steps in the call's input: `3 of 5 done`."""
    steps = records(context.call.input.get("todos")) if context.call else []
    done = sum(step.get("status") == "completed" for step in steps)
    return f"{done} of {len(steps)} done" if steps else None


def _changed(event: ToolResult, context: RenderContext) -> Iterator[Fact]:
    """Count lines as the diff in the call's card does."""
    if context.call is None:
        return
    counts = [_lines(step) for step in steps(event.name, context.call.input, event.output)]
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


# -- what a test runner says of its run, in the last lines of an output: `1 failed, 31 passed` -----------------------


# One table; to add a runner, add its line. Each pattern is searched in one line at a time, of bounded length, and has
# one group for each count, named by what is counted.


TAIL = 4_000
"""Characters at the end of an output that are searched."""
LINE = 300
"""Maximum characters of a line that is searched."""
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}m")
_WORDS = ("failed", "passed", "skipped")
_COUNTS = re.compile(r"\b(\d{1,7}) (failed|failures?|errors?|passed|passing|failing|skipped|pending|ignored)\b")
_WORD_OF = {
    "failures": "failed",
    "failure": "failed",
    "error": "failed",
    "errors": "failed",
    "failing": "failed",
    "passing": "passed",
    "pending": "skipped",
    "ignored": "skipped",
}
_LINES = (
    re.compile(r"^=* ?\d+ (?:failed|passed|errors?|skipped)\b.* in [\d.:]+"),  # pytest
    re.compile(r"^\s*Tests:? +(?:\d+ \w+[,|] *)*\d+ \w+"),  # Jest, Vitest
    re.compile(r"^test result: (?:ok|FAILED)\. \d+ passed"),  # cargo test
    re.compile(r"^\s*\d+ (?:passing|failing|pending)\b"),  # Mocha
    re.compile(r"^\d+ examples?, \d+ failures?"),  # RSpec
    re.compile(r"^\s*\d+ (?:passed|failed|skipped)(?: \([\d.]+m?s\))?$"),  # Playwright
    re.compile(r"^(?:Failed|Passed)! +- Failed: "),  # dotnet test
    re.compile(r"^# (?:pass|fail) \d+$"),  # node --test
    re.compile(r"^Ran \d+ tests? in "),  # unittest
    re.compile(r"^FAILED \((?:failures|errors)="),
    re.compile(r"^OK \(\d+ tests?, "),  # PHPUnit
    re.compile(r"^Tests: \d+, Assertions: "),
)
"""Lines that only a test runner prints."""
_NAMED = re.compile(
    r"\b(Failed|Passed|Skipped|Failures|failures|errors|Errors|skipped): *(\d{1,7})|(failures|errors)=(\d{1,7})"
)
_NODE = re.compile(r"^# (pass|fail) (\d{1,7})$")
_RAN = re.compile(r"^(?:Ran (\d{1,7}) tests? in |OK \((\d{1,7}) tests?, |Tests: (\d{1,7}), |(\d{1,7}) examples?, )")


def summary_of(output: str) -> str:
    """Return the counts of the last run in the output; empty if no known test runner has printed any."""
    counts: dict[str, int] = {}
    ran = 0
    for line in output[-TAIL:].splitlines():
        line = _ANSI.sub("", line[:LINE])
        if not any(one.search(line) for one in _LINES):
            continue
        found = _counts(line)
        if any(word in counts for word in found) and not _NODE.match(line):
            counts.clear()  # of an earlier run
        counts |= found
        if (total := _RAN.match(line)) is not None:
            ran = int(next(one for one in total.groups() if one))
    if ran and "passed" not in counts:
        counts["passed"] = max(ran - counts.get("failed", 0) - counts.get("skipped", 0), 0)
    shown = [f"{counts[word]:,} {word}" for word in _WORDS if counts.get(word)]
    return ", ".join(shown)


def _counts(line: str) -> dict[str, int]:
    """Return the counts in a summary line: `failed`, `passed` or `skipped` -> number."""
    if (node := _NODE.match(line)) is not None:
        return {f"{node[1]}ed": int(node[2])}
    found: dict[str, int] = {}
    pairs = [(word, number) for number, word in _COUNTS.findall(line)]
    pairs += [(one or other, number or count) for one, number, other, count in _NAMED.findall(line)]
    for word, number in pairs:
        name = _WORD_OF.get(word.lower(), word.lower())
        found[name] = found.get(name, 0) + int(number)
    return found
