"""The files of two sessions against each other, as the sessions left them."""

from __future__ import annotations

import re

import msgspec
import pytest

from tests.normalizers.changes.telling import Telling
from tests.same_task import EDIT
from tooltap.daemon.web.page.compare import ALL_LINES, MOST_FILES, MOST_LINES, ComparedFile, compared_files
from tooltap.normalizers.changes.session_files import SessionFiles

BEFORE = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"


def both() -> tuple[Telling, Telling]:
    """Two sessions of the same task, in folders of their own."""
    return Telling(), Telling(SessionFiles("/elsewhere"))


def compared(left: Telling, right: Telling) -> list[ComparedFile]:
    files, hidden = compared_files(left.files, right.files)
    assert hidden == 0
    return files


def signed_lines(diff: str | None) -> list[str]:
    """The changed lines of a diff in the page."""
    found = re.findall(r"<(ins|del) class=\"line\">(.*?)\n</\1>", diff or "", re.DOTALL)
    texts = [(tag, re.sub(r"<span class=\"(?:linenos|sign)\">[^<]*</span>|</?mark>", "", text)) for tag, text in found]
    return [("+" if tag == "ins" else "-") + text for tag, text in texts]


def test_known_files_are_compared_with_each_other() -> None:
    left, right = both()
    left.read("a.txt", BEFORE)
    left.edit("a.txt", "two", "2")
    right.write("/elsewhere/a.txt", BEFORE.replace("three", "3"))

    [file] = compared(left, right)

    assert (file.path, file.outcome) == ("a.txt", "differs")
    assert (file.left.kind, file.right.kind) == ("modified", "added")
    assert signed_lines(file.diff) == ["-2", "-three", "+two", "+3"]


def test_same_result_by_other_means() -> None:
    left, right = both()
    left.read("a.txt", BEFORE)
    left.edit("a.txt", "two", "2")
    right.write("a.txt", BEFORE.replace("two", "2"))

    [file] = compared(left, right)

    assert (file.outcome, file.diff) == ("same", None)


def test_both_deleted_it() -> None:
    left, right = both()
    for one in (left, right):
        one.read("a.txt", BEFORE)
        one.call("Delete", {"file_path": "a.txt"})

    assert [(file.outcome, file.left.kind) for file in compared(left, right)] == [("same", "deleted")]


def test_changes_of_each_where_not_all_is_known() -> None:
    left, right = both()
    left.edit("a.txt", "two", "2")
    right.write("a.txt", "2\n")

    [file] = compared(left, right)

    assert (file.outcome, file.diff) == ("unknown", None)
    assert signed_lines(file.left.diff) == ["-two", "+2"]
    assert signed_lines(file.right.diff) == ["+2"]


def test_files_of_one_session_alone() -> None:
    left, right = both()
    left.write("left.txt", "x\n")
    right.write("right.txt", "y\n")
    right.read("left.txt", BEFORE)

    files = compared(left, right)

    assert [(file.path, file.outcome) for file in files] == [("left.txt", "left"), ("right.txt", "right")]
    assert signed_lines(files[0].left.diff) == ["+x"]
    assert (files[0].right.kind, files[0].right.diff) == ("", None)


def test_files_and_lines_are_bounded() -> None:
    left, right = both()
    for number in range(MOST_FILES + 5):
        left.write(f"{number:03}.txt", "line\n" * (MOST_LINES + 10))

    files, hidden = compared_files(left.files, right.files)

    assert (len(files), hidden) == (MOST_FILES, 5)
    counts = [len(signed_lines(file.left.diff)) for file in files]
    assert counts[0] == MOST_LINES
    assert sum(counts) == ALL_LINES
    assert "10 more lines" in str(files[0].left.diff)
    assert f"{MOST_LINES + 10} more lines" in str(files[-1].left.diff)


def test_text_is_inert() -> None:
    left, right = both()
    left.write("<b>.txt", "<script>alert(1)</script>\u202e\n")

    html = str(compared(left, right)[0].left.diff)

    assert "<script" not in html
    assert "\u202e" not in html


@pytest.mark.parametrize("other", ["gemini", "pi", "opencode-acp"])
def test_recorded_edits_of_the_same_file(other: str) -> None:
    """Claude Code states the whole file. What the others state differs, but never by what they wrote into it."""
    sides = []
    for name in ("claude", other):
        files = SessionFiles()
        for seq, event in enumerate(EDIT[name].events(), 1):
            files.note(seq, msgspec.to_builtins(event)) if event.__struct_config__.tag in KINDS else None
        sides.append(files)

    [file] = compared_files(*sides)[0]

    assert file.path.endswith("src/app.py")
    lines = [signed_lines(side.diff) for side in (file.left, file.right)]
    howdy = ['-    return "Hello, " + name + "!"', '+    return "Howdy, " + name + "!"']
    assert file.outcome == "same" or [[one.replace("&#34;", '"') for one in side] for side in lines] == [howdy, howdy]


KINDS = ("session", "tool-call", "tool-update", "tool-result")
