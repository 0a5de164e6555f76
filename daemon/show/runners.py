"""What a test runner says of its run, in the last lines that a command printed: `1 failed, 31 passed`.

One table; to add a runner, add its line. Each pattern is searched in one line at a time, of bounded length, and has one
group for each count, named by what is counted.
"""

from __future__ import annotations

import re

TAIL = 4_000
"""Characters at the end of an output that are searched."""
LINE = 300
"""Most characters of a line that is searched."""
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
    """Return the counts of the last run in the output; empty if no runner of the table has printed it."""
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
    """Return how many of which the line states."""
    if (node := _NODE.match(line)) is not None:
        return {f"{node[1]}ed": int(node[2])}
    found: dict[str, int] = {}
    pairs = [(word, number) for number, word in _COUNTS.findall(line)]
    pairs += [(one or other, number or count) for one, number, other, count in _NAMED.findall(line)]
    for word, number in pairs:
        name = _WORD_OF.get(word.lower(), word.lower())
        found[name] = found.get(name, 0) + int(number)
    return found
