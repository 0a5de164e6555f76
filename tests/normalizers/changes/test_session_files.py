"""What `SessionFiles` says where not everything is stated, or where what is stated does not fit; and its bounds."""

from __future__ import annotations

import pytest

from tests.normalizers.changes.telling import CWD, Telling
from tooltap.normalizers.changes import session_files
from tooltap.normalizers.changes.line_diff import blocks
from tooltap.normalizers.changes.session_files import SessionFiles
from tooltap.protocol.replies import FileChange, FileDiff

TEN = "".join(f"{number}\n" for number in range(1, 11))


@pytest.fixture
def telling() -> Telling:
    return Telling()


def only(telling: Telling) -> FileDiff:
    (change,) = telling.files.changes()
    found = telling.files.diff(change.path)
    assert found is not None
    assert FileChange(**{name: getattr(found, name) for name in FileChange.__struct_fields__}) == change
    return found


def test_each_hunk_has_the_calls_that_made_it(telling: Telling) -> None:
    telling.read("a.py", TEN * 3)
    first = telling.edit("a.py", "1\n2\n3\n", "1\nnew\n3\n", replace_all=False, answer=None)
    assert only(telling).complete is False  # the text is there three times
    telling = Telling()
    telling.read("a.py", TEN + "x\n" * 10 + "end\n")
    first = telling.edit("a.py", "2\n", "two\n")
    last = telling.edit("a.py", "end", "END")
    again = telling.edit("a.py", "two", "zwei")
    telling.edit("a.py", "3\n", "three\n")
    telling.edit("a.py", "three\n", "3\n")
    found = only(telling)

    assert [one.seqs for one in found.hunks] == [[first, again], [last]]
    assert (found.added, found.removed, found.complete) == (2, 2, True)


def test_a_file_that_is_as_it_was_is_not_listed(telling: Telling) -> None:
    telling.write("new.py", "x\n", type="create")
    telling.call("Delete", {"file_paths": ["new.py"]}, {"deleted": True})
    telling.read("a.py", TEN)
    telling.edit("a.py", "5", "five")
    telling.edit("a.py", "five", "5")

    assert telling.files.changes() == []
    assert telling.files.diff("a.py") is None


@pytest.mark.parametrize("status", ["failed", "denied", "cancelled", "interrupted"])
def test_calls_that_did_not_succeed_changed_nothing(telling: Telling, status: str) -> None:
    telling.call("Write", {"file_path": "a.py", "content": "x\n"}, status=status)
    telling.call("Delete", {"file_paths": ["b.py"]}, {"deleted": False})
    telling.call("Patch", {"changes": {"c.py": {"type": "delete"}}}, {"applied": False})

    assert telling.files.changes() == []


def test_a_text_whose_place_is_unknown_has_no_line_numbers(telling: Telling) -> None:
    telling.edit("a.py", "old\n", "new\n")
    telling.edit("a.py", "new", "newer")
    (hunk,) = only(telling).hunks

    assert (hunk.old_start, hunk.new_start, hunk.lines) == (None, None, ["-old", "+newer"])
    assert only(telling).diff == "--- a/a.py\n+++ b/a.py\n@@\n-old\n+newer\n"
    assert not only(telling).complete


def test_a_later_read_finds_the_place(telling: Telling) -> None:
    seq = telling.edit("a.py", "five", "FIVE")
    telling.read("a.py", TEN.replace("5", "say FIVE"))
    (hunk,) = only(telling).hunks

    assert (hunk.old_start, hunk.new_start, hunk.seqs) == (2, 2, [seq])
    assert hunk.lines == [" 2", " 3", " 4", "-say five", "+say FIVE", " 6", " 7", " 8"]
    assert only(telling).complete


def test_what_no_event_shows_makes_a_file_incomplete(telling: Telling) -> None:
    telling.read("a.py", TEN)
    seq = telling.edit("a.py", "2\n", "two\n")
    assert only(telling).complete
    telling.read("a.py", TEN.replace("2\n", "two\n").replace("9\n", "nine\n"))  # a shell command
    found = only(telling)

    assert not found.complete
    assert [one.seqs for one in found.hunks] == [[seq]]
    assert [line for line in found.hunks[0].lines if line[0] in "+-"] == ["-2", "+two", "-9", "+nine"]


def test_an_edit_that_does_not_fit_makes_a_file_incomplete(telling: Telling) -> None:
    telling.read("a.py", TEN)
    telling.edit("a.py", "eleven\n", "twelve\n")

    assert (only(telling).added, only(telling).complete) == (1, False)


def test_renames(telling: Telling) -> None:
    telling.read("a.py", TEN)
    change = {"type": "rename", "move_path": f"{CWD}/b.py", "unified_diff": "@@\n-5\n+five\n"}
    telling.call("Patch", {"changes": {"a.py": change}}, {"applied": True})
    telling.edit("b.py", "7", "seven")
    found = only(telling)

    assert (found.kind, found.old_path, found.path, found.added, found.complete) == ("renamed", "a.py", "b.py", 2, True)
    assert found.diff.startswith("diff --git a/a.py b/b.py\nrename from a.py\nrename to b.py\n--- a/a.py\n+++ b/b.py\n")
    assert telling.files.diff("a.py") == found


def test_notebooks(telling: Telling) -> None:
    given = {"notebook_path": "/n/a.ipynb", "new_source": "y"}
    telling.call("NotebookEdit", given, {"original_file": '"x"\n', "updated_file": '"y"\n'})
    telling.call("NotebookEdit", {**given, "notebook_path": "/n/b.ipynb"})
    known, unknown = telling.files.changes()

    assert (known.path, known.added, known.removed, known.complete) == ("/n/a.ipynb", 1, 1, True)
    assert (unknown.path, unknown.added, unknown.complete) == ("/n/b.ipynb", None, False)


def test_what_is_binary_or_large_is_not_compared(telling: Telling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_files, "MAX_TEXT", 100)
    telling.write("a.bin", "\0", type="create")
    telling.write("b.py", "x" * 101, type="create")
    first, second = telling.files.changes()

    assert (first.omitted, first.added, first.complete) == ("binary", None, False)
    assert (second.omitted, second.added, second.complete) == ("large", None, False)


def test_what_an_event_has_only_the_beginning_of_is_not_taken_for_the_file() -> None:
    files = SessionFiles(CWD)
    call = {"kind": "tool-call", "stream": "s", "callId": "1", "name": "Write"}
    cut = {"outputs": {"/input/content": {"outputId": "o"}}, "input": {"file_path": "a.py", "content": "begin"}}
    files.note(1, {**call, **cut, "status": "running"})
    files.note(2, {**call, "kind": "tool-result", "output": {}, "status": "completed"})
    (change,) = files.changes()

    assert (change.added, change.complete) == (None, False)


def test_files_are_bounded(telling: Telling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_files, "MAX_FILES", 3)
    for number in range(5):
        telling.write(f"{number}.py", "x\n", type="create")

    assert [one.path for one in telling.files.changes()] == ["0.py", "1.py", "2.py"]
    assert not telling.files.complete


def test_lists_that_are_very_different_take_a_bounded_time() -> None:
    old = [f"{number % 97}" for number in range(20_000)]
    new = [f"{number * 7 % 101}" for number in range(20_000)]
    found = blocks(old, new)
    result: list[str] = []
    at = 0
    for a1, a2, b1, b2 in found:
        result += old[at:a1] + new[b1:b2]
        at = a2

    assert result + old[at:] == new
