"""Changes as signed lines: from two texts, unified diffs, and Claude Code's hunks; in bounded time."""

from __future__ import annotations

import random

import pytest

from tests.steps import steps
from tooltap.daemon.show.diff import (
    DiffHunk,
    FileDiff,
    between,
    changes_of_diff,
    cut,
    hunks_of_claude,
    hunks_of_diff,
    whole,
)


def signed(hunks: list[DiffHunk]) -> list[str]:
    return [line.sign + line.text for hunk in hunks for line in hunk.lines]


def test_two_texts_are_compared() -> None:
    hunks, note = between("a\nb\nc\nd\n", "a\nB\nc\nd\ne\n")

    assert signed(hunks) == [" a", "-b", "+B", " c", " d", "+e"]
    assert note == ""


@pytest.mark.parametrize(("old", "new", "shown"), [("", "x\ny", ["+x", "+y"]), ("x\n", "", ["-x"]), ("", "", [])])
def test_empty_side_has_no_lines(old: str, new: str, shown: list[str]) -> None:
    assert signed(between(old, new)[0]) == shown


def test_changed_line_endings_are_shown() -> None:
    assert signed(between("a\r\nb\r\n", "a\r\nB\r\n")[0]) == [" a", "-b", "+B"]
    assert signed(between("a\r\n", "a\n")[0]) == ["-a\r", "+a"]
    assert between("a", "a\n") == ([], "Only the newline at the end changes.")


def test_change_inside_line_is_marked() -> None:
    hunks, _ = between('    return "Hello, " + name\n', '    return "Howdy, " + name\n')
    (change,) = cut([FileDiff.of("a.py", "", hunks)], 100)
    old, new = change.hunks[0].lines

    assert [text for text, changed in old.segments if changed] == ["Hello"]
    assert [text for text, changed in new.segments if changed] == ["Howdy"]
    assert "".join(text for text, _ in new.segments) == new.text


def test_lines_with_little_in_common_are_not_marked() -> None:
    (change,) = cut([FileDiff.of("a.py", "", between("import sys\n", "def main() -> None:\n")[0])], 100)

    assert [line.segments for line in change.hunks[0].lines] == [(), ()]


def test_unified_diff_has_files_and_line_numbers() -> None:
    text = (
        "diff --git a/src/util.py b/src/maths.py\nindex 1..2\n--- a/src/util.py\n+++ b/src/maths.py\n"
        "@@ -10,3 +10,3 @@ def add(a, b):\n x\n-y\n+z\n w\n"
        "diff --git a/new.md b/new.md\nnew file mode 100644\n--- /dev/null\n+++ b/new.md\n@@ -0,0 +1 @@\n+--- text\n"
        "\\ No newline at end of file\n"
    )
    renamed, added = changes_of_diff(text)

    assert (renamed.path, renamed.kind, renamed.moved_to) == ("src/util.py", "rename", "src/maths.py")
    assert (renamed.added, renamed.removed) == (1, 1)
    assert renamed.hunks[0].title == "def add(a, b):"
    assert [(line.sign, line.number) for line in renamed.hunks[0].lines] == [
        (" ", 10),
        ("-", 11),
        ("+", 11),
        (" ", 12),
    ]
    assert (added.path, added.kind, added.added) == ("new.md", "add", 1)
    assert signed(list(added.hunks)) == ["+--- text", "\\ No newline at end of file"]


def test_hunks_of_models_have_no_numbers() -> None:
    (hunk,) = hunks_of_diff("@@ def greet(name):\n     pass\n-    return 1\n+    return 2\n")

    assert hunk.title == "def greet(name):"
    assert signed([hunk]) == ["     pass", "-    return 1", "+    return 2"]
    assert {line.number for line in hunk.lines} == {None}


def test_claude_hunks_have_line_numbers() -> None:
    (hunk,) = hunks_of_claude([{"oldStart": 3, "newStart": 4, "lines": [" a", "-b", "+c", " d"]}])

    assert [(line.sign, line.number) for line in hunk.lines] == [(" ", 4), ("-", 4), ("+", 5), (" ", 6)]


@pytest.mark.parametrize("lines", [None, "text", [1, None], [[]]])
def test_invalid_hunks_are_ignored(lines: object) -> None:
    assert hunks_of_claude([{"lines": lines, "oldStart": "3"}]) == []


def test_brief_cut_shows_lines_around_changes() -> None:
    old = "".join(f"{n}\n" for n in range(100))
    hunks, _ = between(old, old.replace("50\n", "fifty\n"))
    (change,) = cut([FileDiff.of("a", "", hunks)], 12, brief=True)

    assert signed(list(change.hunks)) == [" 47", " 48", " 49", "-50", "+fifty", " 51", " 52", " 53"]
    assert change.hidden == 101 - 8
    assert (change.added, change.removed) == (1, 1)


def test_line_limit_is_for_all_files() -> None:
    changes = cut([FileDiff.of(name, "add", whole("x\n" * 10, "+")) for name in ("a", "b", "c")], 12)

    assert [sum(len(hunk.lines) for hunk in change.hunks) for change in changes] == [10, 2, 0]
    assert [change.hidden for change in changes] == [0, 8, 10]
    assert [change.added for change in changes] == [10, 10, 10]


def test_long_texts_without_a_common_line_are_removed_and_added() -> None:
    old, new = ("".join(f"{word} {n}\n" for n in range(1_000)) for word in ("old", "new"))
    hunks, note = between(old, new)

    assert signed(hunks) == [*(f"-old {n}" for n in range(1_000)), *(f"+new {n}" for n in range(1_000))]
    assert note == ""


def test_texts_with_many_changes_are_compared() -> None:
    old = [str(n) for n in range(5_000)]
    new = [f"new {line}" if int(line) % 5 == 0 else line for line in old]
    hunks, _ = between("\n".join(old), "\n".join(new))
    (hunk,) = hunks

    assert [line.text for line in hunk.lines if line.sign in " -"] == old
    assert [line.text for line in hunk.lines if line.sign in " +"] == new
    assert sum(line.sign == "+" for line in hunk.lines) == 1_000


def test_long_texts_with_one_change_are_compared() -> None:
    old = "".join(f"{n}\n" for n in range(50_000))
    hunks, note = between(old, old.replace("25000\n", "x\n"))

    assert note == ""
    assert [line for line in signed(hunks) if line[0] != " "] == ["-25000", "+x"]


@pytest.mark.parametrize("alphabet", ["ab", "abcdefghijklmnopqrstuvwxyz0123456789", "(x"])
def test_comparing_takes_bounded_time(alphabet: str) -> None:
    chance = random.Random(1)

    def compared(lines: int) -> int:
        old, new = ("\n".join(chance.choice(alphabet) * 300 for _ in range(lines)) for _ in range(2))
        return steps(lambda: cut([FileDiff.of("", "", between(old, new)[0])], 100))

    assert compared(500) < 1_000_000
    assert compared(4_000) < 1_000_000


@pytest.mark.parametrize("alphabet", ["a b", "(x", "!?.,;:()[]{}", "\u2200\u2201\u2202\u2203\u2204\u2205"])
def test_marking_what_changed_inside_lines_takes_bounded_time(alphabet: str) -> None:
    chance = random.Random(1)
    old, new = (["".join(chance.choice(alphabet) for _ in range(300)) for _ in range(50)] for _ in range(2))
    lines = [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]

    assert steps(lambda: cut([FileDiff.of("", "", hunks_of_claude([{"lines": lines}]))], 200)) < 50 * 30_000
