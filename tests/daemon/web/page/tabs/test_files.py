"""The list of changed files with its diffs: what is open, what made a hunk, and what is left out."""

from __future__ import annotations

from dataclasses import dataclass

from tests.daemon.web.page.tabs.noting import Noting
from tooltap.daemon.web.page.tabs.files import LINKS, NARROW, WIDE, ChangedFiles, files_values


@dataclass
class Edited:
    known: ChangedFiles
    agent: Noting

    def write(self, path: str, text: str) -> int:
        return self.agent.call("Write", {"file_path": path, "content": text}, {"type": "create"})

    def edit(self, path: str, old: str, new: str) -> int:
        return self.agent.call("Edit", {"file_path": path, "old_string": old, "new_string": new})


def edited() -> Edited:
    known = ChangedFiles()
    agent = Noting(known)
    agent.turn()
    return Edited(known, agent)


def test_hunk_names_the_calls_that_made_it() -> None:
    session = edited()
    first = session.write("a.py", "one\ntwo\n")
    session.agent.turn()
    second = session.edit("a.py", "two", "three")

    (file,) = files_values(session.known, ["a.py"], NARROW, open_first=False)["files"]

    assert file.hunks is not None
    (hunk,) = file.hunks
    assert [(one.seq, one.turn, one.name) for one in hunk.made_by] == [(first, 1, "Write"), (second, 2, "Edit")]
    assert [(line.sign, line.text, line.number) for line in hunk.changes[0].hunks[0].lines] == [
        ("+", "one", 1),
        ("+", "three", 2),
    ]


def test_only_wanted_files_are_open() -> None:
    session = edited()
    for name in ("a.py", "b.py"):
        session.write(name, "x\n")

    def opened(*paths: str, open_first: bool = False) -> list[bool]:
        files = files_values(session.known, paths, NARROW, open_first=open_first)["files"]
        return [one.hunks is not None for one in files]

    assert opened() == [False, False]
    assert opened("b.py") == [False, True]
    assert opened(open_first=True) == [True, True]
    assert opened("b.py", open_first=True) == [False, True]
    assert opened("there is no such file") == [False, False]


def test_change_after_a_look_is_seen_at_the_next() -> None:
    session = edited()
    session.write("a.py", "x\n")
    assert files_values(session.known, [], NARROW, open_first=False)["added"] == 1

    session.write("b.py", "y\nz\n")

    assert files_values(session.known, [], NARROW, open_first=False)["added"] == 3


def test_many_files_are_bounded_and_counted() -> None:
    session = edited()
    for number in range(1_100):
        session.write(f"{number:04}.py", "x\n" * 10)

    narrow = files_values(session.known, ["0999.py"], NARROW, open_first=False)
    wide = files_values(session.known, [], WIDE, open_first=True)

    assert len(narrow["files"]) == NARROW.files + 1
    assert narrow["files"][-1].hunks is not None
    assert narrow["hidden_files"] == 1_000 - NARROW.files - 1
    assert not narrow["complete"]
    assert sum(one.hunks is not None for one in wide["files"]) == WIDE.opened


def test_long_diffs_are_bounded_and_counted() -> None:
    session = edited()
    for name in "abcdefgh":
        session.write(f"{name}.txt", "".join(f"{number}\n" for number in range(1_000)))

    files = files_values(session.known, [f"{name}.txt" for name in "hgfedcba"], NARROW, open_first=False)["files"]

    lines = [sum(len(part.lines) for hunk in one.hunks or () for part in hunk.changes[0].hunks) for one in files]
    assert lines == [0, 0, 0, 400, 400, 400, 400, 400]  # what was opened last has its share first
    assert [one.hidden for one in files if one.hunks is not None] == [600] * 5


def test_endless_line_is_cut() -> None:
    session = edited()
    session.write("a.txt", "x" * 500_000)

    (file,) = files_values(session.known, ["a.txt"], NARROW, open_first=False)["files"]

    assert file.hunks is not None
    assert max(len(line.text) for line in file.hunks[0].changes[0].hunks[0].lines) < 3_000


def test_hunk_of_many_calls_links_to_the_latest() -> None:
    session = edited()
    session.write("a.txt", "0\n")
    for number in range(20):
        session.edit("a.txt", f"{number}\n", f"{number}\n{number + 1}\n")

    (file,) = files_values(session.known, ["a.txt"], NARROW, open_first=False)["files"]

    assert file.hunks is not None
    (hunk,) = file.hunks
    assert len(hunk.made_by) == LINKS
    assert hunk.more == 21 - LINKS


def test_incomplete_file_says_so() -> None:
    session = edited()
    session.edit("a.txt", "old", "new")
    session.agent.call("Write", {"file_path": "b.bin", "content": "a\0b"}, {"type": "create"})

    first, second = files_values(session.known, ["a.txt", "b.bin"], NARROW, open_first=False)["files"]

    assert "may not be the whole change" in first.note
    assert first.hunks is not None
    assert first.hunks[0].where == "Somewhere in the file"
    assert "binary" in second.note
